"""Measures a step: one agent's turn that ends in a handoff, with a model that takes no time.

Rule 1: every number stands beside a floor or a peer that was measured in the same run.
Rule 2: replies are unique, because equal ones would be stopped as a loop.
Rule 3: opening a store and starting a loop are not part of a step.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.floors import FloorLog, in_memory, reply_of
from bench.harness import Measurement, measure, measure_async
from interlock import Interlock
from interlock.adapters.clock import SystemClock
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables.leaders import SqliteLeaders
from interlock.adapters.sqlite.tables.orders import SqliteOrders
from interlock.adapters.store_rules.record_format import LINK_BYTES, encode_record, seal_record
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import ModelReplied, RunStarted, Usage
from interlock.engine.flow.waits import agents_in_record
from interlock.engine.run import RULES, Run, Step
from interlock.ports import ModelReply, ModelRequest, Record, RunRow
from interlock.runtime.runner import Runner, replay_run
from interlock.testing import MemoryStore
from interlock.testing.memory_owners import MemoryLeaders

CREW = """\
version: "2.0"
name: pair
entry_point: a
agents: [{id: a, name: Ann}, {id: b, name: Bob}]
settings: {max_handoffs: 1000000, timeout_seconds: 36000}
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[WAIT]"}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]
"""
SMALL, LARGE = 190, 4_000  # bytes of a reply
STEPS = 300
RUNS, RUN_STEPS = 100, 30
LONG = 10_000
EVENTS_PER_STEP = 6
PAUSED = 10_000
LIVE = 4_000


class CountingModel:
    """A model with unique replies that hand over, until each run has made its steps; then it ends, or waits."""

    def __init__(self, steps: int, size: int = SMALL, last: str = "[END]") -> None:
        self.steps, self.size, self.last = steps, size, last
        self.hundreds: list[float] = []  # CPU time at every hundredth step, for growth

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        step = request.number * 2 - (request.agent == "a")
        if step % 100 == 1:
            self.hundreds.append(time.process_time())
        mark = "[NEXT]" if step <= self.steps else self.last
        yield ModelReply(text=reply_of(step, self.size, mark))


class Bench:
    """A runner on a store, and the crew that it runs."""

    def __init__(self, runner: Runner, crew: CrewDefinition, model: CountingModel) -> None:
        self.runner, self.crew, self.model = runner, crew, model
        self._ids = count()

    async def one(self) -> str:
        run = f"run-{next(self._ids)}"
        await self.runner.start(self.crew, "0" * 64, "go", run_id=run)
        await self.runner.wait_until_settled(run)
        return run

    async def together(self, runs: int) -> None:
        await asyncio.gather(*(self.one() for _ in range(runs)))


@asynccontextmanager
async def on(store: MemoryStore | SqliteStore, crew: CrewDefinition, model: CountingModel) -> AsyncIterator[Bench]:
    async with Runner(
        journal=store,
        owners=store,
        orders=store if isinstance(store, MemoryStore) else SqliteOrders(store),
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store) if isinstance(store, MemoryStore) else SqliteLeaders(store, SystemClock()),
        bus=store.bus if isinstance(store, MemoryStore) else SqliteBus(store),
        deltas=ProcessDeltas(),
        clock=SystemClock(),
        model_for=lambda _crew, _agent, _run: model,
        toolbox=PythonToolbox(()),
    ) as runner:
        yield Bench(runner, crew, model)
    await store.close()


class Pair(NamedTuple):
    """The same work, ours and the floor's."""

    ours: Measurement
    floor: Measurement

    @property
    def cpu(self) -> float:
        return self.ours.cpu_us / self.floor.cpu_us

    @property
    def wall(self) -> float:
        return self.ours.wall_us / self.floor.wall_us


