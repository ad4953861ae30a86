"""What is kept for how long, and a task that deletes the rest.

Rule 1: only finished runs are deleted, each with all that it called; a paused run can still be answered.
Rule 2: one damaged run, or one that another process has in hand, keeps no other from being deleted.
Rule 3: a deleted run leaves a tombstone, so that its id is not given again; tombstones expire too.
"""

import logging
from contextlib import suppress

import msgspec

from interlock.compose.usage import DAY_MS
from interlock.errors import DamagedRun, OwnedElsewhere, PortError, RunNotFound, StoreBroken
from interlock.ports import Bus, Clock, KeepingTrees

_log = logging.getLogger("interlock")

# How often a server looks for what is due. Retention is counted in days.
SWEEP_MS = 60 * 60 * 1000

# Read in one go; deleting one run after another, between the commits of others.
PAGE = 1_000

# Somebody who repeats a request, or imports a run that was deleted, does so within days.
TOMBSTONE_DAYS = 30.0


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[retention]` of interlock.toml, in days; None keeps for ever."""

    days: float | None = None
    broadcast_days: float | None = None
    tombstone_days: float = TOMBSTONE_DAYS


class Retention:
    """Deletes what is due, again and again."""

    def __init__(self, trees: KeepingTrees, bus: Bus, clock: Clock, settings: RetentionSettings) -> None:
        self._trees, self._bus, self._clock, self._settings = trees, bus, clock, settings

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            try:
                await self.sweep()
            except StoreBroken:
                return
            except PortError as error:
                _log.warning("retention: %s; tried again in an hour", error)
            await self._clock.sleep_until(self._clock.monotonic_ms() + SWEEP_MS)

    async def sweep(self) -> None:
        settings, now = self._settings, self._clock.now_ms()
        if settings.days is not None and (gone := await prune_trees(self._trees, settings.days, now)):
            _log.info("retention: deleted %d runs older than %g days", len(gone), settings.days)
        days = settings.broadcast_days
        if days is not None and (count := await prune_bus(self._bus, days, now)):
            _log.info("retention: deleted %d broadcasts older than %g days", count, days)
        await self._trees.expire_tombstones(moment_ago(settings.tombstone_days, now))


def moment_ago(days: float, now: int) -> int:
    return int(now - days * DAY_MS)


async def prune_trees(trees: KeepingTrees, older_than_days: float, now: int) -> list[str]:
    """Deletes finished runs in which nothing has happened for so long; gives those that no other run called."""
    before, gone, after = moment_ago(older_than_days, now), list[str](), ""
    while page := await trees.finished_before(before, after, PAGE):
        for after in page:
            with suppress(OwnedElsewhere, RunNotFound, DamagedRun):
                gone.append((await trees.delete_tree(after, now))[0].run)
    return gone


async def prune_bus(bus: Bus, older_than_days: float, now: int) -> int:
    """Deletes broadcasts of so long ago, but for those that an agent is still to be shown, and the newest of all."""
    before = moment_ago(older_than_days, now)
    pruned = await bus.prune(before)
    gone = pruned.gone
    while pruned.further is not None:
        pruned = await bus.prune(before, pruned.further)
        gone += pruned.gone
    return gone
