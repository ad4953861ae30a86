"""The table `bus_changes`: numbers that tell a process that another one has changed something."""

import sqlite3

from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.errors import DamagedRow

# Commits that stored no record.
UNRECORDED = "unrecorded"
# Changes of the table of active agents that no record tells of, the position up to which it is filled, and that of the
# newest record up to there that has presence, or a later one.
PRESENCE, PRESENCE_FILLED, PRESENCE_NEWEST = "presence", "presence_filled", "presence_newest"
# The position up to which rows of runs and places of records are filled.
FILLED = "filled"
CHANGE_COUNTS = ("subscriptions", "delayed", UNRECORDED, PRESENCE, PRESENCE_FILLED, PRESENCE_NEWEST, FILLED)
# Where a repaired count starts: above any real count, so that it differs from all of them.
REPAIRED_COUNT_START = 1 << 40


def change_count_of(connection: sqlite3.Connection, name: str) -> int:
    """The number of changes under a name; `DamagedRow` if it is damaged."""
    found = change_count_or_none(connection, name)
    if found is None:
        raise DamagedRow(f"the count of changes of '{name}'", "open the folder again, which repairs it")
    return found


def change_count_or_none(connection: sqlite3.Connection, name: str) -> int | None:
    """None if it is damaged."""
    query = f"select number from bus_changes where name = ? and {intact_condition('bus_changes')}"  # noqa: S608 - constants
    found = connection.execute(query, (name,)).fetchone()
    return None if found is None else int(found[0])


def increment_change_count(connection: sqlite3.Connection, name: str) -> int:
    """Counts a change in its transaction."""
    number = change_count_of(connection, name) + 1
    connection.execute("update bus_changes set number = ? where name = ?", (number, name))
    return number


def repair_change_counts(connection: sqlite3.Connection, unrecorded: int) -> None:
    """Replaces damaged counts, in a transaction.

    For most only a change matters. The count of commits without a record continues from the mark. The table of active
    agents, and the places of records, are filled again from the first record.
    """
    whole_ones = f"select name from bus_changes where {intact_condition('bus_changes')}"  # noqa: S608 - constants
    left = set(CHANGE_COUNTS) - {name for (name,) in connection.execute(whole_ones)}
    connection.execute(f"delete from bus_changes where not ({intact_condition('bus_changes')})")  # noqa: S608 - constants
    known = {UNRECORDED: unrecorded, PRESENCE_FILLED: 0, FILLED: 0}
    for row in [(name, known.get(name, REPAIRED_COUNT_START)) for name in sorted(left)]:
        connection.execute("insert into bus_changes (name, number) values (?, ?)", row)
