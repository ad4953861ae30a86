"""Who waits for whom: groups of the writer while a commit takes long, and the log beside them. No clock is asked."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.sqlite import log_backlog, migrations, write_jobs, writer
from interlock.adapters.sqlite.database_files import DatabaseFiles
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.store import SqliteStore
from tests.adapters.store_records import a_row, replied, started
from tests.adapters.stores import opened
from tests.adapters.test_store_faults import telling

APPENDS = 1_000
# No commit is as slow as this.
QUICK_S = 60.0
COMMIT = ("commit", "interlock-writer")
WRITE_BACK = ("pragma wal_checkpoint", "interlock-log")


class HeldStatement:
    """Holds a statement of one thread each time until the test lets it continue."""

    def __init__(self, statement: str, thread: str) -> None:
        self._statement, self._thread = statement, thread
        self.holds = False
        self._reached: SimpleQueue[None] = SimpleQueue()
        self._may_continue = threading.Semaphore(0)

    def before(self, statement: str) -> None:
        if self.holds and statement.startswith(self._statement) and threading.current_thread().name == self._thread:
            self._reached.put(None)
            self._may_continue.acquire()

    async def reached(self) -> None:
        await asyncio.to_thread(self._reached.get, timeout=30)  # a test that fails does not hang

    def let_continue(self) -> None:
        self._may_continue.release()

    def let_all_continue(self) -> None:
        self.holds = False
        self._may_continue.release(APPENDS)


@asynccontextmanager
async def opened_and_held(
    folder: Path, statement: str, thread: str, durability: str = "full"
) -> AsyncIterator[tuple[SqliteStore, HeldStatement]]:
    """A test that fails holds nothing for ever."""
    held = HeldStatement(statement, thread)
    async with opened(folder, durability, connect=telling(held.before)) as store:
        try:
            yield store, held
        finally:
            held.let_all_continue()


@pytest.fixture(autouse=True)
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit but the first counts as slow, so that all go to the thread."""
    monkeypatch.setattr(writer, "SLOW_S", 0.0)


Note = Callable[[int], Callable[[sqlite3.Connection, WriterCache], int]]


def notes(done: list[int]) -> Note:
    """Makes work that notes its number when it is part of a transaction."""

    def work_of(number: int) -> Callable[[sqlite3.Connection, WriterCache], int]:
        def work(_connection: sqlite3.Connection, _cache: WriterCache) -> int:
            done.append(number)
            return number

        return work

    return work_of


async def start_writes(
    store: SqliteStore, numbers: range, note: Note, acknowledged: list[int], size: int = 0
) -> list[asyncio.Task[Any]]:
    """Tasks that write, each as far as its place in the queue."""

    async def write(number: int) -> None:
        acknowledged.append(await store.write("test", note(number), size))

    tasks = [asyncio.create_task(write(number)) for number in numbers]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_waits_when_a_commit_begins_is_part_of_it_and_nobody_waits_for_more_than_two(tmp_path: Path) -> None:
    performed: list[int] = []
    acknowledged: list[int] = []
    note = notes(performed)
    async with opened_and_held(tmp_path, *COMMIT) as (store, commits):
        await store.write("test", note(-1))
        commits.holds = True
        early = await start_writes(store, range(1), note, acknowledged)
        await commits.reached()
        waiting = await start_writes(store, range(1, APPENDS + 1), note, acknowledged)
        assert performed == [-1, 0]

        commits.let_continue()
        await commits.reached()
        assert performed == list(range(-1, APPENDS + 1)), "all that waited is in the second commit, in its order"
        late = await start_writes(store, range(APPENDS + 1, 2 * APPENDS), note, acknowledged)
        assert acknowledged == [0] and performed[-1] == APPENDS

        commits.let_continue()
        await asyncio.gather(*early, *waiting)
        assert acknowledged == list(range(APPENDS + 1)), "after two commits, and nothing overtook an earlier one"
        commits.let_all_continue()
        await asyncio.gather(*late)
        assert performed == [-1, *range(2 * APPENDS)] and acknowledged == performed[1:]


async def test_a_group_has_an_end_in_bytes_and_the_next_one_begins_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_jobs, "GROUP_BYTES", 10 * (write_jobs.JOB_BYTES + 1_000))
    performed: list[int] = []
    note = notes(performed)
    async with opened_and_held(tmp_path, *COMMIT) as (store, commits):
        await store.write("test", note(-1))
        commits.holds = True
        tasks = await start_writes(store, range(1), note, [])
        await commits.reached()
        tasks += await start_writes(store, range(1, 26), note, [], size=1_000)
        for end in (11, 21, 26):
            commits.let_continue()
            await commits.reached()
            assert performed == list(range(-1, end))
        commits.let_all_continue()
        await asyncio.gather(*tasks)


