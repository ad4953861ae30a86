"""Checks of a store for the doctor: the schema, rows, and references between rows."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from zlib import crc32

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.bus.bus_checks import problems_of_bus
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.runs import run_queries

Findings = Iterator[str]

# Tables whose rows name a run that must exist; an approval that always holds names none.
OF_RUNS = ("questions", "unlisted", "spent", "outbox", "active", "orders", "approvals", "revoked_approvals", "asides")


# Large stores take long; the server must not end such a statement, nor this process the connection.
CHECK_DEADLINE_S = 24 * 3600.0


def find_problems(address: PostgresAddress) -> list[str]:
    """Runs all checks, by a connection of their own."""
    with as_postgres_failure("check the store", address), connect(address, statement_timeout="0") as connection:
        connection.deadline_s = CHECK_DEADLINE_S
        return store_problems(connection)


def store_problems(connection: PostgresConnection) -> list[str]:
    """Runs all checks."""
    return [problem for check in CHECKS for problem in check(connection)]


def _indexes(connection: PostgresConnection) -> Findings:
    """Indexes that were not built to their end."""
    query = (
        "select relname from pg_index join pg_class on pg_class.oid = indexrelid"
        " join pg_namespace on pg_namespace.oid = relnamespace"
        " where nspname = current_schema() and not (indisvalid and indisready) order by 1"
    )
    for (name,) in connection.execute(query).fetchall():
        yield f"the index '{name}' is not valid; build it again with 'reindex index concurrently {name}'"


def _rows(connection: PostgresConnection) -> Findings:
    """Checksums of rows."""
    yield from run_queries.damage_in_run_rows(connection)
    for table, key, what in (("questions", "token", "question"), ("spent", "run", "total of run")):
        query = f"select {key}, body, crc from {table} order by 1"  # noqa: S608 - constants
        for name, body, crc in connection.execute(query.encode(), binary=True).fetchall():
            if crc32(body) != crc:
                yield f"the {what} '{name}' is damaged; it is made again from the journals"
    for sha, body in connection.execute("select sha, body from crews", binary=True).fetchall():
        if sha256(body).hexdigest() != sha:
            yield f"the crew under sha256 {sha} does not have that sum"


def _partitions(connection: PostgresConnection) -> Findings:
    """Partitions of records."""
    query = (
        "select relname from pg_class where relnamespace = current_schema()::regnamespace"
        " and relname ~ '^records_[0-9]{6}$' and relkind = 'r' and not relispartition order by 1"
    )
    for (name,) in connection.execute(query).fetchall():
        yield f"the table '{name}' is no partition of the records, so it is not read; attach it again"
    query = (
        "select distinct to_char(born, 'YYYYMM') from runs where to_regclass('records_' || to_char(born, 'YYYYMM'))"
        " is null order by 1"
    )
    for (month,) in connection.execute(query).fetchall():
        yield f"the records of runs that began in {month} have no partition; restore 'records_{month}'"


def _positions(connection: PostgresConnection) -> Findings:
    """Positions of records."""
    query = "select count(*) from (select 1 from records group by position having count(*) > 1) twice"
    if count := _number(connection, query):
        yield f"{count} positions are those of two records"
    query = "select count(*) from records where position > (select position from heads where name = 'records')"
    if count := _number(connection, query):
        yield f"{count} records are after the newest position"


def _strays(connection: PostgresConnection) -> Findings:
    """Rows of runs."""
    query = "select count(*) from records where not exists (select 1 from runs where number = records.run)"
    if count := _number(connection, query):
        yield f"{count} records belong to no run"
    for table in OF_RUNS:
        query = f"select count(*) from {table} where run <> '' and run not in (select run from runs)"  # noqa: S608 - constants
        if count := _number(connection, query):
            yield f"{_rows_of(count, table)} of a run that is not there"


def _unread_counts(connection: PostgresConnection) -> Findings:
    """Counts of mail."""
    unread = "select count(*) from inbox where inbox.crew = mailboxes.crew and inbox.agent = mailboxes.agent"
    query = f"select crew, agent from mailboxes where unread <> ({unread} and taken = '') order by 1, 2"  # noqa: S608 - constants
    for crew, agent in connection.execute(query.encode()).fetchall():
        yield f"the count of unread mail of agent '{agent}' of crew '{crew}' is wrong"


def _number(connection: PostgresConnection, query: str) -> int:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None, "an aggregate has a row"
    return int(found[0])


def _rows_of(count: int, table: str) -> str:
    return f"1 row of '{table}' is" if count == 1 else f"{count} rows of '{table}' are"


CHECKS: tuple[Callable[[PostgresConnection], Findings], ...] = (
    *(_indexes, _rows, _partitions, _positions, _strays, _unread_counts, problems_of_bus),
)
