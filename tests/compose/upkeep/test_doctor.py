"""The doctor of a whole store: which runs it replays, and what it says of a server."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.sqlite.store import SqliteStore
from interlock.compose.stores.homes import StoreName
from interlock.compose.upkeep.doctor import RunChoice, check_store
from interlock.engine.events import Usage
from interlock.errors import StoreFailed
from interlock.ports import RunUsage
from tests.cli.test_options import call
from tests.compose.upkeep.rich_folder import add_journals
from tests.contracts.test_journal import a_row, started

JOURNALS = 6


async def fill(name: StoreName, url: str) -> None:
    store = PostgresStore(url) if name == url else SqliteStore(Path(name))
    await add_journals(store, JOURNALS)
    await store.close()


@pytest.fixture(params=["folder", "server"])
def name(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return postgres_url if request.param == "server" else str(tmp_path)


async def test_a_sample_and_a_time_choose_the_runs_that_are_replayed(name: str, postgres_url: str) -> None:
    await fill(name, postgres_url)
    every = await check_store(name)
    assert (every.problems, every.left_out) == ([], 0)
    some = await check_store(name, choice=RunChoice(sample=2))
    assert (some.problems, some.runs, some.left_out) == ([], 2, every.runs - 2)
    more = await check_store(name, choice=RunChoice(sample=every.runs + 5))
    assert (more.runs, more.left_out, more.events) == (every.runs, 0, every.events)
    recent = await check_store(name, choice=RunChoice(since_days=0))
    assert (recent.problems, recent.runs, recent.left_out) == ([], 0, every.runs)


async def test_a_sum_that_differs_from_the_journal_is_added_up_again(name: str, postgres_url: str) -> None:
    await fill(name, postgres_url)
    store = PostgresStore(postgres_url) if name == postgres_url else SqliteStore(Path(name))
    row = next(row for row in await store.rows() if row.status == "completed")
    await store.store_usage([RunUsage(run=row.run, seq=row.seq, agents={"nobody": Usage(calls=99)}, savings={})])
    await store.close()
    told = f"what run '{row.run}' has cost differs from its journal; it was added up again"
    assert told in (await check_store(name)).notes
    assert told not in (await check_store(name)).notes


async def test_a_process_that_lost_its_session_and_its_runs_are_noted(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.create(a_row("r1"), started())
    await store.close()
    with connect(PostgresAddress(postgres_url)) as connection:
        connection.execute(
            "insert into owners (host, pid, version, rules, format, seen) values ('cellar', 1, '0', 3, 1, 'epoch')"
        )
        connection.execute("update runs set owner = (select max(id) from owners)")
        connection.execute("insert into leaders select 'upkeep', 1, max(id), '' from owners")
    notes = "\n".join((await check_store(postgres_url)).notes)
    assert "on 'cellar' has no session any more; 1 run waits for a worker to claim" in notes
    assert "the process that led 'upkeep' has no session any more" in notes


def add_process(url: str, host: str, clock_behind_ms: int) -> None:
    """A process that will be alive for an hour."""
    with connect(PostgresAddress(url)) as connection:
        connection.execute(
            "insert into owners (host, pid, version, rules, format, seen, clock_behind_ms)"
            " values (%s, 7, '0.1.0', 3, 1, clock_timestamp() + interval '1 hour', %s)",
            (host, clock_behind_ms),
        )


async def test_the_clock_of_every_living_process_is_told_and_a_wrong_one_is_a_warning(postgres_url: str) -> None:
    add_process(postgres_url, "attic", 12)
    add_process(postgres_url, "cellar", -5200)
    attic = "the clock of process 7 on 'attic' (0.1.0) is 12 ms behind the store's"
    cellar = "the clock of process 7 on 'cellar' (0.1.0) is 5200 ms ahead of the store's; set the clock of that machine"
    notes = (await check_store(postgres_url)).notes
    assert [note for note in notes if "the clock of process" in note] == [attic, cellar]
    shown = (await asyncio.to_thread(call, "store", "status", "--store", postgres_url)).stdout
    assert "process 7 on 'attic' (0.1.0), clock 12 ms behind the store's\n" in shown
    assert [line for line in shown.splitlines() if line.startswith("warning")] == [f"warning: {cellar}"]


async def test_a_folder_has_one_clock(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    assert [each.clock_behind_ms for each in (await store.overview()).processes] == [None]
    assert ", clock" not in (await asyncio.to_thread(call, "store", "status", "--data", str(tmp_path))).stdout
    await store.close()


async def test_records_outside_of_a_partition_are_a_problem(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.create(a_row("r1"), started())
    with connect(PostgresAddress(postgres_url)) as connection:
        found = connection.execute("select 'records_' || to_char(born, 'YYYYMM') from runs").fetchone()
        assert found is not None
        try:
            connection.execute(f"alter table records detach partition {found[0]}".encode())
            problems = await store.problems()
        finally:
            connection.execute(f"drop table {found[0]}".encode())
        missing = await store.problems()
    await store.close()
    assert any(f"the table '{found[0]}' is no partition of the records" in each for each in problems)
    assert any(f"have no partition; restore '{found[0]}'" in each for each in missing)


async def test_a_schema_that_is_no_text_is_reported_as_damage(tmp_path: Path) -> None:
    """SQLite quotes the damaged bytes in its error, which is then no text either."""
    await (store := SqliteStore(tmp_path)).create(a_row("r"), started())
    await store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("update sqlite_schema set sql = cast(x'63726561746520ec' as text) where name = 'records'")
        connection.commit()
    found = await check_store(tmp_path)
    assert any("damaged" in problem for problem in found.problems), found.problems
    with pytest.raises(StoreFailed):
        SqliteStore(tmp_path)