async def test_the_version_is_known_while_the_thread_commits(tmp_path: Path) -> None:
    """Else every reply on a slow disk would read all inboxes again."""
    async with opened_and_held(tmp_path, *COMMIT) as (store, commits):
        note = notes([])
        await store.write("test", note(0))
        before = store.version()
        commits.holds = True
        tasks = await start_writes(store, range(1), note, [])
        await commits.reached()
        assert store.version() == before is not None
        assert store.version_at_rest() is None, "another process may commit before this one is acknowledged"
        commits.let_all_continue()
        await asyncio.gather(*tasks)
        assert store.version() == before


async def test_a_commit_whose_caller_was_cancelled_changes_the_version(tmp_path: Path) -> None:
    """The caller cannot tell anybody of it, and what was read before may be kept."""
    async with opened_and_held(tmp_path, *COMMIT) as (store, commits):
        note = notes([])
        await store.write("test", note(0))
        before = store.version_at_rest()
        commits.holds = True
        (task,) = await start_writes(store, range(1), note, [])
        await commits.reached()
        task.cancel()
        commits.let_all_continue()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.write("test", note(1))
        after = store.version_at_rest()
        assert before is not None and after is not None and after > before


async def test_no_commit_waits_while_the_log_is_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_backlog, "LOG_BYTES", 1)
    monkeypatch.setattr(writer, "PAUSE_TIMES", 2**40)
    async with opened_and_held(tmp_path, *WRITE_BACK) as (store, log):
        log.holds = True
        note, done = notes([]), 0
        await store.write("test", note(0))
        await log.reached()
        for number in range(100):
            done += await store.write("test", note(number)) >= 0
        assert done == 100
        log.let_all_continue()


async def test_while_the_disk_is_quick_commits_pause_and_the_log_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of a log that grows costs twice as much."""
    monkeypatch.setattr(writer, "SLOW_S", QUICK_S)
    monkeypatch.setattr(log_backlog, "LOG_BYTES", 1)
    async with opened_and_held(tmp_path, *WRITE_BACK) as (store, log):
        log.holds = True
        await store.create(a_row("r0", epoch=1), started())
        await log.reached()
        for seq in range(2, 12):
            writing = asyncio.create_task(store.append(a_row("r0", epoch=1), replied(seq)))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not writing.done()
            log.let_continue()
            await writing
            await log.reached()
        assert (tmp_path / f"{DATABASE}-wal").stat().st_size < 60_000, "each began at its start"


async def test_commits_pause_for_a_log_that_grows_while_it_is_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite starts the log again only if a commit finds all of it written back."""
    monkeypatch.setattr(log_backlog, "LOG_BYTES", 1)
    async with opened_and_held(tmp_path, "pragma wal_checkpoint", "interlock-writer") as (store, pause):
        pause.holds = True
        await store.create(a_row("r0"), started())
        await pause.reached()
        (waiting,) = await start_writes(store, range(1), notes([]), [])
        assert not waiting.done()
        pause.let_all_continue()
        await waiting


async def test_a_write_that_cannot_begin_forgets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SLOW_S", QUICK_S)
    async with opened_and_held(tmp_path, "begin immediate", "interlock-writer", "normal") as (store, thread):
        for n in range(5):
            await store.create(a_row(f"r{n}", epoch=1), started())
        thread.holds = True
        with closing(migrations.connect(tmp_path / DATABASE)) as other:
            other.execute("begin immediate")
            writing = asyncio.create_task(store.append(a_row("r0", epoch=1), replied(2)))
            await thread.reached()  # so the loop has tried, and was locked out
            other.execute("rollback")
        thread.let_all_continue()
        await writing
        assert len(store._writer._cache.heads) == 5


async def test_a_log_that_cannot_be_asked_once_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_backlog, "NORMAL_SYNC_S", 0.01)
    asked, again, is_same = 0, threading.Event(), DatabaseFiles.is_same_database

    def fail_once(files: DatabaseFiles) -> bool:
        nonlocal asked
        if threading.current_thread().name == "interlock-log":
            asked += 1
            if asked == 1:
                raise PermissionError(13, "Permission denied")
            again.set()
        return is_same(files)

    monkeypatch.setattr(DatabaseFiles, "is_same_database", fail_once)
    async with opened(tmp_path, "normal") as store:
        await store.create(a_row("r", epoch=1), started())
        assert await asyncio.to_thread(again.wait, 30)
