"""A cache of the bus beside the writing connection: subscriptions, the newest position, and active agents.

Rule 1: it is valid until another connection commits, which `data_version` shows; `refresh` starts every transaction.
Rule 2: every change of subscriptions is counted in the database, so they are read again only after such a change.
Rule 3: a transaction that fails may have changed the cache, so it is cleared then.
"""

import sqlite3

from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.broadcast.subscriptions import AgentSubscription, SubscriptionIndex
from interlock.errors import DamagedRow

# The counts of `bus_changes`; one is of commits that stored no record.
UNRECORDED = "unrecorded"
CHANGE_COUNTS = ("subscriptions", "delayed", UNRECORDED)
# Where a repaired count starts: above any real count, so that it differs from all of them.
REPAIRED_COUNT_START = 1 << 40

# Agents whose active runs are cached, and how many runs of one are read.
AGENTS_MAX = 10_000
RUNS_READ_MAX = 2

_AT_WORK = f"select run from active where crew = ? and agent = ? and {intact_condition('active')} limit ?"  # noqa: S608 - constants


class BusCache:
    """As new as the connection that it was refreshed with."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._version = -1
        self._directory, self._number, self._is_current = SubscriptionIndex(), -1, False
        self.head: int | None = None
        self._at_work: dict[tuple[str, str], set[str]] = {}

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Drops what another process has changed. Call it in a transaction, before all else."""
        version = connection.execute("pragma data_version").fetchone()[0]
        if version != self._version:
            self._version, self.head, self._is_current = version, None, False
            self._at_work.clear()

    # Active agents

    def is_active_elsewhere(self, connection: sqlite3.Connection, crew: str, agent: str, run: str) -> bool:
        runs = self._at_work.get((crew, agent))
        if runs is None:
            found = connection.execute(_AT_WORK, (crew, agent, RUNS_READ_MAX)).fetchall()
            runs = {name for (name,) in found}
            if len(runs) < RUNS_READ_MAX:  # else there may be more
                self._cache_runs(crew, agent, runs)
        return len(runs) > (run in runs)

    def _cache_runs(self, crew: str, agent: str, runs: set[str]) -> None:
        if len(self._at_work) >= AGENTS_MAX:
            self._at_work.clear()
        self._at_work[crew, agent] = runs

    def add_active_run(self, crew: str, agent: str, run: str) -> None:
        if (runs := self._at_work.get((crew, agent))) is not None:
            runs.add(run)

    def remove_active_run(self, crew: str, agent: str, run: str) -> None:
        if (runs := self._at_work.get((crew, agent))) is not None:
            runs.discard(run)

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


def change_count_of(connection: sqlite3.Connection, name: str) -> int:
    """The number of changes under a name; `DamagedRow` if it is damaged."""
    query = f"select number from bus_changes where name = ? and {intact_condition('bus_changes')}"  # noqa: S608 - constants
    found = connection.execute(query, (name,)).fetchone()
    if found is None:
        raise DamagedRow(f"the count of changes of '{name}'", "open the folder again, which repairs it")
    return int(found[0])


def increment_change_count(connection: sqlite3.Connection, name: str) -> int:
    """Counts a change in its transaction."""
    number = change_count_of(connection, name) + 1
    connection.execute("update bus_changes set number = ? where name = ?", (number, name))
    return number


def repair_change_counts(connection: sqlite3.Connection, unrecorded: int) -> None:
    """Replaces damaged counts, in a transaction.

    For most only a change matters. The count of commits without a record continues from the mark.
    """
    whole_ones = f"select name from bus_changes where {intact_condition('bus_changes')}"  # noqa: S608 - constants
    left = set(CHANGE_COUNTS) - {name for (name,) in connection.execute(whole_ones)}
    connection.execute(f"delete from bus_changes where not ({intact_condition('bus_changes')})")  # noqa: S608 - constants
    repaired = [(name, unrecorded if name == UNRECORDED else REPAIRED_COUNT_START) for name in sorted(left)]
    for row in repaired:
        connection.execute("insert into bus_changes (name, number) values (?, ?)", row)


def _read_directory(connection: sqlite3.Connection) -> SubscriptionIndex:
    directory = SubscriptionIndex()
    query = f"select crew, agent, pattern, silent from subscriptions where {intact_condition('subscriptions')}"  # noqa: S608 - constants
    for crew, agent, pattern, silent in connection.execute(query):
        directory.add(AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=bool(silent)))
    return directory
