"""The tables of the SQLite store, and their migrations.

Rule 1: migrations are numbered, never edited, and only added to; `user_version` counts those a database has had.
Rule 2: a new database is made under another name and renamed, so that a crash never leaves half of one.
Rule 3: any other file under the name is refused and left unchanged.
"""

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from interlock.adapters.files.private_files import make_private_file
from interlock.adapters.sqlite.bus.bus_schema import (
    BUS_MIGRATIONS,
    DELAYED_IN_ORDER,
    PRESENCE_IN_RECORDS,
    QUIET_LIFECYCLE,
)
from interlock.adapters.sqlite.runs.places import PLACES
from interlock.adapters.sqlite.sealed_tables import (
    APPROVALS,
    ORDERS,
    PROCESSES,
    REVOKED_APPROVALS,
    RUN_FORMAT,
    SEALED_ROWS,
    register_seal_function,
)
from interlock.errors import StoreFailed

# "ILCK": identifies databases of Interlock.
APPLICATION_ID = 0x494C434B

# A whole check reads every page, and every index beside its table. Larger databases are left to 'interlock doctor'.
CHECKED_AT_OPEN_BYTES_MAX = 32 * 1024 * 1024

MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "001_runs",
        (
            # Columns fixed at creation, columns that change with every record, and a crc of all.
            """create table runs (
                number integer primary key,
                run text not null unique,
                crew text not null,
                crew_sha text not null,
                created_at integer not null,
                continues text not null,
                organization text not null,
                owner text not null,
                epoch integer not null,
                status text not null,
                reason text not null,
                agent text not null,
                seq integer not null,
                updated_at integer not null,
                calls integer not null,
                input_tokens integer not null,
                output_tokens integer not null,
                cost_micros integer not null,
                link blob not null,
                crc integer not null
            ) strict""",
            "create index runs_by_status on runs (status)",
            "create index runs_by_crew on runs (crew)",
        ),
    ),
    (
        "002_records",
        (
            """create table records (
                position integer primary key,
                run integer not null,
                seq integer not null,
                crc integer not null,
                link blob not null,
                body blob not null
            ) strict""",
            "create unique index records_by_run on records (run, seq)",
        ),
    ),
    ("003_crews", ("create table crews (sha text primary key, body blob not null) strict, without rowid",)),
    (
        "004_tombstones",
        (
            """create table tombstones (
                run text primary key,
                crew text not null,
                seq integer not null,
                link blob not null,
                deleted_at integer not null,
                crc integer not null
            ) strict, without rowid""",
        ),
    ),
    (
        "005_budgets",
        (
            """create table counters (
                crew text not null,
                scope text not null,
                window text not null,
                start integer not null,
                calls integer not null,
                tokens integer not null,
                cost integer not null,
                errors integer not null,
                alerted text not null,
                primary key (crew, scope, window)
            ) strict, without rowid""",
            """create table reservations (
                key text primary key,
                at integer not null,
                tokens integer not null,
                cost_micros integer not null,
                alerts text not null
            ) strict, without rowid""",
        ),
    ),
    (
        "006_outbox",
        (
            """create table outbox (
                number integer primary key,
                key text not null unique,
                run text not null,
                body blob not null
            ) strict""",
        ),
    ),
    # 007 belongs to child runs, and stands before this line when both are there.
    *BUS_MIGRATIONS,
    (
        "011_server",
        (
            # Requests with an Idempotency-Key, and their responses once known (status > 0).
            """create table requests (
                caller text not null,
                key text not null,
                fingerprint blob not null,
                planned text not null,
                at integer not null,
                status integer not null,
                body blob not null,
                primary key (caller, key)
            ) strict, without rowid""",
            "create index requests_by_age on requests (at)",
            # The position of each webhook in the records of all runs, and its deliveries.
            "create table webhook_cursors (hook text primary key, position integer not null) strict, without rowid",
            """create table webhook_letters (
                number integer primary key,
                hook text not null,
                key text not null,
                body blob not null,
                attempts integer not null,
                due_at integer not null,
                dead integer not null,
                error text not null,
                unique (hook, key)
            ) strict""",
            "create index webhook_letters_by_due on webhook_letters (dead, due_at)",
        ),
    ),
    DELAYED_IN_ORDER,
    (
        "013_questions",
        (
            # Open questions, stored with the record that changed them; they can be rebuilt from the journals.
            """create table questions (
                token text primary key,
                run text not null,
                since integer not null,
                body blob not null,
                crc integer not null
            ) strict, without rowid""",
            "create index questions_by_run on questions (run)",
            "create index questions_by_age on questions (since, token)",
            # Runs whose questions are not known yet.
            "create table unlisted (run text primary key) strict, without rowid",
            "insert into unlisted (run) select run from runs where status in ('running', 'paused')",
        ),
    ),
    QUIET_LIFECYCLE,
    (
        "015_spent",
        (
            # The cost of the calls of a run by agent up to this seq; it can be rebuilt from the journals.
            """create table spent (
                run text primary key,
                seq integer not null,
                body blob not null,
                crc integer not null
            ) strict, without rowid""",
        ),
    ),
    (
        "016_closed_sessions",
        ("create table closed_sessions (session text primary key, until integer not null) strict, without rowid",),
    ),
    (
        "017_run_schedules",
        ("create table run_schedules (id text primary key, body blob not null) strict, without rowid",),
    ),
    (
        "018_unknown_prices",
        (
            # Calls whose price is unknown; a row's crc covers the number where it is not 0.
            "alter table runs add column unpriced_calls integer not null default 0",
            # Limits that only warn and were exceeded.
            "alter table reservations add column exceeded text not null default ''",
        ),
    ),
    (
        "019_whole_questions",
        # Questions have context, schema and tool now: open ones are listed again from the journals.
        ("insert or ignore into unlisted (run) select run from runs where status in ('running', 'paused')",),
    ),
    SEALED_ROWS,
    ORDERS,
    APPROVALS,
    REVOKED_APPROVALS,
    (
        "024_token_buckets",
        (
            # Parts of the input and output tokens; a row's crc covers them where one is not 0.
            "alter table runs add column cache_read_tokens integer not null default 0",
            "alter table runs add column cache_write_tokens integer not null default 0",
            "alter table runs add column reasoning_tokens integer not null default 0",
            # A cache of totals, whose bodies have another form from here on.
            "delete from spent",
        ),
    ),
    PRESENCE_IN_RECORDS,
    PLACES,
    PROCESSES,
    RUN_FORMAT,
)

