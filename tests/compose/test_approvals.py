"""Approvals by rule in whole runs: decisions before the tool, answers that hold, a deadline that denies."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import END, Agent, Crew, Interlock, UsageError, load_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.tools.python_tools import PythonTool, ToolContext, tool
from interlock.compose.crews import host_settings
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import ApprovalGiven, Event, RunStarted, ToolDecided
from interlock.engine.explain import explain_events
from interlock.errors import NoSuchApproval, TooLate
from interlock.testing import ManualClock

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [pay]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


class Till:
    """A tool that writes down what it paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self, needs_approval: bool | Callable[..., Any] = False) -> PythonTool:
        def pay(amount: int = 0, to: str = "") -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        return tool(pay, needs_approval=needs_approval)


class Desk:
    """A folder with a crew, rules and a till, and boxes on it."""

    def __init__(self, folder: Path, rules: str = "", needs_approval: bool | Callable[..., Any] = False) -> None:
        self.folder, self.till, self.clock = folder, Till(), ManualClock()
        (folder / "crew.yaml").write_text(CREW, "utf-8")
        (folder / "interlock.toml").write_text(f"[approvals]\n{rules}\n", "utf-8")
        self._needs_approval = needs_approval

    @property
    def crew(self) -> CrewDefinition:
        return load_crew(self.folder, host=Host(tools=("pay",))).definition

    def open(self, *arguments: str, **more: Any) -> Interlock:
        """A box whose model makes these calls of the tool, one after another, in every run."""
        calls = [ScriptedAnswer(tool_calls=(ToolCall("pay", msgspec.json.decode(each)),)) for each in arguments]
        self.model = ScriptedModel({"a": [*calls, "done [END]"] * 4})
        host = host_settings(str(self.folder / "interlock.toml"))
        tools = [self.till.tool(self._needs_approval)]
        return Interlock(self.folder / "data", host=host, models=self.model, tools=tools, **more)

    def told(self) -> list[str]:
        """What the model was told of its calls, in its last request."""
        return [message.text for message in self.model.asked[-1].messages if message.role == "tool"]


async def events_of(box: Interlock, run: str) -> list[Event]:
    return [event for record in await box.journal.records(run) for event in record.events]


async def decisions_of(box: Interlock, run: str) -> list[tuple[str, str, str]]:
    found = [event for event in await events_of(box, run) if isinstance(event, ToolDecided)]
    return [(event.verdict, event.rule, event.by) for event in found]


async def test_a_call_that_a_rule_denies_is_told_to_the_model_and_never_runs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 'deny = ["pay:amount > 100"]')
    async with desk.open('{"amount": 500}', '{"amount": 5}') as box:
        run = await box.start(desk.crew, "go")
        assert (await run.result()).status == "completed"
        assert desk.till.paid == [5]
        assert "deny 'pay'" in desk.told()[0]
        assert "pay:amount > 100" in desk.told()[0]
        assert await decisions_of(box, run.id) == [("deny", "pay:amount > 100", ""), ("allow", "", "")]
        lines = explain_events(await events_of(box, run.id))
        assert "pay is denied by the rule 'pay:amount > 100'" in lines


