"""What is remembered of the bus beside the writing connection: who hears what, how far broadcasts go, who is at work.

Rule 1: it holds until another connection commits, which `data_version` tells; `renew` begins every transaction.
Rule 2: every change of subscriptions is counted in the database, so that only such a commit makes us read them anew.
Rule 3: a transaction that fails may have changed what is remembered, so it is forgotten then.
"""

import sqlite3

from interlock.adapters.sealed_tables import whole
from interlock.broadcast.subscriptions import Directory, Subscribed
from interlock.errors import DamagedRow

# The counts of `bus_changes`, and of commits that stored no record.
UNRECORDED = "unrecorded"
COUNTED = ("subscriptions", "delayed", UNRECORDED)
# Where a count begins that was damaged: above any that was reached by counting, so that it is a change.
MENDED = 1 << 40

# Agents of whom it is remembered where they are at work, and the runs up to which that is worth reading.
AGENTS_MAX = 10_000
RUNS_READ_MAX = 2

_AT_WORK = f"select run from active where crew = ? and agent = ? and {whole('active')} limit ?"  # noqa: S608 - constants


class Remembered:
    """As new as the connection it was renewed with."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._version = -1
        self._directory, self._number, self._is_current = Directory(), -1, False
        self.head: int | None = None
        self._at_work: dict[tuple[str, str], set[str]] = {}

    def renew(self, connection: sqlite3.Connection) -> None:
        """In a transaction, before anything else is asked."""
        version = connection.execute("pragma data_version").fetchone()[0]
        if version != self._version:
            self._version, self.head, self._is_current = version, None, False
            self._at_work.clear()

    # Who is at work

    def is_active_elsewhere(self, connection: sqlite3.Connection, crew: str, agent: str, run: str) -> bool:
        runs = self._at_work.get((crew, agent))
        if runs is None:
            found = connection.execute(_AT_WORK, (crew, agent, RUNS_READ_MAX)).fetchall()
            runs = {name for (name,) in found}
            if len(runs) < RUNS_READ_MAX:  # else there may be more
                self._remember(crew, agent, runs)
        return len(runs) > (run in runs)

    def _remember(self, crew: str, agent: str, runs: set[str]) -> None:
        if len(self._at_work) >= AGENTS_MAX:
            self._at_work.clear()
        self._at_work[crew, agent] = runs

    def activated(self, crew: str, agent: str, run: str) -> None:
        if (runs := self._at_work.get((crew, agent))) is not None:
            runs.add(run)

    def deactivated(self, crew: str, agent: str, run: str) -> None:
        if (runs := self._at_work.get((crew, agent))) is not None:
            runs.discard(run)

    # Who hears what

    def directory(self, connection: sqlite3.Connection) -> Directory:
        if not self._is_current:
            number = count_of(connection, "subscriptions")
            if number != self._number:
                self._directory, self._number = _read(connection), number
            self._is_current = True
        return self._directory

    def changed(
        self,
        connection: sqlite3.Connection,
        *,
        added: Subscribed | None = None,
        removed: tuple[str, str, str] | None = None,
    ) -> None:
        """In the transaction that changes a row: counts it, and keeps up if nothing else was changed."""
        number = add_one(connection, "subscriptions")
        if number != self._number + 1:
            self._is_current = False
            return
        self._number = number
        if added is not None:
            self._directory.add(added)
        if removed is not None:
            self._directory.remove(removed)


def count_of(connection: sqlite3.Connection, name: str) -> int:
    """How often something was changed, by what it is; `DamagedRow` if that is not known."""
    query = f"select number from bus_changes where name = ? and {whole('bus_changes')}"  # noqa: S608 - constants
    found = connection.execute(query, (name,)).fetchone()
    if found is None:
        raise DamagedRow(f"the count of changes of '{name}'", "open the folder again, which mends it")
    return int(found[0])


def add_one(connection: sqlite3.Connection, name: str) -> int:
    """Counts a change, in its transaction."""
    number = count_of(connection, name) + 1
    connection.execute("update bus_changes set number = ? where name = ?", (number, name))
    return number


def mend_counts(connection: sqlite3.Connection, unrecorded: int) -> None:
    """Writes damaged counts anew, in a transaction.

    Of most it only counts that they change. That of commits without a record goes on from where it is known to be.
    """
    whole_ones = f"select name from bus_changes where {whole('bus_changes')}"  # noqa: S608 - constants
    left = set(COUNTED) - {name for (name,) in connection.execute(whole_ones)}
    connection.execute(f"delete from bus_changes where not ({whole('bus_changes')})")  # noqa: S608 - constants
    anew = [(name, unrecorded if name == UNRECORDED else MENDED) for name in sorted(left)]
    for row in anew:
        connection.execute("insert into bus_changes (name, number) values (?, ?)", row)


def _read(connection: sqlite3.Connection) -> Directory:
    directory = Directory()
    query = f"select crew, agent, pattern, silent from subscriptions where {whole('subscriptions')}"  # noqa: S608 - constants
    for crew, agent, pattern, silent in connection.execute(query):
        directory.add(Subscribed(crew=crew, agent=agent, pattern=pattern, silent=bool(silent)))
    return directory
