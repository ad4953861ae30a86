"""What a step costs: one agent's turn that ends in a handoff, with a model that takes no time.

Rule 1: every number stands beside a floor or a peer that was measured in the same run.
Rule 2: replies are unique, because equal ones would be stopped as a loop.
Rule 3: opening a store and starting a loop are not part of a step.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import peers
from bench.floors import FloorLog, in_memory, reply_of
from bench.harness import Measurement, machine, measure, measure_async, table, verdict
from interlock import Interlock, load_crew
from interlock.adapters.bus_sqlite import SqliteBus
from interlock.adapters.clock import SystemClock
from interlock.adapters.journal_format import LINK_BYTES, encoded, sealed
from interlock.adapters.order_book_sqlite import SqliteOrders
from interlock.adapters.store_sqlite import SqliteStore
from interlock.adapters.tools_python import PythonToolbox
from interlock.crew.definition import Crew
from interlock.engine.events import ModelReplied, RunStarted, Usage
from interlock.engine.step import RULES, Run, Step
from interlock.ports import ModelReply, ModelRequest, Record, RunRow
from interlock.runtime.runner import Runner, replayed
from interlock.testing import MemoryStore

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


class CountingModel:
    """Unique replies that hand over, until each run has made its steps; then it ends, or waits."""

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
    """A runner on some store, and the crew that is run on it."""

    def __init__(self, runner: Runner, crew: Crew, model: CountingModel) -> None:
        self.runner, self.crew, self.model = runner, crew, model
        self._ids = count()

    async def one(self) -> str:
        run = f"run-{next(self._ids)}"
        await self.runner.start(self.crew, "0" * 64, "go", run_id=run)
        await self.runner.settled(run)
        return run

    async def together(self, runs: int) -> None:
        await asyncio.gather(*(self.one() for _ in range(runs)))


@asynccontextmanager
async def on(store: MemoryStore | SqliteStore, crew: Crew, model: CountingModel) -> AsyncIterator[Bench]:
    async with Runner(
        journal=store,
        owners=store,
        orders=store if isinstance(store, MemoryStore) else SqliteOrders(store),
        budgets=store,
        outbox=store,
        bus=store.bus if isinstance(store, MemoryStore) else SqliteBus(store),
        clock=SystemClock(),
        model_for=lambda _crew, _agent: model,
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
    """A folder on a real disk, a new one for everything that is stored in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._names = folder, count()
        (folder / "crew.yaml").write_text(CREW, "utf-8")
        self.crew = load_crew(folder)

    def new(self) -> Path:
        return self.folder / f"{next(self._names)}"

    def stored(self, durability: str, model: CountingModel) -> AbstractAsyncContextManager[Bench]:
        return on(SqliteStore(self.new(), durability=durability), self.crew, model)


# What is measured


async def memory_steps(place: Place) -> Pair:
    async with on(MemoryStore(), place.crew, CountingModel(STEPS)) as bench:
        ours = await measure_async(bench.one, STEPS)
    return Pair(ours, await measure_async(lambda: in_memory(STEPS), STEPS))


async def durable_steps(place: Place, durability: str) -> Pair:
    async with place.stored(durability, CountingModel(STEPS)) as bench:
        ours = await measure_async(bench.one, STEPS)
    log = FloorLog(place.new(), durability)
    floor = await measure_async(lambda: log.steps(STEPS), STEPS)
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
    ours: int
    floor: int
    payload: int


