"""The schema is made once, upgraded by number, and refused if it is not known."""

import psycopg
import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import (
    _MAKE_TABLE,
    migrate,
    migration_files,
    newest_schema,
    require_newest_schema,
    schema_version,
)
from interlock.errors import StoreFailed
from tests.postgres import shared_cluster


def test_migrations_are_numbered_and_no_number_is_used_twice() -> None:
    numbers = [number for number, _, _ in migration_files()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == newest_schema()


def test_a_schema_is_made_once() -> None:
    address = PostgresAddress(shared_cluster().url("made_once"))
    assert migrate(address) == len(migration_files())
    assert migrate(address) == 0
    with connect(address) as connection:
        assert schema_version(connection) == newest_schema()
        require_newest_schema(connection, address)


def test_a_schema_with_tables_of_others_is_refused_and_left_as_it_is() -> None:
    address = PostgresAddress(shared_cluster().url("of_others"))
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("create schema of_others create table migrations (id integer, batch integer)")
    with pytest.raises(StoreFailed, match="has the table 'migrations' of another program"):
        migrate(address)
    with connect(address) as connection:
        query = "select count(*) from pg_class where relnamespace = 'of_others'::regnamespace"
        assert connection.execute(query).fetchone() == (1,)
        with pytest.raises(StoreFailed, match="there is no store"):
            require_newest_schema(connection, address)


def test_a_first_migration_that_was_interrupted_is_done_again() -> None:
    address = PostgresAddress(shared_cluster().url("interrupted"))
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("create schema interrupted")
    with connect(address) as connection:
        connection.execute(_MAKE_TABLE)
    assert migrate(address) == len(migration_files())


def test_a_store_that_is_not_there_names_the_command_that_makes_it() -> None:
    address = PostgresAddress(shared_cluster().url("not_there"))
    with connect(address) as connection, pytest.raises(StoreFailed, match="interlock store init"):
        require_newest_schema(connection, address)


@pytest.mark.parametrize(("change", "message"), [(1, "newer Interlock"), (-1, "interlock store migrate")])
def test_another_schema_is_refused(postgres_url: str, change: int, message: str) -> None:
    address = PostgresAddress(postgres_url)
    with connect(address) as connection, connection.transaction(force_rollback=True):
        if change > 0:
            connection.execute("insert into migrations (number, name) values (%s, 'later')", (newest_schema() + 1,))
        else:
            connection.execute("delete from migrations where number = %s", (newest_schema(),))
        with pytest.raises(StoreFailed, match=message):
            require_newest_schema(connection, address)


def test_partitions_are_made_by_month_and_once(postgres_url: str) -> None:
    with connect(PostgresAddress(postgres_url)) as connection:
        for day in ("1983-05-17", "1983-05-02"):
            connection.execute("select make_partition(%s)", (day,))
        found = connection.execute("select to_regclass('records_198305')::text").fetchone()
        assert found == ("records_198305",)
        insert = "insert into records values (%s, 1, 1, 1, 0, '', null, '')"
        connection.execute(insert, ("1983-05-01",))
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(insert, ("1983-06-01",))
