"""Approvals by rule under faults: nothing denied ever runs, nothing approved runs twice, nothing runs undecided."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock import UsageError, load_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.approvals.answers import read_approval_answer
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.effects import RunTool
from interlock.engine.events import (
    ApprovalNeeded,
    IncomingEvent,
    InputExpired,
    InputRequested,
    RunResumed,
    ToolCalled,
    ToolDecided,
)
from interlock.ports import ToolCall as PortToolCall
from interlock.runtime.calls.approvals import ApprovalDecisions
from interlock.runtime.calls.tool_calls import ToolCalls
from interlock.runtime.live_run import LiveRun
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
# No rule is about `mail`: its code decides. What the rules leave open of `ship` its code decides too.
RULES = {"deny": ["*p*:amount > 100"], "ask": ["pay:amount > 10"], "allow": ["pay:amount <= 10"]}
AMOUNTS: tuple[dict[str, Any], ...] = (
    {"amount": 5}, {"amount": 50}, {"amount": 500}, {"amount": "500"}, {}, {"amount": 101}, {"amount": 7},
)  # fmt: skip
SEEDS = range(60)


@pytest.fixture
def crew(tmp_path: Path) -> CrewDefinition:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    return load_crew(tmp_path, host=Host(tools=("pay", "ship", "mail"))).definition


class Workshop:
    """Tools that write down what they did, under which key, and functions that decide, raise and hang."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, object]] = []
        self.decided: Counter[str] = Counter()

    def tools(self) -> list[Any]:
        async def pay(context: ToolContext, amount: int | str | None = None) -> str:
            self.done.append(("pay", context.key, amount))
            return "paid"

        async def ship(context: ToolContext, amount: int | str | None = None) -> str:
            self.done.append(("ship", context.key, amount))
            return "shipped"

        async def mail(context: ToolContext, amount: int | str | None = None) -> str:
            self.done.append(("mail", context.key, amount))
            return "sent"

        return [
            pay,
            tool(ship, needs_approval=self.decide_hanging),
            tool(mail, needs_approval=self.decide_raising),
        ]

    async def decide_hanging(self, arguments: dict[str, Any]) -> bool:
        self.decided["ship"] += 1
        if arguments.get("amount") == 7:
            await asyncio.sleep(10**6)
        return False

    def decide_raising(self, arguments: dict[str, Any]) -> bool:
        self.decided["mail"] += 1
        return bool(arguments["amount"] > 10)  # raises without an amount, and with text


def replies() -> list[Any]:
    calls = [ToolCall(name, amount) for amount in AMOUNTS for name in ("pay", "ship", "mail")]
    return [*(ScriptedAnswer(tool_calls=(call,)) for call in calls), "done [END]"] * 3


def simulated(crew: CrewDefinition, seed: int, workshop: Workshop, **more: Any) -> Simulation:
    found = played(crew, seed, workshop, **more)
    found.require_lawful()
    return found


def played(crew: CrewDefinition, seed: int, workshop: Workshop, **more: Any) -> Simulation:
    return simulate(
        crew, seed=seed, script={"a": replies()}, tools=workshop.tools(), approvals=RULES, answers=60, **more
    )


def violations(crew: CrewDefinition, seed: int) -> Sequence[Violation]:
    return played(crew, seed, Workshop()).violations


def approved_calls(found: Simulation) -> set[str]:
    """The first keys of the calls that the journal approves: by a decision, or by a person's yes."""
    first: dict[str, str] = {}
    asked: dict[str, str] = {}
    approved: set[str] = set()
    for record in found.records:
        head, called = record.events[0], [event for event in record.events if isinstance(event, ToolCalled)]
        about = ""
        if isinstance(head, ApprovalNeeded | ToolDecided):
            about = first.get(head.call, head.call)
        if isinstance(head, RunResumed) and head.token in asked:
            about = asked[head.token]
        for event in called if about else ():
            first[event.call] = about
            answer = read_approval_answer(head.input) if isinstance(head, RunResumed) else None
            if isinstance(head, ToolDecided) or (answer is not None and answer.is_yes):
                approved.add(f"{found.run}:{about}")
        asked |= {each.token: about for each in record.events if isinstance(each, InputRequested) and about}
    return approved


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_denied_runs_and_nothing_runs_undecided(crew: CrewDefinition, seed: int) -> None:
    workshop = Workshop()
    found = simulated(crew, seed, workshop)
    assert [each for each in workshop.done if each[0] != "mail" and isinstance(each[2], int) and each[2] > 100] == []
    assert {key for _, key, _ in workshop.done} <= approved_calls(found)


