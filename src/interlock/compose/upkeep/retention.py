"""Retention: deletes runs, broadcasts and tombstones by age.

Rule 1: only finished runs are deleted, each with all runs below it; a paused run can still be answered.
Rule 2: a damaged run, or one that another process owns, does not keep others from being deleted.
Rule 3: a deleted run leaves a tombstone, so that its id is not used again; tombstones expire too.
"""

import logging
from contextlib import suppress

import msgspec

from interlock.compose.usage import DAY_MS
from interlock.errors import DamagedRun, OwnedElsewhere, PortError, RunNotFound, StoreBroken
from interlock.ports import Archive, Bus, Clock, Leadership

_log = logging.getLogger("interlock")

# How often a server deletes what is due. Retention is counted in days.
SWEEP_MS = 60 * 60 * 1000

# Ids read at once; runs are deleted one after another, between the commits of others.
PAGE = 1_000

# A repeated request, or an import of a deleted run, comes within days.
TOMBSTONE_DAYS = 30.0


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[retention]` of interlock.toml, in days; None keeps for ever."""

    days: float | None = None
    broadcast_days: float | None = None
    tombstone_days: float = TOMBSTONE_DAYS


class Retention:
    """Deletes what is due, every hour."""

    def __init__(self, archive: Archive, bus: Bus, clock: Clock, settings: RetentionSettings) -> None:
        self._archive, self._bus, self._clock, self._settings = archive, bus, clock, settings

    async def run(self, held: Leadership) -> None:
        """Runs while this process leads."""
        while held.is_held():
            try:
                await self.sweep()
            except StoreBroken:
                return
            except PortError as error:
                _log.warning("retention: %s; tried again in an hour", error)
            await self._clock.sleep_until(self._clock.monotonic_ms() + SWEEP_MS)

    async def sweep(self) -> None:
        settings, now = self._settings, self._clock.now_ms()
        if settings.days is not None and (gone := await prune_trees(self._archive, settings.days, now)):
            _log.info("retention: deleted %d runs older than %g days", len(gone), settings.days)
        days = settings.broadcast_days
        if days is not None and (count := await prune_bus(self._bus, days, now)):
            _log.info("retention: deleted %d broadcasts older than %g days", count, days)
        await self._archive.expire_tombstones(moment_ago(settings.tombstone_days, now))


def moment_ago(days: float, now: int) -> int:
    return int(now - days * DAY_MS)


async def prune_trees(archive: Archive, older_than_days: float, now: int) -> list[str]:
    """Deletes finished runs that did not change for that long. Returns those without a caller."""
    before, gone, after = moment_ago(older_than_days, now), list[str](), ""
    while page := await archive.runs_finished_before(before, after, PAGE):
        for after in page:
            with suppress(OwnedElsewhere, RunNotFound, DamagedRun):
                gone.append((await archive.delete_tree(after, now))[0].run)
    return gone


async def prune_bus(bus: Bus, older_than_days: float, now: int) -> int:
    """Deletes broadcasts older than that, except those that wait for an agent, and the newest."""
    before = moment_ago(older_than_days, now)
    pruned = await bus.prune(before)
    gone = pruned.gone
    while pruned.further is not None:
        pruned = await bus.prune(before, pruned.further)
        gone += pruned.gone
    return gone
