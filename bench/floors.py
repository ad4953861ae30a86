"""The least cost of a step: loops that do what a run must do, and nothing else.

Rule 1: a floor makes one task per call, because a call must be cancellable.
Rule 2: a floor's log uses the PRAGMA of ours, and one table.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

ROUTES = {"a": {"NEXT": "b", "END": ""}, "b": {"NEXT": "a", "END": ""}}
FILLER = "x" * 10_000

Sink = Callable[["Handoff"], None]


class Handoff(msgspec.Struct):
    """The one event a floor writes for a step."""

    seq: int
    type: str
    origin: str
    to: str
    signal: str
    content: str
    at: float


encode = msgspec.json.Encoder().encode


def reply_of(n: int, size: int, mark: str = "[NEXT]") -> str:
    """A reply of `size` bytes, unique per step: equal ones would be stopped as a loop."""
    return f"{n:010d} {FILLER[: size - 12 - len(mark)]} {mark}"


class FloorModel:
    def __init__(self, size: int) -> None:
        self.size = size

    async def reply(self, n: int) -> str:
        return reply_of(n, self.size)


def route(agent: str, text: str) -> str:
    end = text.rfind("]")
    return ROUTES[agent][text[text.rfind("[", 0, end) + 1 : end]]


async def in_memory(steps: int, size: int = 190) -> None:
    await _loop(steps, size, lambda _: None)


async def _loop(steps: int, size: int, sink: Sink) -> None:
    model, agent, history = FloorModel(size), "a", []
    for n in range(steps):
        text = await asyncio.create_task(model.reply(n))
        history.append((agent, text))
        target = route(agent, text)
        sink(Handoff(n, "handoff", agent, target, "NEXT", text, time.time()))
        agent = target


class FloorLog:
    """One table and one commit per step, or one commit for all that wait."""

    def __init__(self, folder: Path, durability: str, *, other_threads: bool = False) -> None:
        folder.mkdir(parents=True)
        self.connection = sqlite3.connect(
            folder / "floor.db", isolation_level=None, check_same_thread=not other_threads
        )
        for setting in ("journal_mode = wal", f"synchronous = {durability}"):
            self.connection.execute(f"pragma {setting}").fetchone()
        self.connection.execute(
            "create table events (run integer, seq integer, body blob, primary key (run, seq)) without rowid"
        )
        self._runs = 0
        self._waiting: list[tuple[tuple[int, int, bytes], asyncio.Future[None]]] = []

    def close(self) -> None:
        self.connection.close()

    async def steps(self, steps: int, size: int = 190) -> None:
        """One run alone, one commit a step."""
        self._runs += 1
        run, execute = self._runs, self.connection.execute

        def sink(event: Handoff) -> None:
            execute("insert into events values (?, ?, ?)", (run, event.seq, encode(event)))

        await _loop(steps, size, sink)

    async def runs_together(self, runs: int, steps: int, size: int = 190) -> None:
        """Many runs; those that are ready in one tick of the loop share a commit."""
        await asyncio.gather(*(self._one_of_many(steps, size) for _ in range(runs)))

    async def _one_of_many(self, steps: int, size: int) -> None:
        self._runs += 1
        run, model, agent = self._runs, FloorModel(size), "a"
        for n in range(steps):
            text = await asyncio.create_task(model.reply(n))
            target = route(agent, text)
            await self._shared((run, n, encode(Handoff(n, "handoff", agent, target, "NEXT", text, time.time()))))
            agent = target

    async def _shared(self, row: tuple[int, int, bytes]) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((row, done))
        if len(self._waiting) == 1:
            loop.call_soon(self._commit)
        await done

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.connection.execute("begin immediate")
        self.connection.executemany("insert into events values (?, ?, ?)", [row for row, _ in waiting])
        self.connection.execute("commit")
        for _, done in waiting:
            done.set_result(None)
