"""A process of bench/scale.py: it drives runs of a store with a model that costs nothing.

Rule 1: it begins when a line comes in, after all processes have opened the store.
Rule 2: replies are parts of the guide, so that a store can compress them as well as real ones; or noise.
"""

import asyncio
import os
import random
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bench.engine_steps import CREW
from interlock import Interlock, load_crew
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.claiming.work import CALLS_MAX, WorkSettings

GUIDE = Path(__file__).parent.parent / "docs" / "guide"

# Characters that need no escape in JSON: each is one byte.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does. With `runs` 0 it drives what others create, until it is stopped."""

    store: str
    folder: str
    runs: int = 0
    steps: int = 20
    size: int = 190
    think_s: float = 0.0
    is_noise: bool = False
    # A file to which the run of every call is written, with its time.
    calls: str = ""
    calls_max: int = CALLS_MAX


class WorkerOutcome(msgspec.Struct, frozen=True):
    began: float
    ended: float
    cpu: float


class BenchModel:
    """Hands over until a run has made its steps."""

    def __init__(self, task: WorkerTask) -> None:
        self._task, self._random = task, random.Random(0)
        self._prose = _prose()
        self._calls = os.open(task.calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if task.calls else None

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        step = request.number * 2 - (request.agent == "a")
        if self._calls is not None:
            os.write(self._calls, f"{os.getpid()} {time.time()} {request.key.partition(':')[0]}\n".encode())
        if self._task.think_s:
            await asyncio.sleep(self._task.think_s)
        mark = "[NEXT]" if step <= self._task.steps else "[END]"
        yield ModelReply(text=f"{self._text(self._task.size - len(mark) - 1)} {mark}")

    def _text(self, size: int) -> str:
        if self._task.is_noise:
            return "".join(self._random.choices(LETTERS, k=size))
        start = self._random.randrange(len(self._prose) - size)
        return self._prose[start : start + size]


def _prose() -> str:
    """The words of the guide, without what could be a signal or needs several bytes."""
    text = " ".join(page.read_text("utf-8") for page in sorted(GUIDE.glob("*.md")))
    return " ".join(re.sub(r"[^\w .,;:()'-]", " ", text.encode("ascii", "ignore").decode()).split())


def open_store(task: WorkerTask, model: BenchModel) -> Interlock:
    return Interlock(
        task.store, models=model, durability="full", recover=True, work=WorkSettings(calls_max=task.calls_max)
    )


async def drive_own(task: WorkerTask) -> WorkerOutcome:
    """Starts runs and drives them to their ends."""
    crew = load_crew(Path(task.folder) / "crew.yaml")
    async with open_store(task, BenchModel(task)) as box:
        await _wait_for_line()
        began, cpu = time.time(), time.process_time()
        handles = await asyncio.gather(*(box.start(crew, "go") for _ in range(task.runs)))
        results = await asyncio.gather(*(handle.result() for handle in handles))
        assert {result.status for result in results} == {"completed"}, results
        return WorkerOutcome(began, time.time(), time.process_time() - cpu)


async def drive_others(task: WorkerTask) -> None:
    """Drives what waits in the store until a line comes in."""
    async with open_store(task, BenchModel(task)):
        await _wait_for_line()


async def _wait_for_line() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def write_crew(folder: Path) -> None:
    (folder / "crew.yaml").write_text(CREW, "utf-8")


if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=WorkerTask)
    if given.runs:
        print(msgspec.json.encode(asyncio.run(drive_own(given))).decode())
    else:
        asyncio.run(drive_others(given))
