"""A store whose rows and index follow behind answers as one that fills at once, and what a record tells is true."""

import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign.full_folder import HELLO
from interlock import Interlock, load_crew
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.bus import announcements
from interlock.adapters.sqlite.read_only import ReadOnlyStore
from interlock.adapters.sqlite.runs import places, tail
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.engine.events import Event, ModelReplied, RunStarted, TurnStarted, Usage
from interlock.engine.flow.waits import agents_in_record
from interlock.errors import InterlockError, NotOwner, OutOfOrder, StoreFailed
from interlock.ids import CHILD_MARK
from interlock.ports import OpenQuestion, Record, RunQuestions, RunRow, SealedTree

STEPS = 90
AGENTS = ("a", "b", "c")
FILLS_AT_ONCE = 1
Call = tuple[Any, ...]  # the name of a store's method, and what it is given


class Folder:
    """A data folder with two stores, as two processes have it open, and a longest tail."""

    def __init__(self, path: Path, tail_max: int) -> None:
        self.path, self.tail_max = path, tail_max
        self.stores = [SqliteStore(path, durability="normal") for _ in range(2)]

    async def ask(self, of: int, name: str, *given: Any) -> Any:
        """An answer, or the kind of an error: its text may name an owner, which differs."""
        tail.TAIL_MAX, places.LOOKED_THROUGH_MAX = self.tail_max, 0 if self.tail_max == FILLS_AT_ONCE else 256
        try:
            if name == "list_rows":
                return await list_rows(self.stores[of], *given)
            return await getattr(self.stores[of], name)(*given)
        except InterlockError as error:
            return type(error)

    async def reopen(self, of: int) -> None:
        tail.TAIL_MAX = self.tail_max
        await self.stores[of].close()
        self.stores[of] = SqliteStore(self.path, durability="normal")

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


@asynccontextmanager
async def folders(path: Path, *tail_max: int) -> AsyncIterator[list[Folder]]:
    opened = [Folder(path / f"{n}", each) for n, each in enumerate(tail_max)]
    try:
        yield opened
    finally:
        for each in opened:
            await each.close()


