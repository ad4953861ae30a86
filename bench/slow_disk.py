"""Measures how long a run waits from a reply to its next call while 1,000 runs share a disk, quiet or slow.

Rule 1: the slow disk is the real one, with a wait before each fsync of the process (bench/slow_fsync.c, LD_PRELOAD).
Rule 2: the floor, in the same process and with the same thinking times, is the ideal group commit: what waits when a
commit begins is part of it. A reply then waits for two commits at most: the one in progress, and its own. It never
writes its log back.
Rule 3: the wait of every reply counts, and the mean wait of each run: the slowest run shows whether one is starved.
"""

import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.engine_steps import CREW
from bench.floors import FloorLog, Handoff, encode, reply_of
from bench.harness import machine, table, verdict
from interlock import Interlock, load_crew
from interlock.ports import ModelReply, ModelRequest

RUNS, STEPS = 1_000, 10
THINK_S = (0.25, 0.75)
PATIENCE_SECONDS = 120
SHIM = Path(__file__).parent / "slow_fsync.c"


class Case(NamedTuple):
    name: str
    fsync_ms: int
    think_s: tuple[float, float] | None


CASES = (
    Case("quiet disk", 0, THINK_S),
    Case("fsync 20 ms slower", 20, THINK_S),
    Case("fsync 100 ms slower", 100, THINK_S),
    Case("instant replies, quiet disk", 0, None),
    Case("instant replies, fsync 20 ms slower", 20, None),
)


class Waits(msgspec.Struct, frozen=True):
    """Milliseconds from a reply to the next call of its run, and the CPU of a step in microseconds."""

    half: float
    p99: float
    most: float
    slowest_run: float  # its mean, against the mean of the median run
    cpu_us: float


class Found(msgspec.Struct, frozen=True):
    ours: Waits
    floor: Waits


