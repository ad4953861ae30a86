"""The state of a store: its processes, what waits for one of them, and what none of them could drive."""

from collections.abc import Sequence

import msgspec

from interlock.compose.interlock import Interlock
from interlock.errors import UsageError
from interlock.ports import LeaderEntry, ProcessLoad, RunFormat, SetAside
from interlock.ports.processes.storage import StandbyLag, StorePartition

# Differences of clocks up to this are those of any network of machines.
CLOCK_WARN_MS = 1_000

# Set-aside runs that are listed.
LISTED_MAX = 100


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions and standbys are those of a server. Times are in milliseconds since 1970.

    `run_format` is the format with which runs begin; None before the first one. `newest_format` is that of this
    version, `held_back_by` are the processes that know less, `wrong_clocks` those whose machines have another time.
    `private_undriven` are runs that no worker takes: only `interlock resume` continues them.
    """

    store: str
    version: int
    run_format: RunFormat | None
    newest_format: RunFormat
    held_back_by: tuple[str, ...]
    wrong_clocks: tuple[str, ...]
    size_bytes: int
    partitions: tuple[StorePartition, ...]
    standbys: tuple[StandbyLag, ...]
    waiting: int
    oldest_waiting_at: int
    private_undriven: tuple[str, ...]
    processes: tuple[ProcessLoad, ...]
    leaders: tuple[LeaderEntry, ...]
    set_asides: tuple[SetAside, ...]


async def read_status(box: Interlock) -> StoreStatus:
    """The process that asks is left out: it only reads."""
    overview, storage = await box.store.overview(), await box.store.storage()
    return StoreStatus(
        store=box.home.name,
        version=overview.version,
        run_format=overview.run_format,
        newest_format=box.store.knows,
        held_back_by=_who_know_less(overview.processes, box.store.knows),
        wrong_clocks=tuple(each for each, is_wrong in clocks_of(overview.processes) if is_wrong),
        size_bytes=storage.size_bytes,
        partitions=storage.partitions,
        standbys=storage.standbys,
        waiting=overview.waiting,
        oldest_waiting_at=overview.oldest_waiting_at,
        private_undriven=overview.private_undriven,
        processes=tuple(each for each in overview.processes if each.owner != box.store.owner),
        leaders=overview.leaders,
        set_asides=tuple(await box.store.set_asides(LISTED_MAX)),
    )


def _who_know_less(processes: Sequence[ProcessLoad], newest: RunFormat) -> tuple[str, ...]:
    return tuple(f"{each.place} knows {each.knows}" for each in processes if not each.knows.covers(newest))


def clocks_of(processes: Sequence[ProcessLoad]) -> list[tuple[str, bool]]:
    """What is to be said of the clock of each process, and whether it is wrong, where the store has one of its own."""
    found = []
    for each in processes:
        if each.clock_behind_ms is not None:
            is_wrong = abs(each.clock_behind_ms) > CLOCK_WARN_MS
            advice = "; set the clock of that machine" if is_wrong else ""
            note = f"the clock of {each.place} is {clock_words(each.clock_behind_ms)} the store's{advice}"
            found.append((note, is_wrong))
    return found


def clock_words(behind_ms: int) -> str:
    return f"{abs(behind_ms)} ms {'behind' if behind_ms >= 0 else 'ahead of'}"


async def raise_format(box: Interlock) -> str:
    """Lets runs begin with the newest format of this version; says what has changed.

    `UsageError` while a living process knows less: it could not take such runs over.
    """
    newest, now = box.store.knows, (await box.store.overview()).run_format
    if now is not None and now.covers(newest):
        more = "" if now == newest else f", which is more than the {newest} of this version"
        return f"runs begin with {now}{more}; there is nothing to raise"
    if older := _who_know_less(await box.store.raise_run_format(newest), newest):
        raise UsageError(
            f"runs cannot begin with {newest} yet: {', '.join(older)}, and could not take them over; upgrade or stop"
            f" {'it' if len(older) == 1 else 'them'}"
        )
    return f"runs begin with {newest} from now on"
