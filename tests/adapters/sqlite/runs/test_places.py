"""The index of records: damage in it is found and repaired, and records of the tail that are damaged hide no loss."""

import asyncio
import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.read_only import ReadOnlyStore
from interlock.adapters.sqlite.runs.places import LENGTH_BITS
from interlock.adapters.sqlite.runs.tail import TAIL_MAX
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.engine.events import ModelReplied, Usage
from interlock.errors import DamagedRun
from interlock.ports import Record, RunRow
from tests.adapters.store_records import a_row, replied, started
from tests.adapters.stores import opened

RUNS, REPLIES = 3, 150


async def fill(path: Path, replies: int = REPLIES) -> None:
    """Runs whose records tell their rows, one reply of each after the other."""
    store = SqliteStore(path, durability="normal")
    rows = [a_row(f"r{n}", updated_at=1) for n in range(RUNS)]
    for row in rows:
        await store.create(row, started())
    for seq in range(2, replies + 2):
        for row in rows[: 1 if seq > replies // 2 else RUNS]:
            await store.append(told(row, seq), replied(seq))
    await store.close()


def told(row: RunRow, seq: int) -> RunRow:
    return msgspec.structs.replace(row, updated_at=seq, usage=Usage(calls=seq - 1))


def change(path: Path, statement: str) -> None:
    with closing(migrations.connect(path / DATABASE)) as connection:
        connection.execute(statement)


def places_of(path: Path) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(path / DATABASE)) as connection:
        return connection.execute("select run, seq, position, length from places order by position").fetchall()


@pytest.fixture(params=["run", "seq", "position", "length", "gone", "more"])
def damage(request: pytest.FixtureRequest) -> Iterator[str]:
    newest = "where position = (select max(position) from places)"
    yield {
        "gone": "delete from places where position = 1",
        "more": "insert into places (run, seq, position, length) values (2, 1000, 1, 1)",
    }.get(request.param, f"update places set {request.param} = {request.param} + 1 {newest}")