@pytest.mark.parametrize(
    ("rules", "needs_approval", "arguments", "asks"),
    [
        ('ask = ["pay:amount > 100"]', False, '{"amount": 500}', "rule 'pay:amount > 100' asks"),
        ('ask = ["pay:amount > 100"]', False, '{"amount": 5}', ""),
        ('ask = ["pay:amount > 100"]', False, "{}", "cannot be decided"),
        ('allow = ["pay:amount > 100"]', False, "{}", "cannot be decided"),
        ('allow = ["pay"]', False, "{}", ""),
        ('allow = ["pay"]', True, "{}", "always needs approval"),
        ('allow = ["pay"]', lambda arguments: True, "{}", ""),
        ("", lambda arguments: arguments["amount"] > 100, '{"amount": 500}', "the approval function of pay asks"),
        ("", lambda arguments: arguments["amount"] > 100, '{"amount": 5}', ""),
        ("", lambda arguments: arguments["amount"] > 100, "{}", "the approval function of pay failed: KeyError"),
        ("", lambda arguments, context: context.key == "", "{}", ""),
        ("", lambda arguments: None, "{}", "the approval function of pay asks"),
        ("", lambda arguments: 0, "{}", "the approval function of pay asks"),
        ("", True, "{}", "always needs approval"),
    ],
)
async def test_a_rule_or_the_code_of_the_tool_asks(
    tmp_path: Path, rules: str, needs_approval: Any, arguments: str, asks: str
) -> None:
    desk = Desk(tmp_path, rules, needs_approval)
    async with desk.open(arguments) as box:
        run = await box.start(desk.crew, "go")
        result = await run.result()
        if not asks:
            assert (result.status, len(desk.till.paid)) == ("completed", 1)
            return
        assert (result.status, result.reason, desk.till.paid) == ("paused", "approval", [])
        (question,) = await box.questions()
        assert asks in question.context
        await box.answer(question.id, "no: not today")
        assert (await run.result()).status == "completed"
        assert desk.till.paid == []
        assert desk.told() == ["error: a person did not approve 'pay': not today"]


async def test_async_functions_decide_and_whatever_they_raise_asks(tmp_path: Path) -> None:
    async def decide(arguments: dict[str, Any], context: ToolContext) -> bool:
        if arguments["amount"] == 1:
            raise SystemExit(3)
        if arguments["amount"] == 2:
            raise asyncio.CancelledError
        return False

    desk = Desk(tmp_path, needs_approval=decide)
    async with desk.open('{"amount": 1}', '{"amount": 2}', '{"amount": 3}') as box:
        run = await box.start(desk.crew, "go")
        for why in ("SystemExit", "cancelled"):
            assert (await run.result()).status == "paused"
            (question,) = await box.questions()
            assert why in question.context
            await box.answer(question.id, "no")
        assert (await run.result()).status == "completed"
        assert desk.till.paid == [3]


async def test_an_answer_that_always_holds_is_used_in_later_runs_until_it_is_revoked(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 'ask = ["p*:amount > 100"]')
    async with desk.open('{"amount": 500}', '{"amount": 600}') as box:
        first = await box.start(desk.crew, "go")
        assert (await first.result()).status == "paused"
        (question,) = await box.questions()
        assert question.holds_for == "pay:amount > 100"
        await box.answer(question.id, "always", by="user:ann")
        assert (await first.result()).status == "completed"
        assert desk.till.paid == [500, 600]
        (given,) = await box.approvals()
        assert (given.tool, given.pattern, given.run, given.by) == ("pay", "pay:amount > 100", "", "user:ann")
        assert (await decisions_of(box, first.id))[-1] == ("allow", "p*:amount > 100", "user:ann")
        told = explain_events(await events_of(box, first.id))
        assert f"pay is allowed by the approval {given.id} of user:ann" in told
        assert any(isinstance(event, ApprovalGiven) for event in await events_of(box, first.id))
    async with desk.open('{"amount": 700}') as box:  # another process
        assert (await (await box.start(desk.crew, "go")).result()).status == "completed"
        await box.revoke_approval(given.id)
        with pytest.raises(NoSuchApproval):
            await box.revoke_approval(given.id)
        assert (await (await box.start(desk.crew, "go")).result()).status == "paused"
    assert desk.till.paid == [500, 600, 700]


async def test_an_answer_for_this_run_holds_for_no_other(tmp_path: Path) -> None:
    desk = Desk(tmp_path, needs_approval=True)
    async with desk.open('{"amount": 1}', '{"amount": 2}') as box:
        first = await box.start(desk.crew, "go")
        await first.result()
        await box.answer((await box.questions())[0].id, "for this run")
        assert (await first.result()).status == "completed"
        assert desk.till.paid == [1, 2]
        assert (await box.approvals())[0].run == first.id
        assert (await (await box.start(desk.crew, "go")).result()).status == "paused"
        assert desk.till.paid == [1, 2]


