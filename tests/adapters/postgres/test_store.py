"""The PostgreSQL store beside the SQLite store: the same records, byte for byte, in both directions."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from interlock.adapters.files import run_files
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import migrate
from interlock.adapters.postgres.runs.processes import COUNT_WAITING
from interlock.adapters.postgres.session import SILENT
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.sqlite.store import SqliteStore
from interlock.errors import DamagedRun, StoreFailed
from interlock.ports import AtomicWrites, Journal, SealedTree
from tests.contracts.test_journal import a_row, replied, started
from tests.postgres import shared_cluster
from tests.test_golden import JOURNALS


@asynccontextmanager
async def both(url: str, folder: Path) -> AsyncIterator[tuple[PostgresStore, SqliteStore]]:
    stores = PostgresStore(url), SqliteStore(folder)
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


async def test_golden_journals_go_in_and_come_out_byte_for_byte(postgres_url: str, tmp_path: Path) -> None:
    files = [run_files.decode_run_file(file.read_bytes(), file.name) for file in JOURNALS]
    async with both(postgres_url, tmp_path) as (postgres, sqlite):
        for number, found in enumerate(files):
            if number % 2:
                await postgres.add_run(found.row, found.records)
            else:
                rows, records = (found.row,), tuple((0, each) for each in found.records)
                await postgres.add_tree(SealedTree(rows=rows, records=records))
        for found in files:
            moved = await postgres.export_tree(found.row.run)
            assert [record for _, record in moved.records] == list(found.records)
            assert list(await postgres.export_records(found.row.run)) == list(found.records)
            await sqlite.add_tree(moved)
            assert await sqlite.export_tree(found.row.run) == moved
            assert await sqlite.row(found.row.run) == await postgres.row(found.row.run)
        assert await postgres.problems() == []


async def test_what_is_appended_to_both_stores_is_sealed_alike(postgres_url: str, tmp_path: Path) -> None:
    async def write_all(store: Journal) -> None:
        await store.create(a_row(), started("Kết thúc ☃\0"))
        for seq in range(3, 6):
            await store.append(a_row(), replied(seq, f"{seq} \0 é"))

    async with both(postgres_url, tmp_path) as (postgres, sqlite):
        for store in (postgres, sqlite):
            await write_all(store)
        assert await postgres.export_tree("r1") == await sqlite.export_tree("r1")
        await postgres.release("r1")
        epoch = (await postgres.claim("r1")).epoch
        await postgres.append(a_row(epoch=epoch), replied(6))
        await sqlite.append(a_row(), replied(6))
        assert list(await postgres.export_records("r1")) == list(await sqlite.export_records("r1"))


async def test_two_stores_have_two_identities(postgres_url: str) -> None:
    other = shared_cluster().url("another_identity")
    migrate(PostgresAddress(other))
    stores = [PostgresStore(url) for url in (postgres_url, postgres_url, other)]
    found = [await store.identity() for store in stores]
    for store in stores:
        await store.close()
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 32


async def test_a_damaged_record_and_a_damaged_row_are_found(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        for run in ("r1", "r2", "r3"):
            await store.create(a_row(run), started())
        with connect(PostgresAddress(postgres_url)) as connection:
            connection.execute("update records set body = replace(body::text, '42', '43')::bytea where position = 1")
        with pytest.raises(DamagedRun, match="crc"):
            await store.records("r1")
        assert [each.run for each in await store.since(0)] == ["r2", "r3"]
        assert [each.run for each in await store.since(0, limit=1)] == ["r2"]
    finally:
        await store.close()


async def test_a_row_that_was_changed_by_hand_is_whole_and_one_whose_crc_is_wrong_is_damaged() -> None:
    """Its crc is computed by the server, so only damage on its disk makes it wrong. Here its expression is dropped."""
    address = PostgresAddress(shared_cluster().url("damaged_rows"))
    migrate(address)
    store = PostgresStore(address)
    try:
        for run in ("r1", "r2"):
            await store.create(a_row(run), started())
        with connect(address) as connection:
            connection.execute("alter table runs alter column crc drop expression")
            connection.execute("update runs set agent = 'somebody' where run = 'r1'")
        await store.release("r1")  # changes nothing, else its crc would match from then on
        with connect(address) as connection:
            owned = connection.execute("select owner is not null from runs where run = 'r1'").fetchone()
            assert owned == (True,)
        for asking in (store.row("r1"), store.claim("r1"), store.append(a_row("r1"), replied(9))):
            with pytest.raises(DamagedRun, match="row"):
                await asking
        assert [row.run for row in await store.rows()] == ["r2"]
        assert [problem for problem in await store.problems() if "r1" in problem] != []
    finally:
        await store.close()


async def test_an_append_on_a_journal_that_went_another_way_is_refused(postgres_url: str) -> None:
    """As after a failover that has lost what was acknowledged: the link tells, where seq and epoch are the same."""
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row(), started())
        await store.append(a_row(), replied(3))
        with connect(PostgresAddress(postgres_url)) as connection:
            connection.execute("update runs set link = '\\x00'::bytea")
        with pytest.raises(DamagedRun, match="not the one that was appended"):
            await store.append(a_row(), replied(4))
        assert (await store.row("r1")).seq == 3
    finally:
        await store.close()


async def test_a_plain_handoff_with_presence_and_spending_is_one_round_trip(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row(), started(), AtomicWrites(begun=(("teacher", 0),)))
        before = store.round_trips
        await store.append(a_row(), replied(3), AtomicWrites(ended=(("teacher", 0),), begun=(("student", 0),)))
        assert store.round_trips - before == 1
    finally:
        await store.close()


async def test_a_store_is_not_used_after_a_fork_and_stays_open_before_it(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row(), started())
        child = os.fork()
        if child == 0:
            try:
                store.row("r1").send(None)
            except StoreFailed as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        await store.append(a_row(), replied(3))
        assert store.has_lease()
    finally:
        await store.close()


async def test_a_schema_that_is_gone_is_a_failure_that_does_not_pass() -> None:
    address = PostgresAddress(shared_cluster().url("soon_gone"))
    migrate(address)
    store = PostgresStore(address)
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("drop schema soon_gone cascade")
    with pytest.raises(StoreFailed) as caught:
        await store.create(a_row(), started())
    assert not caught.value.passes
    await store.close()


@pytest.mark.parametrize(
    ("index", "query"),
    [
        ("owners_present", f"select exists ({SILENT}) from owners where id = 1"),
        ("runs_to_claim", "select claim_runs(1, 1, 9, 9, 1, null, null, '{}', '{}')"),
        ("runs_by_crew", "select run from run_rows where intact and crew = 'c' order by number desc limit 1"),
    ],
)
def test_what_large_stores_ask_often_has_an_index(postgres_url: str, index: str, query: str) -> None:
    with connect(PostgresAddress(postgres_url)) as connection, connection.transaction(force_rollback=True):
        names = "id, host, pid, version, rules, format"
        connection.execute(
            f"insert into owners ({names}) overriding system value values (1, 'h', 1, 'v', 3, 1)".encode()
        )
        connection.execute("set local enable_seqscan = off")  # it is the best for a table without rows
        connection.execute(query.encode())
        found = connection.execute("select pg_stat_get_xact_numscans(%s::regclass)", (index,)).fetchone()
        assert found is not None and found[0] > 0


async def test_a_run_that_no_process_has_owned_is_not_one_that_a_process_left_behind(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await store.create(a_row(), started(), owned=False)
        assert (await store.storage()).notes == ()
    finally:
        await store.close()


async def test_counting_runs_that_wait_asks_once_for_each_process_whether_it_lives(postgres_url: str) -> None:
    """It is done for each new run, and there may be thousands that are driven."""
    store = PostgresStore(postgres_url)
    try:
        for number in range(10):
            await store.create(a_row(f"r{number}"), started())
        with connect(store.address) as connection, connection.transaction():
            connection.execute("set local track_functions = 'all'")
            assert connection.execute(COUNT_WAITING.encode(), ("", 100)).fetchone() == (0,)
            query = "select calls from pg_stat_xact_user_functions where funcname = 'seems_gone'"
            assert connection.execute(query).fetchone() == (1,)
    finally:
        await store.close()
