"""Makes and upgrades the schema of a store.

Rule 1: migrations are numbered files, never edited after a release, and only added to.
Rule 2: each one runs in a transaction of its own, under a lock, so that two of them never run at once.
Rule 3: where the roles were granted, they are granted again with each migration, so that the application may use
what is new.
Rule 4: a store never changes its schema by being opened: that is `store init` and `store migrate`, by the owner role.
"""

from functools import partial
from importlib.resources import files

import psycopg
from psycopg import sql

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.roles import OWNER_ROLE, role_statements
from interlock.adapters.postgres.server_checks import require_direct
from interlock.errors import StoreFailed

# The first key of every advisory lock of Interlock; the second tells what is locked.
LOCK_CLASS = 0x494C434B

_MAKE_TABLE = (
    "create table migrations (number integer primary key, name text not null, at timestamptz not null default now())"
)


def migration_files() -> list[tuple[int, str, str]]:
    """Number, name and text of each migration, in order."""
    folder = files("interlock.adapters.postgres.migrations")
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return [(int(each.name[:3]), each.name.removesuffix(".sql"), each.read_text("utf-8")) for each in found]


def newest_schema() -> int:
    return migration_files()[-1][0]


def migrate(address: PostgresAddress) -> int:
    """Brings the schema to the newest version; returns how many migrations ran. `StoreFailed` for a newer schema."""
    # A migration may take long, and so may a busy machine between two of its statements.
    patient = partial(connect, statement_timeout="0", lock_timeout="30s", idle_in_transaction_session_timeout="60s")
    with as_postgres_failure(f"make the schema of '{address}'", address), patient(address) as connection:
        connection.deadline_s = 3600.0
        require_direct(connection)
        return _run_migrations(connection, address)


def _run_migrations(connection: PostgresConnection, address: PostgresAddress) -> int:
    with connection.transaction():
        _lock(connection, address)
        if not _has_schema(connection, address):
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
        if not _has_store(connection):
            _require_empty(connection, address)
            connection.execute(_MAKE_TABLE)
    done = 0
    for number, name, text in migration_files():
        with connection.transaction():
            _lock(connection, address)
            version = schema_version(connection)
            require_known(version, address)
            if number > version:
                connection.execute(text.encode())
                connection.execute("insert into migrations (number, name) values (%s, %s)", (number, name))
                if _has_roles(connection, address):
                    connection.execute(role_statements().encode())
                done += 1
    return done


def _lock(connection: PostgresConnection, address: PostgresAddress) -> None:
    connection.execute("select pg_advisory_xact_lock(%s::integer, hashtext(%s))", (LOCK_CLASS, address.schema))


def _has_schema(connection: PostgresConnection, address: PostgresAddress) -> bool:
    query = "select 1 from pg_namespace where nspname = %s"
    return connection.execute(query, (address.schema,)).fetchone() is not None


def _has_store(connection: PostgresConnection) -> bool:
    """Also one whose first migration was interrupted. Other programs have a table of this name too."""
    query = "select array_agg(attname::text order by attnum) from pg_attribute where attrelid = to_regclass(%s)"
    return connection.execute(f"{query} and attnum > 0", ("migrations",)).fetchone() == (["number", "name", "at"],)


def _require_empty(connection: PostgresConnection, address: PostgresAddress) -> None:
    """`StoreFailed` for tables of others: a store has a schema of its own."""
    query = "select relname from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'p', 'v') limit 1"
    if (found := connection.execute(query, (address.schema,)).fetchone()) is not None:
        raise StoreFailed(
            f"the schema '{address.schema}' has the table '{found[0]}' of another program; name an empty schema"
        )


def _has_roles(connection: PostgresConnection, address: PostgresAddress) -> bool:
    query = "select pg_get_userbyid(nspowner) from pg_namespace where nspname = %s"
    return connection.execute(query, (address.schema,)).fetchone() == (OWNER_ROLE,)


def schema_version(connection: PostgresConnection) -> int:
    """The number of the newest migration; 0 if there is no store."""
    try:
        found = connection.execute("select coalesce(max(number), 0) from migrations").fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):  # the table of another program
        return 0
    assert found is not None, "an aggregate has a row"
    return int(found[0])


def require_known(version: int, address: PostgresAddress) -> None:
    """`StoreFailed` for the schema of a newer Interlock."""
    if version > newest_schema():
        raise StoreFailed(
            f"'{address}' was made by a newer Interlock (schema {version}, this one knows {newest_schema()});"
            " upgrade Interlock"
        )


def require_newest_schema(connection: PostgresConnection, address: PostgresAddress) -> None:
    """`StoreFailed` unless the schema is the one that this version works with."""
    version = schema_version(connection)
    require_known(version, address)
    if version == 0:
        raise StoreFailed(f"there is no store at '{address}'; make one with 'interlock store init'")
    if version < newest_schema():
        raise StoreFailed(
            f"'{address}' was made by an older Interlock (schema {version}, this one needs {newest_schema()});"
            " run 'interlock store migrate'"
        )
