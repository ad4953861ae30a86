"""Nothing that a store holds can be forgotten by a move: its tables and columns are moved, or it is said why not."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.adapters.postgres import moving as postgres
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite import moving as sqlite
from interlock.adapters.sqlite.sealed_tables import register_seal_function
from interlock.adapters.store_rules.moved_tables import MOVED_TABLES, clean_row, require_not_moved
from interlock.errors import StoreFailed
from interlock.ports.moving import MoveMark

Schema = dict[str, set[str]]


def sqlite_schema() -> Schema:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        register_seal_function(connection)
        migrations.migrate(connection)
        query = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'"
        tables = [name for (name,) in connection.execute(query)]
        # Hidden ones are generated: the seals.
        return {
            table: {row[1] for row in connection.execute(f"pragma table_xinfo({table})") if row[6] == 0}
            for table in tables
        }


def postgres_schema(url: str) -> Schema:
    query = (
        "select relname, attname from pg_attribute join pg_class on pg_class.oid = attrelid"
        " where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition"
        " and attnum > 0 and not attisdropped"
    )
    found: Schema = {}
    with connect(PostgresAddress(url)) as connection:
        for table, column in connection.execute(query).fetchall():
            found.setdefault(table, set()).add(column)
    return found


def test_every_table_and_column_of_sqlite_is_moved_or_left_out_by_name() -> None:
    moved = {table.name: {*table.columns, *sqlite.NOT_MOVED_COLUMNS.get(table.name, {})} for table in MOVED_TABLES}
    left_out = {name: columns for name, columns in sqlite_schema().items() if name in sqlite.NOT_MOVED}
    assert moved | left_out == sqlite_schema()
    assert set(left_out) == set(sqlite.NOT_MOVED)


def test_every_table_and_column_of_postgres_is_moved_or_left_out_by_name(postgres_url: str) -> None:
    moved = {}
    for table in MOVED_TABLES:
        name = postgres.TABLES.get(table.name, table.name)
        columns = {postgres.COLUMNS.get((table.name, column), column) for column in table.columns}
        moved[name] = columns | set(postgres.NOT_MOVED_COLUMNS.get(name, {}))
    moved["active"].discard("agent")  # the agents of a run are one array there
    found = postgres_schema(postgres_url)
    left_out = {name: columns for name, columns in found.items() if name in postgres.NOT_MOVED}
    assert moved | left_out == found
    assert set(left_out) == set(postgres.NOT_MOVED)


def test_the_numbers_of_every_numbered_table_go_on(postgres_url: str) -> None:
    query = (
        "select relname from pg_attribute join pg_class on pg_class.oid = attrelid"
        " where relnamespace = current_schema()::regnamespace and attidentity <> '' and relkind = 'r'"
    )
    with connect(PostgresAddress(postgres_url)) as connection:
        found = {name for (name,) in connection.execute(query).fetchall()}
    assert found - {"owners"} == set(postgres.NUMBERED)


def test_a_nul_is_replaced_in_texts_and_refused_in_keys() -> None:
    table = next(table for table in MOVED_TABLES if table.name == "crew_heads")
    assert clean_row(table, ("quiz", "a\0b")) == ("quiz", "a\ufffdb")
    with pytest.raises(StoreFailed, match="has a NUL in its key"):
        clean_row(table, ("qu\0iz", "a"))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("left", "'here' was moved to 'there'; use that store"),
        ("leaving", "a move of 'here' to 'there' is not finished; end it with 'interlock store move' FROM 'here' TO"),
        ("arriving", "a move of 'here' from 'there' is not finished; .* FROM 'there' TO 'here'"),
    ],
)
def test_a_mark_says_what_to_do(state: str, told: str) -> None:
    with pytest.raises(StoreFailed, match=told):
        require_not_moved(MoveMark("m", state, "there"), str(Path("here")))  # type: ignore[arg-type]
    require_not_moved(None, "here")
