"""Whole runs in a partitioned table: months come with their first run, and go with their last."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.runs.run_archive import _COLUMNS
from interlock.adapters.postgres.store import PostgresStore
from tests.contracts.test_journal import a_row, replied, started

YEAR_2001 = 980_000_000_000  # in January


def months(url: str) -> set[str]:
    query = "select inhrelid::regclass::text from pg_inherits where inhparent = 'records'::regclass"
    with connect(PostgresAddress(url)) as connection:
        return {name for (name,) in connection.execute(query).fetchall()}


async def test_the_partition_of_a_month_goes_when_its_last_run_is_deleted(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.expire_tombstones(0)
        for run in ("r1", "r2"):
            await store.create(a_row(run, created_at=YEAR_2001), started())
        assert "records_200101" in months(postgres_url)
        await store.delete_run("r1", at=1)
        await store.expire_tombstones(0)
        assert "records_200101" in months(postgres_url)
        await store.delete_run("r2", at=1)
        await store.expire_tombstones(0)
        assert "records_200101" not in months(postgres_url)
        await store.create(a_row("r3", created_at=YEAR_2001), started())
        await store.append(a_row("r3"), replied(3))
        assert len(await store.records("r3")) == 2
    finally:
        await store.close()


async def test_a_partition_that_is_read_stays_until_the_next_time(postgres_url: str) -> None:
    """Tombstones expire all the same."""
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row("r1", created_at=YEAR_2001), started())
        await store.delete_run("r1", at=1)
        with connect(PostgresAddress(postgres_url)) as reader, reader.transaction():
            reader.execute("select from records")
            assert await store.expire_tombstones(2) == 1
            assert "records_200101" in months(postgres_url)
        await store.expire_tombstones(2)
        assert "records_200101" not in months(postgres_url)
    finally:
        await store.close()


@contextmanager
def writing_before(url: str) -> Iterator[PostgresConnection]:
    """A transaction of another process, which has the lock of the store first."""
    with connect(PostgresAddress(url)) as connection, connection.transaction():
        connection.execute("select lock_store()")
        yield connection


async def wait_for_lock(connection: PostgresConnection) -> None:
    """Waits until another transaction waits for a lock."""
    query = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with asyncio.timeout(20):
        while connection.execute(query).fetchone() is None:
            await asyncio.sleep(0.005)


async def test_a_run_that_is_imported_while_its_partition_goes_gets_a_new_one(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row("r1", created_at=YEAR_2001), started())
        tree = await store.export_tree("r1")
        await store.delete_run("r1", at=1)
        with writing_before(postgres_url) as other:
            adding = asyncio.create_task(store.add_tree(tree))
            await wait_for_lock(other)
            other.execute("select drop_empty_partitions()")
        await adding
        assert len(await store.records("r1")) == 1
    finally:
        await store.close()


async def test_a_child_that_begins_while_its_tree_is_to_be_deleted_goes_too(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row("r1"), started())
        with writing_before(postgres_url) as other:
            deleting = asyncio.create_task(store.delete_tree("r1", at=1))
            await wait_for_lock(other)
            other.execute(
                f"insert into runs ({_COLUMNS}, link) select {_COLUMNS}, ''::bytea from jsonb_populate_record("
                'null::runs, (select to_jsonb(runs) || \'{"run": "r1~2.0"}\' from runs))'.encode()
            )
        assert [each.run for each in await deleting] == ["r1", "r1~2.0"]
    finally:
        await store.close()


async def test_the_partitions_of_this_month_and_the_last_stay(postgres_url: str) -> None:
    with connect(PostgresAddress(postgres_url)) as connection:
        for ago in ("0 month", "1 month", "3 month"):
            connection.execute(f"select make_partition((now() - interval '{ago}')::date)".encode())
        found = connection.execute(
            "select 'records_' || to_char(now() - months * interval '1 month', 'YYYYMM') from unnest(%s) as months",
            ([0, 1, 3],),
        ).fetchall()
        this, last, older = (name for (name,) in found)
        connection.execute("select drop_empty_partitions()")
    assert {this, last} <= months(postgres_url)
    assert older not in months(postgres_url)
