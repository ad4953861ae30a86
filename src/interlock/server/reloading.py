"""Reading served crews again, on a signal or when a file changed.

Rule 1: runs keep the crew they started with; new runs get the newest sound one.
Rule 2: a crew whose new file has errors stays as it was, and the log says what is wrong with the file.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from interlock.adapters.crew_files import LoadedCrew
from interlock.compose.box import Interlock
from interlock.crew.problem import Severity
from interlock.errors import InterlockError
from interlock.server.crews import ServedCrew, ServedCrews

_log = logging.getLogger("interlock.server")

# When each file was changed last, and its size; None for one that is not there.
Stamps = dict[Path, tuple[int, int] | None]

ReadCrews = Callable[[], Sequence[LoadedCrew]]

# How often files are compared where changes are watched for: a person who saves a file does not wait.
LOOK_MS = 500


class Reloading:
    def __init__(self, crews: ServedCrews, read_crews: ReadCrews, box: Interlock, *, watch: bool) -> None:
        self._crews, self._read_crews, self._box, self._watches = crews, read_crews, box, watch
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Crews are read again as soon as possible."""
        self._asked.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        before = await self._reload(Stamps()) if self._watches else Stamps()
        while True:
            await self._wait_for_change(before)
            self._asked.clear()
            before = await self._reload(before)

    async def _wait_for_change(self, before: Stamps) -> None:
        if not self._watches:
            await self._asked.wait()
            return
        while not self._asked.is_set() and stamps_of(before) == before:
            await self._box.clock.sleep_until(self._box.clock.monotonic_ms() + LOOK_MS)

    async def _reload(self, known: Stamps) -> Stamps:
        """Serves what the files hold now; gives the state of the files from before they were read."""
        before = stamps_of(known)
        loaded = await asyncio.to_thread(self._read_crews)
        paths = {path for each in loaded for path in each.read}
        if self._watches and paths != before.keys():  # of a file that is new here nobody knows how it was before
            return await self._reload(stamps_of(paths))
        try:
            for each in self._crews.replace(loaded, self._box.clock.now_ms()):
                await self._serve(each)
        except InterlockError as error:
            _log.error("crews were not read again: %s", error)
        return before

    async def _serve(self, changed: ServedCrew) -> None:
        name = changed.crew.name
        if changed.newer_problems:
            for problem in changed.newer_problems:
                if problem.severity is Severity.ERROR:
                    _log.error("%s:%d: %s: %s", problem.file, problem.line, problem.code, problem.message)
            _log.error("crew %s: the new file has errors; revision %s is still served", name, changed.revision)
        elif changed.is_sound:
            await self._box.listen(changed.crew)
            _log.info("crew %s: revision %s is served", name, changed.revision)


def stamps_of(paths: Iterable[Path]) -> Stamps:
    return {path: _stamp_of(path) for path in paths}


def _stamp_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked of every file twice a second
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