class Stopwatch:
    """Notes when a run got its reply, and how long after that it asks again."""

    def __init__(self) -> None:
        self._replied: dict[str, float] = {}
        self._waits: dict[str, list[float]] = {}
        self._cpu = time.process_time()

    def on_asked(self, run: str) -> None:
        if (since := self._replied.get(run)) is not None:
            self._waits.setdefault(run, []).append((time.perf_counter() - since) * 1e3)

    def on_replied(self, run: str) -> None:
        self._replied[run] = time.perf_counter()

    def found(self) -> Waits:
        cpu = time.process_time() - self._cpu
        waits = sorted(wait for each in self._waits.values() for wait in each)
        means = sorted(statistics.fmean(each) for each in self._waits.values())
        return Waits(
            half=waits[len(waits) // 2],
            p99=waits[len(waits) * 99 // 100],
            most=waits[-1],
            slowest_run=means[-1] / means[len(means) // 2],
            cpu_us=cpu / len(waits) * 1e6,
        )


async def think(case: Case, chance: random.Random) -> None:
    await asyncio.sleep(chance.uniform(*case.think_s) if case.think_s else 0)


class ThinkingModel:
    def __init__(self, watch: Stopwatch, case: Case) -> None:
        self._watch, self._case, self._random = watch, case, random.Random(0)

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        run = request.key.partition(":")[0]
        self._watch.on_asked(run)
        step = request.number * 2 - (request.agent == "a")
        await think(self._case, self._random)
        self._watch.on_replied(run)
        yield ModelReply(text=reply_of(step, 190, "[NEXT]" if step <= STEPS else "[END]"))


async def ours(folder: Path, case: Case) -> Waits:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    crew, watch = load_crew(folder / "crew.yaml"), Stopwatch()
    async with Interlock(folder / "data", models=ThinkingModel(watch, case), durability="full") as box:
        handles = await asyncio.gather(*(box.start(crew, "go") for _ in range(RUNS)))
        results = await asyncio.gather(*(handle.result() for handle in handles))
    assert {result.status for result in results} == {"completed"}
    return watch.found()


class GroupCommit:
    """The ideal one: commits one after the other, each with all that waits when it begins."""

    def __init__(self, log: FloorLog) -> None:
        self._log = log
        log.connection.execute("pragma wal_autocheckpoint = 0")
        self._waiting: list[tuple[tuple[int, int, bytes], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def append(self, row: tuple[int, int, bytes]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_all())
        await done

    async def _commit_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await asyncio.to_thread(self._commit, [row for row, _ in group])
            for _, done in group:
                done.set_result(None)

    def _commit(self, rows: list[tuple[int, int, bytes]]) -> None:
        self._log.connection.execute("begin immediate")
        self._log.connection.executemany("insert into events values (?, ?, ?)", rows)
        self._log.connection.execute("commit")


async def floor(folder: Path, case: Case) -> Waits:
    log, watch, chance = FloorLog(folder / "floor", "full", other_threads=True), Stopwatch(), random.Random(0)
    commits = GroupCommit(log)

    async def one(run: int) -> None:
        for step in range(STEPS + 1):
            watch.on_asked(str(run))
            await think(case, chance)
            watch.on_replied(str(run))
            text = reply_of(step, 190)
            await commits.append((run, step, encode(Handoff(step, "handoff", "a", "b", "NEXT", text, time.time()))))

    await asyncio.gather(*(one(run) for run in range(RUNS)))
    log.close()
    return watch.found()


def measured(library: Path, case: Case) -> Found:
    slow = {"LD_PRELOAD": str(library), "FSYNC_MS": str(case.fsync_ms)} if case.fsync_ms else {}
    # Not in /tmp, which may be kept in memory, where a sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".slow-disk-") as folder:
        command = [sys.executable, "-m", "bench.slow_disk", "child", folder, str(CASES.index(case))]
        child = subprocess.run(
            command, env={**os.environ, **slow}, stdout=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=True
        )
    return msgspec.json.decode(child.stdout, type=Found)


def run() -> str:
    compiler = shutil.which("cc")
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "slow_fsync.so"
        if compiler is not None:
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
        found = {case: measured(library, case) for case in CASES if compiler is not None or not case.fsync_ms}
    head = f"{RUNS:,} runs at once, FULL. Models answer after {THINK_S[0]:g} to {THINK_S[1]:g} s, or at once."
    lines = [] if compiler is not None else ["- the slow disk was not measured: there is no C compiler"]
    lines += [_bound(case, each) for case, each in found.items()]
    lines.append(
        "- the longest waits are for the log, which SQLite starts again only if commits pause: on a quick disk after"
        " every 4 MB, on a slow one for three syncs after every 32 MB"
    )
    parts = ["## slow disk: from a reply to the next call", machine(), head, _rows(found), "\n".join(lines)]
    return "\n\n".join(parts)


def _bound(case: Case, found: Found) -> str:
    """The verdict: nobody waits for more than two commits, and the CPU of the replies that are before it."""
    rounds = 2 if not case.think_s else 2 * found.floor.p99 / 1e3 / case.think_s[0]
    bound = found.floor.p99 + rounds * RUNS * found.ours.cpu_us / 1e3
    claim = f"{case.name}: p99 at most that of the ideal group commit and the CPU of the replies in that time"
    return verdict(claim, f"{found.ours.p99:.0f} of {bound:.0f} ms", found.ours.p99 <= bound)


def _rows(found: dict[Case, Found]) -> str:
    rows: list[list[Any]] = []
    for case, each in found.items():
        for name, waits in (("ours", each.ours), ("ideal group commit", each.floor)):
            rows.append([case.name, name, waits.half, waits.p99, waits.most, waits.slowest_run, waits.cpu_us])
    heads = ["case", "", "p50 ms", "p99 ms", "longest ms", "slowest run / median run", "CPU µs a step"]
    return table(heads, rows)


async def _child(folder: Path, case: Case) -> Found:
    return Found(ours=await ours(folder, case), floor=await floor(folder, case))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(msgspec.json.encode(asyncio.run(_child(Path(sys.argv[2]), CASES[int(sys.argv[3])]))).decode())
    else:
        print(run())
