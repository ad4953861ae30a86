"""Tables whose rows carry a checksum of all their columns, the seal, which SQLite itself writes with every change.

Rule 1: `seal` is a stored generated column, so no statement that writes a row can forget it.
Rule 2: a row is given back only if it is whole, which the statement that reads it asks (`whole`): a damaged text that
is not even UTF-8 must not hide the rows beside it. The doctor counts those that are not whole (`damaged`).
Rule 3: texts are sealed as bytes. Where a table has a crc of its body, the seal covers that crc in place of the body,
so that what was damaged before it was sealed stays damaged.
Rule 4: this is a migration: numbered, never edited, only added to. A change of a table here is a new migration.
"""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

# Changes a database: the name of a migration, and its statements.
Migration = tuple[str, tuple[str, ...]]


class SealedTable(NamedTuple):
    """A table as it is made; `covered` is what the seal covers if that is not every column."""

    columns: tuple[str, ...]
    key: str = ""
    indexes: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    has_rowid: bool = False


_FIRST_SEALED_TABLES: dict[str, SealedTable] = {
    "counters": SealedTable(
        columns=(
            *("crew text not null", "scope text not null", "window text not null", "start integer not null"),
            *("calls integer not null", "tokens integer not null", "cost integer not null"),
            *("errors integer not null", "alerted text not null"),
        ),
        key="primary key (crew, scope, window)",
    ),
    "reservations": SealedTable(
        columns=(
            *("key text primary key", "at integer not null", "tokens integer not null"),
            *("cost_micros integer not null", "alerts text not null", "exceeded text not null"),
        ),
    ),
    "outbox": SealedTable(
        columns=("number integer primary key", "key text not null unique", "run text not null", "body blob not null"),
        has_rowid=True,
    ),
    "requests": SealedTable(
        columns=(
            *("caller text not null", "key text not null", "fingerprint blob not null", "planned text not null"),
            *("at integer not null", "status integer not null", "body blob not null"),
        ),
        key="primary key (caller, key)",
        indexes=("create index requests_by_age on requests (at)",),
    ),
    "webhook_cursors": SealedTable(columns=("hook text primary key", "position integer not null")),
    "webhook_letters": SealedTable(
        columns=(
            *("number integer primary key", "hook text not null", "key text not null", "body blob not null"),
            *("attempts integer not null", "due_at integer not null", "dead integer not null", "error text not null"),
        ),
        key="unique (hook, key)",
        indexes=("create index webhook_letters_by_due on webhook_letters (dead, due_at)",),
        has_rowid=True,
    ),
    "closed_sessions": SealedTable(columns=("session text primary key", "until integer not null")),
    "broadcasts": SealedTable(
        columns=(
            *("position integer primary key", "id text not null unique", "hops integer not null"),
            *("crc integer not null", "body blob not null"),
        ),
        covered=("position", "id", "hops", "crc"),
        has_rowid=True,
    ),
    "subscriptions": SealedTable(
        columns=(
            *("crew text not null", "agent text not null", "pattern text not null", "silent integer not null"),
            "origin text not null",
        ),
        key="primary key (crew, agent, pattern)",
    ),
    "crew_heads": SealedTable(columns=("crew text primary key", "sha text not null")),
    "bus_changes": SealedTable(columns=("name text primary key", "number integer not null")),
    "inbox": SealedTable(
        columns=(
            *("number integer primary key", "crew text not null", "agent text not null"),
            *("broadcast integer not null", "taken text not null"),
        ),
        indexes=(
            "create unique index inbox_once on inbox (crew, agent, broadcast)",
            "create index inbox_taken on inbox (taken) where taken <> ''",
        ),
        has_rowid=True,
    ),
    "mailboxes": SealedTable(
        columns=("crew text not null", "agent text not null", "unread integer not null"),
        key="primary key (crew, agent)",
    ),
    "deliveries": SealedTable(
        columns=(
            *("number integer primary key", "crew text not null", "agent text not null"),
            *("broadcast integer not null", "attempts integer not null", "try_at integer not null"),
        ),
        indexes=(
            "create unique index deliveries_once on deliveries (crew, agent, broadcast)",
            "create index deliveries_by_time on deliveries (try_at)",
        ),
        has_rowid=True,
    ),
    "active": SealedTable(
        columns=("crew text not null", "agent text not null", "run text not null"),
        key="primary key (crew, agent, run)",
    ),
    "announced": SealedTable(
        columns=("crew text not null", "agent text not null", "start integer not null", "number integer not null"),
        key="primary key (crew, agent)",
    ),
    "delayed": SealedTable(
        columns=(
            *("number integer primary key", "id text not null unique", "type text not null", "repeat_key text"),
            *("due_at integer not null", "crc integer not null", "body blob not null"),
        ),
        indexes=(
            "create unique index delayed_by_key on delayed (type, repeat_key) where repeat_key is not null",
            "create index delayed_by_time on delayed (due_at)",
        ),
        covered=("number", "id", "type", "repeat_key", "due_at", "crc"),
        has_rowid=True,
    ),
    "dead": SealedTable(
        columns=(
            *("number integer primary key", "id text not null", "crew text not null", "agent text not null"),
            "body blob not null",
        ),
        indexes=("create unique index dead_once on dead (id, crew, agent)",),
        has_rowid=True,
    ),
    "questions": SealedTable(
        columns=(
            *("token text primary key", "run text not null", "since integer not null"),
            *("body blob not null", "crc integer not null"),
        ),
        indexes=(
            "create index questions_by_run on questions (run)",
            "create index questions_by_age on questions (since, token)",
        ),
        covered=("token", "run", "since", "crc"),
    ),
    "unlisted": SealedTable(columns=("run text primary key",)),
    "spent": SealedTable(
        columns=("run text primary key", "seq integer not null", "body blob not null", "crc integer not null"),
        covered=("run", "seq", "crc"),
    ),
    "run_schedules": SealedTable(columns=("id text primary key", "body blob not null")),
}

