"""The SQLite store where it differs from a store in memory: files, damage, full disks, other processes, death."""

import asyncio
import fcntl
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import msgspec
import pytest

from interlock.adapters.files import owner_files
from interlock.adapters.sqlite import log_backlog, loop_ticks, migrations
from interlock.adapters.sqlite import writer as sqlite_writer
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.bus.bus_schema import DELAYED_IN_ORDER
from interlock.adapters.sqlite.runs import lone_append, run_head
from interlock.adapters.sqlite.sealed_tables import register_seal_function
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import PROCESS
from interlock.errors import (
    DamagedRun,
    NotOwner,
    OutOfOrder,
    OwnedElsewhere,
    StorageFull,
    StoreBroken,
    StoreFailed,
    UsageError,
)
from interlock.ports import AppendResult
from tests.adapters.store_records import a_row, replied, started
from tests.adapters.stores import opened

KILLS = 12

# What the other processes of these tests begin with.
PRELUDE = """
import asyncio, os, signal, sys
from interlock.adapters.sqlite.store import SqliteStore
from interlock.engine.events import ModelReplied, RunStarted, Usage
from interlock.errors import InterlockError
from interlock.ports import Record, RunRow

def a_row(run, **fields):
    return RunRow(run=run, crew="quiz", crew_sha="0", status="running", **fields)

def started():
    return Record(seq=1, at=1, events=(RunStarted(crew="quiz", input="go", rules=1),))

def replied(seq):
    return Record(seq=seq, at=seq, events=(ModelReplied(call="c", agent="a", text=f"reply {seq}", usage=Usage()),))

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


async def fill(store: SqliteStore, runs: int = 3, records: int = 4) -> None:
    for n in range(runs):
        await store.create(a_row(f"r{n}"), started())
        for seq in range(2, records + 1):
            await store.append(a_row(f"r{n}"), replied(seq))


@contextmanager
def process(program: str, *arguments: object, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def said(program: str, *arguments: object) -> str:
    with process(program, *arguments) as running:
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    return out


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """By way of SQLite, so that its locks stay as they are."""
    connection = sqlite3.connect(folder / "interlock.db", isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def asked(folder: Path, query: str) -> list[Any]:
    with database(folder) as connection:
        return [found[0] for found in connection.execute(query)]


# Files that are there already


async def test_a_new_folder_gets_a_database_of_the_newest_schema_in_wal_mode(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b # 100% ?"

    async with opened(folder) as store:
        await fill(store)
        assert sorted(file.name for file in folder.iterdir()) == [
            "interlock.db", "interlock.db-shm", "interlock.db-wal", "interlock.lock", "newest", "owners",
        ]  # fmt: skip
    assert sorted(file.name for file in folder.iterdir()) == ["interlock.db", "interlock.lock", "newest", "owners"]
    assert list((folder / "owners").iterdir()) == []
    assert asked(folder, "pragma user_version") == [migrations.SCHEMA]
    assert asked(folder, "pragma journal_mode") == ["wal"]
    assert asked(folder, "select distinct strict from pragma_table_list where name not like 'sqlite_%'") == [1]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
async def test_the_durability_decides_how_commits_are_synced(tmp_path: Path, durability: str, level: int) -> None:
    async with opened(tmp_path, durability) as store:
        assert store._writing.execute("pragma synchronous").fetchone() == (level,)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'often'; use one of full, normal"):
        SqliteStore(tmp_path / "data", durability="often")
    assert not (tmp_path / "data").exists()


def test_migrations_are_numbered_in_order() -> None:
    """Numbers are handed out to those who work at the same time, so there may be gaps."""
    numbers = [int(name[:3]) for name, _ in migrations.MIGRATIONS]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("version", range(migrations.SCHEMA))
async def test_an_older_database_is_brought_up_to_date_and_keeps_what_it_holds(tmp_path: Path, version: int) -> None:
    with database(tmp_path) as connection:
        register_seal_function(connection)
        for _, statements in migrations.MIGRATIONS[:version]:
            for statement in statements:
                connection.execute(statement)
        if version:
            values = ("old", "quiz", "0", 1, "", "", "", 0, "paused", "", "", 0, 1, 0, 0, 0, 0, b"")
            first = run_head.COLUMNS.replace("rules, format, private, ", "")  # which have defaults
            columns, _, _ = first.partition(", unpriced_calls")  # those after it are 0 in such rows
            crc = run_head.as_int32(crc32(msgspec.json.encode((1, *values))))
            connection.execute(
                f"insert into runs (number, {columns}, crc) values ({', '.join('?' * 20)})", (1, *values, crc)
            )
        connection.execute(f"pragma application_id = {migrations.APPLICATION_ID}")
        connection.execute(f"pragma user_version = {version}")

    async with opened(tmp_path) as store:
        assert [row.run for row in await store.rows()] == ["old"] * bool(version)
        await fill(store)
    assert asked(tmp_path, "pragma user_version") == [migrations.SCHEMA]


def test_the_crc_of_a_row_leaves_out_only_columns_that_are_newer_and_0() -> None:
    """A row with calls of unknown price has the crc that it had before tokens were counted by bucket."""
    values = ("old", "quiz", "0", 1, "", "", "", 0, "paused", "", "", 0, 1, 0, 0, 0, 0, b"")
    for newer, covered in (((7, 0, 0, 0), (7,)), ((0, 0, 1, 0), (0, 0, 1, 0)), ((7, 0, 0, 2), (7, 0, 0, 2))):
        crc = run_head.as_int32(crc32(msgspec.json.encode((1, *values, *covered))))
        assert run_head.row_crc(1, (*values, *newer)) == crc


async def test_signals_for_later_of_an_older_database_are_still_queued(tmp_path: Path) -> None:
    entries = [
        DelayedBroadcast(id=name, type="x", source=PROCESS, deliver_at=at, repeat_key=key, created_at=1, updated_at=1)
        for name, at, key in (("b", 5, "k"), ("a", 5, None), ("c", 3, None))
    ]
    before = next(n for n, (name, _) in enumerate(migrations.MIGRATIONS) if name == DELAYED_IN_ORDER[0])
    with database(tmp_path) as connection:
        for _, statements in migrations.MIGRATIONS[:before]:
            for statement in statements:
                connection.execute(statement)
        insert = "insert into delayed (id, type, repeat_key, due_at, crc, body) values (?, ?, ?, ?, ?, ?)"
        for entry in entries:
            body = msgspec.json.encode(entry)
            connection.execute(insert, (entry.id, entry.type, entry.repeat_key, entry.due_at, crc_as_int32(body), body))
        connection.execute(f"pragma application_id = {migrations.APPLICATION_ID}")
        connection.execute(f"pragma user_version = {before}")

    async with opened(tmp_path) as store:
        bus = SqliteBus(store)
        assert {each.id: each for each in await bus.list_delayed()} == {each.id: each for each in entries}
        assert [each.id for each in await bus.due_broadcasts(4, 10)] == ["c"]
        instead = msgspec.structs.replace(entries[0], id="d")
        assert await bus.schedule(instead) == entries[0]


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
    before = (tmp_path / "interlock.db").read_bytes()
    broken = ("004_broken", ("create table more (n integer) strict", "create nonsense"))
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
    monkeypatch.setattr(migrations, "SCHEMA", migrations.SCHEMA + 1)
    with pytest.raises(StoreFailed, match="nonsense"):
        SqliteStore(tmp_path)
    assert (tmp_path / "interlock.db").read_bytes() == before


def refusal(folder: Path) -> str:
    """Why the folder cannot be opened. Nothing in it may change by trying."""
    path = folder / "interlock.db"
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreFailed) as refused:
        SqliteStore(folder)
    assert (path.read_bytes() if path.is_file() else None) == before
    return str(refused.value)


async def test_a_newer_database_is_refused_and_untouched(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
    with database(tmp_path) as connection:
        connection.execute("pragma user_version = 99")
    assert "written by a newer Interlock (schema 99, this one knows" in refusal(tmp_path)


@pytest.mark.parametrize("garbage", [b"x", b"{}\n" * 5000, b"SQLite format 3\0" + b"\xff" * 9000, b"\0" * 8192])
def test_a_file_that_is_no_database_is_refused_and_untouched(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "interlock.db").write_bytes(garbage)
    assert "interlock.db" in refusal(tmp_path) or "not a database" in refusal(tmp_path)


def test_an_empty_database_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "interlock.db").touch()
    assert "is empty" in refusal(tmp_path)


def test_a_database_of_another_program_is_refused_and_untouched(tmp_path: Path) -> None:
    with database(tmp_path) as connection:
        connection.execute("create table runs (id text)")
    assert "of another program" in refusal(tmp_path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
async def test_a_database_that_was_cut_off_is_refused_and_untouched(tmp_path: Path, part: float) -> None:
    async with opened(tmp_path) as store:
        await fill(store, runs=20, records=20)
    path = tmp_path / "interlock.db"
    os.truncate(path, int(path.stat().st_size * part))
    assert "damaged" in refusal(tmp_path) or "malformed" in refusal(tmp_path)


async def test_a_page_that_was_overwritten_is_refused_and_untouched(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
    root = asked(tmp_path, "select rootpage from sqlite_master where name = 'records'")[0]
    path = tmp_path / "interlock.db"
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 + 8 : (root - 1) * 4096 + 16] = b"\xff" * 8
    path.write_bytes(data)
    assert "is damaged (" in refusal(tmp_path)


def test_a_log_without_its_database_is_not_taken_for_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "interlock.db-wal").write_bytes(b"all there is left")
    assert "is gone" in refusal(tmp_path)
    assert not (tmp_path / "interlock.db").exists()


def test_a_folder_under_the_name_of_the_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "interlock.db").mkdir()
    assert "is not a file" in refusal(tmp_path)


async def test_what_a_crash_left_of_making_a_database_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "interlock.db.new").write_bytes(b"half of it")
    (tmp_path / "interlock.db.new-journal").write_bytes(b"half of it")
    async with opened(tmp_path) as store:
        await fill(store)
    assert not list(tmp_path.glob("*.new*"))


async def test_a_folder_that_cannot_be_written_is_refused_in_one_line() -> None:
    """In a process that is not root, as root may write everywhere."""
    program = """
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
for folder in sys.argv[1:]:
    try:
        SqliteStore(folder)
    except InterlockError as error:
        say(type(error).__name__, error)
