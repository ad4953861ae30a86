"""The roles of a store: one changes the schema, one uses the store, one only looks."""

from collections.abc import Iterator

import psycopg
import pytest

from interlock.adapters.postgres import migrate as migrate_module
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import migrate
from interlock.adapters.postgres.roles import ROLES, grant_roles, role_statements
from interlock.adapters.postgres.store import PostgresStore
from tests.contracts.test_journal import a_row, replied, started
from tests.postgres import shared_cluster


@pytest.fixture(scope="module")
def logins() -> Iterator[dict[str, str]]:
    """The address of a store by role, each for a login of that role."""
    url = shared_cluster().url("with_roles")
    migrate(PostgresAddress(url))
    grant_roles(PostgresAddress(url))
    grant_roles(PostgresAddress(url))  # again, as after a migration
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"create role login_{role} login in role {role}".encode())
    yield {role: url.replace("interlock@", f"login_{role}@", 1) for role in ROLES}


async def test_the_app_uses_the_store_and_cannot_change_a_record(logins: dict[str, str]) -> None:
    store = PostgresStore(logins["interlock_app"])
    try:
        await store.create(a_row("r1"), started())
        await store.append(a_row("r1"), replied(3))
        await store.release("r1")
        epoch = (await store.claim("r1")).epoch
        await store.append(a_row("r1", epoch=epoch), replied(4))
        assert len(await store.since(0)) == 3
        assert not [warning for warning in store.warnings if "superuser" in warning]
        with connect(PostgresAddress(logins["interlock_app"])) as connection:
            for statement in (
                b"update records set body = ''",
                b"delete from records",
                b"delete from records_197001",
                b"delete from migrations",
                b"create table mine ()",
                b"drop table runs",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        assert (await store.delete_run("r1", at=1)).seq == 4
        assert list(await store.since(0)) == []
    finally:
        await store.close()


def test_the_reader_only_looks(logins: dict[str, str]) -> None:
    with connect(PostgresAddress(logins["interlock_read"])) as connection:
        connection.execute("select * from run_rows")
        connection.execute("select * from records")
        for statement in (b"delete from runs", b"insert into crews values ('a', '')", b"select lock_store()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_the_owner_migrates(logins: dict[str, str]) -> None:
    address = PostgresAddress(logins["interlock_owner"])
    assert migrate(address) == 0
    with connect(address) as connection, connection.transaction(force_rollback=True):
        connection.execute("alter table runs add column more text")


def test_what_a_migration_adds_is_granted_with_it(logins: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a login that owns neither the database nor a role."""
    statements = "create table later (number integer); create function later_too() returns void language sql as ''"
    files = [*migrate_module.migration_files(), (999, "999_later", statements)]
    monkeypatch.setattr(migrate_module, "migration_files", lambda: files)
    address = PostgresAddress(logins["interlock_owner"])
    try:
        assert migrate(address) == 1
        with connect(PostgresAddress(logins["interlock_app"])) as connection:
            connection.execute("insert into later values (1)")
            connection.execute("select later_too()")
        with connect(PostgresAddress(logins["interlock_read"])) as connection:
            assert connection.execute("select * from later").fetchall() == [(1,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select later_too()")
    finally:
        with connect(address) as connection:
            connection.execute("delete from migrations where number = 999")
            connection.execute("drop table if exists later")
            connection.execute("drop function if exists later_too")


def test_the_statements_can_be_run_by_hand() -> None:
    assert all(role in role_statements() for role in ROLES)