_ORDERS_TABLE = SealedTable(
    columns=(
        *("number integer primary key", "key text not null unique", "run text not null", "root text not null"),
        *("kind text not null", "body blob not null", "ordered_by text not null", "at integer not null"),
        "outcome blob not null",
    ),
    indexes=(
        "create index orders_open on orders (root) where outcome = x''",
        "create index orders_by_age on orders (at)",
        "create index orders_by_run on orders (run)",
    ),
    has_rowid=True,
)

_APPROVALS_TABLE = SealedTable(
    columns=(
        *("id text primary key", "tool text not null", "run text not null", "at integer not null"),
        "body blob not null",
    ),
    indexes=("create index approvals_by_tool on approvals (tool)", "create index approvals_by_run on approvals (run)"),
)

_REVOKED_APPROVALS_TABLE = SealedTable(
    columns=("id text primary key", "run text not null", "at integer not null", "body blob not null"),
    indexes=(
        "create index revoked_approvals_by_run on revoked_approvals (run)",
        "create index revoked_approvals_by_age on revoked_approvals (at)",
    ),
)

# With the process that sends a signal, and the attempts so far.
_CLAIMED_OUTBOX_TABLE = SealedTable(
    columns=(
        *_FIRST_SEALED_TABLES["outbox"].columns,
        *("sender text not null default ''", "attempts integer not null default 0"),
        "due_at integer not null default 0",
    ),
    indexes=("create index outbox_by_time on outbox (due_at)", "create index outbox_by_run on outbox (run)"),
    has_rowid=True,
)

# With deadlines; 0 is none.
_QUESTIONS_TABLE = SealedTable(
    columns=(*_FIRST_SEALED_TABLES["questions"].columns, "until integer not null default 0"),
    indexes=(
        *_FIRST_SEALED_TABLES["questions"].indexes,
        "create index questions_by_deadline on questions (until) where until > 0",
    ),
    covered=(*_FIRST_SEALED_TABLES["questions"].covered, "until"),
)

