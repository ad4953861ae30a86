"""The process that is killed: plays a story in a data folder, from wherever its journal ends.

Usage: crash_child.py FOLDER GENERATION start|resume       `start` goes on until somebody must say something
       crash_child.py serve                               a line of JSON a job; each is done by a fork of its own

Rule 1: what the outside world has seen is in FOLDER/world: one synced line a finished call.
Rule 2: what was acknowledged is printed: records whose append returned, and before them what the journal held.
Rule 3: a generation is one life of the process; the n-th is told apart from the others by its number.
"""

import asyncio
import importlib
import json
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from campaign.story import Story, as_yaml
from interlock import Interlock, RunNotFound
from interlock.adapters import crash_points
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import ModelFailed, ModelReplied, ToolReturned
from interlock.engine.state import Wait
from interlock.ids import run_of
from interlock.ports import Delta, ModelReply, ModelRequest, Record, StoredRecord
from tests.campaign.planted_bugs import BUGS

# Messages are numbered as they are sent, and of two agents at work a death may let the other be first.
MESSAGE_NUMBER = re.compile(r"\bm[0-9]+\b")

RUN = "r"
INPUT = "go"


class World:
    """All that happens outside, as it would be seen from there."""

    def __init__(self, folder: Path, generation: int) -> None:
        self._file = os.open(folder / "world", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._generation = generation

    def saw(self, kind: str, key: str, what: str) -> None:
        line = json.dumps([self._generation, kind, key, what]) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)


class SeeingModel:
    """Says what the script says, and a checksum of all it was shown; so a text that differs shows up at the end.

    Where the script says nothing, it says nothing.
    """

    def __init__(self, story: Story, world: World) -> None:
        self._scripted, self._world = ScriptedModel(story.script), world

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        seen = zlib.crc32(json.dumps(_shown(request)).encode())
        async for piece in self._scripted.reply(request):
            if isinstance(piece, ModelReply):
                self._world.saw("model", request.key, f"{request.agent} {request.number}")
                says = f"{seen:08x} {piece.text}" if piece.text or piece.tool_calls else ""
                yield msgspec.structs.replace(piece, text=piece.text if _is_json(piece.text) else says)


def _is_json(text: str) -> bool:
    """A selection or a verdict, which is read by Interlock and not shown to anybody."""
    try:
        return isinstance(json.loads(text), list | dict)
    except ValueError:
        return False


def _shown(request: ModelRequest) -> list[list[str]]:
    """All of it, in order. Agents that talk at the same time may be heard in any order, and a death decides which:
    for them it is what others said, whatever its order and its numbers."""
    messages = [[message.role, message.text] for message in request.messages]
    if not any(schema.name in ("delegate", "report") for schema in request.tools):
        return messages
    return sorted([role, MESSAGE_NUMBER.sub("m", text)] for role, text in messages if role != "assistant")


def paid(number: int) -> str:
    return f"paid {number}"


def tools_in(world: World) -> list[Any]:
    async def pay(number: int, context: ToolContext) -> str:
        world.saw("pay", context.key, str(number))
        return paid(number)

    def look_up(number: int, context: ToolContext) -> str:
        world.saw("look_up", context.key, str(number))
        return f"page {number}"

    return [pay, tool(look_up, idempotent=True)]


@lru_cache
def read_story(folder: Path) -> tuple[Story, CrewDefinition]:
    story = msgspec.json.decode((folder / "story").read_bytes(), type=Story)
    for place, crew in {".": story.crew, **story.below}.items():
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "crew.yaml").write_text(as_yaml(crew), "utf-8")
    return story, with_tools(load_definition(folder, host=Host()), story.tools)


