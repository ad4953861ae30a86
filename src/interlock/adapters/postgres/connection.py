"""A connection whose every wait has a deadline.

Rule 1: a wait that exceeds its deadline aborts the socket. Cancelling would wait for the same server (FAULTS E2).
Rule 2: settings that bound the server's part are sent with the connection: a statement 5 s, a lock 2 s.
Rule 3: a connection belongs to one thread.
"""

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from interlock.adapters.config.store_settings import SECRET_PARAMETERS
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.failures import DeadlineExceeded

T = TypeVar("T")

CONNECT_S = 5
# The server ends a statement first, so that this one is met only if the server or the way to it is gone.
DEADLINE_S = 8.0

_SETTINGS = {
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    # A process that stops in a transaction must not keep the others waiting for its locks.
    "idle_in_transaction_session_timeout": "1s",
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read\\ committed",
}


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode. `round_trips` counts the waits for the server."""

    deadline_s = DEADLINE_S
    round_trips = 0

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **more: Any) -> T:
        self.round_trips += 1
        return super().wait(self._with_deadline(gen, time.monotonic() + self.deadline_s), *args, **more)

    def _with_deadline(self, gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
        """The driver resumes its generators ten times a second, also while nothing arrives."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.abort()
                    raise DeadlineExceeded("the server did not answer in time, and the connection was aborted")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def abort(self) -> None:
        """Closes the connection without a word to the server."""
        self.cut()
        self.close()

    def cut(self) -> None:
        """In any thread: ends the socket, so that what waits for it fails."""
        with suppress(OSError, psycopg.Error):
            descriptor = os.dup(self.pgconn.socket)
            with socket.socket(fileno=descriptor) as copy:
                copy.shutdown(socket.SHUT_RDWR)


Connect = Callable[[PostgresAddress], PostgresConnection]


def connect(
    address: PostgresAddress,
    *,
    kind: type[PostgresConnection] = PostgresConnection,
    connect_s: int = CONNECT_S,
    target: str = "read-write",
    **settings: str,
) -> PostgresConnection:
    """Opens a connection in the schema of the address, to a server that takes writes unless `target` is another.

    Tests of faults pass a `kind` of their own.
    """
    given = {**_SETTINGS, "search_path": f"{address.schema},pg_temp", **settings}
    options = " ".join([f"-c{name}={value}" for name, value in given.items()])
    conninfo = address.conninfo(
        options=f"{address.parameters.get('options') or ''} {options}".strip(),
        connect_timeout=address.parameters.get("connect_timeout") or connect_s,
        application_name=address.parameters.get("application_name") or "interlock",
        target_session_attrs=address.parameters.get("target_session_attrs") or target,
    )
    connection = kind.connect(conninfo, autocommit=True)
    address.learn_secrets(_secrets_of(connection))
    # One type for all numbers: else a statement is prepared again for every size of its values.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    return connection


def _secrets_of(connection: PostgresConnection) -> list[str]:
    """The secrets that libpq has used, wherever it found them."""
    used = {
        option.keyword.decode(): (option.val or b"").decode("utf-8", "replace") for option in connection.pgconn.info
    }
    return [connection.info.password, *(used.get(name, "") for name in SECRET_PARAMETERS)]
