"""Opens a PostgreSQL store with all that comes with it, or a copy of one to read."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.adapters.postgres.clock import ServerClock
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.database import T
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.migrate import require_usable_schema
from interlock.adapters.postgres.move_marks import read_move_row
from interlock.adapters.postgres.readers import PostgresReaders
from interlock.adapters.postgres.runs.owners import PostgresLeaders
from interlock.adapters.postgres.server_checks import read_settings, require_readable
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.postgres.tables.orders import PostgresOrders
from interlock.adapters.postgres.writer import TransactionWork
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.store_rules.moved_tables import require_not_moved
from interlock.errors import StoreFailed
from interlock.ports import (
    NEWEST_FORMAT,
    NO_WRITES,
    AppendResult,
    AtomicWrites,
    Clock,
    OpenedStore,
    Record,
    RunRow,
    Topic,
)

# A standby tells how late it applies what it has received; another server is no copy.
_ASK_HOW_LATE = (
    "select case when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0 else"
    " coalesce((extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::bigint, 0) end,"
    " (select position from heads where name = 'records') where pg_is_in_recovery()"
)


def open_postgres(address: PostgresAddress, clock: Clock) -> OpenedStore:
    """`clock` gives monotonic time; wall-clock time is the server's."""
    store = PostgresStore(address)
    return _with_parts(store, ServerClock(store.session, clock))


def open_copy(address: PostgresAddress, clock: Clock) -> OpenedStore:
    """Opens a store to read, on any server that has it."""
    return _with_parts(PostgresCopy(address), clock)


def _with_parts(store: PostgresStore, clock: Clock) -> OpenedStore:
    return OpenedStore(
        store=store,
        orders=PostgresOrders(store),
        bus=PostgresBus(store),
        leaders=PostgresLeaders(store),
        clock=clock,
        deltas=ProcessDeltas(),
    )


def _connect(address: PostgresAddress) -> PostgresConnection:
    return connect(address, target="any", default_transaction_read_only="on")


class PostgresCopy(PostgresStore):
    """A `PostgresStore` that refuses every write: it has no session, so it is not listed and owns nothing."""

    def __init__(self, address: PostgresAddress | str) -> None:
        """`warnings` say how far the copy has come."""
        self.address = address if isinstance(address, PostgresAddress) else PostgresAddress(address)
        self._pid, self._closed, self.knows = os.getpid(), False, NEWEST_FORMAT
        with as_postgres_failure(f"read the store at '{self.address}'", self.address), _connect(self.address) as opened:
            require_readable(read_settings(opened, self.address))
            notes = require_usable_schema(opened, self.address)
            require_not_moved(read_move_row(opened), str(self.address))
            self.warnings = (*notes, *_lateness(opened))
        self._readers = PostgresReaders(self.address, _connect)

    @property
    def owner(self) -> str:
        return ""

    def has_lease(self) -> bool:
        return False

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Never calls back: there is no lease."""

    def version(self) -> int | None:
        return None

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        """Never calls back: a standby sends no notifications."""
        return lambda: None

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        raise self._refusal(f"store the new run '{row.run}'")

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        raise self._refusal(f"append to run '{row.run}'")

    async def write(self, doing: str, work: TransactionWork[T], size: int = 0) -> T:
        raise self._refusal(doing)

    async def write_statement(self, doing: str, work: TransactionWork[T]) -> T:
        return await self.write(doing, work)

    async def write_batchable(self, doing: str, kind: str, key: str, value: object, size: int) -> Any:
        return await self.write(doing, lambda _: None)

    def _refusal(self, doing: str) -> StoreFailed:
        return StoreFailed(f"could not {doing}: '{self.address}' was opened to be read; name the store itself")

    async def close(self) -> None:
        self._require_this_process()
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(None, self._readers.close)


def _lateness(connection: PostgresConnection) -> list[str]:
    found = connection.execute(_ASK_HOW_LATE).fetchone()
    if found is None:
        return []
    late_ms, position = found
    late = f", and applies changes {late_ms} ms late" if late_ms else ""
    return [f"it is a copy that has come to record {position}{late}; newer ones are missing"]
