"""Runs that are set aside, of all processes: stored, and remembered here as last read.

Rule: the store is authoritative. What it cannot take, because it is broken, is shown by this process alone.
"""

import logging

from interlock.errors import InterlockError, RunNotFound
from interlock.ports import Clock, SetAsides

# The runs that are read and shown; of more, only the newest.
ASIDE_MAX = 1_000

_log = logging.getLogger("interlock")


class SetAsideList:
    def __init__(self, store: SetAsides, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._shown: dict[str, str] = {}
        self._unstored: dict[str, str] = {}

    @property
    def reasons(self) -> dict[str, str]:
        """The reason for each run, as last read."""
        return {**self._shown, **self._unstored}

    async def refresh(self) -> None:
        """Reads what all processes have set aside."""
        found = await self._store.set_asides(ASIDE_MAX)
        self._shown = {each.run: each.reason for each in found}

    async def add(self, run: str, reason: str) -> None:
        """Stores that this process cannot drive a run; it is tried again later."""
        try:
            await self._store.set_aside(run, reason, self._clock.now_ms())
        except RunNotFound:
            return
        except InterlockError as error:
            _log.warning("that run %s is set aside cannot be stored: %s", run, error)
            self.add_unstored(run, reason)
        else:
            self._unstored.pop(run, None)
            self._shown[run] = reason

    def add_unstored(self, run: str, reason: str) -> None:
        """Shows a run that this process cannot drive, while the store takes nothing."""
        while len(self._unstored) >= ASIDE_MAX:
            del self._unstored[next(iter(self._unstored))]
        self._unstored[run] = reason

    def remove(self, run: str) -> None:
        """Shows a run no longer: it is driven again, and so the store lists it no longer either."""
        self._shown.pop(run, None)
        self._unstored.pop(run, None)
