"""Reloads served crews, on SIGHUP or when a file changed.

Rule 1: runs keep the crew they started with; new runs get the newest sound one.
Rule 2: a crew whose new file has errors stays as it was, and the log names the errors. A failed reload does not stop
the next one.
Rule 3: code that was imported cannot be read again; the server starts again in a new process.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from interlock.adapters.crews.crew_files import LoadedCrew
from interlock.compose.interlock import Interlock
from interlock.crew.problem import Severity
from interlock.errors import InterlockError
from interlock.server.crews import ServedCrew, ServedCrews

_log = logging.getLogger("interlock.server")

# The time of the last change and the size of each file; None if it does not exist.
Stamps = dict[Path, tuple[int, int] | None]

ReadCrews = Callable[[], Sequence[LoadedCrew]]

# The interval of comparing watched files: a user who saves a file should not wait.
POLL_MS = 500


class ServedSource(Protocol):
    """Reads the served crews again. `needs_restart` is True if what was read last needs a new process."""

    needs_restart: bool

    def read_crews(self) -> Sequence[LoadedCrew]: ...


class CrewReloader:
    """`is_restarting` is True once new code of a crew in Python is sound: it needs a new process."""

    def __init__(
        self,
        crews: ServedCrews,
        read_crews: ReadCrews,
        box: Interlock,
        *,
        watch: bool,
        needs_restart: Callable[[], bool] = lambda: False,
        stop_server: Callable[[], None] = lambda: None,
    ) -> None:
        self._crews, self._read_crews, self._box, self._watches = crews, read_crews, box, watch
        self._needs_restart, self._stop_server = needs_restart, stop_server
        self._asked = asyncio.Event()
        self.is_restarting = False

    def request_reload(self) -> None:
        """Asks for a reload as soon as possible."""
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
        is_same = True
        while is_same and not self._asked.is_set():
            await self._box.clock.sleep_until(self._box.clock.monotonic_ms() + POLL_MS)
            is_same = bool(before) and stamps_of(before) == before  # nothing was read yet: try again

    async def _reload(self, known: Stamps) -> Stamps:
        """Reloads the crews; returns the state of their files before they were read."""
        before = stamps_of(known)
        try:
            loaded = await asyncio.to_thread(self._read_crews)
            paths = {path for each in loaded for path in each.read}
            if any(each.crew is None for each in loaded):  # a file that is being replaced comes back
                paths |= known.keys()
            if self._watches and paths != before.keys():  # a new file has no known state before
                return await self._reload(stamps_of(paths))
            for each in self._crews.replace(loaded, self._box.clock.now_ms()):
                await self._apply_change(each)
            if self._needs_restart() and not self.is_restarting:
                self.is_restarting = True
                _log.info("the code of a crew has changed; the server starts again in a new process")
                self._stop_server()
        except InterlockError as error:
            _log.error("crews were not reloaded: %s", error)
        return before

    async def _apply_change(self, changed: ServedCrew) -> None:
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
