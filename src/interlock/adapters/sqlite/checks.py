"""Checks of a database for the doctor: pages, schema, rows, and references between rows."""

import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256

from interlock.adapters.sqlite import migrations, sealed_tables
from interlock.adapters.sqlite.bus import announcements, bus_queries
from interlock.adapters.sqlite.failures import DAMAGE
from interlock.adapters.sqlite.runs import places, run_queries, tombstones
from interlock.adapters.sqlite.sealed_tables import intact_condition, register_seal_function
from interlock.ports.server import BROADCAST_POSITION

Findings = Iterator[str]

# Tables whose rows name a run that must exist; an approval that always holds names none.
OF_RUNS = (
    "questions",
    "unlisted",
    "spent",
    "outbox",
    "active",
    "orders",
    "approvals",
    "revoked_approvals",
    "set_asides",
)


def problems(connection: sqlite3.Connection) -> list[str]:
    """Runs all checks; a check that fails because of damage is a problem too."""
    return [problem for check in CHECKS for problem in _run_check(check, connection)]


def _run_check(check: Callable[[sqlite3.Connection], Findings], connection: sqlite3.Connection) -> list[str]:
    try:
        return list(check(connection))
    except DAMAGE as error:
        name = (check.__doc__ or "").partition(".")[0].lower()
        return [f"the database is damaged: {error}, while looking at {name}"]


def _pages(connection: sqlite3.Connection) -> Findings:
    """Pages and indexes."""
    lines = [str(line) for (line,) in connection.execute("pragma integrity_check").fetchall()]
    if lines != ["ok"]:
        yield from (f"the database is damaged: {' '.join(line.split())}" for line in lines)


def _schema(connection: sqlite3.Connection) -> Findings:
    """The schema."""
    ours, found = fresh_schema(), schema_of(connection)
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


def fresh_schema() -> dict[tuple[str, str], object]:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        register_seal_function(fresh)
        migrations.migrate(fresh)
        return schema_of(fresh)
    finally:
        fresh.close()


def _rows(connection: sqlite3.Connection) -> Findings:
    """Checksums of rows."""
    yield from run_queries.damage_in_run_rows(connection)
    yield from announcements.damage_in_broadcasts(connection)
    yield from bus_queries.damage_in_delayed(connection)
    yield from sealed_tables.damage_in_sealed_tables(connection)
    query = "select run from spent where crc <> interlock_seal(body) order by run"
    for (run,) in connection.execute(query).fetchall():
        yield f"what run '{run}' has cost is damaged as it was added up; it is added up again from its journal"
    for sha, body in connection.execute("select sha, body from crews"):
        if sha256(body).hexdigest() != sha:
            yield f"the crew under sha256 {sha} does not have that sum"


def _positions(connection: sqlite3.Connection) -> Findings:
    """Positions."""
    query = (
        "select count(*) from (select position, lag(position) over (partition by run order by seq) as before"
        " from records where run <> ?) where before >= position"
    )
    if count := connection.execute(query, (tombstones.NO_RUN,)).fetchone()[0]:
        yield f"{_rows_of(count, 'records')} not in the order of positions in which their run was written"
    newest = {False: places.newest_position(connection), True: announcements.head(connection)}
    for hook, position in connection.execute("select hook, position from webhook_cursors order by hook").fetchall():
        if position > (most := newest[hook.endswith(BROADCAST_POSITION)]):
            yield f"webhook '{hook}' has read further than the newest position, {most}"
    for table in ("inbox", "deliveries"):
        query = f"select count(*) from {table} where broadcast not in (select position from broadcasts)"  # noqa: S608 - constants
        if count := connection.execute(query).fetchone()[0]:
            yield f"{_rows_of(count, table)} about a broadcast that is not there"


def _places(connection: sqlite3.Connection) -> Findings:
    """The index of records."""
    if places.has_wrong_places(connection):
        yield "the index of records does not match them; 'interlock compact' makes it again"
    query = "select count(*) from records where position > ?"
    filled, newest = places.tail_start(connection), places.newest_position(connection)
    if filled and (missing := newest - filled - connection.execute(query, (filled,)).fetchone()[0]):
        yield f"{missing} of the newest records are missing; restore them from a backup"


def _strays(connection: sqlite3.Connection) -> Findings:
    """Rows of runs."""
    query = "select count(*) from records where run <> ? and run not in (select number from runs)"
    if count := connection.execute(query, (tombstones.NO_RUN,)).fetchone()[0]:
        yield f"{count} records belong to no run"
    for table in OF_RUNS:
        query = (
            f"select count(*) from {table} where run <> '' and run not in (select run from runs)"  # noqa: S608 - constants
            f" and {intact_condition(table)}"
        )
        if count := connection.execute(query).fetchone()[0]:
            yield f"{_rows_of(count, table)} of a run that is not there"


def _unread_counts(connection: sqlite3.Connection) -> Findings:
    """Counts of mail."""
    unread = "select count(*) from inbox where inbox.crew = mailboxes.crew and inbox.agent = mailboxes.agent"
    query = f"select crew, agent from mailboxes where unread <> ({unread} and taken = '')"  # noqa: S608 - constants
    for crew, agent in connection.execute(query).fetchall():
        yield f"the count of unread mail of agent '{agent}' of crew '{crew}' is wrong"


def _rows_of(count: int, table: str) -> str:
    return f"1 row of '{table}' is" if count == 1 else f"{count} rows of '{table}' are"


CHECKS = (_pages, _schema, _rows, _positions, _places, _strays, _unread_counts)