"""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        empty, used = Path(place, "empty"), Path(place, "used")
        empty.mkdir()
        async with opened(used) as store:
            await fill(store)
        for folder in (used / "owners", empty, used):
            folder.chmod(0o555)
        answers = said(program, empty, used, empty / "new").splitlines()
        for folder in (empty, used, used / "owners"):
            folder.chmod(0o755)
    assert len(answers) == 3
    assert all(
        answer.startswith("StoreFailed could not open the data folder") and "Permission denied" in answer
        for answer in answers
    )


async def test_a_folder_that_another_process_is_stuck_in_opening_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_files, "LOCK_WAIT_S", 0.01)
    with owner_files.lock_folder(tmp_path), pytest.raises(StoreFailed, match=r"keeps '.*interlock.lock' locked"):
        SqliteStore(tmp_path)
    async with opened(tmp_path) as store:
        await fill(store)


# Damage


async def test_every_flipped_bit_of_a_body_is_found_and_other_runs_read_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        with database(tmp_path) as connection:
            find = (
                "select position, body from records where seq = 3 and run = (select number from runs where run = 'r1')"
            )
            position, body = connection.execute(find).fetchone()
            for n in range(len(body)):
                flipped = bytearray(body)
                flipped[n] ^= 1 << n % 8
                connection.execute("update records set body = ? where position = ?", (bytes(flipped), position))
                with pytest.raises(DamagedRun, match="'r1' is damaged: the crc of the record at seq 3 does not match"):
                    await store.records("r1")
        assert len(await store.records("r0")) == len(await store.records("r2")) == 4
        assert position not in [each.position for each in await store.since(0)]
        assert len(await store.since(0)) == 11
        assert [each.position for each in await store.since(position - 2, limit=2)] == [position - 1]
        after = await store.since(position - 1, limit=1)  # no page is empty while there is more
        assert [each.position for each in after] == [position + 1]


async def test_a_bit_flipped_on_the_disk_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
    path = tmp_path / "interlock.db"
    data = bytearray(path.read_bytes())
    data[data.index(b"reply 4")] ^= 1
    path.write_bytes(data)

    async with opened(tmp_path) as store:
        outcomes = await asyncio.gather(*(store.records(f"r{n}") for n in range(3)), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DamagedRun", "tuple", "tuple"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("update records set crc = crc + 1 where seq = 2", "crc of the record at seq 2"),
        ("update records set link = zeroblob(16) where seq = 2", "chain breaks at seq 2"),
        ("update runs set link = zeroblob(16)", "the crc of its row does not match"),
        ("delete from records where seq = 4", "should end at seq 4, and it breaks off after 3"),
        ("delete from records where seq = 3", "no record at seq 3, the next one is at 4"),
        ("delete from records where seq = 1", "no record at seq 1"),
        ("delete from records", "breaks off after 0"),
        ("update records set run = 3 - run", "crc of the record at seq 1"),
        ("update records set seq = 9 where seq = 4", "record at seq 9 says that it is at 4"),
    ],
)
async def test_what_was_taken_moved_or_changed_is_found(tmp_path: Path, change: str, message: str) -> None:
    async with opened(tmp_path) as store:
        await fill(store, runs=2)
        with database(tmp_path) as connection:
            connection.execute(change)
        with pytest.raises(DamagedRun, match=message):
            await store.records("r0")


async def test_a_stretch_of_a_journal_is_checked_against_what_stands_before_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        with database(tmp_path) as connection:
            connection.execute("update records set link = zeroblob(16) where seq = 2")
        with pytest.raises(DamagedRun, match="chain breaks at seq 3"):
            await store.records("r0", after=2)
        assert [record.seq for record in await store.records("r0", after=3)] == [4]


async def test_a_body_that_is_no_record_is_damage(tmp_path: Path) -> None:
    """The crc matches, so it was written on purpose, or by a much older or newer program."""

    async with opened(tmp_path) as store:
        await fill(store)
        with database(tmp_path) as connection:
            connection.execute("update records set body = x'5b5d', crc = 223132457 - 1 where seq = 2")
        with pytest.raises(DamagedRun, match="record at seq 2 cannot be read"):
            await store.records("r0")


async def test_a_position_is_never_given_twice(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        newest = (await store.since(0))[-1].position
        for n in (2, 1, 0):
            await store.delete_run(f"r{n}", at=1)
        assert (await store.create(a_row("new"), started())).position == newest + 1
        await store.delete_run("new", at=2)
        assert (await store.create(a_row("newer"), started())).position == newest + 2
        assert [each.run for each in await store.since(0)] == ["newer"]
        assert await store.problems() == []


# Full and locked


async def test_what_is_asked_for_during_a_commit_goes_into_the_next_one_refusals_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: list[str] = []
    monkeypatch.setattr(sqlite_writer, "crash_point", points.append)

    async with opened(tmp_path) as store:
        await fill(store, runs=20, records=1)
        points.clear()
        with database(tmp_path) as connection:
            connection.execute("begin immediate")
            appends = asyncio.gather(
                *(store.append(a_row(f"r{n}"), replied(2 + n % 2)) for n in range(20)), return_exceptions=True
            )
            await asyncio.sleep(0)
            connection.execute("commit")
        outcomes = await appends
        assert [isinstance(outcome, OutOfOrder) for outcome in outcomes] == [n % 2 == 1 for n in range(20)]
        assert points.count("before commit") == points.count("after commit") <= 2


async def test_whoever_writes_alone_waits_for_no_tick_of_the_loop_until_the_tick_gets_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that advances by half a millisecond with every reading."""
    looks = itertools.count(1)
    clock = SimpleNamespace(perf_counter=lambda: next(looks) / 2000, monotonic=time.monotonic)
    for module in (sqlite_writer, loop_ticks):
        monkeypatch.setattr(module, "time", clock)
    ticks: list[int] = []

    async with opened(tmp_path) as store:
        await fill(store, runs=1, records=1)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(ticks.append, 1)
        for seq in (2, 3):
            await store.append(a_row("r0"), replied(seq))
        assert ticks == []
        for seq in (4, 5, 6):
            await store.append(a_row("r0"), replied(seq))
        assert ticks == [1]
        assert len(await store.records("r0")) == 6


