"""Measures several processes that drive runs in one data folder: what a second core gains.

Rule 1: the work is the same, whatever the number of processes: they share it evenly.
Rule 2: all processes have opened the folder before any begins; the time is from the first begin to the last end.
Rule 3: a reply is instant, or comes in 400 pieces as a real one does: only the second is mostly outside the store.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.engine_steps import CREW
from bench.floors import reply_of
from bench.harness import machine, table
from interlock import Interlock, load_crew
from interlock.ports import Delta, ModelReply, ModelRequest

RUNS, ROUNDS, PIECES = 60, 3, 400
PROCESSES = (1, 2, 3)


class Case(NamedTuple):
    name: str
    durability: str
    pieces: int
    steps: int  # of each run


CASES = (
    Case("instant replies, NORMAL", "normal", 0, 50),
    Case("instant replies, FULL", "full", 0, 50),
    Case(f"replies of {PIECES} pieces, FULL", "full", PIECES, 4),
)


class Outcome(msgspec.Struct, frozen=True):
    began: float
    ended: float
    cpu: float


class StreamingModel:
    """Hands over until a run has made its steps, in the same pieces as a real model."""

    def __init__(self, steps: int, pieces: int) -> None:
        self.steps, self.pieces = steps, pieces

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        step = request.number * 2 - (request.agent == "a")
        text = reply_of(step, max(190, 4 * self.pieces), "[NEXT]" if step <= self.steps else "[END]")
        size = -(-len(text) // self.pieces) if self.pieces else len(text)
        for start in range(0, len(text) if self.pieces else 0, size):
            yield Delta(text[start : start + size])
            await asyncio.sleep(0)
        yield ModelReply(text=text)


async def drive_runs(folder: Path, case: Case, runs: int) -> Outcome:
    """What one process does; it begins when a line comes in."""
    crew, model = load_crew(folder / "crew.yaml"), StreamingModel(case.steps, case.pieces)
    async with Interlock(folder / "data", models=model, durability=case.durability) as box:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began, cpu = time.time(), time.process_time()
        handles = [await box.start(crew, "go") for _ in range(runs)]
        results = await asyncio.gather(*(handle.result() for handle in handles))
        assert {result.status for result in results} == {"completed"}, results
        return Outcome(began, time.time(), time.process_time() - cpu)


def measure_once(case: Case, processes: int) -> tuple[float, float]:
    """Steps a second, and microseconds of CPU a step over all processes."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "crew.yaml").write_text(CREW, "utf-8")
        command = [sys.executable, "-m", "bench.processes", "child", name, str(CASES.index(case))]
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(RUNS // processes)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(processes)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", "the process could not open the folder"
        outcomes = [msgspec.json.decode(child.communicate("go\n")[0], type=Outcome) for child in children]
    steps = RUNS // processes * processes * (case.steps + 1)
    wall = max(each.ended for each in outcomes) - min(each.began for each in outcomes)
    return steps / wall, sum(each.cpu for each in outcomes) / steps * 1e6


def run() -> str:
    rows = []
    for case in CASES:
        found = {processes: [measure_once(case, processes) for _ in range(ROUNDS)] for processes in PROCESSES}
        alone = max(steps for steps, _ in found[1])
        for processes, rounds in found.items():
            steps, cpu = max(each[0] for each in rounds), min(each[1] for each in rounds)
            rows.append((case.name, processes, round(steps), steps / alone, cpu))
    heads = ("case", "processes", "steps a second", "against one", "CPU µs a step")
    return "\n".join(("## Several processes on one data folder", "", machine(), "", table(heads, rows)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        done = asyncio.run(drive_runs(Path(sys.argv[2]), CASES[int(sys.argv[3])], int(sys.argv[4])))
        print(msgspec.json.encode(done).decode())
    else:
        print(run())