SCHEMA = len(MIGRATIONS)
# From this schema on rows are sealed, and a mark beside the database says how far it has come.
SEALED_SINCE = MIGRATIONS.index(SEALED_ROWS) + 1

# Makes a connection to a database: a path, and "rw", "rwc" or "ro" as in SQLite's URIs.
Connect = Callable[[Path, str], sqlite3.Connection]


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """A connection that never makes a file unless asked to, and leaves transactions to us."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)
    register_seal_function(connection)
    return connection


def make_database(path: Path, connect: Connect) -> None:
    """Makes a new database under `path`, durably; the caller holds the folder's lock."""
    draft = path.with_name(f"{path.name}.new")
    for left in (draft, Path(f"{draft}-journal"), Path(f"{draft}-wal"), Path(f"{draft}-shm")):
        left.unlink(missing_ok=True)
    make_private_file(draft)  # SQLite gives what it makes beside a database the database's mode
    connection = connect(draft, "rwc")
    try:
        connection.execute("pragma synchronous = extra")
        connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
        migrate(connection)
        connection.execute("vacuum")  # tables that were rebuilt leave free pages
        connection.execute("pragma journal_mode = wal")
    finally:
        connection.close()
    draft.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrate(connection: sqlite3.Connection) -> None:
    """Brings a database to the newest schema, in one transaction."""
    if version_of(connection) == SCHEMA:
        return
    connection.execute("begin immediate")
    try:
        for _, statements in MIGRATIONS[version_of(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"pragma user_version = {SCHEMA:d}")
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def has_database(path: Path) -> bool:
    """Whether there is a database to open; `StoreFailed` if something else is in its place."""
    try:
        found = path.stat()
    except FileNotFoundError:
        left = Path(f"{path}-wal")
        if left.exists():
            raise StoreFailed(f"'{path}' is gone but its '{left.name}' is there; restore it from a backup") from None
        return False
    if not stat.S_ISREG(found.st_mode):
        raise StoreFailed(f"'{path}' is not a file; move it away")
    if found.st_size == 0:
        raise StoreFailed(f"'{path}' is empty, so what it held is lost; restore it from a backup, or move it away")
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreFailed(f"'{path}' cannot be written by user {os.geteuid()}; fix its mode, its owner or its mount")
    return True


def require_ours(connection: sqlite3.Connection, path: Path) -> None:
    """`StoreFailed` for a database of another program, or of a newer Interlock."""
    version = version_of(connection)
    if connection.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreFailed(f"'{path}' is a database of another program; name another data folder")
    if version > SCHEMA:
        raise StoreFailed(
            f"'{path}' was written by a newer Interlock (schema {version}, this one knows {SCHEMA}); upgrade Interlock"
        )


def require_newest(connection: sqlite3.Connection, path: Path) -> None:
    """`StoreFailed` for a database that needs a migration, where it may only be read."""
    version = version_of(connection)
    if version < SCHEMA:
        raise StoreFailed(
            f"'{path}' was written by an older Interlock (schema {version}, this one reads {SCHEMA}) and cannot be"
            " brought up to date where it can only be read; copy the data folder to where it can be written"
        )


def is_checked_at_open(connection: sqlite3.Connection) -> bool:
    """Whether a database is small enough to be checked as a whole."""
    pages, size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return bool(pages * size <= CHECKED_AT_OPEN_BYTES_MAX)


def require_sound(connection: sqlite3.Connection, path: Path) -> None:
    """`StoreFailed` if SQLite finds the database damaged."""
    if not is_checked_at_open(connection):
        return
    found = connection.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreFailed(f"'{path}' is damaged ({' '.join(found.split())}); restore it from a backup")
