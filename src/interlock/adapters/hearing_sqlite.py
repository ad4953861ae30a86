"""Who hears what, remembered beside the writing connection.

Rule 1: every change of subscriptions is counted in the database; what is remembered holds as long as the count does.
Rule 2: a transaction that fails may have changed what is remembered, so it is forgotten then.
"""

import sqlite3

from interlock.broadcast.subscriptions import Directory, Subscribed

_COUNT = "select number from bus_changes where name = 'subscriptions'"


class Hearing:
    """A `Directory` that is as new as the connection it is asked with."""

    def __init__(self) -> None:
        self._directory, self._number = Directory(), -1

    def forget(self) -> None:
        self._directory, self._number = Directory(), -1

    def directory(self, connection: sqlite3.Connection) -> Directory:
        number = connection.execute(_COUNT).fetchone()[0]
        if number != self._number:
            self._directory, self._number = _read(connection), number
        return self._directory

    def changed(
        self,
        connection: sqlite3.Connection,
        *,
        added: Subscribed | None = None,
        removed: tuple[str, str, str] | None = None,
    ) -> None:
        """In the transaction that changes a row: counts it, and keeps up if nothing else was changed."""
        query = "update bus_changes set number = number + 1 where name = 'subscriptions' returning number"
        number = connection.execute(query).fetchone()[0]
        if number != self._number + 1:
            return
        self._number = number
        if added is not None:
            self._directory.add(added)
        if removed is not None:
            self._directory.remove(removed)


def _read(connection: sqlite3.Connection) -> Directory:
    directory = Directory()
    for crew, agent, pattern, silent in connection.execute("select crew, agent, pattern, silent from subscriptions"):
        directory.add(Subscribed(crew=crew, agent=agent, pattern=pattern, silent=bool(silent)))
    return directory
