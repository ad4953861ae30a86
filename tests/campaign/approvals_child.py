"""A program whose tools are decided about by rules, by people and by hooks, killed on order.

Usage: approvals_child.py        reads a job a line: {"folder", "role", "crash_at"}; each is done by a fork of its own

Roles: `live` starts the run, or finds it, and answers every question until the run is over. `watch` only reads it.
Rule 1: every call of a tool and of a hook is one synced line in FOLDER/calls, before it is answered.
Rule 2: an amount stands for what must happen to the payment: DECISIONS.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from interlock import Ask, HookCall, Interlock, Refuse, RunOutput, ToolContext, load_crew, tool
from interlock.compose.crews import host_settings
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.ports import ModelReply, ModelRequest, OpenQuestion
from tests.campaign.needs_child import live_on_order

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{id: clerk, tools: [pay, look, wipe]}]
routing: {signals: {clerk: [{signal: "[END]"}]}}
settings: {max_rounds: 60}
"""
RULES = """\
[approvals]
deny = ["wipe", "pay:amount > 1000"]
ask = ["pay:amount > 10"]
"""
RUN = "r"

# What the model calls, one after another: the tool and the amount.
CALLS = (
    *(("wipe", 1), ("pay", 5000)),  # denied by a rule
    *(("pay", 20), ("pay", 30)),  # a rule asks: the person says no, and yes
    *(("pay", 40), ("pay", 50)),  # always, for less than 60: so nobody is asked about the next one
    *(("pay", 666), ("pay", 13)),  # a hook refuses, and writes 12 instead
    *(("pay", 70), ("pay", 80)),  # a hook asks: the person says yes, and no
    *(("look", 1), ("look", 2)),  # a hook withholds the result, and asks about it
)
ANSWERS = {20: "no", 30: "yes", 40: "always: pay:amount < 60", 70: "yes", 80: "no", 2: "yes"}
NEVER_RUN = (("wipe", 1), ("pay", 5000), ("pay", 20), ("pay", 666), ("pay", 13), ("pay", 80))
RUN_ONCE = (("pay", 30), ("pay", 40), ("pay", 50), ("pay", 12), ("pay", 70))


class Program:
    """The tools, the hook and the model; it notes all calls."""

    name = "guard"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, *words: object) -> None:
        descriptor = os.open(self._folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
        os.fsync(descriptor)
        os.close(descriptor)

    def tools(self) -> list[Any]:
        def pay(amount: int, context: ToolContext) -> str:
            self.note("tool", "pay", amount)
            return f"paid {amount}"

        @tool(idempotent=True)
        def look(amount: int, context: ToolContext) -> str:
            self.note("tool", "look", amount)
            context.memory[f"page {amount}"] = amount
            return f"page {amount}"

        def wipe(amount: int) -> str:
            self.note("tool", "wipe", amount)
            return "wiped"

        return [pay, look, wipe]

    def model(self, request: ModelRequest) -> Any:
        if request.number > len(CALLS):
            return "so\n[END]"
        name, amount = CALLS[request.number - 1]
        arguments = msgspec.json.encode({"amount": amount}).decode()
        return ModelReply(text="", tool_calls=(ToolRequest(id="1", name=name, arguments=arguments),))

    def before_model(self, request: ModelRequest) -> ModelRequest | Ask | None:
        self.note("before_model", request.number)
        if request.number == 2:
            return Ask("call it?")
        return msgspec.structs.replace(request, system="Be brief.") if request.number < 5 else None

    def before_tool(self, call: HookCall) -> dict[str, int] | Refuse | Ask | None:
        amount = call.arguments["amount"]
        self.note("before_tool", call.name, amount)
        if amount == 666:
            return Refuse("no luck")
        if amount in (70, 80):
            return Ask(f"hook about {amount}")
        return {"amount": 12} if amount == 13 else None

    def after_tool(self, call: HookCall, _result: str) -> Refuse | Ask | str | None:
        self.note("after_tool", call.name, call.arguments["amount"])
        if call.name == "look":
            return Refuse("private") if call.arguments["amount"] == 1 else Ask("hook about 2")
        return "it is paid"

    def on_output(self, output: RunOutput) -> Ask:
        self.note("on_output", output.run)
        return Ask("hand it out?")


def write_desk(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "interlock.toml").write_text(RULES, "utf-8")


def box_of(folder: Path, **more: Any) -> Interlock:
    program = Program(folder)
    host = host_settings(str(folder / "interlock.toml"))
    given: dict[str, Any] = {"models": program.model, "tools": program.tools(), "hooks": [program], **more}
    return Interlock(folder / "data", host=host, **given)


def answer_to(question: OpenQuestion) -> str:
    """What the person says: a lost call is neither repeated nor given up."""
    if question.reason == "tool_unknown_outcome":
        return "looked up by a person"
    amounts = [number for number in ANSWERS if question.question.endswith((f" {number}", f":{number}}}"))]
    return ANSWERS[amounts[0]] if amounts else "yes"


async def live(folder: Path) -> None:
    crew = load_crew(folder, host=Host(tools=("pay", "look", "wipe")))
    async with box_of(folder, recover=True) as box:
        run = await box.start(crew, "go", run_id=RUN)
        while (await run.result()).status == "paused":
            (question,) = await box.questions()
            await box.answer(question.id, answer_to(question), by="user:ann")


async def watch(folder: Path) -> None:
    """Replays the journal; nothing is driven, so no hook and no tool may be called."""
    async with box_of(folder) as box:
        if list(await box.journal.rows()):
            await box.state(RUN)


ROLES = {"live": live, "watch": watch}

if __name__ == "__main__":
    live_on_order(ROLES)