async def test_those_who_write_in_the_tick_of_another_share_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points: list[str] = []
    monkeypatch.setattr(sqlite_writer, "SLOW_S", 1e9)

    async with opened(tmp_path) as store:
        await fill(store, runs=4, records=1)
        for module in (sqlite_writer, lone_append):
            monkeypatch.setattr(module, "crash_point", points.append)
        await asyncio.gather(*(store.append(a_row(f"r{n}"), replied(2)) for n in range(4)))
        assert points == ["before commit", "after commit"] * 2


async def test_a_full_disk_refuses_what_does_not_fit_and_work_goes_on_once_there_is_room(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        before = [await store.records(f"r{n}") for n in range(3)]
        await store.limit_bytes(1)
        huge, small = replied(5, "x" * 200_000), replied(5)
        outcomes = await asyncio.gather(
            store.append(a_row("r0"), huge),
            store.append(a_row("r0"), replied(6)),
            store.append(a_row("r1"), small),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], StorageFull)
        assert "could not append to run 'r0'" in str(outcomes[0])
        assert isinstance(outcomes[1], OutOfOrder)
        assert isinstance(outcomes[2], AppendResult)
        assert [await store.records("r0"), await store.records("r2")] == [before[0], before[2]]
        assert (await store.row("r0")).seq == 4
        await store.limit_bytes(100_000_000)
        await store.append(a_row("r0"), huge)
        assert list(await store.records("r0"))[-1] == huge