class Place:
    """A folder on a real disk; every store gets a new one below it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._names = folder, count()
        (folder / "crew.yaml").write_text(CREW, "utf-8")
        self.crew = load_definition(folder)

    def new(self) -> Path:
        return self.folder / f"{next(self._names)}"

    def stored(self, durability: str, model: CountingModel) -> AbstractAsyncContextManager[Bench]:
        return on(SqliteStore(self.new(), durability=durability), self.crew, model)


async def memory_steps(place: Place, steps: int = STEPS) -> Pair:
    async with on(MemoryStore(), place.crew, CountingModel(steps)) as bench:
        ours = await measure_async(bench.one, steps)
    return Pair(ours, await measure_async(lambda: in_memory(steps), steps))


async def durable_steps(place: Place, durability: str, steps: int = STEPS) -> Pair:
    async with place.stored(durability, CountingModel(steps)) as bench:
        ours = await measure_async(bench.one, steps)
    log = FloorLog(place.new(), durability)
    floor = await measure_async(lambda: log.steps(steps), steps)
    log.close()
    return Pair(ours, floor)


async def runs_together(place: Place) -> Pair:
    steps = RUNS * RUN_STEPS
    async with place.stored("full", CountingModel(RUN_STEPS)) as bench:
        ours = await measure_async(lambda: bench.together(RUNS), steps, repeats=3)
    log = FloorLog(place.new(), "full")
    floor = await measure_async(lambda: log.runs_together(RUNS, RUN_STEPS), steps, repeats=3)
    log.close()
    return Pair(ours, floor)


async def short_runs_alone(place: Place) -> Measurement:
    """One commit a step, in runs as short as those of `runs_together`, so that only the sharing differs."""
    async with place.stored("full", CountingModel(RUN_STEPS)) as bench:
        return await measure_async(bench.one, RUN_STEPS, repeats=10)


class Growth(NamedTuple):
    """CPU microseconds a step, in the first and in the last hundred of a long run."""

    first: float
    last: float


async def growth(place: Place) -> Growth:
    first, last = [], []
    for _ in range(2):
        model = CountingModel(LONG)
        async with on(MemoryStore(), place.crew, model) as bench:
            await bench.one()
        times = model.hundreds
        first += [(times[1] - times[0]) * 1e4]
        last += [(after - before) * 1e4 for before, after in zip(times[-6:-1], times[-5:], strict=True)]
    return Growth(min(first), min(last))


class Sizes(NamedTuple):
    """Bytes on the disk a step, by the slope between a short and a long run: an empty store has bytes too."""

    ours: float
    floor: float


async def sizes(place: Place, size: int) -> Sizes:
    short, long = await _sizes_after(place, 500, size), await _sizes_after(place, 2_500, size)
    return Sizes((long.ours - short.ours) / 2_000, (long.floor - short.floor) / 2_000)


async def _sizes_after(place: Place, steps: int, size: int) -> Sizes:
    """Bytes on the disk after a run and a clean close."""
    folder, floor_folder = place.new(), place.new()
    async with on(SqliteStore(folder, durability="normal"), place.crew, CountingModel(steps, size)) as bench:
        await bench.one()
    log = FloorLog(floor_folder, "normal")
    await log.steps(steps, size)
    log.close()
    return Sizes(_bytes(folder), _bytes(floor_folder))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Work(NamedTuple):
    """What a durable step does, counted: it does not depend on the load of the machine."""

    calls: float  # of Python functions, in the thread of the loop
    writes: float  # system calls
    bytes: float


async def work(place: Place) -> Work:
    """By the slope between two runs: starting and ending a run are no steps."""
    short, long = await _work_of(place, 100), await _work_of(place, 300)
    return Work(*((more - less) / 200 for more, less in zip(long, short, strict=True)))


async def _work_of(place: Place, steps: int) -> Work:
    async with place.stored("normal", CountingModel(steps)) as bench:
        await bench.one()  # opens files, fills caches
        bytes_before, writes_before = _written()
        await bench.one()
        bytes_after, writes_after = _written()
        calls = await _calls_in(bench.one)
    return Work(calls, writes_after - writes_before, bytes_after - bytes_before)


async def _calls_in(run: Callable[[], Awaitable[object]]) -> int:
    calls = 0

    def on_event(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(on_event)
    try:
        await run()
    finally:
        sys.setprofile(None)
    return calls


def _written() -> tuple[int, int]:
    """Bytes and system calls that this process has written so far."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    numbers = {name: int(number) for name, _, number in (line.partition(": ") for line in lines)}
    return numbers["wchar"], numbers["syscw"]


class Paused(NamedTuple):
    bytes_a_run: float
    few: Measurement
    many: Measurement


