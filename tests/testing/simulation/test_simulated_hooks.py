"""Hooks of the host under faults: nothing refused ever runs, nothing runs twice, nothing decided is asked again."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Ask, HookCall, Refuse, RunOutput, load_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.effects import RunTool
from interlock.engine.events import HooksDecided, HookVerdict, ModelReplied, RunResumed, RunStarted, ToolReturned
from interlock.engine.turns.hooks import YES
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.calls.approvals import ApprovalDecisions
from interlock.runtime.calls.hook_checks import HookChecks
from interlock.runtime.calls.tool_calls import ToolCalls
from interlock.runtime.live_run import LiveRun
from interlock.runtime.runner import replay_run
from interlock.testing import Simulation, simulate
from interlock.testing.simulation.faults import Violation

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [pay, ship, mail]}]
routing: {signals: {a: [{signal: "[END]"}]}}
settings: {max_rounds: 100}
"""
SEEDS = range(60)
AMOUNTS = (5, 13, 50, 60, 500, 7, 8, 9)


@pytest.fixture
def crew(tmp_path: Path) -> CrewDefinition:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    return load_crew(tmp_path, host=Host(tools=("pay", "ship", "mail"))).definition


class Workshop:
    """Tools that write down what they did, and the hooks of a host: one changes, one guards, one looks at results."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, int]] = []
        self.calls: Counter[str] = Counter()

    def tools(self) -> list[Any]:
        async def pay(context: ToolContext, amount: int) -> str:
            self.done.append(("pay", context.key, amount))
            return "paid"

        @tool(idempotent=True)
        async def ship(context: ToolContext, amount: int) -> str:
            self.done.append(("ship", context.key, amount))
            return f"shipped {amount}"

        @tool(needs_approval=True)
        async def mail(context: ToolContext, amount: int) -> str:
            self.done.append(("mail", context.key, amount))
            return "sent"

        return [pay, ship, mail]

    def hooks(self) -> list[Any]:
        return [Change(self.calls), Guard(self.calls), Watch(self.calls)]


class Counting:
    """A hook that counts how often it is asked."""

    def __init__(self, calls: Counter[str]) -> None:
        self.calls = calls


class Change(Counting):
    name = "change"

    def on_input(self, text: str) -> str | None:
        self.calls["on_input"] += 1
        return text.replace("[STOP]", "") if "[STOP]" in text else None

    def before_model(self, request: ModelRequest) -> ModelRequest | Ask | None:
        self.calls["before_model"] += 1
        if self.calls["before_model"] % 9 == 0:
            return Ask("call it?")
        return msgspec.structs.replace(request, system="Be brief.") if len(request.messages) % 2 else None

    async def before_tool(self, call: HookCall) -> dict[str, int] | None:
        self.calls["before_tool"] += 1
        await asyncio.sleep(0.1)
        return {"amount": 12} if call.arguments["amount"] == 13 else None


class Guard(Counting):
    name = "guard"

    async def before_tool(self, call: HookCall) -> Refuse | Ask | None:
        amount = call.arguments["amount"]
        if amount == 7:
            raise RuntimeError("no idea")
        if amount == 8:
            await asyncio.sleep(10**6)
        if amount > 100 or amount == 13:
            return Refuse("too much")
        return Ask(f"pay {amount}?", deadline_seconds=20 if amount > 55 else 0) if amount > 40 else None

    def after_tool(self, call: HookCall, result: str) -> str | Ask | None:
        self.calls["after_tool"] += 1
        if call.arguments["amount"] == 9:
            return Ask("show it?")
        return result.replace("shipped", "sent off") if "shipped" in result else None


class Watch(Counting):
    name = "watch"

    async def after_model(self, _request: ModelRequest, reply: ModelReply) -> str | Ask | None:
        self.calls["after_model"] += 1
        if "done" in reply.text:
            return Ask("is it done?")
        return f"{reply.text} so" if reply.text else None

    def on_output(self, _output: RunOutput) -> Ask:
        self.calls["on_output"] += 1
        return Ask("hand it out?")


def replies() -> list[Any]:
    calls = [ToolCall(name, {"amount": amount}) for amount in AMOUNTS for name in ("pay", "ship", "mail")]
    return [*(ScriptedAnswer("on it", tool_calls=(call,)) for call in calls), "done [END]"] * 3


def simulated(crew: CrewDefinition, seed: int, workshop: Workshop) -> Simulation:
    return simulate(
        crew, seed=seed, script={"a": replies()}, tools=workshop.tools(), hooks=workshop.hooks(), answers=80
    )


def violations(crew: CrewDefinition, seed: int) -> Sequence[Violation]:
    return simulated(crew, seed, Workshop()).violations


def said(found: Simulation) -> list[str]:
    return [event.input for record in found.records for event in record.events if isinstance(event, RunResumed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_refused_runs_nothing_runs_twice_and_a_replay_asks_no_hook(crew: CrewDefinition, seed: int) -> None:
    workshop = Workshop()
    found = simulated(crew, seed, workshop)
    found.require_lawful()
    assert [each for each in workshop.done if each[2] > 100 or each[2] in (7, 8, 13)] == []
    asked = [each for each in workshop.done if 40 < each[2] < 100]
    answers = said(found)
    assert len({key for _, key, _ in asked}) <= sum(answer in YES for answer in answers)
    counts = Counter(key for name, key, _ in workshop.done if name != "ship")
    assert sum(count - 1 for count in counts.values()) <= answers.count("retry")
    calls = workshop.calls.copy()
    assert str(replay_run(crew, found.run, found.records).state.status) == found.status
    assert workshop.calls == calls


def test_the_simulations_meet_every_decision_at_every_point(crew: CrewDefinition) -> None:
    met: set[tuple[str, str]] = set()
    for seed in range(2 * len(SEEDS)):
        for verdict in verdicts(simulated(crew, seed, Workshop())):
            met |= {(verdict.point, str(decision.outcome)) for decision in verdict.decisions}
    assert met >= {
        *(("before_tool", each) for each in ("replaced", "refused", "asked", "failed")),
        *(("after_tool", each) for each in ("replaced", "asked", "failed")),
        *(("before_model", each) for each in ("replaced", "asked", "failed")),
        *(("after_model", each) for each in ("replaced", "asked", "failed")),
        *(("on_output", "asked"), ("on_input", "replaced")),
    }


def verdicts(found: Simulation) -> list[HookVerdict]:
    heads = [record.events[0] for record in found.records]
    given = [
        head.verdict for head in heads if isinstance(head, HooksDecided | ModelReplied | ToolReturned | RunStarted)
    ]
    return [verdict for verdict in given if verdict is not None]


def test_the_same_seed_gives_the_same_journal_under_hooks(crew: CrewDefinition) -> None:
    assert simulated(crew, 1, Workshop()).journal == simulated(crew, 1, Workshop()).journal


def test_a_hook_that_is_skipped_after_a_crash_is_found(crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    before_tool = HookChecks.before_tool

    async def skip_after_crash(self: HookChecks, live: LiveRun, effect: RunTool) -> HooksDecided | None:
        return None if live.row.epoch > 1 else await before_tool(self, live, effect)

    monkeypatch.setattr(HookChecks, "before_tool", skip_after_crash)
    found = (simulated(crew, seed, Workshop()) for seed in SEEDS)
    assert any(each.law == "hooks see it first" for one in found for each in one.violations)


def test_a_decision_that_is_asked_again_is_found(crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    before_tool = HookChecks.before_tool

    async def ask_again(self: HookChecks, live: LiveRun, effect: RunTool) -> HooksDecided | None:
        return await before_tool(self, live, msgspec.structs.replace(effect, hooked=False))

    monkeypatch.setattr(HookChecks, "before_tool", ask_again)
    found = (simulated(crew, seed, Workshop()) for seed in SEEDS)
    assert any(each.law == "hooks decide once" for one in found for each in one.violations)


def test_a_call_that_is_not_decided_about_after_a_crash_is_found(
    crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_undecided = ApprovalDecisions.is_undecided

    def skip_after_crash(self: ApprovalDecisions, live: LiveRun, effect: RunTool) -> bool:
        return live.row.epoch == 1 and is_undecided(self, live, effect)

    monkeypatch.setattr(ApprovalDecisions, "is_undecided", skip_after_crash)
    assert "nothing runs undecided" in {each.law for seed in SEEDS for each in violations(crew, seed)}


def test_an_approved_call_that_runs_twice_is_found(crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolCalls, "can_run_again", lambda *_: True)
    found = (each.law for seed in SEEDS for each in violations(crew, seed))
    assert "a tool that is not idempotent runs once" in found
