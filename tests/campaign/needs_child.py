"""The processes of a run that was begun with a function as model, function tools and deps, each killed on order.

Usage: needs_child.py        reads a job a line: {"folder", "role", "crash_at"}; each is done by a fork of its own

Roles: `begin` and `second` give everything; `serve`, `resume` and `schedule` give nothing and must not drive the run.
Rule 1: every call of the model and of a tool is one synced line in FOLDER/calls, before it is answered.
Rule 2: the models that the crews name are scripts that say REAL: where it is in a journal, a run was driven with them.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from interlock import Interlock, ToolContext, load_crew
from interlock.adapters import crash_points
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.errors import HostLacks, NotWaiting, RunNotFound
from interlock.ports import ModelReply, ModelRequest

CREWS = {
    "": """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{id: clerk, model: "scripted:real.yaml", tools: [find]}]
sub_crews: {helpers: {config_path: helpers}}
routing: {signals: {clerk: [{signal: "[HELP]", type: sub_crew, target_crew: helpers}, {signal: "[END]"}]}}
""",
    "helpers": """\
version: "2.0"
name: helpers
entry_point: helper
agents: [{id: helper, model: "scripted:real.yaml", tools: [find]}]
routing: {signals: {helper: [{signal: "[END]"}]}}
""",
    "plain": """\
version: "2.0"
name: plain
entry_point: clerk
agents: [{id: clerk, model: "scripted:real.yaml"}]
routing: {signals: {clerk: [{signal: "[END]"}]}}
""",
}
REAL = 'replies: {clerk: ["REAL [END]", "REAL [END]", "REAL [END]"], helper: ["REAL [END]", "REAL [END]"]}'
DEPS = "the shop"
HOST = Host(tools=("find",))


def write_crews(folder: Path) -> None:
    for name, text in CREWS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "crew.yaml").write_text(text, "utf-8")
        (folder / name / "real.yaml").write_text(REAL, "utf-8")


class Program:
    """The crew with its function, the model and the deps; it notes all calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.definition: CrewDefinition = load_crew(folder, host=HOST).definition
        self.functions: Mapping[str, PythonTool] = {"find": PythonTool(self.find, idempotent=True)}
        self.output_types: OutputTypes = {}

    def _note(self, what: str, key: str) -> None:
        descriptor = os.open(self._folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{what} {key}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)

    def model(self, request: ModelRequest) -> Any:
        self._note("model", request.key)
        if request.number == 1:
            return ModelReply(text="", tool_calls=(ToolRequest(id="1", name="find", arguments="{}"),))
        if request.agent == "clerk" and request.number == 2:
            return "please\n[HELP]"
        return "over\n[END]"

    def find(self, context: ToolContext) -> str:
        self._note("tool", context.key)
        return f"found in {context.deps}"


async def begin(folder: Path) -> None:
    program = Program(folder)
    async with Interlock(folder / "data") as box:
        run = await box.start(program, "go", run_id="r", models=program.model, deps=DEPS)
        await run.result()


async def second(folder: Path) -> None:
    """Another program with everything: it recovers, and asks for the run by its id."""
    program = Program(folder)
    tools = list(program.functions.values())
    async with Interlock(folder / "data", models=program.model, tools=tools, deps=DEPS, recover=True) as box:
        await (await box.start(program, "go", run_id="r")).result()


async def serve(folder: Path) -> None:
    async with Interlock(folder / "data", recover=True) as box:
        await box.resume_parked()
        for row in await box.journal.rows():
            await box.runner.wait_until_settled(row.run)


async def resume(folder: Path) -> None:
    async with Interlock(folder / "data") as box:
        before = [(row.run, row.status, row.seq) for row in await box.journal.rows()]
        try:
            await box.resume("r")
        except (HostLacks, RunNotFound, NotWaiting) as refusal:
            is_over = all(status == "completed" for _, status, _ in before)
            assert is_over or not isinstance(refusal, NotWaiting), "a run that is not over says what it lacks"
            after = [(row.run, row.status, row.seq) for row in await box.journal.rows()]
            assert after == before, "a refused resume changes nothing"
        else:
            raise AssertionError("the run was resumed without what it needs")


async def schedule(folder: Path) -> None:
    """A process that starts runs of another crew by a schedule, and finds the run that it cannot drive."""
    async with Interlock(folder / "data", recover=True) as box:
        await box.schedule_runs(load_crew(folder / "plain"), "go", at=box.clock.now_ms())
        while not await box.journal.rows(crew="plain", status="completed"):
            await asyncio.sleep(0.001)


ROLES = {"begin": begin, "second": second, "serve": serve, "resume": resume, "schedule": schedule}


Roles = Mapping[str, Callable[[Path], Coroutine[Any, Any, None]]]


def live_once(folder: Path, role: str, crash_at: int, roles: Roles = ROLES) -> int:
    """In a fork: the exit code, 0 if nobody died."""
    child = os.fork()
    if child == 0:
        crash_points.CRASH_AT, crash_points._calls = crash_at, count(1)
        try:
            asyncio.run(roles[role](folder))
        except BaseException as error:  # told, not raised: the fork must not go on as its parent
            os.write(2, f"{role}: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def live_on_order(roles: Roles) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        print(live_once(Path(asked["folder"]), asked["role"], asked["crash_at"], roles), flush=True)


if __name__ == "__main__":
    live_on_order(ROLES)