class History:
    """A random history of runs, played on several folders in the same way."""

    def __init__(self, seed: int, folders: list[Folder]) -> None:
        self.chance, self.folders = random.Random(seed), folders
        self.rows: dict[str, RunRow] = {}
        self.last: dict[str, Record] = {}
        self.gone: dict[str, SealedTree] = {}
        self.at, self.made = 1_000, 0

    async def both(self, of: int, name: str, *given: Any) -> Any:
        answers = [await each.ask(of, name, *given) for each in self.folders]
        assert all(each == answers[0] for each in answers[1:]), answers
        return answers[0]

    async def step(self) -> None:
        verbs = {
            self.start: 4,
            self.append: 30,
            self.append_again: 2,
            self.append_wrongly: 2,
            self.move: 3,
            self.delete: 1,
            self.restore: 1,
            self.ask_something: 2,
            self.reopen: 1,
            self.fail: 1,
        }
        self.at += 1
        await self.chance.choices(list(verbs), list(verbs.values()))[0](self.chance.randrange(2))

    async def start(self, of: int) -> None:
        below = self.chance.choice([*self.rows, "", ""])
        run, self.made = f"{below}{CHILD_MARK}{self.made}" if below else f"r{self.made}", self.made + 1
        row = RunRow(run=run, crew=self.chance.choice("xy"), crew_sha="", status="running", agent="a", seq=2)
        row = msgspec.structs.replace(row, created_at=self.at, updated_at=self.at)
        events = (RunStarted(crew=row.crew, input="go", rules=1), TurnStarted(agent="a", turn=1))
        self.rows[run], self.last[run] = row, Record(seq=1, at=self.at, events=events)
        await self.both(of, "create", row, self.last[run])

    async def append(self, of: int) -> None:
        """Nearly always what a running run does: then the record tells the row."""
        if not self.rows:
            return
        run = self.chance.choice(list(self.rows))
        row = self.rows[run]
        usage = Usage(input_tokens=self.chance.randrange(9), cost_micros=self.chance.randrange(9))
        text = "x" * (20_000 if self.chance.random() < 0.05 else 20)
        events: tuple[Event, ...] = (ModelReplied(call="c", agent=row.agent, text=text, usage=usage),)
        agent = row.agent
        if self.chance.random() < 0.7:
            agent = self.chance.choice(AGENTS)
            events += (TurnStarted(agent=agent, turn=2),)
        row = msgspec.structs.replace(
            row,
            seq=row.seq + len(events),
            agent=agent,
            updated_at=self.at,
            usage=row.usage + usage + Usage(calls=1),
            status="running",
            reason="",
        )
        if self.chance.random() < 0.25:
            changes: dict[str, Any] = self.chance.choice(
                [
                    {"status": "paused", "reason": "signal:[WAIT]"},
                    {"status": "completed"},
                    {"updated_at": self.at + 5},
                    {"agent": "d"},
                    {"usage": row.usage + Usage(calls=3)},
                    {"reason": "odd"},
                ]
            )
            row = msgspec.structs.replace(row, **changes)
        record = Record(seq=self.rows[run].seq + 1, at=self.at, events=events)
        answer = await self.both(of, "append", row, record)
        if answer is not NotOwner:
            self.rows[run], self.last[run] = row, record

    async def append_again(self, of: int) -> None:
        for run, row in list(self.rows.items())[-3:]:
            await self.both(of, "append", row, self.last[run])

    async def append_wrongly(self, of: int) -> None:
        for run, row in list(self.rows.items())[-3:]:
            for change in ({"epoch": row.epoch + 1}, {"epoch": row.epoch - 1}, {}):
                wrong = msgspec.structs.replace(self.last[run], seq=self.last[run].seq + (0 if change else 7))
                other = msgspec.structs.replace(row, **change)
                answer = await self.both(of, "append", other, wrong)
                assert answer is (NotOwner if change else OutOfOrder)

    async def move(self, of: int) -> None:
        """Another process takes a run over."""
        if self.rows:
            run = self.chance.choice(list(self.rows))
            await self.both(1 - of, "release", run)
            epoch = (await self.both(of, "claim", run)).epoch
            self.rows[run] = msgspec.structs.replace(self.rows[run], epoch=epoch)

    async def delete(self, of: int) -> None:
        if self.rows:
            run = self.chance.choice(list(self.rows))
            below = [each for each in self.rows if each == run or each.startswith(run + CHILD_MARK)]
            for each in below:
                for n in range(2):
                    await self.both(n, "release", each)
            tree = await self.both(of, "export_tree", run)
            await self.both(of, "delete_tree", run, self.at)
            self.gone[run] = tree
            for each in below:
                del self.rows[each]

    async def restore(self, of: int) -> None:
        if self.gone:
            run = self.chance.choice(list(self.gone))
            tree = self.gone.pop(run)
            if await self.both(of, "add_tree", tree) is None:
                for row in tree.rows:
                    self.rows[row.run] = msgspec.structs.replace(row, epoch=0)
                    self.last[row.run] = (await self.folders[0].stores[0].records(row.run))[-1]

    async def ask_something(self, of: int) -> None:
        for run, row in list(self.rows.items())[-2:]:
            where = {"run": run, "crew": row.crew, "agent": "a", "reason": "signal:[WAIT]"}
            asked = msgspec.convert({**where, "id": "q", "question": "q", "token": run, "since": 1}, OpenQuestion)
            for seq in (row.seq, row.seq - 1):
                await self.both(of, "store_questions", RunQuestions(run=run, questions=(asked,)), seq)

    async def reopen(self, of: int) -> None:
        """A store that is closed gives up its runs."""
        for each in self.folders:
            await each.reopen(of)

    async def fail(self, of: int) -> None:
        """A transaction that fails clears what the writer has cached."""

        def work(connection: Any, _cache: Any) -> None:
            connection.execute("insert into nothing values (1)")

        assert await self.both(of, "write", "fail", work) is StoreFailed

    async def look(self) -> None:
        """Compares every way to read."""
        of = self.chance.randrange(2)
        for call in calls(self.chance, list(self.rows), list(self.gone)):
            await self.both(of, *call)
        for each in self.folders:
            rows = {row.run: row for row in await each.stores[of].rows(limit=1_000)}
            assert {run: (row.seq, row.agent, row.usage, row.status, row.updated_at) for run, row in rows.items()} == {
                run: (row.seq, row.agent, row.usage, row.status, row.updated_at) for run, row in self.rows.items()
            }


def calls(chance: random.Random, runs: list[str], gone: list[str]) -> list[Call]:
    """Every way to read."""
    found: list[Call] = [
        *(("list_rows", *given) for given in [(None, None, None), ("running", None, None), ("paused", "x", True)]),
        ("newest_position",),
        ("since", 0, 1_000),
        ("folder_counts",),
        ("runs_finished_before", 10**9, "", 1_000),
        ("runs_without_question_list",),
        ("open_questions", 100),
        ("tombstones",),
        ("problems",),
    ]
    for run in (*chance.sample(runs, min(3, len(runs))), *gone[:1], "nobody"):
        after, limit, position = chance.randrange(12), chance.randrange(1, 5), chance.randrange(40)
        found += [
            *(("list_rows", None, None, None, run), ("row", run), ("rows_below", run), ("row_with_records", run)),
            *(("records", run), ("records", run, after), ("records", run, after, limit), ("run_snapshot", run, limit)),
            *(("tree", run, after, position), ("of_run", run, position, limit)),
            *(("export_tree", run), ("export_records", run)),
        ]
    return found


