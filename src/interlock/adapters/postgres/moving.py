"""A PostgreSQL store in a move: its rows are read and written in the neutral form.

Rule 1: one move at a time holds a store, by a lock of its session. The mark is written first, then the processes are
looked for: one that opens the store looks for the mark after it is listed, so one of both sees the other.
Rule 2: what PostgreSQL has beside the neutral row follows from it: root and month of a run, segments of a pattern, the
time of a delayed broadcast, the number of runs that an agent works in.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from psycopg import sql

from interlock.adapters.crash_points import crash_point
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.checks import find_problems
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.migrate import LOCK_CLASS, require_own_schema
from interlock.adapters.postgres.move_marks import read_move_row, write_move_row
from interlock.adapters.postgres.runs.run_queries import newest_position
from interlock.adapters.postgres.runs.transitions import month_of
from interlock.adapters.postgres.server_checks import read_settings, require_safe_settings
from interlock.adapters.store_rules.moved_tables import NEWEST_SET_ASIDES
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.pattern import segments_of
from interlock.errors import StoreFailed
from interlock.ids import root_of
from interlock.ports.moving import MOVED_BYTES_MAX, MOVED_ROWS_MAX, MovedRow, MovedTable, MoveMark

# Tables that are not moved, and columns that are left out of those that are, with the reason.
NOT_MOVED = {
    "store_identity": "another store has another identity",
    "store_move": "the mark of the move itself",
    "owners": "processes that are gone",
    "heads": "set when all records are there",
    "active_counts": "counted from the active agents",
    "migrations": "those of this schema",
    "provider_holds": "over within two minutes",
}
NOT_MOVED_COLUMNS = {
    "runs": {
        "root": "follows from the run",
        "born": "follows from the time",
        "owner": "a process that is gone",
        "crc": "generated",
    },
    "records": {"born": "follows from the run"},
    "outbox": {"owner": "a process that is gone"},
    "asides": {"owner": "a process that is gone"},
    "leaders": {"owner": "a process that is gone", "candidate": "a task of such a process"},
    "subscriptions": {"segments": "follow from the pattern"},
    "delayed": {"updated_at": "follows from the body"},
    "active": {"agents": "one row of the neutral form each"},
}

# Names that differ from those of the neutral form.
TABLES = {"set_asides": "asides"}
COLUMNS = {("counters", "window"): "period"}
_BOOLEANS = {("runs", "private"), ("subscriptions", "silent"), ("webhook_letters", "dead")}
_SOURCES = {
    "set_asides": NEWEST_SET_ASIDES.format("asides"),
    "active": "(select crew, unnest(agents) as agent, run from active) as each",
}
NUMBERED = ("runs", "outbox", "orders", "webhook_letters", "deliveries", "delayed", "dead")

_PUT_ACTIVE = (
    "insert into active (crew, agents, run) values (%s, array[%s], %s)"
    " on conflict (run, crew) do update set agents = active.agents || excluded.agents"
)
_COUNT_ACTIVE = (
    "insert into active_counts (crew, agent, runs) values (%s, %s, 1)"
    " on conflict (crew, agent) do update set runs = active_counts.runs + 1"
)

# The next number is the one after the last; 1 if there is none.
_CONTINUE_NUMBERS = (
    "select setval(pg_get_serial_sequence({}, 'number'), greatest(max(number), 1), max(number) is not null) from {}"
)

_TIMEOUT_S = 300
_decode_delayed = msgspec.json.Decoder(DelayedBroadcast).decode
_encode = msgspec.json.Encoder().encode


@contextmanager
def hold_schema(address: PostgresAddress) -> Iterator["MovedSchema"]:
    """Locks a store for a move."""
    timeout = f"{_TIMEOUT_S}s"
    with as_postgres_failure(f"open the store at '{address}'", address):
        connection = connect(address, statement_timeout=timeout, idle_in_transaction_session_timeout=timeout)
    connection.deadline_s = _TIMEOUT_S + 3.0
    try:
        with as_postgres_failure(f"open the store at '{address}'", address):
            require_safe_settings(read_settings(connection, address))
            require_own_schema(connection, address)
            query = "select pg_try_advisory_lock(%s::integer, hashtext(%s))"
            if connection.execute(query, (LOCK_CLASS, f"{address.schema} move")).fetchone() != (True,):
                raise StoreFailed(f"another process moves '{address}'; wait until it has ended")
        yield MovedSchema(address, connection)
    finally:
        connection.close()


class MovedSchema:
    """`MovableStore` of a PostgreSQL store."""

    def __init__(self, address: PostgresAddress, connection: PostgresConnection) -> None:
        self._address, self._connection = address, connection

    def read_mark(self) -> MoveMark | None:
        with self._failures("read the mark of a move"):
            return read_move_row(self._connection)

    def write_mark(self, mark: MoveMark | None) -> None:
        with self._failures("mark the store"):
            crash_point("before mark")
            write_move_row(self._connection, mark)
            crash_point("after mark")

    def require_unused(self) -> None:
        """A process that is away, and comes back later, finds that it is gone; until then it can store no record.

        Its connection that writes may be open still. What it writes at this moment is waited for.
        """
        query = "select host, pid from owners where not gone and not seems_gone(id) order by id limit 1"
        with self._failures("list the processes of the store"):
            found = self._connection.execute(query).fetchone()
            if found is None:
                with self._connection.transaction():
                    self._connection.execute("update owners set gone = true where not gone")
                    self._connection.execute("select lock_store()")
                    self._connection.execute("update runs set owner = null where owner is not null")
        if found is not None:
            host, pid = found
            raise StoreFailed(f"process {pid} on '{host}' has '{self._address}' open; stop it first")

    def problems(self) -> Sequence[str]:
        return find_problems(self._address)

    def newest_position(self) -> int:
        with self._failures("read the newest position"):
            return newest_position(self._connection)

    def last_key(self, table: MovedTable) -> MovedRow | None:
        names = [_column(table, name) for name in table.key]
        down = ", ".join(f"{name} desc" for name in names)
        query = f"select {', '.join(names)} from {_source_of(table)} order by {down} limit 1"  # noqa: S608 - constants
        with self._failures(f"read the table '{table.name}'"):
            found = self._connection.execute(query.encode(), binary=True).fetchone()
        return None if found is None else tuple(found)

    def read_page(self, table: MovedTable, after: MovedRow | None) -> Sequence[MovedRow]:
        with self._failures(f"read the table '{table.name}'"):
            found = self._connection.execute(_page_query(table, after).encode(), after or (), binary=True).fetchall()
        if table.name == "records":
            return [_neutral_record(row) for row in found]
        return [tuple(row) for row in found]

    def add_page(self, table: MovedTable, rows: Sequence[MovedRow]) -> None:
        with self._failures(f"add to the table '{table.name}'"), self._transaction():
            if table.name == "runs":
                self._make_partitions(table, rows)
            if table.name == "active":
                self._connection.cursor().executemany(_PUT_ACTIVE, rows)
                self._connection.cursor().executemany(_COUNT_ACTIVE, [row[:2] for row in rows])
                return
            added = _ADDED.get(table.name)
            values = (
                [(*row, *added.values(dict(zip(table.columns, row, strict=True)))) for row in rows] if added else rows
            )
            self._connection.cursor().executemany(_insert_statement(table, added).encode(), values)

    def finish_rows(self, newest_position: int) -> None:
        with self._failures("finish a move"), self._transaction():
            self._connection.execute("update heads set position = %s where name = 'records'", (newest_position,))
            for table in NUMBERED:
                name = sql.Literal(f"{self._address.schema}.{table}")
                query = sql.SQL(_CONTINUE_NUMBERS).format(name, sql.Identifier(table))
                self._connection.execute(query)

    def _make_partitions(self, table: MovedTable, rows: Sequence[MovedRow]) -> None:
        place = table.columns.index("created_at")
        for month in sorted({month_of(row[place]) for row in rows}):
            self._connection.execute("select make_partition(%s)", (month,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            yield
            crash_point("before commit")
        crash_point("after commit")

    @contextmanager
    def _failures(self, doing: str) -> Iterator[None]:
        with as_postgres_failure(doing, self._address):
            yield


class _AddedColumns:
    """Columns beside the neutral row: their names, how each is written, and their values from a row."""

    def __init__(
        self, columns: Sequence[str], values: Callable[[dict[str, Any]], Sequence[Any]], *written: str
    ) -> None:
        self.columns, self.values = columns, values
        self.written = written or tuple("%s" for _ in columns)


_ADDED = {
    "runs": _AddedColumns(("root", "born"), lambda row: (root_of(row["run"]), month_of(row["created_at"]))),
    "records": _AddedColumns(("born",), lambda row: (row["run"],), "(select born from runs where number = %s)"),
    "set_asides": _AddedColumns(("owner",), lambda _row: (0,)),
    "leaders": _AddedColumns(("candidate",), lambda _row: ("",)),
    "subscriptions": _AddedColumns(("segments",), lambda row: (list(segments_of(row["pattern"])),)),
    "delayed": _AddedColumns(("updated_at",), lambda row: (_decode_delayed(row["body"]).updated_at,)),
}


def _column(table: MovedTable, name: str) -> str:
    return COLUMNS.get((table.name, name), name)


def _source_of(table: MovedTable) -> str:
    return _SOURCES.get(table.name, TABLES.get(table.name, table.name))


def _page_query(table: MovedTable, after: MovedRow | None) -> str:
    """A page ends before the bodies in it exceed its bytes; one row always fits."""
    key = ", ".join(_column(table, name) for name in table.key)
    names = ", ".join(_column(table, name) for name in table.columns)
    fence = "" if after is None else f" where ({key}) > ({', '.join(['%s'] * len(table.key))})"
    page = f"select {names} from {_source_of(table)}{fence} order by {key} limit {MOVED_ROWS_MAX:d}"  # noqa: S608 - constants
    read = ", ".join(_read_as(table, name) for name in table.columns)
    if "body" not in table.others:
        return f"select {read} from ({page}) as page order by {key}"  # noqa: S608 - constants
    before = f"sum(octet_length(body)) over (order by {key}) - octet_length(body) as bytes_before"
    measured = f"select *, {before} from ({page}) as page"  # noqa: S608 - constants
    return f"select {read} from ({measured}) as page where bytes_before < {MOVED_BYTES_MAX:d} order by {key}"  # noqa: S608 - constants


def _read_as(table: MovedTable, name: str) -> str:
    column = _column(table, name)
    return f"{column}::integer::bigint" if (table.name, name) in _BOOLEANS else column


def _write_as(table: MovedTable, name: str) -> str:
    if (table.name, name) in _BOOLEANS:
        return "%s::integer::boolean"
    return "%s::text::jsonb" if name == "presence" else "%s"


def _insert_statement(table: MovedTable, added: _AddedColumns | None) -> str:
    names = [_column(table, name) for name in table.columns] + list(added.columns if added else ())
    written = [_write_as(table, name) for name in table.columns] + list(added.written if added else ())
    into = TABLES.get(table.name, table.name)
    return f"insert into {into} ({', '.join(names)}) overriding system value values ({', '.join(written)})"  # noqa: S608 - constants


def _neutral_record(row: Sequence[Any]) -> MovedRow:
    *before, presence, body = row
    return (*before, None if presence is None else _encode(presence).decode(), body)