async def test_a_value_that_sqlite_cannot_hold_is_refused_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        rows = [a_row("r0"), a_row("r1", created_at=2**70), a_row("r\ud800"), a_row("r3")]
        outcomes = await asyncio.gather(*(store.create(row, started()) for row in rows), return_exceptions=True)
        assert [isinstance(outcome, StoreFailed) for outcome in outcomes] == [False, True, True, False]
        assert [row.run for row in await store.rows()] == ["r3", "r0"]


async def test_a_database_locked_by_another_process_is_waited_for_without_holding_up_the_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        with database(tmp_path) as connection:
            connection.execute("begin immediate")
            appending = asyncio.create_task(store.append(a_row("r0"), replied(5)))
            for n in range(3):
                assert len(await store.records(f"r{n}")) == 4
            assert not appending.done()
            connection.execute("commit")
        await appending
        assert len(await store.records("r0")) == 5


async def test_a_database_that_stays_locked_is_an_error_and_work_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "LOCKED_WAIT_MS", 10)

    async with opened(tmp_path) as store:
        await fill(store)
        with database(tmp_path) as connection:
            connection.execute("begin immediate")
            with pytest.raises(StoreFailed, match="could not append to run 'r0': database is locked"):
                await store.append(a_row("r0"), replied(5))
            connection.execute("commit")
        await store.append(a_row("r0"), replied(5))