async def test_revoking_ends_an_approval_for_a_run_in_progress(tmp_path: Path) -> None:
    desk = Desk(tmp_path, needs_approval=True)

    async with desk.open('{"amount": 1}', '{"amount": 2}', '{"amount": 3}') as box:
        run = await box.start(desk.crew, "go")
        await run.result()
        await box.answer((await box.questions())[0].id, "for this run")
        async for event in run.events():  # the run works on meanwhile
            if event.type == "tool.returned":
                for each in await box.approvals():
                    await box.revoke_approval(each.id)
        assert (await run.result()).status == "paused"
        assert 3 not in desk.till.paid


async def test_an_answer_holds_only_if_the_caller_may_say_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, needs_approval=True)
    async with desk.open('{"amount": 1}') as box:
        run = await box.start(desk.crew, "go")
        await run.result()
        await box.answer((await box.questions())[0].id, "always", may_hold=False)
        assert (await run.result()).status == "paused"
        assert "needs a key with the scope 'approve'" in (await box.questions())[0].fault
        assert (list(await box.approvals()), desk.till.paid) == ([], [])


async def test_arguments_that_a_person_changed_are_denied_by_the_rules_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 'deny = ["pay:amount > 100"]', needs_approval=True)
    async with desk.open('{"amount": 50}') as box:
        run = await box.start(desk.crew, "go")
        await run.result()
        await box.answer((await box.questions())[0].id, '{"amount": 5000}')
        assert (await run.result()).status == "paused"
        (question,) = await box.questions()
        assert question.fault == "rule 'pay:amount > 100' denies these arguments"
        await box.answer(question.id, '{"amount": 60}')
        assert (await run.result()).status == "completed"
        assert desk.till.paid == [60]


async def test_a_rule_that_came_later_denies_what_a_person_approves(tmp_path: Path) -> None:
    desk = Desk(tmp_path, needs_approval=True)
    async with desk.open('{"amount": 50}') as box:
        run = await box.start(desk.crew, "go")
        await run.result()
    (tmp_path / "interlock.toml").write_text('[approvals]\ndeny = ["pay"]\n', "utf-8")
    async with desk.open('{"amount": 50}') as box:
        await box.answer((await box.questions())[0].id, "yes")
        await box.run(run.id).result()
        assert desk.till.paid == []
        assert (await decisions_of(box, run.id)) == [("deny", "pay", "")]


async def test_a_deadline_denies(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 'ask = ["pay"]\ndeadline_seconds = 60')
    async with desk.open('{"amount": 50}', clock=desk.clock) as box:
        run = await box.start(desk.crew, "go")
        await run.result()
        (question,) = await box.questions()
        assert question.until - question.since == 60_000
        desk.clock.jump(60_000)  # the alarm is on the other clock: the answer itself finds that it is late
        with pytest.raises(TooLate):
            await box.answer(question.id, "yes")
        assert (await run.result()).status == "completed"
        assert desk.told() == ["error: no person approved 'pay' within 60 s"]
        assert desk.till.paid == []


async def test_a_replay_evaluates_no_rule_and_no_function(tmp_path: Path) -> None:
    asked = []

    def decide(arguments: dict[str, Any]) -> bool:
        asked.append(arguments)
        return False

    desk = Desk(tmp_path, 'ask = ["pay:amount > 100"]', decide)
    async with desk.open('{"amount": 50}') as box:
        run = await box.start(desk.crew, "go")
        await run.result()
        assert len(asked) == 1
    (tmp_path / "interlock.toml").write_text('[approvals]\ndeny = ["pay"]\n', "utf-8")
    async with desk.open() as box:
        assert (await box.state(run.id)).status == "completed"
    assert len(asked) == 1