_SET_ASIDES_TABLE = SealedTable(
    columns=(
        *("run text not null", "owner text not null", "reason text not null", "at integer not null"),
        *("tries integer not null", "again_at integer not null"),
    ),
    key="primary key (run, owner)",
    indexes=("create index set_asides_by_age on set_asides (at)",),
)

_LEADERS_TABLE = SealedTable(columns=("name text primary key", "epoch integer not null", "owner text not null"))

# The format with which runs begin: one row from the first run on.
_RUN_FORMAT_TABLE = SealedTable(
    columns=("only_one integer primary key check (only_one = 1)", "rules integer not null", "format integer not null")
)
_PROVIDER_HOLDS_TABLE = SealedTable(columns=("server text primary key", "until integer not null"))

SEALED_TABLES: dict[str, SealedTable] = {
    **_FIRST_SEALED_TABLES,
    "outbox": _CLAIMED_OUTBOX_TABLE,
    "questions": _QUESTIONS_TABLE,
    "set_asides": _SET_ASIDES_TABLE,
    "leaders": _LEADERS_TABLE,
    "run_format": _RUN_FORMAT_TABLE,
    "provider_holds": _PROVIDER_HOLDS_TABLE,
    "orders": _ORDERS_TABLE,
    "approvals": _APPROVALS_TABLE,
    "revoked_approvals": _REVOKED_APPROVALS_TABLE,
}


def seal_of(*values: object) -> int:
    """The SQL function `interlock_seal`; it never fails, whatever bytes a damaged row holds."""
    return crc32(b"\0".join([each if type(each) is bytes else ascii(each).encode() for each in values]))


def register_seal_function(connection: sqlite3.Connection) -> None:
    """Registers the function; required before a connection writes to a sealed table or checks rows."""
    connection.create_function("interlock_seal", -1, seal_of, deterministic=True)


def intact_condition(table: str) -> str:
    """A condition in SQL: the seal of a row matches."""
    return f"{table}.seal = {_seal_expression(table, SEALED_TABLES[table], f'{table}.')}"


def has_damage(connection: sqlite3.Connection, table: str) -> bool:
    query = f"select 1 from {table} where not ({intact_condition(table)})"  # noqa: S608 - constants
    return connection.execute(query).fetchone() is not None


def damage_in_sealed_tables(connection: sqlite3.Connection) -> list[str]:
    """The number of damaged rows by table."""
    found = []
    for table in SEALED_TABLES:
        query = f"select count(*) from {table} where not ({intact_condition(table)})"  # noqa: S608 - constants
        if count := connection.execute(query).fetchone()[0]:
            rows = "1 row is" if count == 1 else f"{count} rows are"
            found.append(f"{rows} damaged in the table '{table}': they are left out when reading")
    return found


def _seal_expression(name: str, table: SealedTable, prefix: str = "") -> str:
    types = dict(column.split(" ")[:2] for column in table.columns)
    parts = [
        f"cast({prefix}{column} as blob)" if types[column] == "text" else f"{prefix}{column}"
        for column in table.covered or types
    ]
    return f"interlock_seal(cast('{name}' as blob), {', '.join(parts)})"


def _create_statement(name: str, table: SealedTable) -> str:
    seal = f"seal integer generated always as ({_seal_expression(name, table)}) stored"
    lines = ",\n    ".join((*table.columns, seal, *([table.key] if table.key else [])))
    return f"create table {name} (\n    {lines}\n) strict{'' if table.has_rowid else ', without rowid'}"


def _statements_for(name: str, table: SealedTable) -> Iterator[str]:
    names = ", ".join(column.split(" ")[0] for column in table.columns)
    for index in table.indexes:
        yield f"drop index {index.partition('index ')[2].partition(' on ')[0]}"
    yield f"alter table {name} rename to {name}_unsealed"
    yield _create_statement(name, table)
    yield f"insert into {name} ({names}) select {names} from {name}_unsealed"  # noqa: S608 - constants
    yield f"drop table {name}_unsealed"
    yield from table.indexes


