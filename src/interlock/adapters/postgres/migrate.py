"""Makes and upgrades the schema of a store.

Rule 1: migrations are numbered files, never edited after a release, and only added to.
Rule 2: each one runs in a transaction of its own, under a lock, so that two of them never run at once.
Rule 3: where the roles were granted, they are granted again with each migration, so that the application may use
what is new.
Rule 4: a store never changes its schema by being opened: that is `store init` and `store migrate`, by the owner role.
Rule 5: a migration whose first line is `-- expand` only adds: tables, columns that may be null or have a default,
indexes, functions of other arguments. Programs that worked before it still do, so the schema is expanded first, then
the processes are upgraded one by one. Any other migration makes the store need programs that know it.
"""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files

import psycopg
from psycopg import sql

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.roles import OWNER_ROLE, role_statements
from interlock.adapters.postgres.server_checks import read_settings, require_safe_settings
from interlock.errors import StoreFailed, UsageError

# The first key of every advisory lock of Interlock; the second tells what is locked.
LOCK_CLASS = 0x494C434B

# A program that knows schema `needs`, or a newer one, can use the store after a migration.
_MAKE_TABLE = (
    "create table migrations (number integer primary key, name text not null, needs integer not null,"
    " at timestamptz not null default now())"
)
EXPAND = "-- expand\n"


def migration_files() -> list[tuple[int, str, str]]:
    """Number, name and text of each migration, in order."""
    folder = files("interlock.adapters.postgres.migrations")
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return [(int(each.name[:3]), each.name.removesuffix(".sql"), each.read_text("utf-8")) for each in found]


def newest_schema() -> int:
    return migration_files()[-1][0]


def migrate(address: PostgresAddress) -> int:
    """Brings the schema to the newest version; returns how many migrations ran. `StoreFailed` for one it cannot use."""
    # A migration may take long, and so may a busy machine between two of its statements.
    patient = partial(connect, statement_timeout="0", lock_timeout="30s", idle_in_transaction_session_timeout="60s")
    with as_postgres_failure(f"make the schema of '{address}'", address), patient(address) as connection:
        connection.deadline_s = 3600.0
        require_safe_settings(read_settings(connection, address))
        return _run_migrations(connection, address)


def _run_migrations(connection: PostgresConnection, address: PostgresAddress) -> int:
    with connection.transaction():
        _lock(connection, address)
        if not _has_schema(connection, address):
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
        _require_rights(connection, address)
        if not _has_store(connection):
            _require_empty(connection, address)
            connection.execute(_MAKE_TABLE)
    done = 0
    for number, name, text in migration_files():
        with connection.transaction():
            _lock(connection, address)
            version, needs = schema_versions(connection)
            _require_known(version, needs, address)
            if number > version:
                connection.execute(text.encode())
                needs = needs if text.startswith(EXPAND) else number
                insert = "insert into migrations (number, name, needs) values (%s, %s, %s)"
                connection.execute(insert, (number, name, needs))
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
    return connection.execute(f"{query} and attnum > 0", ("migrations",)).fetchone() == (
        ["number", "name", "needs", "at"],
    )


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


def _require_rights(connection: PostgresConnection, address: PostgresAddress) -> None:
    """`StoreFailed` for a store that is there, and that this role may not read."""
    query = (
        "select current_user, has_schema_privilege(pg_namespace.oid, 'usage')"
        " and has_table_privilege(pg_class.oid, 'select') from pg_class join pg_namespace on pg_namespace.oid ="
        " relnamespace where nspname = %s and relname = 'migrations'"
    )
    found = connection.execute(query, (address.schema,)).fetchone()
    if found is not None and not found[1]:
        raise StoreFailed(
            f"the store at '{address}' exists, and the role '{found[0]}' may not read it; its owner runs 'interlock"
            f" store grant', then 'grant interlock_app to {found[0]}' in SQL"
        )


def require_store(address: PostgresAddress) -> None:
    """`UsageError` if there is no store, `StoreFailed` if the role may not read it."""
    with as_postgres_failure(f"read the store at '{address}'", address), connect(address) as connection:
        if schema_version(connection) == 0:
            _require_rights(connection, address)
            raise UsageError(_missing_message(address))


def _missing_message(address: PostgresAddress) -> str:
    return f"there is no store at '{address}'; make one with 'interlock store init'"


def schema_version(connection: PostgresConnection) -> int:
    """The number of the newest migration; 0 if there is no store that this role may read."""
    return schema_versions(connection)[0]


def schema_versions(connection: PostgresConnection) -> tuple[int, int]:
    """The number of the newest migration, and that of the schema that a program must know; 0 if there is no store.

    It is 0 as well for a role that may not read it.
    """
    try:
        found = connection.execute(
            "select coalesce(max(number), 0), coalesce(max(needs), 0) from migrations"
        ).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return 0, 0
    except psycopg.errors.UndefinedColumn:  # the table of another program
        return 0, 0
    assert found is not None, "an aggregate has a row"
    return int(found[0]), int(found[1])


def _require_known(version: int, needs: int, address: PostgresAddress) -> None:
    """`StoreFailed` for the schema of a newer Interlock that this one cannot use."""
    if needs > newest_schema():
        raise StoreFailed(
            f"'{address}' was made by a newer Interlock (schema {version} needs one that knows {needs}, this one knows"
            f" {newest_schema()}); upgrade Interlock"
        )


def require_usable_schema(connection: PostgresConnection, address: PostgresAddress) -> Sequence[str]:
    """`StoreFailed` unless this version works with the schema; returns what is to be said of it."""
    version, needs = schema_versions(connection)
    _require_known(version, needs, address)
    if version == 0:
        _require_rights(connection, address)
        raise StoreFailed(_missing_message(address))
    if version < newest_schema():
        raise StoreFailed(
            f"'{address}' was made by an older Interlock (schema {version}, this one needs {newest_schema()});"
            " run 'interlock store migrate'"
        )
    if version == newest_schema():
        return ()
    return (
        f"its schema {version} is newer than this Interlock, which knows {newest_schema()} and can use it; upgrade",
    )


def require_own_schema(connection: PostgresConnection, address: PostgresAddress) -> None:
    """`StoreFailed` unless this version knows every table and column of the schema."""
    if require_usable_schema(connection, address):
        raise StoreFailed(
            f"'{address}' has the schema {schema_version(connection)}, this Interlock knows {newest_schema()} and would"
            " leave out what is newer; move it with the newer Interlock"
        )
