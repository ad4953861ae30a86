"""How much room a store takes, and how far its copies are behind."""

import msgspec


class StorePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the records, by the month in which their runs began."""

    name: str
    size_bytes: int


class StandbyLag(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that follows the server, and how far it is behind; None if this role may not know."""

    name: str
    state: str
    lag_ms: int | None


class StoreStorage(msgspec.Struct, frozen=True, kw_only=True):
    """The storage of a store. `notes` tell of processes that are gone and left work behind."""

    size_bytes: int
    partitions: tuple[StorePartition, ...] = ()
    standbys: tuple[StandbyLag, ...] = ()
    notes: tuple[str, ...] = ()
