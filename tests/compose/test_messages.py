"""Messages through the whole box: people answer, restart, are late; hosts decide; tools wait for approval."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock import AlreadyResumed, Crew, Interlock, UsageError, load_crew, tool
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.crew.host import Host
from interlock.engine.events import InputGiven, ReportChecked, Warned
from interlock.errors import NotWaiting
from interlock.messages import ValidationResult
from interlock.testing import ManualClock, ScriptedModel

TRAVEL = "examples/travel"
ROOT = Path(__file__).parents[2]


def crew_of(folder: Path, text: str) -> Crew:
    folder.mkdir(exist_ok=True)
    (folder / "crew.yaml").write_text('version: "2.0"\nname: story\n' + text, "utf-8")
    return load_crew(folder)


def travelling(data: Path, **how: Any) -> Interlock:
    return Interlock(data, script=ROOT / TRAVEL / "script.yaml", durability="normal", **how)


async def asked_for_nights(box: Interlock) -> str:
    """Starts the trip of the example; gives the id of the question it comes to."""
    result = await (await box.start(load_crew(ROOT / TRAVEL), "Plan a trip from LAX to Italy", run_id="trip")).result()
    assert (result.status, result.reason) == ("paused", "question")
    assert result.output == "", "a verdict on a report is nothing that was said"
    return (await box.questions())[0].id


async def test_the_trip_of_the_seed_ends_with_a_plan(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)
        result = await (await box.answer(question, "5")).result()
    assert (result.status, result.reason) == ("completed", "terminal_agent")
    assert result.text.endswith("1267 in all.")


async def test_a_question_survives_the_process_and_is_answered_in_another(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)

    async with travelling(tmp_path) as box:
        listed = await box.questions()
        assert [(each.id, each.agent, each.crew, each.reason) for each in listed] == [
            (question, "hotels", "travel", "question")
        ]
        assert listed[0].expects == "a whole number from 1 to 30"
        assert (await (await box.answer(question, "5")).result()).status == "completed"


async def test_one_answer_counts_and_a_second_is_told_so(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)
        await (await box.answer(question, "5")).result()
        again = await (await box.answer(question, "5")).result()
        assert again.status == "completed"
        with pytest.raises(AlreadyResumed, match="the first answer counts"):
            await box.answer(question, "6")


async def test_a_hundred_equal_answers_to_a_question_have_one_effect(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)
        outcomes = await asyncio.gather(*(box.answer(question, "5") for _ in range(100)), return_exceptions=True)
        assert all(not isinstance(outcome, Exception) for outcome in outcomes), outcomes
        await box.runner.wait_until_settled("trip")
        records = await box.journal.records("trip")
        assert sum(isinstance(event, InputGiven) for record in records for event in record.events) == 1


async def test_a_bad_answer_is_asked_again_under_the_same_id(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)
        still = await (await box.answer(question, "five")).result()
        assert (still.status, still.reason) == ("paused", "question")
        (asked,) = await box.questions()
        assert asked.id == question
        assert "the answer should be a whole number from 1 to 30" in asked.question
        assert (await (await box.answer(question, "5")).result()).status == "completed"


async def test_what_is_no_question_is_refused_with_what_is(tmp_path: Path) -> None:
    async with travelling(tmp_path) as box:
        question = await asked_for_nights(box)
        with pytest.raises(NotWaiting, match=f"it waits for {question}"):
            await box.answer("trip:m99", "5")
        with pytest.raises(UsageError, match="not the id of a question"):
            await box.answer("nonsense", "5")


# Deadlines of people

ASKING = "entry_point: a\nagents: [{id: a, is_terminal: true, tools: [ask_user]}]\n"


def asks(**rules: Any) -> ScriptedModel:
    call = {"name": "ask_user", "arguments": {"question": "From where?", **rules}}
    return ScriptedModel({"a": [_answer(call), "done"]})


def _answer(call: dict[str, Any]) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=(ToolCall(call["name"], call["arguments"]),))


async def test_a_question_out_of_time_goes_on_with_its_default_while_the_process_lives(tmp_path: Path) -> None:
    clock, model = ManualClock(), asks(deadline_seconds=60, default="LAX")
    async with Interlock(tmp_path / "data", models=model, clock=clock, durability="normal") as box:
        run = await box.start(crew_of(tmp_path / "crew", ASKING), "go", run_id="r")
        assert (await run.result()).status == "paused"
        clock.advance(59_999)
        assert (await box.result("r")).status == "paused"
        clock.advance(1)
        while (await box.result("r")).status == "paused":
            await asyncio.sleep(0)
        await box.runner.wait_until_settled("r")
        assert (await box.result("r")).status == "completed"
        assert [message.text for message in model.asked[-1].messages][-1].endswith("the default counts: LAX")


async def test_whoever_takes_up_the_run_later_looks_at_the_deadline_first(tmp_path: Path) -> None:
    clock, crew = ManualClock(), crew_of(tmp_path / "crew", ASKING)
    async with Interlock(tmp_path / "data", models=asks(deadline_seconds=60), clock=clock) as box:
        await (await box.start(crew, "go", run_id="r")).result()
    clock.advance(61_000)
    async with Interlock(tmp_path / "data", models=asks(deadline_seconds=60), clock=clock) as box:
        (question,) = await box.questions()
        assert question.until == question.since + 60_000
        with pytest.raises(NotWaiting):
            await box.answer(question.id, "too late")
        await box.runner.wait_until_settled("r")
        assert (await box.result("r")).status == "completed"


async def test_a_host_that_recovers_keeps_the_deadlines_of_runs_that_rest(tmp_path: Path) -> None:
    clock, crew = ManualClock(), crew_of(tmp_path / "crew", ASKING)
    async with Interlock(tmp_path / "data", models=asks(deadline_seconds=60), clock=clock) as box:
        await (await box.start(crew, "go", run_id="r")).result()
    clock.advance(61_000)
    async with Interlock(tmp_path / "data", models=asks(deadline_seconds=60), clock=clock, recover=True) as box:
        await box.runner.wait_until_settled("r")
        assert (await box.result("r")).status == "completed"


# What the host decides

TREE = (
    "entry_point: a\nagents: [{id: a, is_terminal: true}, {id: b}, {id: c}]\n"
    "delegation: {children: {a: [b, c]}, select: model, report_check: model, max_follow_ups: 1}\n"
)


def gives_to_b() -> ScriptedModel:
    """Answers are taken by the number of the call; those that the host decides itself count, and are not asked for."""
    call = {"name": "delegate", "arguments": {"to": "b", "task": "look"}}
    return ScriptedModel(
        {"a": ["the host selects", _answer(call), *["the host checks"] * 2, "done"], "b": ["first", "second"]}
    )


async def test_a_hosts_functions_decide_in_place_of_the_model(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def select(task: str, ids: Sequence[str]) -> list[str]:
        seen.append((task, tuple(ids)))
        return ["b"]

    def check(task: str, report: str) -> ValidationResult | bool:
        seen.append((task, report))
        return True if report == "second" else ValidationResult(completed=False, reason="say more")

    model = gives_to_b()
    box = Interlock(tmp_path / "data", models=model, select_children=select, check_report=check)
    async with box:
        crew = crew_of(tmp_path / "crew", TREE)
        result = await (await box.start(crew, "go", run_id="r")).result()
        events = [event for record in await box.journal.records("r") for event in record.events]
        checked = [(event.ok, event.reason) for event in events if isinstance(event, ReportChecked)]
        assert (result.status, checked) == ("completed", [(False, "say more"), (True, "the host's function says so")])
    assert seen == [("go", ("b", "c")), ("look", "first"), ("look", "second")]
    assert not any(request.purpose for request in model.asked)


async def test_a_hosts_function_that_fails_leaves_the_agent_alone(tmp_path: Path) -> None:
    def select(task: str, ids: Sequence[str]) -> list[str]:
        raise ValueError("out of order")

    model = ScriptedModel({"a": ["the host selects", "alone"]})
    async with Interlock(tmp_path / "data", models=model, select_children=select) as box:
        await (await box.start(crew_of(tmp_path / "crew", TREE), "go", run_id="r")).result()
        events = [event for record in await box.journal.records("r") for event in record.events]
        (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "ValueError: out of order; it works alone" in warning


async def judged_by(folder: Path, check: Any, settings: str = "") -> list[str]:
    """What the journal warns of, where the host checks reports so."""

    call = {"name": "delegate", "arguments": {"to": "b", "task": "look"}}
    model = ScriptedModel({"a": ["the host selects", _answer(call), "the host checks", "done", "done"], "b": ["first"]})
    box = Interlock(folder / "data", models=model, select_children=lambda task, ids: ["b"], check_report=check)
    async with box:
        crew = crew_of(folder / "crew", TREE + settings)
        assert (await (await box.start(crew, "go", run_id="r")).result()).status == "completed"
        events = [event for record in await box.journal.records("r") for event in record.events]
        return [event.message for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize("gives", [None, 1, ["ok"], object()])
async def test_a_hosts_function_that_gives_no_verdict_rejects_nothing(tmp_path: Path, gives: object) -> None:
    (warning,) = await judged_by(tmp_path, lambda task, report: gives)
    assert "the host's function to check reports gave" in warning
    assert warning.endswith("the rules decide alone")


async def test_a_hosts_function_that_hangs_is_left_alone(tmp_path: Path) -> None:
    async def hangs(task: str, report: str) -> bool:
        return await asyncio.Event().wait()

    settings = "settings: {tool_execution_timeout_seconds: 0.01}\n"
    (warning,) = await judged_by(tmp_path, hangs, settings)
    assert "the host's function took longer than 0.01 s; the rules decide alone" in warning


# Approvals

PAYING = "entry_point: a\nagents: [{id: a, is_terminal: true, tools: [pay]}]\n"


@asynccontextmanager
async def paying(folder: Path) -> AsyncIterator[tuple[Interlock, ScriptedModel, list[int]]]:
    """A run that wants to pay 500 and waits for a person; with what its model is asked, and what was paid."""
    done: list[int] = []

    @tool(needs_approval=True)
    def pay(dollars: int) -> str:
        done.append(dollars)
        return f"paid {dollars}"

    (folder / "crew").mkdir()
    (folder / "crew" / "crew.yaml").write_text(f'version: "2.0"\nname: story\n{PAYING}', "utf-8")
    crew = load_crew(folder / "crew", host=Host(tools=("pay",)))
    model = ScriptedModel({"a": [_answer({"name": "pay", "arguments": {"dollars": 500}}), "done"]})
    async with Interlock(folder / "data", models=model, tools=[pay]) as box:
        result = await (await box.start(crew, "go", run_id="r")).result()
        assert (result.status, result.reason, done) == ("paused", "approval", [])
        yield box, model, done


@pytest.mark.parametrize(
    ("answer", "paid", "told"),
    [
        ("yes", [500], "paid 500"),
        ("no: too much", [], "error: a person did not approve 'pay': too much"),
        ('{"dollars": 50}', [50], '(a person changed the arguments to {"dollars":50})\npaid 50'),
    ],
)
async def test_a_tool_that_needs_approval_runs_as_the_person_says(
    tmp_path: Path, answer: str, paid: list[int], told: str
) -> None:
    async with paying(tmp_path) as (box, model, done):
        (question,) = await box.questions()
        await (await box.answer(question.id, answer)).result()
        assert (model.asked[-1].messages[-1].text, done) == (told, paid)


async def test_arguments_that_the_tool_cannot_take_go_back_to_the_person_who_wrote_them(tmp_path: Path) -> None:
    async with paying(tmp_path) as (box, model, done):
        (question,) = await box.questions()
        assert (await (await box.answer(question.id, '{"dollars": "few"}')).result()).reason == "approval"
        (again,) = await box.questions()
        assert len(model.asked) == 1, "the model has nothing to do with it"
        wrong = "a wants to use pay with {\"dollars\":500}\n(wrong arguments for 'pay': Expected `int`"
        assert again.question.startswith(wrong)
        await (await box.answer(again.id, "yes")).result()
        assert (model.asked[-1].messages[-1].text, done) == ("paid 500", [500])


async def test_arguments_that_only_the_model_wrote_are_its_own_to_mend(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    def pay(dollars: int) -> str:
        return f"paid {dollars}"

    (tmp_path / "crew").mkdir()
    (tmp_path / "crew" / "crew.yaml").write_text(f'version: "2.0"\nname: story\n{PAYING}', "utf-8")

    crew = load_crew(tmp_path / "crew", host=Host(tools=("pay",)))
    model = ScriptedModel({"a": [_answer({"name": "pay", "arguments": {"euros": 5}}), "done"]})
    async with Interlock(tmp_path / "data", models=model, tools=[pay]) as box:
        await (await box.start(crew, "go", run_id="r")).result()
        (question,) = await box.questions()
        assert (await (await box.answer(question.id, "yes")).result()).status == "completed"
        assert model.asked[-1].messages[-1].text.startswith("error: wrong arguments for 'pay'")
