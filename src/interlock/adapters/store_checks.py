"""What the doctor finds wrong with a database: pages, schema, rows, and what rows say about each other."""

import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256

from interlock.adapters import bus_rows, keeping_sqlite, migrations, sealed_tables, sqlite_rows
from interlock.adapters.sealed_tables import add_seals, whole

Found = Iterator[str]

# Rows of these name a run that must be there.
OF_RUNS = ("questions", "unlisted", "spent", "outbox", "active", "orders")


def problems(connection: sqlite3.Connection) -> list[str]:
    """All of them; a check that damage does not let through is one itself."""
    return [problem for check in CHECKS for problem in _run_check(check, connection)]


def _run_check(check: Callable[[sqlite3.Connection], Found], connection: sqlite3.Connection) -> list[str]:
    try:
        return list(check(connection))
    except sqlite3.DatabaseError as error:
        name = (check.__doc__ or "").partition(".")[0].lower()
        return [f"the database is damaged: {error}, while looking at {name}"]


def _pages(connection: sqlite3.Connection) -> Found:
    """Pages and indexes."""
    lines = [str(line) for (line,) in connection.execute("pragma integrity_check").fetchall()]
    if lines != ["ok"]:
        yield from (f"the database is damaged: {' '.join(line.split())}" for line in lines)


def _schema(connection: sqlite3.Connection) -> Found:
    """The schema."""
    ours, found = expected_schema(), schema_of(connection)
    for kind, name in sorted(ours.keys() - found.keys()):
        yield f"the {kind} '{name}' is missing from the database; restore it from a backup"
    for kind, name in sorted(found.keys() - ours.keys()):
        yield f"the {kind} '{name}' in the database is not Interlock's; drop it"
    for kind, name in sorted(ours.keys() & found.keys()):
        if ours[kind, name] != found[kind, name]:
            yield f"the {kind} '{name}' in the database is not as Interlock makes it; restore it from a backup"


def schema_of(connection: sqlite3.Connection) -> dict[tuple[str, str], object]:
    """By kind and name: the table that it belongs to, and how it was made."""
    rows = connection.execute("select type, name, tbl_name, sql from sqlite_schema").fetchall()
    return {(kind, name): (table, sql) for kind, name, table, sql in rows}


def expected_schema() -> dict[tuple[str, str], object]:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        add_seals(fresh)
        migrations.migrate(fresh)
        return schema_of(fresh)
    finally:
        fresh.close()


def _rows(connection: sqlite3.Connection) -> Found:
    """Checksums of rows."""
    yield from sqlite_rows.damaged(connection)
    yield from bus_rows.damaged(connection)
    yield from sealed_tables.damaged(connection)
    query = "select run from spent where crc <> interlock_seal(body) order by run"
    for (run,) in connection.execute(query).fetchall():
        yield f"what run '{run}' has cost is damaged as it was added up; it is added up again from its journal"
    for sha, body in connection.execute("select sha, body from crews"):
        if sha256(body).hexdigest() != sha:
            yield f"the crew under sha256 {sha} does not have that sum"


def _positions(connection: sqlite3.Connection) -> Found:
    """Positions."""
    query = (
        "select count(*) from (select position, lag(position) over (partition by run order by seq) as before"
        " from records where run <> ?) where before >= position"
    )
    if count := connection.execute(query, (keeping_sqlite.NOBODY,)).fetchone()[0]:
        yield f"{_rows_of(count, 'records')} not in the order of positions in which their run was written"
    newest = sqlite_rows.newest_position(connection)
    query = "select hook from webhook_cursors where position > ? order by hook"
    for (hook,) in connection.execute(query, (newest,)).fetchall():
        yield f"webhook '{hook}' has read further than the newest position, {newest}"
    for table in ("inbox", "deliveries"):
        query = f"select count(*) from {table} where broadcast not in (select position from broadcasts)"  # noqa: S608 - constants
        if count := connection.execute(query).fetchone()[0]:
            yield f"{_rows_of(count, table)} about a broadcast that is not there"


def _strays(connection: sqlite3.Connection) -> Found:
    """Rows of runs."""
    query = "select count(*) from records where run <> ? and run not in (select number from runs)"
    if count := connection.execute(query, (keeping_sqlite.NOBODY,)).fetchone()[0]:
        yield f"{count} records belong to no run"
    for table in OF_RUNS:
        query = f"select count(*) from {table} where run not in (select run from runs) and {whole(table)}"  # noqa: S608 - constants
        if count := connection.execute(query).fetchone()[0]:
            yield f"{_rows_of(count, table)} of a run that is not there"


def _mail(connection: sqlite3.Connection) -> Found:
    """Counts of mail."""
    unread = "select count(*) from inbox where inbox.crew = mailboxes.crew and inbox.agent = mailboxes.agent"
    query = f"select crew, agent from mailboxes where unread <> ({unread} and taken = '')"  # noqa: S608 - constants
    for crew, agent in connection.execute(query).fetchall():
        yield f"the count of unread mail of agent '{agent}' of crew '{crew}' is wrong"


def _rows_of(count: int, table: str) -> str:
    return f"1 row of '{table}' is" if count == 1 else f"{count} rows of '{table}' are"


CHECKS = (_pages, _schema, _rows, _positions, _strays, _mail)
