"""The format with which the runs of a folder begin: one row from the first run on."""

import sqlite3

from interlock.adapters.sqlite.sealed_tables import has_damage, intact_condition
from interlock.errors import DamagedRow
from interlock.ports import RunFormat, RunRow


def read_run_format(connection: sqlite3.Connection) -> RunFormat | None:
    """None before the first run. `DamagedRow` if it is not known: no other process may know what a guess begins."""
    if has_damage(connection, "run_format"):
        raise DamagedRow("the format of new runs", "'interlock store raise-format' sets it again")
    return intact_run_format(connection)


def intact_run_format(connection: sqlite3.Connection) -> RunFormat | None:
    """None also for a damaged row."""
    query = f"select rules, format from run_format where {intact_condition('run_format')}"  # noqa: S608 - constants
    found = connection.execute(query).fetchone()
    return None if found is None else RunFormat(*found)


def note_run_format(connection: sqlite3.Connection, row: RunRow) -> None:
    """The first run that begins in a folder sets its format."""
    put = "insert or ignore into run_format (only_one, rules, format) values (1, ?, ?)"
    connection.execute(put, (row.rules, row.format))


def put_run_format(connection: sqlite3.Connection, new: RunFormat) -> None:
    put = "insert or replace into run_format (only_one, rules, format) values (1, ?, ?)"
    connection.execute(put, (new.rules, new.format))