SEALED_ROWS: Migration = (
    "020_sealed_rows",
    (
        *(statement for name, table in _FIRST_SEALED_TABLES.items() for statement in _statements_for(name, table)),
        # Rows that deleted runs left behind.
        *(f"delete from {table} where run not in (select run from runs)" for table in ("outbox", "active", "spent")),  # noqa: S608 - constants
        # Counts the commits that stored no record; with the newest position it shows how far the database has come.
        "insert or ignore into bus_changes (name, number) values ('unrecorded', 0)",
    ),
)

# Orders to the process that drives a run.
ORDERS: Migration = ("021_orders", (_create_statement("orders", _ORDERS_TABLE), *_ORDERS_TABLE.indexes))

# Approvals of people that hold for later calls; `run` is empty where one holds always.
APPROVALS: Migration = (
    "022_approvals",
    (_create_statement("approvals", _APPROVALS_TABLE), *_APPROVALS_TABLE.indexes),
)

# Approvals that were revoked, with who did it and when.
REVOKED_APPROVALS: Migration = (
    "023_revoked_approvals",
    (_create_statement("revoked_approvals", _REVOKED_APPROVALS_TABLE), *_REVOKED_APPROVALS_TABLE.indexes),
)


def _statements_with_columns(name: str, new: SealedTable, **added: str) -> Iterator[str]:
    """Makes a sealed table again with more columns, given as SQL on the old row; only intact rows are copied."""
    old = _FIRST_SEALED_TABLES[name]
    names = ", ".join((*(column.split(" ")[0] for column in old.columns), *added))
    values = ", ".join((*(column.split(" ")[0] for column in old.columns), *added.values()))
    for index in old.indexes:
        yield f"drop index {index.partition('index ')[2].partition(' on ')[0]}"
    yield f"alter table {name} rename to {name}_before"
    yield _create_statement(name, new)
    intact = f"{name}_before.seal = {_seal_expression(name, old, f'{name}_before.')}"
    yield f"insert into {name} ({names}) select {values} from {name}_before where {intact}"  # noqa: S608 - constants
    if name == "questions":  # if one was damaged, all are listed again from the journals
        yield (
            "insert or ignore into unlisted (run) select run from runs where status in ('running', 'paused')"  # noqa: S608 - constants
            f" and exists (select 1 from {name}_before where not ({intact}))"
        )
    yield f"drop table {name}_before"
    yield from new.indexes


_UNTIL = "case when json_valid(cast(body as text)) then json_extract(cast(body as text), '$.until') else 0 end"

# Several processes on one store: what a run needs, who sends a signal, deadlines by time, set-asides, leaders, waits.
PROCESSES: Migration = (
    "027_processes",
    (
        # What a process must know to drive a run; a row's crc covers it where it is not as in the first version.
        "alter table runs add column rules integer not null default 1",
        "alter table runs add column format integer not null default 1",
        "alter table runs add column private integer not null default 0",
        "create index runs_by_owner on runs (owner) where status = 'running'",
        "create index runs_set_aside on runs (owner) where status = 'paused' and reason = 'set_aside'",
        *_statements_with_columns("outbox", _CLAIMED_OUTBOX_TABLE),
        *_statements_with_columns("questions", _QUESTIONS_TABLE, until=f"coalesce({_UNTIL}, 0)"),
        _create_statement("set_asides", _SET_ASIDES_TABLE),
        *_SET_ASIDES_TABLE.indexes,
        _create_statement("leaders", _LEADERS_TABLE),
        _create_statement("provider_holds", _PROVIDER_HOLDS_TABLE),
    ),
)

# The runs that are there began with these.
RUN_FORMAT: Migration = (
    "028_run_format",
    (
        _create_statement("run_format", _RUN_FORMAT_TABLE),
        "insert into run_format (only_one, rules, format) select 1, 3, 1 where exists (select 1 from runs)",
    ),
)