def with_tools(crew: CrewDefinition, tools: dict[str, tuple[str, ...]]) -> CrewDefinition:
    agents = tuple(msgspec.structs.replace(agent, tools=tools.get(agent.id, ())) for agent in crew.agents)
    below = {
        name: msgspec.structs.replace(sub, crew=with_tools(sub.crew, tools) if sub.crew is not None else None)
        for name, sub in crew.sub_crews.items()
    }
    return msgspec.structs.replace(crew, agents=agents, sub_crews=below)


def say(*words: object) -> None:
    """Straight to the descriptor: what was said before a kill was said."""
    os.write(1, (json.dumps(words) + "\n").encode())


def digest(record: Record) -> int:
    return zlib.crc32(msgspec.json.encode(record, order="deterministic"))


def acknowledge(stored: StoredRecord) -> None:
    say("stored", stored.run, stored.record.seq, digest(stored.record))


async def answered_calls(box: Interlock) -> list[str]:
    """The keys, as the world outside knows them, of all calls that have an answer in the journals."""
    kinds = (ModelReplied, ModelFailed, ToolReturned)
    tree = await box.journal.tree(RUN)
    return [f"{each.run}:{e.call}" for each in tree for e in each.record.events if isinstance(e, kinds)]


async def play(folder: Path, generation: int, step: str) -> None:
    story, crew = read_story(folder)
    world = World(folder, generation)
    model = SeeingModel(story, world)
    async with Interlock(folder / "data", tools=tools_in(world), models=model, observers=[acknowledge]) as box:
        try:
            say("had", await answered_calls(box))
            run = await box.resume(RUN) if (await box.journal.row(RUN)).status == "running" else None
        except RunNotFound:
            run = await box.start(crew, INPUT, run_id=RUN)
            say("started")
        if run is not None:
            await run.result()
        await answer_all(box, story, step)
        replayed, result = await box.state(RUN), await box.result(RUN)  # `JournalDiverged` fails this life
        assert (replayed.status, replayed.usage) == (result.status, result.usage), "a replay ends where the run did"
        say("result", *msgspec.structs.astuple(result)[1:6])


async def answer_all(box: Interlock, story: Story, step: str) -> None:
    """The person: answers what is asked, until the run is over or, in `start`, has a question of its own."""
    while (await box.journal.row(RUN)).status == "paused":
        token = (await box.state(RUN)).waits[0].token
        asking = run_of(token)
        wait = next(wait for wait in (await box.state(asking)).waits if wait.token == token)
        if step == "start" and not wait.tool:
            return
        text = decided(story, wait, await box.journal.records(asking)) if wait.tool else story.answer
        run = await box.resume(RUN, text, token=wait.token)
        say("answered", wait.token, text)
        await run.result()


def decided(story: Story, wait: Wait, records: Any) -> str:
    if story.decision == "retry":
        return "retry"
    called = next(e for r in records for e in r.events if getattr(e, "name", "") and e.call == wait.tool)
    return paid(json.loads(called.arguments)["number"])


# One process, many forks: a fork starts in milliseconds, and dies like any other process.


def serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        read_story(Path(job["folder"]))
        child = os.fork()
        if child == 0:
            be_the_child(job)
        print(exit_code(child, job["kill_after_s"]), flush=True)


def exit_code(child: int, kill_after_s: float | None) -> int:
    """As a shell reports it. Killed from here, because only whoever waits for a process knows that it is still that."""
    if kill_after_s is not None:
        deadline = time.monotonic() + kill_after_s
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


def be_the_child(job: dict[str, Any]) -> None:
    code = 1
    try:
        folder, generation = Path(job["folder"]), int(job["generation"])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(folder / f"said.{generation}", flags, 0o600), 1)
        os.dup2(os.open(folder / f"errors.{generation}", flags, 0o600), 2)
        os.environ["INTERLOCK_CRASH_AT"] = str(job["crash_at"])
        importlib.reload(crash_points)  # it reads the environment once, as a new process would
        if job["planted"]:
            BUGS[job["planted"]][0]()
        asyncio.run(play(folder, generation, job["step"]))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(play(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
