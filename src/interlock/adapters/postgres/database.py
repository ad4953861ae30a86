"""The open database of a PostgreSQL store: a thread that writes, threads that read, and the session of its owner.

Rule 1: this process writes by one connection and reads by others; `writer` and `readers` have their rules.
Rule 2: nothing here crosses a fork.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from interlock import __version__
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import Connect, PostgresConnection, connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.migrate import require_usable_schema
from interlock.adapters.postgres.move_marks import read_move_row
from interlock.adapters.postgres.readers import PostgresReaders, ReadWork
from interlock.adapters.postgres.server_checks import read_settings, require_safe_settings, warnings_of
from interlock.adapters.postgres.session import LEFT, OwnerSession, connect_session
from interlock.adapters.postgres.writer import Batchable, PostgresWriter, SingleStatement, TransactionWork
from interlock.adapters.store_rules.moved_tables import require_not_moved
from interlock.errors import StoreFailed
from interlock.ports import NEWEST_FORMAT, RunFormat

T = TypeVar("T")


class PostgresDatabase(ABC):
    """Opens a store, and runs work on its connections. The tables of a store are classes that inherit from it."""

    def __init__(
        self,
        address: PostgresAddress | str,
        *,
        connect: Connect = connect,
        connect_session: Connect = connect_session,
        knows: RunFormat = NEWEST_FORMAT,
    ) -> None:
        """`StoreFailed`, with nothing changed, if the server is away, unsafe, or has no store of this version.

        `connect` and `connect_session` open every connection; tests of faults pass their own. `knows` is less for a
        process of an older version.
        """
        self.address = address if isinstance(address, PostgresAddress) else PostgresAddress(address)
        self._pid, self._closed, self.knows = os.getpid(), False, knows
        with as_postgres_failure(f"open the store at '{self.address}'", self.address):
            with connect(self.address) as connection:
                settings = read_settings(connection, self.address)
                require_safe_settings(settings)
                notes = require_usable_schema(connection, self.address)
                self.warnings = (*notes, *warnings_of(settings))
                self.session = OwnerSession(self.address, __version__, connect_session, knows)
                try:
                    # After the session is listed: a move writes its mark, and then looks for sessions.
                    require_not_moved(read_move_row(connection), str(self.address))
                    on_reconnect = self.session.wait_for_lease
                    self._writer = PostgresWriter(self.address, connect, self.perform_batch, on_reconnect)
                    self.session.guard_writer(self._writer.cut_off)
                except BaseException:
                    self.session.stop()
                    raise
            self._readers = PostgresReaders(self.address, connect)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @abstractmethod
    def perform_batch(
        self, connection: PostgresConnection, kind: str, values: Sequence[Any], is_repeated: bool
    ) -> Sequence[Any]:
        """Performs batchable writes in one statement; the class of the runs does."""

    async def write(self, doing: str, work: TransactionWork[T], size: int = 0) -> T:
        """Runs a piece of work in a transaction; returns when it is committed, or raises why it is not.

        It may run twice if the connection fails, so it must not change anything but the database.
        """
        self._require_usable()
        return await self._writer.write(doing, work, size)

    async def write_statement(self, doing: str, work: TransactionWork[T]) -> T:
        """Runs work that is one statement, and so one round trip. It may be done twice if its answer is lost."""
        self._require_usable()
        return await self._writer.write(doing, SingleStatement(work))

    @property
    def round_trips(self) -> int:
        """How often the writer has waited for the server, on its present connection."""
        return self._writer.round_trips

    async def write_batchable(self, doing: str, kind: str, key: str, value: object, size: int) -> Any:
        """Writes in one statement with others of its kind; at most one under each key."""
        self._require_usable()
        return await self._writer.write(doing, Batchable(kind, key, value), size)

    async def read(self, doing: str, work: ReadWork[T]) -> T:
        """Runs queries in a reader thread."""
        self._require_usable()
        return await self._readers.read(doing, work)

    async def read_statement(self, doing: str, work: ReadWork[T]) -> T:
        """Runs one query in a reader thread, in one round trip."""
        self._require_usable()
        return await self._readers.read(doing, work, is_single=True)

    async def close(self) -> None:
        """Finishes all requested writes, then closes. Other processes can claim the runs of this store from now on."""
        self._require_this_process()
        if self._closed:
            return
        self._closed = True
        self.session.announce_stop()
        try:
            with suppress(StoreFailed):  # the server is away: others will find this process dead
                await self._writer.write("close the store", partial(_leave, owner=self.session.id))
        finally:  # also if the caller was cancelled
            await asyncio.get_running_loop().run_in_executor(None, self._close_all)

    def _close_all(self) -> None:
        self.session.stop()
        self._writer.stop()
        self._readers.close()

    def _require_this_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreFailed("the store was opened before a fork and cannot be used after it; open it in the child")

    def _require_usable(self) -> None:
        self._require_this_process()
        if self._closed:
            raise StoreFailed(f"the store at '{self.address}' is closed; open it again")


def _leave(connection: PostgresConnection, *, owner: int) -> None:
    """Marks a process that ended; the notification also wakes the thread of its own session."""
    connection.execute("update owners set gone = true where id = %s", (owner,))
    connection.execute("select notify_others(%s, %s)", (owner, LEFT))