async def test_whoever_stops_waiting_does_not_disturb_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        appends = [asyncio.create_task(store.append(a_row(f"r{n}"), replied(5))) for n in range(3)]
        await asyncio.sleep(0)
        appends[1].cancel()
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [AppendResult, asyncio.CancelledError, AppendResult]
        assert (await store.row("r1")).seq == 5


async def test_normal_durability_forces_commits_to_the_disk_at_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a checkpoint makes the database file itself grow."""
    monkeypatch.setattr(log_backlog, "NORMAL_SYNC_S", 0.0)

    async with opened(tmp_path, "normal") as store:
        before = (tmp_path / "interlock.db").stat().st_size
        large = "x" * sqlite_writer.LARGE_BYTES
        await store.create(a_row(), started())
        await store.append(a_row(), replied(2, large))
        for seq in range(3, 10_000):  # the log is written back by a thread of its own, while others append
            await store.append(a_row(), replied(seq))
            if (tmp_path / "interlock.db").stat().st_size >= before + len(large):
                break
        assert (tmp_path / "interlock.db").stat().st_size >= before + len(large)


class FailingCommit:
    """A connection whose next commit fails as if the disk did; a rollback then fails as well."""

    def __init__(self, inner: sqlite3.Connection, code: int) -> None:
        self.inner, self.code, self.commits = inner, code, 0

    @property
    def in_transaction(self) -> bool:
        return self.inner.in_transaction

    @property
    def total_changes(self) -> int:
        return self.inner.total_changes

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "commit":
            self.commits += 1
            if self.commits == 1:
                self.inner.execute("rollback")
                self.inner.execute("begin")
                raise self._error("disk I/O error")
        if statement == "rollback":
            self.inner.execute("rollback")
            raise self._error("cannot rollback - no transaction is active")
        return self.inner.execute(statement, *values)

    def _error(self, message: str) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError(message)
        error.sqlite_errorcode = self.code
        return error


async def test_a_failed_fsync_is_final(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="the disk failed to keep what was written"):  # closing raises it too
        async with opened(tmp_path) as store:
            await fill(store)
            store._writer.connection = FailingCommit(store._writing, sqlite3.SQLITE_IOERR_FSYNC)  # type: ignore[assignment]
            appends = (store.append(a_row(f"r{n}"), replied(5)) for n in range(3))
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert all(isinstance(outcome, StoreFailed) for outcome in outcomes)
            with pytest.raises(StoreBroken):  # from now on waiting does not help
                await store.append(a_row("r0"), replied(5))
            for asking in (store.append(a_row("r0"), replied(5)), store.row("r0")):
                with pytest.raises(StoreFailed, match="the disk failed to keep what was written"):
                    await asking


async def test_any_other_failed_commit_is_not(tmp_path: Path) -> None:
    """And a rollback that fails, because SQLite has rolled back already, is no error of its own."""

    async with opened(tmp_path) as store:
        await fill(store)
        store._writer.connection = FailingCommit(store._writing, sqlite3.SQLITE_FULL)  # type: ignore[assignment]
        with pytest.raises(StorageFull, match="disk I/O error"):
            await store.append(a_row("r0"), replied(5))
        await store.append(a_row("r0"), replied(5))
        assert len(await store.records("r0")) == 5


# Other processes


def test_processes_that_open_a_new_folder_at_once_all_get_in(tmp_path: Path) -> None:
    program = """
