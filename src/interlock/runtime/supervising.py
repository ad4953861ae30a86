"""Runs whose driver failed: their own process takes them up again, and ends what it cannot drive.

Rule 1: no run stays `running` with nobody driving it: it is taken up again, ended with a reason, or set aside with one.
Rule 2: a store that is away counts as nothing; other failures count, and after a few of them the run is ended.
Rule 3: a run that another process has is left to that process.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from interlock.engine.events import DriveFailed
from interlock.engine.step import OVER
from interlock.errors import NotOwner, OwnedElsewhere, RunNotFound, StoreBroken, StoreFailed
from interlock.ids import root_of
from interlock.runtime.holding import while_away

if TYPE_CHECKING:
    from interlock.runtime.runner import Runner

# How often a run may fail to be driven before it is ended.
FALLS_MAX = 3

# How long a run is left alone after its driver failed; twice as long each time.
PAUSE_MS = 500

# Runs that were set aside, with the reason; the oldest are forgotten.
ASIDE_MAX = 1_000

_log = logging.getLogger("interlock")


class Supervisor:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self._falls: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.aside: dict[str, str] = {}

    def driver_failed(self, run_id: str, error: BaseException) -> None:
        """Plans what becomes of a run that nobody drives now."""
        root = root_of(run_id)
        if not isinstance(error, Exception) or isinstance(error, NotOwner | OwnedElsewhere | RunNotFound):
            return
        if isinstance(error, StoreBroken):
            self._give_up(root, error)
        elif not self._is_deciding(root):
            if not (isinstance(error, StoreFailed) and error.passes):
                self._falls[root] = self._falls.get(root, 0) + 1
            self._tasks[root] = asyncio.create_task(self._take_up(root, error))

    def _is_deciding(self, root: str) -> bool:
        task = self._tasks.get(root)
        if task is not None and task.done():
            del self._tasks[root]
        return root in self._tasks

    def run_settled(self, run_id: str) -> None:
        """A run that rests or is over has been driven well."""
        self._falls.pop(run_id, None)
        self._is_deciding(run_id)

    async def decided(self, run_id: str) -> bool:
        """Waits until it is known what becomes of a run whose driver failed; whether that was to be waited for."""
        root = root_of(run_id)
        if not self._is_deciding(root):
            return False
        await asyncio.shield(self._tasks[root])
        self._is_deciding(root)
        return True

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_up(self, root: str, error: Exception) -> None:
        clock, falls = self._runner.clock, self._falls.get(root, 0)
        await clock.sleep_until(clock.monotonic_ms() + PAUSE_MS * 2**falls)
        try:
            await while_away(clock, partial(self._end if falls > FALLS_MAX else self._recover, root, error))
        except (NotOwner, OwnedElsewhere, RunNotFound):
            return
        except Exception as hindrance:  # whatever it is: the run cannot be driven, and somebody must know
            self._give_up(root, hindrance)

    async def _recover(self, root: str, _: Exception) -> None:
        runner = self._runner
        row = await runner.journal.row(root)
        if row.status == "running":
            await runner.recover(await runner.crews.of(row.crew_sha), root)

    async def _end(self, root: str, error: Exception) -> None:
        runner = self._runner
        async with runner.taking(root):
            live = runner.live.get(root) or await runner.taken(root)
            async with live.lock:
                if live.run.state.status not in OVER:
                    await runner.transit(live, DriveFailed(error=f"{type(error).__name__}: {error}"))
            runner.drive(live)

    def _give_up(self, root: str, error: Exception) -> None:
        self.note_aside(root, str(error))
        _log.error("run %s cannot be driven here and is set aside: %s", root, error)

    def note_aside(self, root: str, reason: str) -> None:
        while len(self.aside) >= ASIDE_MAX:
            del self.aside[next(iter(self.aside))]
        self.aside[root] = reason

    def run_driven(self, run_id: str) -> None:
        """A run that is driven is not set aside any more."""
        self.aside.pop(run_id, None)
