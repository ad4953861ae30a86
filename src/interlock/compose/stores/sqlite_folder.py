"""A SQLite store in a data folder: its database, locks, key, log and views."""

import logging
import os
import shlex
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from interlock.adapters.clock import SystemClock
from interlock.adapters.config.host_secrets import folder_secrets
from interlock.adapters.files.data_folder import database_bytes, records_missing_in
from interlock.adapters.files.served_folder import SERVER_KEY, ensure_server_key, hold_server_lock
from interlock.adapters.files.view_keeper import ViewKeeper
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.moving import hold_folder
from interlock.adapters.sqlite.read_only import ReadOnlyStore, is_read_only
from interlock.adapters.sqlite.store import DATABASE, LOG_BYTES_MAX, OWNERS, SqliteStore, is_alive
from interlock.adapters.sqlite.tables.leaders import SqliteLeaders
from interlock.adapters.sqlite.tables.orders import SqliteOrders
from interlock.compose.stores.store_home import OpenedHome, ServerKeyPlace, StoreNotes
from interlock.compose.stores.store_url import DATA_FOLDER, DATA_VARIABLE, STORE_VARIABLE
from interlock.errors import RecordsMissing, UsageError
from interlock.ports import Clock
from interlock.ports.moving import MovableStore

_log = logging.getLogger("interlock")


class SqliteFolder:
    """The home of a SQLite store. `connect` opens its connections; tests of faults pass their own."""

    def __init__(self, folder: Path, *, connect: Connect = migrations.connect) -> None:
        self.folder, self._connect = folder, connect

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def key(self) -> str:
        return os.path.realpath(self.folder)

    def identity(self) -> Hashable:
        """Device and inode of the database; None if it is gone."""
        try:
            found = (self.folder / DATABASE).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def option(self) -> str:
        is_default = not any(os.environ.get(name) for name in (DATA_VARIABLE, STORE_VARIABLE))
        is_found = is_default and self.folder == Path(DATA_FOLDER)
        return "" if is_found else f" --data {shlex.quote(str(self.folder))}"

    def secrets(self) -> Sequence[str]:
        return [secret.value for secret in folder_secrets(self.folder)]

    async def open(self, durability: str, clock: Clock) -> OpenedHome:
        store = SqliteStore(self.folder, durability=durability, connect=self._connect)
        return _home_with(store, clock)

    async def initialize(self, durability: str) -> None:
        await SqliteStore(self.folder, durability=durability, connect=self._connect).close()

    async def grant_roles(self) -> str:
        raise UsageError(f"'{self.name}' is a data folder; the modes of its files say who may use it")

    async def open_to_read(self, durability: str, clock: Clock) -> OpenedHome:
        if self.is_read_only():
            return self._open_read_only(clock)
        try:
            return await self.open(durability, clock)
        except RecordsMissing:
            return self._open_read_only(clock)  # the rest can still be read

    async def open_copy(self, clock: Clock) -> OpenedHome:
        raise UsageError(f"'{self.name}' is a data folder and has no copies to read; name it with --data or --store")

    def _open_read_only(self, clock: Clock) -> OpenedHome:
        store = ReadOnlyStore(self.folder, connect=self._connect)
        if store.lost is not None:
            _log.warning("%s", store.lost)
        return _home_with(store, clock)._replace(is_read_only=True, lost=store.lost)

    def is_read_only(self) -> bool:
        return is_read_only(self.folder)

    def require_exists(self) -> None:
        if not (self.folder / DATABASE).exists():
            raise UsageError(
                f"there is no {DATABASE} in '{self.folder}'; name another store with --data or --store, or make this"
                " one with 'interlock store init'"
            )

    def size_bytes(self) -> int | None:
        return database_bytes(self.folder)

    def find_missing_records(self) -> RecordsMissing | None:
        return records_missing_in(self.folder)

    def hold_server_lock(self) -> AbstractContextManager[None]:
        return hold_server_lock(self.folder)

    def ensure_server_key(self) -> ServerKeyPlace:
        return ServerKeyPlace(ensure_server_key(self.folder), str(self.folder / SERVER_KEY))

    @contextmanager
    def examine(self, durability: str, found: StoreNotes) -> Iterator[None]:
        """Owner files of processes that are gone are removed by opening the folder, if it is opened to write."""
        if self.is_read_only():
            yield
            return
        strays = self._stray_owner_files()
        yield
        if durability != "full" or self.find_missing_records() is None:
            self._note_stray_files(strays, found)

    async def accept_loss(self, durability: str) -> RecordsMissing | None:
        try:
            await SqliteStore(self.folder).close()
        except RecordsMissing as lost:
            await SqliteStore(self.folder, durability=durability, accepts_loss=True).close()
            return lost
        return None

    async def backup(self, file: Path, durability: str) -> str:
        self.require_exists()
        opened = await self.open_to_read(durability, SystemClock())
        assert isinstance(opened.store, SqliteStore), "this home opens no other"
        try:
            await opened.store.backup(file)
        finally:
            await opened.close()
        return f"copy it to an empty folder as {DATABASE}"

    async def compact(self, durability: str) -> tuple[int, int]:
        self.require_exists()
        store = SqliteStore(self.folder, durability=durability, connect=self._connect)
        try:
            return await store.compact()
        finally:
            await store.close()

    @contextmanager
    def hold_for_move(self, *, create: bool) -> Iterator[MovableStore]:
        if not create:
            self.require_exists()
        with self.hold_server_lock(), hold_folder(self.folder, self._connect, create=create) as held:
            yield held

    def open_notes(self) -> Sequence[str]:
        """Notes a log beyond its bound: a long reader keeps it from being written back."""
        log = self.folder / f"{DATABASE}-wal"
        size = log.stat().st_size if log.exists() else 0
        if size <= LOG_BYTES_MAX:
            return []
        megabytes = f"{size // 1024**2} MB, more than {LOG_BYTES_MAX // 1024**2} MB"
        return [f"'{log}' has {megabytes}: another program keeps a read transaction open; end it, and the log shrinks"]

    def _stray_owner_files(self) -> list[str]:
        """Files of processes that ended without cleanup."""
        found = sorted((self.folder / OWNERS).glob("*.lock"))
        return [file.name for file in found if not is_alive(self.folder, file.stem)]

    def _note_stray_files(self, strays: Sequence[str], found: StoreNotes) -> None:
        owners = self.folder / OWNERS
        for name in strays:
            if (owners / name).exists():
                found.problems.append(f"the owner file '{name}' belongs to no process and could not be removed")
            else:
                found.notes.append(f"removed the owner file '{name}' of a process that is gone")
        others = [file.name for file in sorted(owners.glob("*")) if file.suffix != ".lock"]
        found.problems += [f"'{name}' in '{owners}' is not an owner file; move it away" for name in others]


def _home_with(store: SqliteStore, clock: Clock) -> OpenedHome:
    leaders = SqliteLeaders(store, clock)
    parts = (SqliteOrders(store), SqliteBus(store), leaders, clock, ProcessDeltas(), ViewKeeper(store))
    return OpenedHome(store, *parts, store.version_at_rest)