async def main():
    store = SqliteStore(sys.argv[1])
    await store.create(a_row(sys.argv[2]), started())
    await store.close()
sys.stdin.readline()
asyncio.run(main())
"""
    names = [f"r{n}" for n in range(5)]
    running = [process(program, tmp_path, name) for name in names]
    others = [each.__enter__() for each in running]
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    assert [other.wait(timeout=60) for other in others] == [0] * 5
    for each in running:
        each.__exit__(None, None, None)
    assert sorted(asked(tmp_path, "select run from runs")) == names


async def test_what_a_store_remembers_of_a_run_gives_way_to_what_another_one_did(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        other = SqliteStore(tmp_path)
        await store.create(a_row(), started())
        for seq, writer in ((2, store), (3, other), (4, store), (5, other), (6, other)):
            await writer.append(a_row(status=f"{seq}"), replied(seq))
        await store.release("r1")
        await other.append(a_row(status="7"), replied(7))
        assert (await store.row("r1")).status == "7"
        assert (await other.claim("r1")).epoch == 1
        with pytest.raises(NotOwner):
            await store.append(a_row(), replied(8))
        await other.append(a_row(epoch=1), replied(8))
        assert len(await store.records("r1")) == 8
        await other.close()


WRITE_MANY = """
async def main():
    store = SqliteStore(sys.argv[1])
    await store.create(a_row("theirs"), started())
    say("ready")
    for seq in range(2, 201):
        await store.append(a_row("theirs"), replied(seq))
    await store.close()
