"""A cache of the bus beside the writing connection: subscriptions, the newest stored broadcast, and active agents.

Rule 1: it is valid until another connection commits, which `WriterCache` notices; then it calls `refresh`.
Rule 2: every change of subscriptions is counted in the database, so they are read again only after such a change.
Rule 3: a transaction that fails may have changed the cache, so it is cleared then.
"""

import sqlite3

from interlock.adapters.sqlite.bus.active_agents import SqliteActiveAgents
from interlock.adapters.sqlite.bus.change_counts import change_count_of, increment_change_count
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.broadcast.subscriptions import AgentSubscription, SubscriptionIndex


class BusCache:
    """As new as the connection that it was refreshed with."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._directory, self._number, self._is_current = SubscriptionIndex(), -1, False
        self.head: int | None = None
        self._active, self._is_active_current = SqliteActiveAgents(), False

    def refresh(self) -> None:
        """Reads again what another process has changed, when it is used."""
        self.head, self._is_current, self._is_active_current = None, False, False

    def active_agents(self, connection: sqlite3.Connection) -> SqliteActiveAgents:
        if not self._is_active_current:
            self._active.refresh(connection)
            self._is_active_current = True
        return self._active

    @property
    def agents_without_subscribers(self) -> SqliteActiveAgents | None:
        """The active agents, if all is as new as the connection and there is no subscription; else None."""
        is_current = self._is_active_current and self._is_current
        return self._active if is_current and not self._directory.by_key else None

    # Subscriptions

    def directory(self, connection: sqlite3.Connection) -> SubscriptionIndex:
        if not self._is_current:
            number = change_count_of(connection, "subscriptions")
            if number != self._number:
                self._directory, self._number = _read_directory(connection), number
            self._is_current = True
        return self._directory

    def record_subscription_change(
        self,
        connection: sqlite3.Connection,
        *,
        added: AgentSubscription | None = None,
        removed: tuple[str, str, str] | None = None,
    ) -> None:
        """Counts a change in its transaction, and updates the cache if nothing else was changed."""
        number = increment_change_count(connection, "subscriptions")
        if number != self._number + 1:
            self._is_current = False
            return
        self._number = number
        if added is not None:
            self._directory.add(added)
        if removed is not None:
            self._directory.remove(removed)


def _read_directory(connection: sqlite3.Connection) -> SubscriptionIndex:
    directory = SubscriptionIndex()
    query = f"select crew, agent, pattern, silent from subscriptions where {intact_condition('subscriptions')}"  # noqa: S608 - constants
    for crew, agent, pattern, silent in connection.execute(query):
        directory.add(AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=bool(silent)))
    return directory