async def sizes(place: Place, size: int) -> Sizes:
    """Bytes on the disk after a run of 1,000 steps and a clean close."""
    steps, folder, floor_folder = 1_000, place.new(), place.new()
    async with on(SqliteStore(folder, durability="normal"), place.crew, CountingModel(steps, size)) as bench:
        await bench.one()
    log = FloorLog(floor_folder, "normal")
    await log.steps(steps, size)
    log.close()
    return Sizes(_bytes(folder), _bytes(floor_folder), steps * size)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


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
        assert not box.runner.live, "a paused run is let go of"
        return Paused(grown, few, await _resumed(box, runs[:: PAUSED // 50]))


def _waiting_box(place: Place) -> Interlock:
    def model(request: ModelRequest) -> str:
        return reply_of(request.number, SMALL, "[WAIT]" if request.number == 1 else "[END]")

    return Interlock(place.new(), models=model, durability="normal")


async def _pause(box: Interlock, crew: Crew, runs: int) -> list[str]:
    """In hundreds, so that the tasks of starting do not pass for the cost of being paused."""
    ids: list[str] = []
    while len(ids) < runs:
        handles = [await box.start(crew, "go") for _ in range(min(100, runs - len(ids)))]
        await asyncio.gather(*(box.runner.settled(handle.id) for handle in handles))
        ids += [handle.id for handle in handles]
    return ids


async def _resumed(box: Interlock, runs: list[str]) -> Measurement:
    """The best of several, each another run: from its stored pause to its ending."""
    left = iter(runs)

    async def resume_one() -> None:
        handle = await box.resume(next(left), "yes")
        await box.runner.settled(handle.id)

    return await measure_async(resume_one, repeats=len(runs))


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096


class Restart(NamedTuple):
    """Milliseconds of CPU."""

    read: Measurement
    replay: Measurement
    opened: Measurement
    stored_events: int


async def restart(place: Place) -> Restart:
    """A run of 10,000 events is read and replayed; a store with a hundred such runs is opened."""
    folder = place.new()
    async with on(
        SqliteStore(folder, durability="normal"), place.crew, CountingModel(LONG // EVENTS_PER_STEP)
    ) as bench:
        run = await bench.one()
        store = bench.runner.journal
        read = await measure_async(lambda: store.records(run), repeats=3)
        records = await store.records(run)
        row = await store.row(run)
        replay = await measure_async(lambda: _as_async(lambda: replayed(place.crew, run, records)), repeats=3)
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
    """What a step is made of, each measured by itself."""

    transition: Measurement
    sealing: Measurement
    passing_on: Measurement
    append: Measurement


async def parts(place: Place) -> Parts:
    record = _step_record(place.crew)
    return Parts(
        transition=measure(lambda: _transitions(place.crew), STEPS),
        sealing=measure(lambda: [sealed(1, encoded(record), bytes(LINK_BYTES)) for _ in range(STEPS)], STEPS),
        passing_on=await measure_async(_answers, STEPS),
        append=await _appends(place, record),
    )


def _transitions(crew: Crew) -> Step:
    """The pure engine, with nobody around it."""
    run = Run(crew, "run")
    run.apply(RunStarted(crew=crew.name, input="go", rules=RULES, crew_sha=""))
    for n in range(STEPS):
        turn = run.state.turn
        assert turn is not None, "the pair hands over for ever"
        step = run.apply(ModelReplied(call=turn.call, agent=turn.agent, text=reply_of(n, SMALL), usage=Usage()))
    return step


def _step_record(crew: Crew) -> Record:
    reply = ModelReplied(call="run:1.0", agent="a", text=reply_of(0, SMALL), usage=Usage())
    return Record(seq=1, at=SystemClock().now_ms(), events=(reply, *_transitions(crew).facts))


async def _answers() -> None:
    """A task a call that answers into an inbox."""
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

    async def appends() -> None:
        row = RunRow(run=f"run-{next(runs)}", crew="pair", crew_sha="", status="running")
        await store.create(row, record)
        for n in range(1, STEPS):
            await store.append(row, msgspec.structs.replace(record, seq=1 + n * len(record.events)))

    cost = await measure_async(appends, STEPS)
    await store.close()
    return cost


# What is shown


class PeerRow(NamedTuple):
    peer: str
    name: str
    cost: Measurement


def peer_rows(folder: Path) -> tuple[list[PeerRow], list[str]]:
    """What was measured, and the reasons for what was not."""
    rows: list[PeerRow] = []
    try:
        peers.install()
    except peers.PeerUnavailable as reason:
        return rows, [f"- peers were not measured: {reason}"]
    skipped = []
    for script in ("langgraph_steps.py", "burr_steps.py"):
        try:
            found = peers.measured(script, folder)
        except peers.PeerUnavailable as reason:
            skipped.append(f"- {script} was not measured: {reason}")
        else:
            rows += [PeerRow(r["peer"], r["name"], Measurement(r["cpu_us"], r["wall_us"])) for r in found]
    return rows, skipped


def _peer_table(rows: list[PeerRow], memory: Measurement, normal: Measurement) -> str:
    shown = []
    for row in rows:
        ours = memory if row.name.startswith("in memory") else normal
        ratio = ours.cpu_us / row.cost.cpu_us
        shown.append([row.peer, row.name, row.cost.cpu_us, row.cost.wall_us, ratio])
    return table(["peer", f"a step of {STEPS}", "CPU µs", "wall µs", "ours / theirs, CPU"], shown)


def _peer_verdicts(rows: list[PeerRow], memory: Measurement) -> list[str]:
    kept = [row for row in rows if row.peer.startswith("LangGraph") and ", messages kept" in row.name]
    return [
        verdict(
            f"in memory less than a tenth of {row.peer} ({row.name})",
            f"{memory.cpu_us / row.cost.cpu_us:.2f} times",
            memory.cpu_us < row.cost.cpu_us / 10,
        )
        for row in kept
    ]


def _at_most(claim: str, most: float, found: float, more: str = "") -> str:
    return verdict(f"{claim} at most {most:g} times", f"{found:.2f} times{more}", found <= most)


def _steps_table(pairs: dict[str, Pair]) -> str:
    rows = [
        [name, p.ours.cpu_us, p.floor.cpu_us, p.cpu, p.ours.wall_us, p.floor.wall_us, p.wall]
        for name, p in pairs.items()
    ]
    return table(["a step", "CPU µs", "floor CPU µs", "CPU ratio", "wall µs", "floor wall µs", "wall ratio"], rows)


def _parts_table(part: Parts) -> str:
    rows = {
        "the engine's transition, pure": part.transition,
        "its record as JSON, crc and link": part.sealing,
        "a task for the call, an inbox for the answer": part.passing_on,
        "an append, NORMAL, one after the other": part.append,
    }
    return table(["part of a step", "CPU µs", "wall µs"], [[name, m.cpu_us, m.wall_us] for name, m in rows.items()])


def _reasons(part: Parts, memory: Pair, normal: Pair, record_bytes: int) -> list[str]:
    """Where goals are missed, these numbers say why."""
    pure = part.transition.cpu_us
    rest = memory.ours.cpu_us - pure - part.passing_on.cpu_us
    return [
        f"- in memory: the pure transition alone is {pure / memory.floor.cpu_us:.1f} times the whole floor, which"
        f" decides by two `rfind`; the request, the record as JSON and all bookkeeping take {rest:.0f} µs more",
        f"- alone: an append takes {part.append.cpu_us:.0f} µs of CPU, where the floor's whole step takes"
        f" {normal.floor.cpu_us:.0f}: it writes three pages (the run's row, the record, its index) where the floor"
        " writes one, and a handoff two more (who is at work, who woke and slept); the rest is the step in memory,"
        " slower because every commit takes the caches",
        "- together: commits are shared, and what is left is the CPU time of a step in memory and of two SQL"
        " statements, on one core",
        f"- journal: a step's record has {record_bytes} B around {SMALL} B of reply: {EVENTS_PER_STEP} events, one of"
        f" them the decision with its candidates; and a link of {LINK_BYTES} B",
        "- verdicts on wall time (FULL, runs together) move with the load on the disk: repeat them on a quiet machine",
    ]


async def _report(place: Place) -> str:
    pairs = {
        "in memory": await memory_steps(place),
        "alone, NORMAL": await durable_steps(place, "normal"),
        "alone, FULL": await durable_steps(place, "full"),
        f"{RUNS} runs together, FULL": await runs_together(place),
    }
    memory, normal, full, shared = pairs.values()
    alone, grown = await short_runs_alone(place), await growth(place)
    small, large = await sizes(place, SMALL), await sizes(place, LARGE)
    waiting, again = await paused(place), await restart(place)
    part = await parts(place)
    rows, skipped = peer_rows(place.folder)
    gain = alone.wall_us / shared.ours.wall_us
    resume = waiting.many.cpu_us / waiting.few.cpu_us
    other = [
        ["first 100 steps of 10,000, in memory, CPU µs a step", grown.first],
        ["last 100 steps of 10,000, in memory, CPU µs a step", grown.last],
        ["one commit a step, FULL, short runs one after the other, wall µs a step", alone.wall_us],
        ["journal, 1,000 steps of 190 B: bytes", small.ours],
        ["the floor's", small.floor],
        ["journal, 1,000 steps of 4 kB: bytes", large.ours],
        ["the replies alone", large.payload],
        ["10,000 paused runs: bytes of memory a run", waiting.bytes_a_run],
        ["resume one of 10: CPU µs", waiting.few.cpu_us],
        ["resume one of 10,000: CPU µs", waiting.many.cpu_us],
        ["read and verify a run of 10,000 events: CPU ms", again.read.cpu_us / 1e3],
        ["replay it: CPU ms", again.replay.cpu_us / 1e3],
        [
            f"open a folder with {again.stored_events:,} events of runs that are over: wall ms",
            again.opened.wall_us / 1e3,
        ],
    ]
    verdicts = [
        _at_most("in memory, against an async loop with one task a call:", 3, memory.cpu),
        *_peer_verdicts(rows, memory.ours),
        _at_most("one run alone, NORMAL, against an event log with one task a call:", 2, normal.cpu),
        _at_most("one run alone, FULL, against its floor:", 1.5, full.wall, f" of wall, {full.cpu:.2f} of CPU"),
        verdict("100 runs share commits: at least 6 times the throughput", f"{gain:.2f} times", gain >= 6),
        _at_most("100 runs together, against the floor's own group commit:", 2, shared.wall, " of wall"),
        _at_most("a step at 10,000, against one at 100:", 1.3, grown.last / grown.first),
        _at_most("journal at 190 B, against the floor's:", 3, small.ours / small.floor),
        _at_most("journal at 4 kB, against the payload:", 1.2, large.ours / large.payload),
        verdict(
            "10,000 paused runs cost no memory beyond a constant",
            f"{waiting.bytes_a_run:.0f} B a run",
            waiting.bytes_a_run < 100,
        ),
        _at_most("resuming one of 10,000, against one of 10:", 1.3, resume),
    ]
    shown = [_steps_table(pairs), "", _parts_table(part), "", table(["besides", "measured"], other), ""]
    if rows:
        shown += [_peer_table(rows, memory.ours, normal.ours), ""]
    record_bytes = len(encoded(_step_record(place.crew))) - SMALL
    why = ["", "Where a goal is missed, why:", "", *_reasons(part, memory, normal, record_bytes)]
    return "\n".join([*shown, *verdicts, *skipped, *why])


def run() -> str:
    heads = ["## engine: the cost of a step", "", machine(), ""]
    # Not in /tmp, which may be kept in memory, where a sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".engine-") as folder:
        return "\n".join([*heads, asyncio.run(_report(Place(Path(folder))))])


if __name__ == "__main__":
    print(run())