async def list_rows(
    store: SqliteStore, status: str | None, crew: str | None, nested: bool | None, before: str | None = None
) -> Any:
    return await store.rows(status=status, crew=crew, nested=nested, before=before, limit=1_000)


def copied(folder: Folder, to: Path) -> Path:
    """The folder as a process that dies now leaves it."""
    to.mkdir()
    for file in folder.path.glob("[!o]*"):
        if file.is_file() and not file.name.endswith("-shm"):
            shutil.copy(file, to)
    return to


@pytest.fixture(autouse=True)
def _keep_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_MAX", tail.TAIL_MAX)
    monkeypatch.setattr(places, "LOOKED_THROUGH_MAX", places.LOOKED_THROUGH_MAX)


@pytest.mark.parametrize("seed", range(12))
async def test_every_read_is_that_of_a_store_that_fills_at_once(tmp_path: Path, seed: int) -> None:
    async with folders(tmp_path, FILLS_AT_ONCE, (2, 3, 7, 20, 64, 10**6)[seed % 6]) as (at_once, behind):
        history = History(seed, [at_once, behind])
        for n in range(STEPS):
            await history.step()
            if n % 3 == 0:
                await history.look()
        await behind.stores[0].backup(tmp_path / "backup.db")
        (tmp_path / "restored").mkdir()
        shutil.copy(tmp_path / "backup.db", tmp_path / "restored" / DATABASE)
        died = copied(behind, tmp_path / "died")
        reads = calls(random.Random(seed), list(history.rows), list(history.gone))
        right = [await at_once.ask(0, *call) for call in reads]
        reader = ReadOnlyStore(behind.path)
        for store in (reader, SqliteStore(died), SqliteStore(tmp_path / "restored")):
            behind.stores.append(store)
            assert [await behind.ask(2, *call) for call in reads] == right
            await behind.stores.pop().close()


async def test_a_run_of_a_crew_writes_no_row_while_it_runs(tmp_path: Path) -> None:
    """What a record tells is what the engine passes on, in a run of a real crew, for nearly every record."""
    async with Interlock(tmp_path, script=HELLO / "script.yaml") as box:
        run = await box.start(load_crew(HELLO), "go", run_id="r")
        await run.result()
        row, records = await box.store.row_with_records("r")
        agent, usage = "", Usage()
        for record in records:
            agent, usage = tail.row_told_by(record.events, agents_in_record(record.events)[1], agent, usage)
        assert (agent, usage) == (row.agent, row.usage)


async def test_an_append_writes_one_row(tmp_path: Path) -> None:
    """Counted by SQLite: a record that tells the run's row is one row, one that does not is two."""
    store = SqliteStore(tmp_path, durability="normal")
    row = RunRow(run="r", crew="x", crew_sha="", status="running", agent="a", seq=1, updated_at=1)
    await store.create(row, Record(seq=1, at=1, events=(RunStarted(crew="x", input="go", rules=1),)))
    written = []
    for n in range(2, 12):
        before = store._writing.total_changes
        reply = ModelReplied(call="c", agent="a", text="x", usage=Usage())
        row = msgspec.structs.replace(row, seq=n, updated_at=n, usage=Usage(calls=n - 1), agent="b" if n > 6 else "a")
        await store.append(row, Record(seq=n, at=n, events=(reply,)))
        written.append(store._writing.total_changes - before)
    assert written == [1, 1, 1, 1, 1, 2, 1, 1, 1, 1]
    await store.close()


async def test_opening_reads_no_more_than_the_tail(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine: a folder with many records opens as one with few, and so are the newest
    broadcasts read, though no record tells of one."""

    async def steps(runs: int) -> int:
        path = tmp_path / str(runs)
        store = SqliteStore(path, durability="normal")
        for n in range(runs):
            row = RunRow(run=f"r{n}", crew="x", crew_sha="", status="running", agent="a", seq=1, updated_at=1)
            await store.create(row, Record(seq=1, at=1, events=(RunStarted(crew="x", input="go", rules=1),)))
            for seq in range(2, 17):  # 16 records in all, so that the tail is empty at the end
                reply = ModelReplied(call="c", agent="a", text="x", usage=Usage())
                row = msgspec.structs.replace(row, seq=seq, updated_at=seq, usage=Usage(calls=seq - 1))
                await store.append(row, Record(seq=seq, at=seq, events=(reply,)))
        await store.close()
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        connection = migrations.connect(path / DATABASE)
        connection.set_progress_handler(count, 1)
        tail.fill_at_opening(connection)
        announcements.newest(connection, limit=100, pattern=None)
        connection.close()
        return counted

    few, many = await steps(tail.TAIL_MAX // 16), await steps(tail.TAIL_MAX)
    assert many <= few + 100
