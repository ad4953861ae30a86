"""An open store as a bundle of ports, and the place where it is.

Rule: nothing outside this folder names a kind of store. What differs by kind is a method of `StoreHome`.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from interlock.errors import RecordsMissing
from interlock.ports import Bus, Clock, Deltas, Leaders, Orders, Store
from interlock.ports.moving import MovableStore
from interlock.ports.processes.storage import StoreStorage


class HostStore(Store, Protocol):
    """All tables of a store, with those of a server, and its own check."""

    async def close_session(self, session: str, until: int, now: int) -> None: ...

    async def list_closed_sessions(self, now: int) -> Sequence[str]: ...

    async def storage(self) -> StoreStorage: ...

    async def problems(self) -> Sequence[str]:
        """The problems of the whole store; reads all of it."""
        ...


class Views(Protocol):
    """Files that show the broadcasts of a store."""

    def on_commit(self) -> None: ...

    def stop(self) -> None: ...


def unknown_version() -> None:
    """The version of a store that does not tell at once what others have committed."""


class OpenedHome(NamedTuple):
    """The ports of an open store. `views` is None for a store that keeps none.

    `version` gives a number that changes when another process has committed anything; None while it is unknown.
    `warnings` say what is not as safe as it could be. `lost` are records and changes that the store has lost; the rest
    can still be read.
    """

    store: HostStore
    orders: Orders
    bus: Bus
    leaders: Leaders
    clock: Clock
    deltas: Deltas
    views: Views | None = None
    version: Callable[[], int | None] = unknown_version
    is_read_only: bool = False
    lost: RecordsMissing | None = None
    warnings: Sequence[str] = ()

    async def close(self) -> None:
        if self.views is not None:
            self.views.stop()
        await self.store.close()


class ServerKeyPlace(NamedTuple):
    """The key of a server for programs, and where they find it."""

    value: str
    place: str


class StoreNotes(Protocol):
    """Gets what a check of a store finds: problems, and notes for information."""

    notes: list[str]
    problems: list[str]


class StoreHome(Protocol):
    """Where a store is, and all that depends on its kind."""

    @property
    def name(self) -> str:
        """The address for people, without a password."""
        ...

    @property
    def key(self) -> str:
        """Equal for two addresses of one store."""
        ...

    def identity(self) -> Hashable:
        """Differs when the store was deleted or replaced since; None if there is nothing to compare."""
        ...

    @property
    def folder(self) -> Path | None:
        """The data folder, for logs; None if the store is not in one."""
        ...

    @property
    def option(self) -> str:
        """The option of a printed command that finds this store again; empty if none is needed."""
        ...

    def secrets(self) -> Sequence[str]:
        """The secrets of the store, to be redacted. More may be known once it was opened."""
        ...

    async def open(self, durability: str, clock: Clock) -> OpenedHome:
        """Opens the store. `clock` is that of this process; the one of the bundle is that of the store."""
        ...

    async def open_to_read(self, durability: str, clock: Clock) -> OpenedHome:
        """Opens it also where this process may not write."""
        ...

    async def open_copy(self, clock: Clock) -> OpenedHome:
        """Opens a copy of the store that another server keeps, to read; `UsageError` for a kind without copies."""
        ...

    async def initialize(self, durability: str) -> None:
        """Creates the tables, or brings them up to date."""
        ...

    async def grant_roles(self) -> str:
        """Makes the roles of a store on a server, and grants what each may do; returns their names."""
        ...

    def is_read_only(self) -> bool:
        """Whether this process may read the store, but not write to it."""
        ...

    def require_exists(self) -> None:
        """`UsageError` if there is no store yet."""
        ...

    def size_bytes(self) -> int | None:
        """The size on disk; None if it is not known without asking the store."""
        ...

    def find_missing_records(self) -> RecordsMissing | None:
        """The acknowledged records that the store lacks, if that keeps it from being opened."""
        ...

    def hold_server_lock(self) -> AbstractContextManager[None]:
        """Lets one server at a time serve the store, where more cannot."""
        ...

    def ensure_server_key(self) -> ServerKeyPlace: ...

    def examine(self, durability: str, found: StoreNotes) -> AbstractContextManager[None]:
        """Checks what is outside the tables, before and after the store is read."""
        ...

    def open_notes(self) -> Sequence[str]:
        """Notes about the store while it is open."""
        ...

    async def accept_loss(self, durability: str) -> RecordsMissing | None:
        """Makes a store usable that has lost records; returns what was lost."""
        ...

    async def backup(self, file: Path, durability: str) -> str:
        """Copies the store to a file; returns how to restore it."""
        ...

    async def compact(self, durability: str) -> tuple[int, int]:
        """Frees the space of deleted rows. Returns the sizes before and after, in bytes."""
        ...

    def hold_for_move(self, *, create: bool) -> AbstractContextManager[MovableStore]:
        """Locks the store for a move to another one; `create` makes one that is not there.

        `StoreFailed` or `FolderServed` if another process uses it.
        """
        ...