def test_a_tool_runs_twice_only_where_a_person_said_retry(crew: CrewDefinition) -> None:
    for seed in SEEDS:
        workshop = Workshop()
        found = simulated(crew, seed, workshop)
        answers = [event.input for record in found.records for event in record.events if isinstance(event, RunResumed)]
        repeated = sum(count - 1 for count in Counter(key for _, key, _ in workshop.done).values())
        assert repeated <= answers.count("retry")


def test_the_simulations_meet_every_way_to_decide(crew: CrewDefinition) -> None:
    met: set[str] = set()
    for seed in SEEDS:
        for record in simulated(crew, seed, Workshop()).records:
            head = record.events[0]
            if isinstance(head, ToolDecided):
                met.add(f"{head.verdict} by {'a person' if head.approval else 'the host'}")
            elif isinstance(head, ApprovalNeeded) and head.terms is not None:
                met |= {
                    word
                    for word in ("cannot be decided", " asks", "failed", "took longer")
                    if word in head.terms.because
                }
    assert met == {
        *("allow by the host", "allow by a person", "deny by the host"),
        *("cannot be decided", " asks", "failed", "took longer"),
    }


def test_the_same_seed_gives_the_same_journal_under_rules(crew: CrewDefinition) -> None:
    assert simulated(crew, 1, Workshop()).journal == simulated(crew, 1, Workshop()).journal


def test_an_approval_without_an_answer_is_denied_in_time(crew: CrewDefinition) -> None:
    workshop = Workshop()
    found = simulated(crew, 3, workshop, approval_deadline_seconds=0.5)
    expired = [event for record in found.records for event in record.events if isinstance(event, InputExpired)]
    assert expired
    assert {key for _, key, _ in workshop.done} <= approved_calls(found)


@pytest.mark.parametrize("rules", [{"refuse": ["pay"]}, {"deny": ["pay:"]}])
def test_bad_rules_are_refused(crew: CrewDefinition, rules: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError, match="approvals"):
        simulate(crew, seed=1, approvals=rules)


def test_a_call_that_is_not_decided_about_after_a_crash_is_found(
    crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_undecided = ApprovalDecisions.is_undecided

    def skip_after_crash(self: ApprovalDecisions, live: LiveRun, effect: RunTool) -> bool:
        return live.row.epoch == 1 and is_undecided(self, live, effect)

    monkeypatch.setattr(ApprovalDecisions, "is_undecided", skip_after_crash)
    assert "nothing runs undecided" in {each.law for seed in SEEDS for each in violations(crew, seed)}


def test_a_denied_call_that_runs_is_found(crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a denial becomes a yes, and no approved call is compared with the rules again."""
    decide = ApprovalDecisions.decide

    async def allow(self: ApprovalDecisions, live: LiveRun, call: PortToolCall) -> IncomingEvent:
        decided = await decide(self, live, call)
        is_denied = isinstance(decided, ToolDecided) and decided.verdict == "deny"
        return ToolDecided(call=call.call, tool=call.name, verdict="allow") if is_denied else decided

    monkeypatch.setattr(ApprovalDecisions, "decide", allow)
    monkeypatch.setattr(ApprovalDecisions, "denial_of_approved", lambda *_: None)
    assert "nothing denied runs" in (each.law for seed in SEEDS for each in violations(crew, seed))


def test_an_approved_call_that_runs_twice_is_found(crew: CrewDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolCalls, "can_run_again", lambda *_: True)
    found = (each.law for seed in SEEDS for each in violations(crew, seed))
    assert "a tool that is not idempotent runs once" in found
