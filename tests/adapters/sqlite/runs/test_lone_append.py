"""An append that is one statement: when it is, what it notices, and that each part of its fence is needed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.adapters.sqlite import writer
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.runs import fenced_insert, lone_append, tail
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.errors import NotOwner, StoreBroken, StoreFailed
from interlock.ports import AtomicWrites, RunQuestions
from tests.adapters.sqlite.runs.handing_over import HandingOver
from tests.adapters.store_records import a_row

WATCH = AgentSubscription(crew="watch", agent="z", pattern="agent:*:*")


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk the thread commits."""
    monkeypatch.setattr(writer, "SLOW_S", 600.0)


@asynccontextmanager
async def handing_over(folder: Path) -> AsyncIterator[tuple[HandingOver, SqliteStore]]:
    """A run that has handed over twice, and the store of another process."""
    stores = [SqliteStore(folder, durability="normal") for _ in range(2)]
    run = HandingOver(stores[0], "r")
    await run.start()
    for _ in range(2):
        await run.hand_over()
    yield run, stores[1]
    for store in stores:
        await store.close()


@asynccontextmanager
async def traced(store: SqliteStore) -> AsyncIterator[list[str]]:
    """The first words of the statements of the writer."""
    found: list[str] = []
    store._writing.set_trace_callback(lambda statement: found.append(" ".join(statement.split()[:2])))
    yield found
    store._writing.set_trace_callback(None)


async def test_a_handoff_alone_is_one_statement(tmp_path: Path) -> None:
    async with handing_over(tmp_path) as (run, _), traced(run.store) as statements:
        for _ in range(3):
            await run.hand_over()
        assert statements == ["insert or"] * 3
        row, records = await run.store.row_with_records("r")
        assert (row.agent, row.usage.calls, row.seq, len(records)) == ("b", 5, 11, 6)
        assert await run.store.problems() == []


async def test_what_needs_another_write_is_a_transaction(tmp_path: Path) -> None:
    async with handing_over(tmp_path) as (run, _):
        row, record, also = run.next()
        asking = AtomicWrites(asking=RunQuestions(run="r"), ended=also.ended, begun=also.begun)
        async with traced(run.store) as statements:
            await run.store.append(row, record, asking)
        assert statements[0] == "begin immediate"
        async with traced(run.store) as statements:
            await run.hand_over("x" * tail.TOLD_BYTES_MAX)
        assert statements[0] == "begin immediate"
        row, record, also = run.next()
        async with traced(run.store) as statements:
            await run.store.append(a_row("r", agent="nobody", updated_at=9), record, also)
        assert statements[0] == "begin immediate"
        assert (await run.store.row("r")).agent == "nobody"


@pytest.mark.parametrize("field", [each for each in AtomicWrites.__struct_fields__ if each not in {"ended", "begun"}])
def test_only_presence_may_go_with_a_record_that_is_appended_alone(field: str) -> None:
    """A field that comes later must be looked at too: else it is not written, and nobody is told."""
    also = AtomicWrites()
    assert lone_append._has_only_presence(also)
    filled = object() if getattr(also, field) is None else (object(),)
    assert not lone_append._has_only_presence(msgspec.structs.replace(also, **{field: filled}))


async def test_the_tail_is_filled_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_MAX", 5)
    async with handing_over(tmp_path) as (run, _), traced(run.store) as statements:
        for _ in range(17):
            await run.hand_over()
        assert statements.count("begin immediate") in (3, 4)
        assert len(await run.store.records("r")) == 20


async def claim_elsewhere(run: HandingOver, other: SqliteStore) -> None:
    """The run is released and claimed again by its own store; the epoch that the caller knows is old."""
    await run.store.release("r")
    await other.claim("r")


async def test_a_run_that_another_process_has_claimed_is_refused(tmp_path: Path) -> None:
    async with handing_over(tmp_path) as (run, other):
        await claim_elsewhere(run, other)
        with pytest.raises(NotOwner):
            await run.hand_over()
        assert len(await other.records("r")) == 3


# What another process does before the next handoff of this one, and the part of the fence that notices it.


async def another_run(folder: SqliteStore) -> None:
    await HandingOver(folder, "other").start()


async def a_subscription(folder: SqliteStore) -> None:
    await SqliteBus(folder).subscribe(WATCH)