async def test_a_damaged_index_is_made_again_when_a_folder_is_opened(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(tmp_path)
    change(tmp_path, damage)
    store = SqliteStore(tmp_path)
    assert "index of records" in caplog.text
    assert await store.problems() == []
    assert [len(await store.records(f"r{n}")) for n in range(RUNS)] == [151, 75, 75]
    await store.close()


async def test_the_doctor_finds_it_in_a_large_folder_and_compacting_makes_it_again(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A large folder is not checked when it is opened."""
    await fill(tmp_path)
    change(tmp_path, damage)
    monkeypatch.setattr(migrations, "CHECKED_AT_OPEN_BYTES_MAX", 0)
    store = SqliteStore(tmp_path)
    assert caplog.text == ""
    assert any("'interlock compact' makes it again" in each for each in await store.problems())
    await store.compact()
    assert await store.problems() == []
    assert [len(await store.records(f"r{n}")) for n in range(RUNS)] == [151, 75, 75]
    await store.close()


async def test_a_run_that_is_alone_has_few_places(tmp_path: Path) -> None:
    await fill(tmp_path, 1_000)
    alone = [length for run, *_, length in places_of(tmp_path) if run == 1][-5:]
    assert max(alone) == 1 << LENGTH_BITS
    assert sum(alone) > 200


@pytest.mark.parametrize("is_read_only", [False, True])
async def test_a_position_that_is_damaged_is_no_loss(tmp_path: Path, is_read_only: bool) -> None:
    """Opening repairs it. A reader that may not write looks through all records."""
    await fill(tmp_path)
    change(tmp_path, "delete from bus_changes where name = 'filled'")
    store = ReadOnlyStore(tmp_path) if is_read_only else SqliteStore(tmp_path)
    for n, length in enumerate((151, 75, 75)):
        row, records = await store.row_with_records(f"r{n}")
        assert (row.seq, row.usage.calls, len(records)) == (length, length - 1, length)
        assert len(await store.records(f"r{n}", after=70, limit=2)) == 2
    assert len(await store.of_run("r0", 0, 1_000)) == 151
    await store.close()


@pytest.mark.parametrize(
    ("statement", "damaged"),
    [
        ("run = 2", {"r0"}),
        ("run = 99", {"r0"}),
        ("crc = crc + 1", {"r0"}),
        ("seq = seq + 1", {"r0"}),
        ("link = zeroblob(16)", {"r0"}),
        ("body = x'00'", {"r0"}),
    ],
)
async def test_a_newest_record_that_is_damaged_is_reported_though_no_row_tells_of_it(
    tmp_path: Path, statement: str, damaged: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its row is behind, so the run must not seem to have ended before."""
    caplog.set_level(logging.WARNING)
    await fill(tmp_path, 20)
    change(tmp_path, f"update records set {statement} where position = (select max(position) from records)")
    store = SqliteStore(tmp_path)
    found = set()
    for n in range(RUNS):
        try:
            await store.records(f"r{n}")
        except DamagedRun:
            found.add(f"r{n}")
    assert damaged <= found
    await store.close()


async def test_a_record_that_another_process_stored_is_not_overwritten(tmp_path: Path) -> None:
    """Both hold the same epoch, which no program does: the fence holds all the same."""
    one, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    row = a_row(updated_at=1)
    await one.create(row, started())
    await one.append(told(row, 2), replied(2))
    await other.append(told(row, 3), replied(3))
    assert (await one.append(told(row, 3), replied(3))).position == 3
    await one.append(told(row, 4), replied(4))
    reply = ModelReplied(call="c", agent="a", text="reply 5", usage=Usage())
    await other.append(told(row, 5), Record(seq=5, at=5, events=(reply,)))
    for store in (one, other):
        assert [record.seq for record in await store.records("r1")] == [1, 2, 3, 4, 5]
        assert (await store.row("r1")).usage.calls == 4
        assert await store.problems() == []
        await store.close()


async def test_a_row_of_the_index_that_claims_records_of_another_run_shows_and_deletes_none_of_them(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, "normal") as store:
        mine, other = a_row("mine", updated_at=1), a_row("other", updated_at=1)
        for row in (mine, other):
            await store.create(row, started())
        for seq in range(2, 2 * TAIL_MAX):
            await store.append(told(mine, seq), replied(seq))
            await store.append(told(other, seq), replied(seq))
        await store.release("mine")
        change(tmp_path, "update places set length = length | 64 where run = 1 and seq = 1")
        kept = await store.records("other")
        assert {stored.run for stored in await store.of_run("mine", 0, 50)} == {"mine"}
        await store.delete_run("mine", 1)
        assert await store.records("other") == kept


async def test_a_folder_opens_while_another_process_writes(tmp_path: Path) -> None:
    async with opened(tmp_path, "normal") as store:
        row = a_row("r", updated_at=1)
        await store.create(row, started())
        await store.append(told(row, 2), replied(2))
        with closing(migrations.connect(tmp_path / DATABASE)) as writing:
            writing.execute("begin immediate")
            async with opened(tmp_path, "normal") as other:
                assert [record.seq for record in await other.records("r")] == [1, 2]
                assert (await other.row("r")).seq == 2
            writing.execute("rollback")


async def test_a_process_that_takes_over_meets_a_damaged_record_of_a_dead_one(tmp_path: Path) -> None:
    """The number of its run is damaged, so nothing of that run tells of it."""
    async with opened(tmp_path, "normal") as alive:
        script = (
            "import asyncio, os, sys\n"
            "from tests.adapters.sqlite.runs.test_places import SqliteStore, a_row, replied, started, told\n"
            "async def main():\n"
            "    store, row = SqliteStore(sys.argv[1], durability='normal'), a_row('r', updated_at=1)\n"
            "    await store.create(row, started())\n"
            "    for seq in range(2, 9):\n"
            "        await store.append(told(row, seq), replied(seq))\n"
            "    os._exit(0)\n"
            "asyncio.run(main())\n"
        )
        died = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path))
        assert await died.wait() == 0
        change(tmp_path, "update records set run = run | 4096 where position = (select max(position) from records)")
        with pytest.raises(DamagedRun):
            await alive.claim("r")
            await alive.records("r")