class OwnDesk:
    """A Python crew that brings its tool as a function, and boxes that were given no tools."""

    def __init__(self, folder: Path, rules: str = "", needs_approval: bool | Callable[..., Any] = False) -> None:
        self.folder, self.till = folder, Till()
        (folder / "interlock.toml").write_text(f"[approvals]\n{rules}\n", "utf-8")
        agent = Agent("a", "Pay.", tools=[self.till.tool(needs_approval)], on={"[END]": END})
        self.crew = Crew("desk", [agent])

    def open(self, *arguments: str) -> Interlock:
        calls = [ScriptedAnswer(tool_calls=(ToolCall("pay", msgspec.json.decode(each)),)) for each in arguments]
        host = host_settings(str(self.folder / "interlock.toml"))
        return Interlock(self.folder / "data", host=host, models=ScriptedModel({"a": [*calls, "done [END]"]}))


async def test_the_approval_function_of_a_tool_that_came_with_its_crew_decides(tmp_path: Path) -> None:
    desk = OwnDesk(tmp_path, needs_approval=lambda arguments: arguments["amount"] > 100)
    async with desk.open('{"amount": 5}', '{"amount": 500}') as box:
        run = await box.start(desk.crew, "go")
        assert (await run.result()).status == "paused"
        assert desk.till.paid == [5]
        assert [each.context for each in await box.questions()] == ["the approval function of pay asks"]
        assert (await (await box.resume(run.id, "no")).result()).status == "completed"
        assert desk.till.paid == [5]


async def test_rules_are_about_tools_that_came_with_their_crew_too(tmp_path: Path) -> None:
    desk = OwnDesk(tmp_path, 'deny = ["pay:amount > 100"]')
    async with desk.open('{"amount": 500}', '{"amount": 5}') as box:
        assert (await (await box.start(desk.crew, "go")).result()).status == "completed"
        assert desk.till.paid == [5]


async def test_a_run_is_not_driven_where_its_tool_asks_for_no_approval(tmp_path: Path) -> None:
    """The names of tools whose code asks are recorded: a tool of the same name without its guard is not enough."""
    desk = Desk(tmp_path, needs_approval=lambda arguments: arguments["amount"] > 1)
    async with desk.open('{"amount": 5}') as box:
        run = await box.start(desk.crew, "go", run_id="guarded")
        assert (await run.result()).status == "paused"
        (started,) = [event for event in await events_of(box, run.id) if isinstance(event, RunStarted)]
        assert started.needs.approvals == ("pay",)

    def pay(amount: int) -> str:
        return f"paid {amount}"

    async with Interlock(desk.folder / "data", models=lambda _: "so\n[END]", tools=[pay]) as box:
        with pytest.raises(UsageError, match="does not have: approval of pay; declare these tools with needs_approval"):
            await box.resume("guarded", "yes")
        assert (await box.journal.row("guarded")).status == "paused"


async def test_each_run_is_judged_by_the_approval_function_of_its_own_crew(tmp_path: Path) -> None:
    """Two crews that differ only in what their functions close over: a newer one must not decide for an older."""
    tills = {limit: Till() for limit in (10, 1000)}

    def crew_with(limit: int) -> Crew[Any]:
        pay = tills[limit].tool(lambda arguments: bool(arguments["amount"] > limit))
        return Crew("desk", [Agent("a", "Pay.", tools=[pay], on={"[END]": END})])

    call = ScriptedAnswer(tool_calls=(ToolCall("pay", {"amount": 50}),))
    async with Interlock(tmp_path, models=ScriptedModel({"a": [call, "[END]"]}), clock=ManualClock()) as box:
        strict = await box.start(crew_with(10), "go", run_id="strict")
        lax = await box.start(crew_with(1000), "go", run_id="lax")
        results = [(await run.result()).status for run in (strict, lax)]
    assert results == ["paused", "completed"]
    assert [till.paid for till in tills.values()] == [[], [50]]
