"""The schema is made once, upgraded by number, and refused if it is not known."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

import interlock.adapters.postgres.migrate as migrate_module
from interlock import Interlock
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import (
    _MAKE_TABLE,
    migrate,
    migration_files,
    newest_schema,
    require_usable_schema,
    schema_version,
)
from interlock.adapters.postgres.moving import hold_schema
from interlock.adapters.postgres.store import PostgresStore
from interlock.compose.upkeep.doctor import check_store
from interlock.errors import StoreFailed
from interlock.testing import ScriptedModel
from tests.compose.test_crews_of_crews import WHOLE, nested
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
        require_usable_schema(connection, address)


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
            require_usable_schema(connection, address)


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
        require_usable_schema(connection, address)


@pytest.mark.parametrize(("change", "message"), [(1, "newer Interlock"), (-1, "interlock store migrate")])
def test_another_schema_is_refused(postgres_url: str, change: int, message: str) -> None:
    address = PostgresAddress(postgres_url)
    with connect(address) as connection, connection.transaction(force_rollback=True):
        if change > 0:
            connection.execute(
                "insert into migrations (number, name, needs) values (%(n)s, 'later', %(n)s)",
                {"n": newest_schema() + 1},
            )
        else:
            connection.execute("delete from migrations where number = %s", (newest_schema(),))
        with pytest.raises(StoreFailed, match=message):
            require_usable_schema(connection, address)


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


EXPANDED = """\
-- expand
alter table runs add column shelf text;
alter table records add column shelf text;
alter table owners add column shelf text not null default 'none';
alter table run_format add column shelf text;
alter table orders add column shelf integer not null default 0;
create index runs_by_shelf on runs (shelf);
create table shelves (name text primary key);
create function claim_run(p_run text, p_me bigint, p_shelf text) returns text language sql as 'select null::text';
"""


@contextmanager
def later_migration(text: str) -> Iterator[None]:
    """A newer Interlock, with one more migration."""
    with pytest.MonkeyPatch.context() as patch:
        files = [*migration_files(), (newest_schema() + 1, "later", text)]
        patch.setattr(migrate_module, "migration_files", lambda: files)
        yield


def store_after(schema: str, *texts: str) -> PostgresAddress:
    """A store of this version that newer ones have migrated."""
    address = PostgresAddress(shared_cluster().url(schema))
    migrate(address)
    with ExitStack() as stack:
        for text in texts:
            stack.enter_context(later_migration(text))
            assert migrate(address) == 1
    return address


async def test_a_schema_that_only_got_more_is_used_by_the_version_before(tmp_path: Path) -> None:
    """All that a process does: runs with children, a cancel, a take-over, the doctor."""
    address = store_after("expanded", EXPANDED)
    url = shared_cluster().url("expanded")
    assert migrate(address) == 0
    async with Interlock(url, models=ScriptedModel(WHOLE)) as box:
        (warning,) = [each for each in box.store_warnings if "its schema" in each]
        assert f"its schema {newest_schema() + 1} is newer" in warning and warning.endswith("upgrade")
        assert (await (await box.start(nested(tmp_path), "go", run_id="r1")).result()).status == "completed"
        await box.start(nested(tmp_path), "go", run_id="r2", models=lambda _: "which? [WAIT]")
        await box.cancel("r2")
        await box.store.release("r1")
        assert (await box.owners.claim("r1")).epoch > 0
        assert (await box.store.overview()).version == newest_schema() + 1
    found = await check_store(url)
    assert (found.problems, found.runs) == ([], len(await listed_runs(url)))


async def listed_runs(url: str) -> list[str]:
    async with Interlock(url) as box:
        return [row.run for row in await box.store.rows()]


def test_a_schema_that_lost_something_needs_a_program_that_knows_it() -> None:
    address = store_after("contracted", "alter table owners drop column host;\n", EXPANDED)
    newest = newest_schema()
    message = rf"schema {newest + 2} needs one that knows {newest + 1}, this one knows {newest}\); upgrade Interlock"
    for use in (migrate, PostgresStore):
        with pytest.raises(StoreFailed, match=message):
            use(address)
    with later_migration("alter table owners drop column host;\n"), connect(address) as connection:
        assert len(require_usable_schema(connection, address)) == 1


def test_a_newer_schema_is_not_moved_by_a_program_that_does_not_know_its_tables() -> None:
    address = store_after("not_moved", EXPANDED)
    with pytest.raises(StoreFailed, match="move it with the newer Interlock"), hold_schema(address):
        pass
