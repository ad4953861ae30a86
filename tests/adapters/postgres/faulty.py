"""Connections that lose answers, for tests of faults on a real server."""

from typing import Any

import psycopg

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect


class Faults:
    """What goes wrong next: `before` loses the statement, `after` its answer; the others that follow are sound.

    Each is a part of the statement's text.
    """

    def __init__(self) -> None:
        self.before: str | None = None
        self.after: str | None = None
        self.refuse_connections = False
        self.opened = 0

    def connect(self, address: PostgresAddress) -> PostgresConnection:
        if self.refuse_connections:
            raise psycopg.OperationalError("connection refused")
        self.opened += 1
        connection = connect(address, kind=FaultyConnection)
        assert isinstance(connection, FaultyConnection)
        connection.faults = self
        return connection


class FaultyConnection(PostgresConnection):
    """A connection whose socket is cut before or after a statement."""

    faults: Faults | None = None

    def execute(self, query: Any, *args: Any, **more: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        faults = self.faults
        if faults is not None and faults.before is not None and faults.before in text:
            faults.before = None
            self._lose()
        result = super().execute(query, *args, **more)
        if faults is not None and faults.after is not None and faults.after in text:
            faults.after = None
            self._lose()
        return result

    def _lose(self) -> None:
        self.abort()
        raise psycopg.OperationalError("the connection was cut")
