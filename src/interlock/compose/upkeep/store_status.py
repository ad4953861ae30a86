"""The state of a store: its processes, what waits for one of them, and what none of them could drive."""

import msgspec

from interlock.compose.interlock import Interlock
from interlock.ports import LeaderEntry, ProcessLoad, SetAside
from interlock.ports.processes.storage import StandbyLag, StorePartition

# Set-aside runs that are listed.
LISTED_MAX = 100


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions and standbys are those of a server. Times are in milliseconds since 1970."""

    store: str
    version: int
    size_bytes: int
    partitions: tuple[StorePartition, ...]
    standbys: tuple[StandbyLag, ...]
    waiting: int
    oldest_waiting_at: int
    processes: tuple[ProcessLoad, ...]
    leaders: tuple[LeaderEntry, ...]
    set_asides: tuple[SetAside, ...]


async def read_status(box: Interlock) -> StoreStatus:
    """The process that asks is left out: it only reads."""
    overview, storage = await box.store.overview(), await box.store.storage()
    return StoreStatus(
        store=box.home.name,
        version=overview.version,
        size_bytes=storage.size_bytes,
        partitions=storage.partitions,
        standbys=storage.standbys,
        waiting=overview.waiting,
        oldest_waiting_at=overview.oldest_waiting_at,
        processes=tuple(each for each in overview.processes if each.owner != box.store.owner),
        leaders=overview.leaders,
        set_asides=tuple(await box.store.set_asides(LISTED_MAX)),
    )
