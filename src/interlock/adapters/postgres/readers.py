"""Reads from PostgreSQL in a few threads, each with a connection of its own.

Rule: all queries of one piece of work see one state, by a transaction, or because there is one query. A read that
loses its connection is repeated once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, local
from typing import TypeVar

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import Connect, PostgresConnection
from interlock.adapters.postgres.failures import FOREIGN, is_connection_lost, postgres_failure_of

T = TypeVar("T")
ReadWork = Callable[[PostgresConnection], T]

# Connections that a process reads with; they are opened when they are first needed.
READERS_MAX = 2

# A reader holds no lock that others wait for, and may work on much.
_MAY_IDLE = "set idle_in_transaction_session_timeout = '30s'"

_BEGIN = "begin isolation level repeatable read, read only"


class PostgresReaders:
    """Performs queries in threads."""

    def __init__(self, address: PostgresAddress, connect: Connect) -> None:
        self._address, self._connect = address, connect
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="interlock-reader")
        self._own = local()
        self._lock, self._open = Lock(), set[PostgresConnection]()

    async def read(self, doing: str, work: ReadWork[T], *, is_single: bool = False) -> T:
        """`is_single`: the work is one statement, which needs no transaction, and so is one round trip."""
        once = self._read_statement if is_single else self._read_once
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read_now, doing, work, once)

    def close(self) -> None:
        """Waits for reads in progress, then closes the connections."""
        self._threads.shutdown()
        for connection in self._open:
            with suppress(*FOREIGN):
                connection.close()

    # In a thread

    def _read_now(self, doing: str, work: ReadWork[T], once: Callable[[ReadWork[T]], T]) -> T:
        try:
            try:
                return once(work)
            except FOREIGN as error:
                if not is_connection_lost(error):
                    raise
                return once(work)
        except FOREIGN as error:
            raise postgres_failure_of(doing, error, self._address) from None

    def _read_statement(self, work: ReadWork[T]) -> T:
        connection = self._connection()
        try:
            return work(connection)
        except FOREIGN as error:
            if is_connection_lost(error):
                self._drop(connection)
            raise

    def _read_once(self, work: ReadWork[T]) -> T:
        connection = self._connection()
        try:
            connection.execute(_BEGIN)
            return work(connection)
        except FOREIGN as error:
            if is_connection_lost(error):
                self._drop(connection)
            raise
        finally:
            with suppress(*FOREIGN):
                if not connection.closed:
                    connection.execute("rollback")

    def _connection(self) -> PostgresConnection:
        connection: PostgresConnection | None = getattr(self._own, "connection", None)
        if connection is None or connection.closed:
            connection = self._own.connection = self._connect(self._address)
            connection.execute(_MAY_IDLE)
            with self._lock:
                self._open.add(connection)
        return connection

    def _drop(self, connection: PostgresConnection) -> None:
        with suppress(*FOREIGN):
            connection.close()
        with self._lock:
            self._open.discard(connection)
