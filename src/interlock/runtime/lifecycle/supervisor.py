"""Runs whose driver failed: the process recovers them, and ends those that it cannot drive.

Rule 1: no run stays `running` without a driver: it is recovered, ended with a reason, or set aside with one.
Rule 2: a store that is away does not count; other failures count, and after a few of them the run is ended.
Rule 3: a run that another process owns is left to that process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from interlock.errors import NotOwner, OwnedElsewhere, RunNotFound, StoreBroken, StoreFailed
from interlock.ids import root_of
from interlock.ports import Clock
from interlock.runtime.lifecycle.set_asides import SetAsideList
from interlock.runtime.store_retry import retry_while_store_away

# How often a run may fail to be driven before it is ended.
FALLS_MAX = 3

# How long to wait after a driver failed; twice as long each time.
PAUSE_MS = 500

_log = logging.getLogger("interlock")


class Supervisor:
    """`recover` continues a run whose driver failed; `end` ends one that has failed too often, with the last error."""

    def __init__(
        self,
        clock: Clock,
        recover: Callable[[str], Awaitable[None]],
        end: Callable[[str, Exception], Awaitable[None]],
        asides: SetAsideList,
    ) -> None:
        self._clock, self._recover, self._end, self.asides = clock, recover, end, asides
        self._falls: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def on_driver_failed(self, run_id: str, error: BaseException) -> None:
        """Plans to recover or end a run that has no driver now."""
        root = root_of(run_id)
        if not isinstance(error, Exception) or isinstance(error, NotOwner | OwnedElsewhere | RunNotFound):
            return
        if isinstance(error, StoreBroken):
            _log_set_aside(root, error)
            self.asides.add_unstored(root, str(error))
        elif not self.is_deciding(root):
            if not (isinstance(error, StoreFailed) and error.passes):
                self._falls[root] = self._falls.get(root, 0) + 1
            self._tasks[root] = asyncio.create_task(self._recover_or_end(root, error))

    def is_deciding(self, root: str) -> bool:
        """Whether a run whose driver failed waits to be recovered or ended here."""
        task = self._tasks.get(root)
        if task is not None and task.done():
            del self._tasks[root]
        return root in self._tasks

    def is_set_aside(self, run_id: str) -> bool:
        """Whether a process could not drive the run, as far as this one knows."""
        return root_of(run_id) in self.asides.reasons

    def on_run_settled(self, run_id: str) -> None:
        """Forgets the failures of a run that is paused or over."""
        self._falls.pop(run_id, None)
        self.is_deciding(run_id)

    async def wait_until_decided(self, run_id: str) -> bool:
        """Waits until a run whose driver failed is recovered, ended or set aside; whether it had to wait."""
        root = root_of(run_id)
        if not self.is_deciding(root):
            return False
        await asyncio.shield(self._tasks[root])
        self.is_deciding(root)
        return True

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _recover_or_end(self, root: str, error: Exception) -> None:
        clock, falls = self._clock, self._falls.get(root, 0)
        await clock.sleep_until(clock.monotonic_ms() + PAUSE_MS * 2**falls)
        try:
            act = partial(self._end, root, error) if falls > FALLS_MAX else partial(self._recover, root)
            await retry_while_store_away(clock, act)
        except (NotOwner, OwnedElsewhere, RunNotFound):
            return
        except Exception as hindrance:  # any error: the run cannot be driven, and users must see it
            _log_set_aside(root, hindrance)
            await self.asides.add(root, str(hindrance))

    def on_run_driven(self, run_id: str) -> None:
        """Forgets that a run was set aside: it is driven again."""
        self.asides.remove(run_id)


def _log_set_aside(root: str, error: Exception) -> None:
    _log.error("run %s cannot be driven here and is set aside: %s", root, error)
