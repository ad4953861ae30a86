"""The process that is killed while it announces, schedules, dispatches and delivers.

Usage: bus_child.py        reads a job a line: {"folder", "crash_at", "bug"}; each is done by a fork of its own

Rule 1: what was acknowledged is in FOLDER/acked, one synced line each; the next life does not ask for it again.
Rule 2: the last life dies of nothing, and goes on until nothing is left to deliver.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from interlock import Crew, Interlock, load_crew
from interlock.adapters import crash_points
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.broadcast.delayed import DelayedBroadcast, emission_of
from interlock.engine.events import ToolRequest
from interlock.ports import BroadcastOutcome, ModelReply, ModelRequest

CREW = """\
version: "2.0"
name: watch
entry_point: a
agents: [{id: a, tools: [generate_signal, signal_schedule]}, {id: quiet}, {id: loud}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: quiet}]
    quiet: [{signal: "[DONE]"}]
    loud: [{signal: "[DONE]"}]
subscriptions:
  quiet: [{pattern: "told:*"}, {pattern: "later:*"}]
  loud: [{pattern: "told:*", silent: false}, {pattern: "*:first", silent: false}]
"""


def answer(request: ModelRequest) -> Any:
    if request.agent == "a" and request.messages[-1].role != "tool":
        calls = (("generate_signal", {"type": "told:run"}), ("signal_schedule", {"type": "later:run", "delayMs": 1}))
        made = tuple(ToolRequest(id=name, name=name, arguments=json.dumps(given)) for name, given in calls)
        return ModelReply(text="", tool_calls=made)
    return "over\n[NEXT]" if request.agent == "a" else "so\n[DONE]"


class Acks:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "acked"
        self.known = (
            dict(json.loads(line) for line in self._path.read_text().splitlines()) if self._path.exists() else {}
        )

    def ack(self, what: str, value: str) -> None:
        self.known[what] = value
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, (json.dumps([what, value]) + "\n").encode())
        os.fsync(descriptor)
        os.close(descriptor)


async def once(acks: Acks, what: str, work: Callable[[], Awaitable[str]]) -> None:
    if what not in acks.known:
        acks.ack(what, await work())


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    while not await check():
        await asyncio.sleep(0.001)


async def live(folder: Path) -> None:
    acks = Acks(folder)
    crew: Crew = load_crew(folder)
    async with Interlock(folder / "data", models=answer, recover=True) as box:
        await box.listen(crew)

        async def emitted() -> str:
            return (await box.signals.emit("told:first")).id

        async def scheduled(data: str) -> str:
            return (await box.signals.schedule("later:x", data, in_ms=20, repeat_key="k")).id

        async def ran() -> str:
            if not await is_there(box):
                await box.start(crew, "go", run_id="r")
            return "r"

        await once(acks, "emit", emitted)
        await once(acks, "schedule", lambda: scheduled("old"))
        await once(acks, "replace", lambda: scheduled("new"))
        await once(acks, "run", ran)
        await until(lambda: is_done(box))


async def is_there(box: Interlock) -> bool:
    return any(row.run == "r" for row in await box.journal.rows(crew="watch"))


async def is_done(box: Interlock) -> bool:
    """Nothing is due, nothing is to be delivered, and nothing runs.

    What is due becomes a delivery, and a delivery a run: looked at in this order, after nothing ran that could make
    more of it, no step is missed. (Runs looked at first alone miss the one that a delivery starts in between.)
    """
    return (
        not await box.journal.rows(status="running")
        and not await box.signals.list_delayed()
        and not await box.signals.bus.agents_with_deliveries(10**15)
        and not await box.journal.rows(status="running")
    )


async def dispatch_in_two_steps(self: SqliteBus, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
    """A planted bug: out of the queue in one transaction, onto the bus in another."""
    announced = BroadcastOutcome()
    for entry in entries:
        await self.cancel(entry.id)
        for _ in range(5):  # a gap wide enough to die in, however the loop takes its turns
            crash_points.crash_point("between two steps")
        announced = await self.emit(emission_of(entry, now))
    return announced


def job(folder: Path, crash_at: int, bug: str) -> int:
    """In a fork: the exit code, 0 if nobody died."""
    child = os.fork()
    if child == 0:
        if bug == "dispatch in two steps":
            SqliteBus.dispatch = dispatch_in_two_steps  # type: ignore[method-assign]
        crash_points.CRASH_AT, crash_points._calls = crash_at, count(1)
        try:
            asyncio.run(live(folder))
        except BaseException as error:  # told, not raised: the fork must not go on as its parent
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(job(Path(asked["folder"]), asked["crash_at"], asked["bug"]), flush=True)