asyncio.run(main())
"""


async def test_two_processes_write_to_one_folder(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create(a_row("ours"), started())
        with process(WRITE_MANY, tmp_path) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            for seq in range(2, 201):
                await store.append(a_row("ours"), replied(seq))
            assert other.wait(timeout=60) == 0
        for run in ("ours", "theirs"):
            assert [record.seq for record in await store.records(run)] == list(range(1, 201))


HOLD_A_RUN = """
async def main():
    store = SqliteStore(sys.argv[1])
    await store.create(a_row("r1"), started())
    say(store.owner)
    sys.stdin.readline()
asyncio.run(main())
"""


async def test_a_run_is_taken_over_from_a_process_that_was_killed_and_not_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with process(HOLD_A_RUN, tmp_path) as other:
            assert other.stdout is not None
            owner = other.stdout.readline().strip()
            assert owner.startswith(f"{other.pid}-")
            with pytest.raises(OwnedElsewhere, match=owner):
                await store.claim("r1")
            other.kill()
            other.wait(timeout=60)
            assert (await store.claim("r1")).epoch == 1
        await store.append(a_row(epoch=1), replied(2))
        assert [file.stem for file in sorted((tmp_path / "owners").iterdir())] == sorted([owner, store.owner])
    await SqliteStore(tmp_path).close()  # opening clears away the files of the dead
    assert list((tmp_path / "owners").iterdir()) == []


def test_two_who_ask_after_a_dead_owner_at_once_both_learn_that_it_is_dead(tmp_path: Path) -> None:
    (tmp_path / "owners").mkdir()
    file = tmp_path / "owners" / "1-dead.lock"
    with file.open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not owner_files.is_alive(tmp_path, "1-dead")
        fcntl.flock(asking, fcntl.LOCK_EX)
        assert owner_files.is_alive(tmp_path, "1-dead")
    assert not owner_files.is_alive(tmp_path, "1-unknown")


def test_a_child_of_a_fork_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    program = """
async def try_all():
    for asking in (store.row("r1"), store.append(a_row("r1"), replied(2)), store.close()):
        try:
            await asking
        except InterlockError as error:
            say(type(error).__name__, error)

async def go_on():
    await store.append(a_row("r1"), replied(2))
    say(len(await store.records("r1")))
    await store.close()

store = SqliteStore(sys.argv[1])
asyncio.run(store.create(a_row("r1"), started()))
if (child := os.fork()) == 0:
    asyncio.run(try_all())
    sys.exit(0)  # by way of all that Python cleans up
os.waitpid(child, 0)
asyncio.run(go_on())
"""
    refused = "StoreFailed the store was opened before a fork and cannot be used after it; open it in the child"
    assert said(program, tmp_path).splitlines() == [refused] * 3 + ["2"]


async def test_a_forked_child_that_lives_on_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    program = """
async def main():
    store = SqliteStore(sys.argv[1])
    await store.create(a_row("r1"), started())
    if os.fork() == 0:
        say(os.getpid())
    signal.pause()
asyncio.run(main())
"""

    async with opened(tmp_path) as store:
        with process(program, tmp_path) as other:
            assert other.stdout is not None
            child = int(other.stdout.readline())
            try:
                other.kill()
                other.wait(timeout=60)
                assert (await store.claim("r1")).epoch == 1
            finally:
                os.kill(child, signal.SIGKILL)


async def test_a_log_that_was_deleted_under_us_stops_everything_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Opening a database's file in its own process drops SQLite's locks; the next process to leave deletes the log."""

    with pytest.raises(StoreFailed, match="deleted or replaced"):
        async with opened(tmp_path) as store:
            await fill(store)
            (tmp_path / "interlock.db").read_bytes()
            said(WRITE_MANY, tmp_path)
            assert not (tmp_path / "interlock.db-wal").exists()
            with pytest.raises(StoreFailed, match="deleted or replaced while it was in use"):
                await store.append(a_row("r0"), replied(5))
            with pytest.raises(StoreFailed, match="deleted or replaced"):
                await store.row("r0")

    async with opened(tmp_path) as store:
        assert [len(await store.records(f"r{n}")) for n in range(3)] == [4, 4, 4]
        assert len(await store.records("theirs")) == 200
    assert asked(tmp_path, "pragma integrity_check") == ["ok"]


