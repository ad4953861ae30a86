"""What a run needs from its host: recorded when it begins, and driven only where everything is given."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, ToolContext, load_crew
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes
from interlock.cli.main import interlock
from interlock.compose.given.run_resources import RunGift
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.events import HostNeeds, RunStarted
from interlock.errors import AlreadyStarted, HostLacks, InterlockError
from interlock.events import ToolReturnedEvent
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.following import PublicEvent
from interlock.testing import ManualClock, ScriptedModel
from tests import nested_crews

# The crew's own model is a script: a process that drove the run with it would let it end with the text "real".
DESK = """\
version: "2.0"
name: desk
entry_point: a
settings: {timeout_seconds: 90000}
agents: [{id: a, model: "scripted:real.yaml", tools: [find]}]
routing: {signals: {a: [{signal: "[ASK]", type: pause}, {signal: "[END]"}]}}
"""
REAL = 'replies: {a: ["real [END]", "real [END]", "real [END]"]}'


def find(context: ToolContext, what: str = "") -> str:
    return f"{context.deps} {what}"


def other(what: str = "") -> str:
    return what


def desk(folder: Path, text: str = DESK) -> CrewDefinition:
    (folder / "crew.yaml").write_text(text, "utf-8")
    (folder / "real.yaml").write_text(REAL, "utf-8")
    return load_crew(folder, host=Host(tools=("find", "pay"))).definition


class Given:
    """A crew as users write it: its definition, and the functions on its agents."""

    def __init__(self, definition: CrewDefinition, *functions: Any) -> None:
        self.definition = definition
        self.functions: Mapping[str, PythonTool] = {each.__name__: PythonTool(each) for each in functions}
        self.output_types: OutputTypes = {}


async def endless(request: ModelRequest) -> str:
    await asyncio.Event().wait()
    return "never"


async def done(request: ModelRequest) -> str:
    return "given [END]"


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[Interlock]:
    async with Interlock(folder / "data", durability="normal", **more) as box:
        yield box


async def leave(folder: Path, crew: Any, **gift: Any) -> None:
    """Leaves run `r` behind, as a process that dies in its first model call does."""
    async with opened(folder, tools=[find]) as box:
        await box.start(crew, "go", run_id="r", models=endless, **gift)


async def started(box: Interlock, run: str = "r") -> RunStarted:
    event = (await box.journal.records(run, 0, 1))[0].events[0]
    assert isinstance(event, RunStarted)
    return event


async def status(box: Interlock, run: str = "r") -> tuple[str, str]:
    row = await box.journal.row(run)
    return row.status, row.reason


async def test_what_a_run_was_begun_with_is_in_its_first_event(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    async with opened(tmp_path, tools=[find, other]) as box:
        await (await box.start(crew, "go", run_id="all", models=done, deps="d")).result()
        await (await box.start(crew, "go", run_id="some", models={"scripted": done, "else": done})).result()
        await (await box.start(Given(crew, find), "go", run_id="own")).result()
        assert (await started(box, "all")).needs == HostNeeds(models=True, deps=True, functions=("find",))
        assert (await started(box, "some")).needs == HostNeeds(
            models=True, providers=("scripted",), functions=("find",)
        )
        assert (await started(box, "own")).needs == HostNeeds(functions=("find",))
        shown = await anext(box.run("all").events())
        assert shown.to_dict()["needs"]["models"] is True
    plain = desk(tmp_path, DESK.replace(", tools: [find]", ""))
    async with opened(tmp_path) as box:
        await (await box.start(plain, "go", run_id="none")).result()
        assert "needs" not in (await anext(box.run("none").events())).to_dict()


async def test_a_script_and_a_model_of_the_command_line_are_needed_again(tmp_path: Path) -> None:
    crew = desk(tmp_path, DESK.replace(", tools: [find]", ""))
    async with opened(tmp_path, script=tmp_path / "real.yaml") as box:
        await (await box.start(crew, "go", run_id="s")).result()
        assert (await started(box, "s")).needs.models
    async with opened(tmp_path, model=f"scripted:{tmp_path}/real.yaml") as box:
        await (await box.start(crew, "go", run_id="m")).result()
        assert (await started(box, "m")).needs.models


async def test_a_run_begun_with_a_function_as_model_is_not_driven_with_the_models_of_its_crew(tmp_path: Path) -> None:
    await leave(tmp_path, desk(tmp_path), deps="d")
    async with opened(tmp_path, tools=[find], recover=True) as box:
        assert await status(box) == ("paused", "set_aside")
        result = await box.result("r")
        assert result.text != "real" and "does not have: models, deps" in result.detail
        assert [each.run for each in box.set_aside] == ["r"]
    async with opened(tmp_path, tools=[find], models=done, deps="d", recover=True) as box:
        assert (await box.run("r").result()).text == "given"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"deps": "d", "tools": [find]}, ("models",)),
        ({"models": done, "tools": [find]}, ("deps",)),
        ({"models": done, "deps": "d"}, ("find",)),
        ({"models": {"openai": done}, "deps": "d", "tools": [find]}, ("models",)),
        ({}, ("models", "deps", "find")),
    ],
)
async def test_each_missing_part_keeps_a_run_from_being_driven(
    tmp_path: Path, given: dict[str, Any], missing: tuple[str, ...]
) -> None:
    await leave(tmp_path, desk(tmp_path), deps="d")
    async with opened(tmp_path, **given) as box:
        before = await box.journal.records("r")
        for ask in (box.resume("r"), box.resume("r", "hello"), box.send_message("r", "x", "a"), box.fork("r", 3)):
            with pytest.raises(InterlockError) as refusal:
                await ask
            assert isinstance(refusal.value, HostLacks) and refusal.value.missing == missing
        assert await box.journal.records("r") == before
        assert not await box.owners.is_owned("r")


async def test_a_second_program_gives_what_the_run_needs_to_resume(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    await leave(tmp_path, crew, deps="d")
    async with opened(tmp_path, tools=[find]) as box:
        with pytest.raises(HostLacks, match="models"):
            await box.resume("r", deps="d")
        assert not box.resources.runs, "what was given to a refused command is not kept"
        assert (await (await box.resume("r", models=done, deps="d")).result()).text == "given"
        assert not box.resources.runs


async def test_functions_come_with_the_crew_or_as_tools(tmp_path: Path) -> None:
    crew = Given(desk(tmp_path), find)
    calls = ScriptedModel({"a": [{"tool_calls": [{"name": "find", "arguments": {"what": "lamp"}}]}, "given [END]"]})
    async with opened(tmp_path) as box:
        await box.start(crew, "go", run_id="r", models=endless, deps="d")
    async with opened(tmp_path) as box:
        with pytest.raises(HostLacks, match="does not have: models, deps, find"):
            await box.resume("r")
        run = await box.start(crew, "go", run_id="r", models=calls, deps="shop")
        assert (await run.result()).text == "given"
        outputs = [each.output async for each in run.events() if isinstance(each, ToolReturnedEvent)]
        assert outputs == ["shop lamp"]


async def test_the_same_id_again_is_the_first_run_and_other_words_are_refused(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    async with opened(tmp_path, tools=[find], models=done) as box:
        first = await (await box.start(crew, "go", run_id="r")).result()
        assert await (await box.start(crew, "go", run_id="r")).result() == first
        with pytest.raises(AlreadyStarted, match="another text") as refusal:
            await box.start(crew, "stop", run_id="r")
        assert refusal.value.code == "already-started"
        with pytest.raises(AlreadyStarted, match="another crew"):
            await box.start(desk(tmp_path, DESK.replace("name: desk", "name: shop")), "go", run_id="r")
        with pytest.raises(AlreadyStarted, match="another history"):
            await box.continue_run(crew, "go", "r", run_id="r")
    async with opened(tmp_path) as box:  # without anything, a run that is over still has its outcome
        assert await (await box.start(crew, "go", run_id="r")).result() == first


async def test_the_same_id_again_continues_a_run_whose_process_is_gone(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    await leave(tmp_path, crew, deps="d")
    async with opened(tmp_path, tools=[find]) as box:
        with pytest.raises(HostLacks):
            await box.start(crew, "go", run_id="r")
        assert await status(box) == ("running", "")
        run = await box.start(crew, "go", run_id="r", models=done, deps="d")
        assert (await run.result()).text == "given"


async def test_the_same_id_again_continues_a_run_that_was_set_aside_and_leaves_a_parked_one(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    await leave(tmp_path, crew)
    async with opened(tmp_path, tools=[find], recover=True) as box:
        assert await status(box) == ("paused", "set_aside")
        run = await box.start(crew, "go", run_id="r", models=endless)
        assert await box.park("r")
        assert await status(box) == ("paused", "parked")
        assert (await (await box.start(crew, "go", run_id="r", models=done)).result()).reason == "parked"
        assert (await (await box.resume("r", models=done)).result()).text == "given"
        assert run.id == "r"


async def test_any_process_may_cancel_a_run_and_none_a_part_of_it(tmp_path: Path) -> None:
    nested_crews.nested_crew(tmp_path)
    script = ScriptedModel({"a": ["[RESEARCH]", "[END]"], "x": ["[DEEP]", "[END]"], "y": ["Which?\n[WAIT]", "[END]"]})
    async with opened(tmp_path) as box:
        await (await box.start(load_crew(tmp_path), "go", run_id="r", models=script)).result()
        below = [row.run for row in await box.journal.rows_below("r")]
        assert len(below) == 2
        for run in below:
            assert (await started(box, run)).needs == HostNeeds(models=True)
    async with opened(tmp_path, recover=True) as box:
        for run in below:
            with pytest.raises(HostLacks, match="models"):
                await box.cancel(run)
            with pytest.raises(HostLacks, match="models"):
                await box.resume(run, "that one")
        await (await box.cancel("r")).result()
        assert [(await status(box, run))[0] for run in ("r", *below)] == ["cancelled"] * 3


async def test_a_tree_with_work_in_progress_is_set_aside_whole_and_continues_whole(tmp_path: Path) -> None:
    nested_crews.nested_crew(tmp_path)
    reached = asyncio.Event()

    async def stuck(request: ModelRequest) -> str:
        if request.agent == "y":
            reached.set()
            await asyncio.Event().wait()
        return "[RESEARCH]" if request.agent == "a" else "[DEEP]"

    async with opened(tmp_path) as box:
        await box.start(load_crew(tmp_path), "go", run_id="r", models=stuck)
        await reached.wait()
    async with opened(tmp_path, recover=True) as box:
        runs = ["r", *[row.run for row in await box.journal.rows_below("r")]]
        assert [await status(box, run) for run in runs] == [("paused", "set_aside")] * 3
    async with opened(tmp_path, models=lambda request: "so\n[END]", recover=True) as box:
        assert (await box.run("r").result()).status == "completed"


async def test_a_question_whose_deadline_has_passed_waits_for_a_process_that_can_drive_its_run(tmp_path: Path) -> None:
    text = DESK.replace("tools: [find]", "tools: [ask_user]")
    crew, clock = desk(tmp_path, text), ManualClock()
    asks = {
        "tool_calls": [
            {"name": "ask_user", "arguments": {"question": "Which?", "deadline_seconds": 60, "default": "b"}}
        ]
    }
    model = ScriptedModel({"a": [asks, "given [END]"]})
    async with opened(tmp_path, clock=clock) as box:
        assert (await (await box.start(crew, "go", run_id="r", models=model)).result()).status == "paused"
    clock.advance(100_000)
    async with opened(tmp_path, clock=clock, recover=True) as box:
        assert (await status(box))[0] == "paused"
        assert "models" in box.set_aside[0].reason
    async with opened(tmp_path, clock=clock, models=model, recover=True) as box:
        assert (await box.run("r").result()).text == "given"


async def test_an_order_of_another_process_waits_for_an_owner_that_can_carry_it_out(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    waits = ScriptedModel({"a": ["Which?\n[ASK]", "given [END]"]})
    async with opened(tmp_path, tools=[find]) as box:
        await (await box.start(crew, "go", run_id="r", models=waits)).result()
    clock = ManualClock()
    async with opened(tmp_path, tools=[find], clock=clock) as box:
        order = box._desk.new_order("r", "resume", b'{"token":null,"text":"that"}')
        await box.runner.orders.post(order)
        carrying_out = asyncio.ensure_future(box.runner.order_taker._carry_out(order))
        while not carrying_out.done():
            clock.advance(1_000)
            await asyncio.sleep(0)
        assert (await status(box)) == ("paused", "signal:[ASK]")
        assert await box.runner.orders.outcome(order.key) is None


async def test_a_fork_needs_what_the_run_was_begun_with_a_continuation_what_it_is_begun_with(
    tmp_path: Path,
) -> None:
    crew = desk(tmp_path)
    async with opened(tmp_path, tools=[find]) as box:
        await (await box.start(crew, "go", run_id="r", models=done, deps="d")).result()
        with pytest.raises(HostLacks, match="models, deps"):
            await box.fork("r", 3, new_id="f")
        with pytest.raises(InterlockError, match="no run"):
            await box.journal.row("f")
        assert (await (await box.fork("r", 3, new_id="f", models=done, deps="d")).result()).text == "given"
        again = await box.continue_run(crew, "more", "r", run_id="c")
        assert (await again.result()).text == "real"
        assert (await started(box, "c")).needs == HostNeeds(functions=("find",))
        assert not box.resources.runs


async def test_what_is_given_is_kept_while_a_run_waits_and_forgotten_when_it_is_over(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    model = ScriptedModel({"a": ["Which?\n[ASK]", "given [END]"]})
    async with opened(tmp_path, tools=[find]) as box:
        for number in range(20):
            await (await box.start(crew, "go", run_id=f"r{number}", models=model, deps=number)).result()
        assert len(box.resources.runs) == 20
        for number in range(19):
            await (await box.resume(f"r{number}", "that")).result()
        await (await box.cancel("r19")).result()
        assert not box.resources.runs


async def test_runs_that_ended_in_another_process_are_forgotten_once_there_are_many(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    async with opened(tmp_path, tools=[find]) as box:
        for number in range(200):
            box.resources.give(f"gone{number}", RunGift(deps=1))
        await (await box.start(crew, "go", models=done)).result()
        assert not box.resources.runs


async def test_the_price_of_a_model_of_a_run_is_its_own(tmp_path: Path) -> None:
    crew = desk(tmp_path)
    async with opened(tmp_path, tools=[find]) as box:
        mine = await (await box.start(crew, "go", models=done)).result()
        scripted = await (await box.start(crew, "go", models=ScriptedModel({"a": ["given [END]"]}))).result()
        assert (mine.usage.unpriced_calls, scripted.usage.unpriced_calls) == (1, 0)


async def test_a_model_function_may_yield_pieces(tmp_path: Path) -> None:
    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        for piece in ("so ", "it ", "is [END]"):
            yield piece

    async def whole(request: ModelRequest) -> AsyncIterator[ModelReply]:
        yield ModelReply(text="whole [END]")

    async with opened(tmp_path, tools=[find]) as box:
        deltas: list[PublicEvent] = []
        box.watch(lambda _: None, deltas.append)
        assert (await (await box.start(desk(tmp_path), "go", models=pieces)).result()).text == "so it is"
        assert "".join(each["text"] for each in deltas) == "so it is [END]" and len(deltas) > 1
        assert (await (await box.start(desk(tmp_path), "go", models=whole)).result()).text == "whole"


def test_resume_by_command_is_refused_with_exit_2_and_changes_nothing(tmp_path: Path) -> None:
    crew = desk(tmp_path, DESK.replace(", tools: [find]", ""))
    asyncio.run(leave(tmp_path, crew))
    data = ["--data", str(tmp_path / "data")]

    def command(*words: str) -> Any:
        return CliRunner().invoke(interlock, [*words, *data])

    before = command("runs", "export", "r").output
    refused = command("resume", "r")
    assert refused.exit_code == 2 and "does not have: models; give --script FILE, --model M" in refused.stderr
    assert command("runs", "export", "r").output == before
    (tmp_path / "script.yaml").write_text('replies: {a: ["given [END]"]}', "utf-8")
    done = command("resume", "r", "--script", str(tmp_path / "script.yaml"), "--plain")
    assert done.exit_code == 0 and "given" in done.output