async def seen_after(folder: Path, does: Any) -> tuple[object, object]:
    """The broadcasts and unread inboxes after another process has done something, and the run handed over twice."""
    async with handing_over(folder) as (run, other):
        await does(other)
        for _ in range(2):
            await run.hand_over()
        bus = SqliteBus(other)
        broadcasts = [(each.type, each.source) for each in await bus.newest(100)]
        return broadcasts, await bus.agents_with_unread()


FENCE = {
    "records": " and (select max(position) from records) = ?",
    "commits without a record": " and (select number from bus_changes where name = 'unrecorded') = ?",
}


@pytest.mark.parametrize(("does", "needed"), [(another_run, "records"), (a_subscription, "commits without a record")])
async def test_what_other_processes_commit_is_noticed_and_each_part_of_the_fence_is_needed(
    does: Any, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = await seen_after(tmp_path / "sound", does)
    with monkeypatch.context() as patched:
        patched.setattr(lone_append, "is_told", lambda *_: False)  # each append is a transaction
        assert await seen_after(tmp_path / "transactions", does) == sound

    assert fenced_insert._INSERT.format("".join(FENCE.values())) == fenced_insert.INSERT_LONE
    planted = "".join(" and ? is not null" if name == needed else part for name, part in FENCE.items())
    monkeypatch.setattr(lone_append, "INSERT_LONE", fenced_insert._INSERT.format(planted))
    assert await seen_after(tmp_path / "planted", does) != sound


async def test_a_repair_by_another_process_is_noticed(tmp_path: Path) -> None:
    async with handing_over(tmp_path) as (run, _):
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as connection:
            connection.create_function("interlock_seal", -1, lambda *_: 1, deterministic=True)  # a wrong one
            connection.execute("update bus_changes set number = number + 1 where name = 'subscriptions'")
        await SqliteStore(tmp_path, durability="normal").close()
        async with traced(run.store) as statements:
            await run.hand_over()
        assert statements[:2] == ["insert or", "begin immediate"]


async def test_while_another_process_writes_it_waits_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    async with handing_over(tmp_path / "sound") as (run, other):
        await run.hand_over()
        sound = [(each.type, each.id) for each in await SqliteBus(other).newest(100)]
    async with handing_over(tmp_path / "busy") as (run, other):
        with closing(sqlite3.connect(tmp_path / "busy" / DATABASE, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            waiting = asyncio.create_task(run.hand_over())
            await asyncio.sleep(0)
            assert not waiting.done()
            connection.execute("commit")
        await waiting
        assert [(each.type, each.id) for each in await SqliteBus(other).newest(100)] == sound


class FailingInsert:
    """A connection whose next insert fails as the given code."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self._connection, self._code = connection, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith("insert or ignore into records"):
            error = sqlite3.OperationalError("planted")
            error.sqlite_errorcode = self._code
            raise error
        return self._connection.execute(statement, *values)


async def test_a_failed_sync_is_final_and_any_other_failure_is_not(tmp_path: Path) -> None:
    async with handing_over(tmp_path) as (run, _):
        store, step = run.store, run.next()
        store._writer.connection = FailingInsert(store._writing, sqlite3.SQLITE_FULL)  # type: ignore[assignment]
        with pytest.raises(StoreFailed, match="append to run 'r'"):
            await store.append(*step)
        store._writer.connection = store._writing
        await store.append(*step)
        store._writer.connection = FailingInsert(store._writing, sqlite3.SQLITE_IOERR_FSYNC)  # type: ignore[assignment]
        with pytest.raises(StoreFailed, match="planted"):
            await run.hand_over()
        store._writer.connection = store._writing
        with pytest.raises(StoreBroken):
            await run.hand_over()
        store._writer.broken = None  # so that it can be closed


# The number that tells of commits of others


async def test_a_commit_of_another_process_changes_the_version_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHECKED_S", 600.0)
    async with handing_over(tmp_path) as (run, other):
        seen = {run.store.version()}
        for does in (another_run, a_subscription):
            await does(other)
            seen.add(run.store.version())
            await run.hand_over()
            seen.add(run.store.version())
        assert len(seen) == 3


async def test_a_process_that_cannot_write_its_mark_is_noticed_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHECKED_S", 600.0)
    async with handing_over(tmp_path) as (run, other):
        before = run.store.version()
        monkeypatch.setattr(other._mark, "advance", lambda *_: None)
        await a_subscription(other)
        assert run.store.version() == before
        monkeypatch.setattr(writer, "CHECKED_S", 0.0)
        assert run.store.version() != before