async def test_a_log_that_vanishes_during_a_commit_is_noticed_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreFailed, match="deleted or replaced"):
        async with opened(tmp_path) as store:
            await fill(store)
            log = tmp_path / "interlock.db-wal"
            monkeypatch.setattr(sqlite_writer, "crash_point", lambda name: log.unlink(missing_ok=True))
            with pytest.raises(StoreFailed, match="deleted or replaced while it was in use"):
                await store.append(a_row("r0"), replied(5))


async def test_a_database_that_was_replaced_is_noticed_before_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKED_S", 0.0)

    with pytest.raises(StoreFailed, match="deleted or replaced"):
        async with opened(tmp_path) as store:
            await fill(store)
            before = (tmp_path / "interlock.db-wal").stat().st_size
            (tmp_path / "interlock.db").rename(tmp_path / "moved.db")
            (tmp_path / "interlock.db").write_bytes(b"another one")
            with pytest.raises(StoreFailed, match="deleted or replaced while it was in use"):
                await store.append(a_row("r0"), replied(5))
            assert (tmp_path / "interlock.db-wal").stat().st_size == before


# Death

KEEP_WRITING = """
async def client(store, run):
    await store.create(a_row(run), started())
    say(run, 1)
    for seq in range(2, 100_000):
        await store.append(a_row(run), replied(seq))
        say(run, seq)

async def main():
    folder, durability, name = sys.argv[1:]
    store = SqliteStore(folder, durability=durability)
    await asyncio.gather(*(client(store, f"{name}-{n}") for n in range(4)))

asyncio.run(main())
"""


def acknowledged(lines: list[str]) -> dict[str, int]:
    """The newest seq of every run, by lines that were written whole."""
    newest: dict[str, int] = {}
    for line in lines:
        if line.endswith("\n"):
            run, seq = line.split()
            newest[run] = int(seq)
    return newest


async def require_kept(folder: Path, newest: dict[str, int]) -> None:
    """All that was acknowledged, and of every run at most the one record that was on its way."""

    async with opened(folder) as store:
        rows = {row.run: row.seq for row in await store.rows(limit=1000)}
        for run, seq in rows.items():
            assert [record.seq for record in await store.records(run)] == list(range(1, seq + 1))
        assert newest.keys() <= rows.keys()
        assert all(rows[run] - newest.get(run, 0) in (0, 1) for run in rows)
        assert [(await store.claim(run)).epoch for run in rows] == [1] * len(rows)


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_killing_the_process_loses_nothing_that_was_acknowledged(tmp_path: Path, durability: str) -> None:
    choices = random.Random(3)
    newest: dict[str, int] = {}
    for n in range(KILLS // 2):
        with process(KEEP_WRITING, tmp_path, durability, f"p{n}") as other:
            assert other.stdout is not None
            lines = [other.stdout.readline() for _ in range(choices.randint(1, 400))]
            other.kill()
            lines += other.stdout.readlines()
        newest |= acknowledged(lines)
    assert len(newest) > KILLS // 2
    await require_kept(tmp_path, newest)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 10])
async def test_a_crash_before_or_after_a_commit_loses_nothing_that_was_acknowledged(tmp_path: Path, n: int) -> None:
    with process(KEEP_WRITING, tmp_path, "full", "p", INTERLOCK_CRASH_AT=str(n)) as other:
        out, err = other.communicate(timeout=60)
    assert other.returncode == 137
    assert f"stopped at {'after' if n % 2 == 0 else 'before'} commit" in err
    await require_kept(tmp_path, acknowledged(out.splitlines(keepends=True)))
    commits = n // 2
    assert len(asked(tmp_path, "select run from records")) >= commits