async def paused(place: Place) -> Paused:
    async with _waiting_box(place) as box:
        rounds = [await _resumed(box, await _pause(box, place.crew, 10)) for _ in range(5)]
        few = Measurement(min(m.cpu_us for m in rounds), min(m.wall_us for m in rounds))
        runs = await _pause(box, place.crew, PAUSED // 2)  # by then SQLite's page caches are full
        before = _resident_bytes()
        runs += await _pause(box, place.crew, PAUSED // 2)
        grown = (_resident_bytes() - before) / (PAUSED // 2)
        assert not box.runner.live, "a paused run is released"
        return Paused(grown, few, await _resumed(box, runs[:: PAUSED // 50]))


def _waiting_box(place: Place) -> Interlock:
    def model(request: ModelRequest) -> str:
        return reply_of(request.number, SMALL, "[WAIT]" if request.number == 1 else "[END]")

    return Interlock(place.new(), models=model, durability="normal")


async def _pause(box: Interlock, crew: CrewDefinition, runs: int) -> list[str]:
    """Starts runs in hundreds, so that the tasks of starting do not count as the cost of a pause."""
    ids: list[str] = []
    while len(ids) < runs:
        handles = [await box.start(crew, "go") for _ in range(min(100, runs - len(ids)))]
        await asyncio.gather(*(box.runner.wait_until_settled(handle.id) for handle in handles))
        ids += [handle.id for handle in handles]
    return ids


async def _resumed(box: Interlock, runs: list[str]) -> Measurement:
    """The best of several runs, each from its stored pause to its end."""
    left = iter(runs)

    async def resume_one() -> None:
        handle = await box.resume(next(left), "yes")
        await box.runner.wait_until_settled(handle.id)

    return await measure_async(resume_one, repeats=len(runs))


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096


async def live_bytes(place: Place) -> float:
    """Memory of a run that waits for its model, whose reply never comes."""

    async def model(_request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    async with Interlock(place.new(), models=model, durability="normal") as box:
        await _start_all(box, place.crew, LIVE // 2)  # by then SQLite's page caches are full
        before = _resident_bytes()
        await _start_all(box, place.crew, LIVE // 2)
        return (_resident_bytes() - before) / (LIVE // 2)


async def _start_all(box: Interlock, crew: CrewDefinition, runs: int) -> None:
    for _ in range(runs):
        await box.start(crew, "go")


class Restart(NamedTuple):
    """Milliseconds of CPU."""

    read: Measurement
    replay: Measurement
    opened: Measurement
    stored_events: int


async def restart(place: Place) -> Restart:
    """Reads and replays a run of 10,000 events; opens a store with a hundred such runs."""
    folder = place.new()
    async with on(
        SqliteStore(folder, durability="normal"), place.crew, CountingModel(LONG // EVENTS_PER_STEP)
    ) as bench:
        run = await bench.one()
        store = bench.runner.journal
        read = await measure_async(lambda: store.records(run), repeats=3)
        records = await store.records(run)
        row = await store.row(run)
        replay = await measure_async(lambda: _as_async(lambda: replay_run(place.crew, run, records)), repeats=3)
        for n in range(99):
            copy = msgspec.structs.replace(row, run=f"copy-{n}", epoch=0)
            await store.create(copy, records[0])
            await asyncio.gather(*(store.append(copy, record) for record in records[1:]))
    opened = await measure_async(lambda: _open(folder), repeats=3)
    return Restart(read, replay, opened, 100 * row.seq)


async def _as_async(work: Callable[[], object]) -> None:
    work()


async def _open(folder: Path) -> None:
    async with Interlock(folder, recover=True):
        pass


class Parts(NamedTuple):
    """The parts of a step, each measured alone."""

    transition: Measurement
    sealing: Measurement
    passing_on: Measurement
    append: Measurement


async def parts(place: Place) -> Parts:
    record = step_record(place.crew)
    return Parts(
        transition=measure(lambda: _transitions(place.crew), STEPS),
        sealing=measure(
            lambda: [seal_record(1, encode_record(record), bytes(LINK_BYTES)) for _ in range(STEPS)], STEPS
        ),
        passing_on=await measure_async(_answers, STEPS),
        append=await _appends(place, record),
    )


def _transitions(crew: CrewDefinition) -> Step:
    """The pure engine alone."""
    run = Run(crew, "run")
    run.apply(RunStarted(crew=crew.name, input="go", rules=RULES, crew_sha=""))
    for n in range(STEPS):
        turn = run.state.turn
        assert turn is not None, "the pair hands over for ever"
        step = run.apply(ModelReplied(call=turn.call, agent=turn.agent, text=reply_of(n, SMALL), usage=Usage()))
    return step


def step_record(crew: CrewDefinition) -> Record:
    reply = ModelReplied(call="run:1.0", agent="a", text=reply_of(0, SMALL), usage=Usage())
    return Record(seq=1, at=SystemClock().now_ms(), events=(reply, *_transitions(crew).facts))


async def _answers() -> None:
    """A task per call that answers into an inbox."""
    inbox: asyncio.Queue[int] = asyncio.Queue()

    async def call(n: int) -> None:
        inbox.put_nowait(n)

    for n in range(STEPS):
        task = asyncio.create_task(call(n))
        await inbox.get()
        await task


async def _appends(place: Place, record: Record) -> Measurement:
    """The store alone, NORMAL, one append after the other."""
    store, runs = SqliteStore(place.new(), durability="normal"), count()
    _, (agent,) = agents_in_record(record.events)

    async def appends() -> None:
        row = RunRow(run=f"run-{next(runs)}", crew="pair", crew_sha="", status="running", updated_at=record.at)
        await store.create(row, record)
        for n in range(1, STEPS):
            # The row of such a run, as the runtime passes it on.
            row = msgspec.structs.replace(row, agent=agent, usage=Usage(calls=n))
            await store.append(row, msgspec.structs.replace(record, seq=1 + n * len(record.events)))

    cost = await measure_async(appends, STEPS)
    await store.close()
    return cost
