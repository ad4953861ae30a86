"""Faults of models, tools, observers and people: the run reports its status, and no other run is affected."""

import asyncio
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.compose.crews import load_definition
from interlock.compose.results import Result
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.engine.effects import Settle
from interlock.engine.events import Entry, Reserved, RunStarted, ToolRequest, Usage, WentStale
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.decision import REJECTIONS_MAX, OwnReply, RoutingTable
from interlock.engine.run import RULES, Run
from interlock.engine.state import Turn
from interlock.errors import AlreadyResumed, ModelUnavailable, NotWaiting, StoreBroken, UsageError
from interlock.ports import ModelReply, ModelRequest, StoredRecord

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, name: Ann, tools: [look]}]
settings: {max_input_size_kb: 1, retry_backoff_min_millis: 1}
routing:
  signals:
    a: [{signal: "[WAIT]"}, {signal: "[END]"}]
"""


def a_crew(folder: Path, text: str = CREW) -> CrewDefinition:
    (folder / "crew.yaml").write_text(textwrap.dedent(text), "utf-8")
    return load_definition(folder, host=Host(tools=("look",)))


def look(what: Any = None) -> str:
    """Looks."""
    return "seen"


async def played(folder: Path, model: Callable[[ModelRequest], Any], **how: Any) -> Result:
    async with Interlock(folder / "data", models=model, tools=[look], **how) as box:
        run = await box.start(a_crew(folder), "go")
        async with asyncio.timeout(20):
            return await run.result()


@pytest.mark.parametrize("given", [None, 5, b"x", ["a"]], ids=repr)
async def test_a_model_that_gives_no_text_fails_its_run(tmp_path: Path, given: object) -> None:
    result = await played(tmp_path, lambda _: given)
    assert (result.status, result.reason) == ("failed", "model_error")


UNSOUND = [
    ({"usage": Usage(input_tokens=-5)}, "input_tokens -5; it must be a whole number from 0 to"),
    ({"usage": Usage(input_tokens=10**30)}, "input_tokens 1000000000000000000000000000000; it must be a whole number"),
    ({"usage": Usage(output_tokens=2**63)}, "output_tokens 9223372036854775808; it must be a whole number"),
    ({"usage": Usage(input_tokens=1.5)}, "input_tokens 1.5; it must be a whole number"),  # type: ignore[arg-type]
    ({"usage": Usage(cost_micros=float("nan"))}, "cost_micros nan; it must be"),  # type: ignore[arg-type]
    ({"usage": Usage(calls=True)}, "calls True; it must be a whole number"),
    ({"usage": None}, "a NoneType for its usage; it must be a Usage"),
    ({"text": b"one [END]"}, "a bytes for its text; it must be a str"),
    ({"text": None}, "a NoneType for its text; it must be a str"),
    ({"tool_calls": ("look",)}, "calls a tool by 'look'; it must be a ToolRequest"),
    ({"tool_calls": (ToolRequest(id=1, name="look", arguments="{}"),)}, "it must be a ToolRequest"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("given", "says"), UNSOUND, ids=str)
async def test_a_reply_that_is_none_fails_its_run_and_says_why(
    tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    """The journal would refuse some of these for ever, and keep others that it cannot read again."""

    reply = ModelReply(**{"text": "one [END]", **given})
    async with Interlock(tmp_path / "data", models=lambda _: reply, tools=[look]) as box:
        run = await box.start(a_crew(tmp_path), "go")
        async with asyncio.timeout(20):
            result = await run.result()
        (failure,) = [event["error"] async for event in run.events() if event["type"] == "model.failed"]
        reason = result.reason
    assert (reason, says in failure) == ("model_error", True), failure


@pytest.mark.parametrize("wait_ms", [0.5, -1, 1e-30], ids=repr)
async def test_a_wait_that_is_no_whole_number_is_taken_for_one(tmp_path: Path, wait_ms: Any) -> None:
    def later(request: ModelRequest) -> str:
        if request.number == 1:
            raise ModelUnavailable("later", retry_after_ms=wait_ms)
        return "one [END]"

    async with Interlock(tmp_path / "data", models=later, tools=[look]) as box:
        run = await box.start(a_crew(tmp_path), "go")
        await run.result()
        assert [type(event).__name__ for record in await box.journal.records(run.id) for event in record.events][
            -1
        ] == "RunFinished"


@pytest.mark.parametrize("error", [SystemExit(3), BaseExceptionGroup("many", [SystemExit(3)])], ids=repr)
async def test_a_model_that_wants_the_process_to_end_fails_its_run(tmp_path: Path, error: BaseException) -> None:
    def exits(_: ModelRequest) -> str:
        raise error

    assert (await played(tmp_path, exits)).reason == "model_error"


def test_an_interrupt_in_a_model_ends_the_process_and_not_the_run(tmp_path: Path) -> None:
    """In a loop of its own, which the interrupt ends."""

    def interrupted(_: ModelRequest) -> str:
        raise KeyboardInterrupt

    async def next_life() -> str:
        async with Interlock(tmp_path / "data", models=lambda _: "one [END]", tools=[look]) as box:
            (row,) = await box.journal.rows()
            return (await (await box.resume(row.run)).result()).reason

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(played(tmp_path, interrupted))
    assert asyncio.run(next_life()) == "signal:[END]"


async def test_a_model_that_raises_what_looks_like_a_cancellation_is_tried_again(tmp_path: Path) -> None:
    calls: list[int] = []

    async def gives_up(request: ModelRequest) -> str:
        calls.append(request.number)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return "done [END]"

    assert (await played(tmp_path, gives_up)).reason == "signal:[END]"
    assert calls == [1, 2]


async def test_arguments_nested_without_end_are_told_to_the_model(tmp_path: Path) -> None:
    def nests(request: ModelRequest) -> ModelReply:
        if request.number > 1:
            return ModelReply(text=f"{request.messages[-1].text[:5]} [END]")
        return ModelReply(text="", tool_calls=(ToolRequest(id="1", name="look", arguments="[" * 100_000),))

    async with Interlock(tmp_path / "data", models=nests, tools=[look]) as box:
        run = await box.start(a_crew(tmp_path), "go")
        assert [event["type"] async for event in run.events()][-1] == "run.finished"


async def test_a_signal_with_arguments_nested_without_end_is_none_and_the_run_goes_on(tmp_path: Path) -> None:
    """What the engine cannot take it would not take after a restart either."""
    deep = f'{{"name": "END", "reason": "", "more": {"[" * 5_000}{"]" * 5_000}}}'

    def nests(request: ModelRequest) -> ModelReply:
        arguments = deep if request.number == 1 else '{"name": "END", "reason": ""}'
        return ModelReply(text="so", tool_calls=(ToolRequest(id="1", name="emit_signal", arguments=arguments),))

    async with Interlock(tmp_path / "data", models=nests, tools=[look]) as box:
        crew = a_crew(tmp_path, CREW.replace("settings: {", "settings: {signal_mode: tool, "))
        async with asyncio.timeout(20):
            result = await (await box.start(crew, "go")).result()
        assert (result.reason, result.usage.calls) == ("signal:[END]", 2)


async def test_an_observer_that_fails_does_not_touch_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def clumsy(stored: StoredRecord) -> None:
        raise OSError("the log's disk is full")

    assert (await played(tmp_path, lambda _: "done [END]", observers=[clumsy])).reason == "signal:[END]"
    assert "an observer failed" in caplog.text


async def test_a_run_that_is_not_waiting_takes_no_input_and_says_so(tmp_path: Path) -> None:
    async def hangs(request: ModelRequest) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    started = asyncio.Event()
    async with Interlock(tmp_path / "data", models=hangs, tools=[look]) as box:
        run = (await box.start(a_crew(tmp_path), "go")).id
        await started.wait()
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", tools=[look]) as box:
        with pytest.raises(NotWaiting):
            await box.resume(run, "IMPORTANT")
        assert (await (await box.resume(run)).result()).reason == "signal:[END]"


async def test_an_answer_that_another_process_works_on_is_served_and_another_answer_refused(tmp_path: Path) -> None:
    answering = asyncio.Event()

    async def talk(request: ModelRequest) -> str:
        if request.number == 1:
            return "which? [WAIT]"
        answering.set()
        await asyncio.Event().wait()
        return "never"

    async with (
        Interlock(tmp_path / "data", models=talk, tools=[look]) as one,
        Interlock(tmp_path / "data", models=talk, tools=[look]) as other,
    ):
        run = await one.start(a_crew(tmp_path), "go")
        token = (await run.result()).token
        await one.resume(run.id, "red", token=token)
        await answering.wait()
        assert (await other.resume(run.id, "red", token=token)).id == run.id
        with pytest.raises(AlreadyResumed):
            await other.resume(run.id, "blue", token=token)


async def test_a_run_that_another_process_drives_is_followed_to_its_end(tmp_path: Path) -> None:
    followed = asyncio.Event()

    async def talk(request: ModelRequest) -> str:
        await followed.wait()
        return "done [END]"

    async with (
        Interlock(tmp_path / "data", models=talk, tools=[look]) as one,
        Interlock(tmp_path / "data", models=talk, tools=[look]) as other,
    ):
        run = await one.start(a_crew(tmp_path), "go")
        seen = []
        async for event in other.runner.follow(run.id):
            seen.append(event["type"])
            followed.set()
        assert seen[-1] == "run.finished"


async def test_an_answer_is_as_bounded_as_an_input(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data", models=lambda _: "which? [WAIT]", tools=[look]) as box:
        run = await box.start(a_crew(tmp_path), "go")
        result = await run.result()
        assert (result.output, result.text) == ("which? [WAIT]", "which?")
        assert (await box.journal.row(run.id)).reason == "signal:[WAIT]"
        with pytest.raises(UsageError, match="max_input_size_kb"):
            await box.resume(run.id, "x" * 2_000)


async def test_two_who_cancel_at_once_cancel_once(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data", models=lambda _: "which? [WAIT]", tools=[look]) as box:
        run = await box.start(a_crew(tmp_path), "go")
        await run.result()
        await asyncio.gather(*(box.cancel(run.id) for _ in range(5)))
        events = [event["type"] async for event in run.events()]
    assert events[-1] == "run.finished" and events.count("cancel.requested") == 1


async def test_a_store_that_will_not_write_again_ends_the_waiting(tmp_path: Path) -> None:
    with pytest.raises(StoreBroken):  # closing says so once more
        async with Interlock(tmp_path / "data", models=lambda _: "which? [WAIT]", tools=[look]) as box:
            run = await box.start(a_crew(tmp_path), "go")
            await run.result()
            (tmp_path / "data" / "interlock.db-wal").unlink()
            async with asyncio.timeout(20):
                with pytest.raises(StoreBroken):
                    await box.resume(run.id, "red")


@pytest.mark.parametrize("run_id", ["../x", "a b", "a:b", "a~1.0", "x" * 101, ""])
async def test_ids_that_would_be_mistaken_for_something_else_are_refused(tmp_path: Path, run_id: str) -> None:
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", tools=[look]) as box:
        crew = a_crew(tmp_path)
        done = await (await box.start(crew, "go")).result()
        for asked in (
            box.start(crew, "go", run_id=run_id),
            box.continue_run(crew, "go", done.run, run_id=run_id),
            box.fork(done.run, 3, new_id=run_id),
        ):
            with pytest.raises(UsageError, match="is not a valid run id"):
                await asked


async def test_a_box_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="async with"):
        await Interlock(tmp_path / "data").start(a_crew(tmp_path), "go")


def test_one_reply_makes_no_more_events_than_it_has_kinds_of_marks(tmp_path: Path) -> None:
    table = RoutingTable(a_crew(tmp_path))
    many = " ".join(f"[EN{chr(0x4E00 + n)}]" for n in range(500))
    assert len(table.decide(OwnReply("a", "[EMD] " * 100_000)).rejected) == 1
    assert len(table.decide(OwnReply("a", many)).rejected) == REJECTIONS_MAX


def test_room_that_nobody_needs_any_more_is_given_back_for_the_one_who_asked(tmp_path: Path) -> None:
    run = Run(a_crew(tmp_path), "r")
    run.apply(RunStarted(crew="story", input="go", rules=RULES))
    step = run.apply(Reserved(call="9.9", agent="other"))
    assert [type(fact) for fact in step.facts] == [WentStale]
    assert step.effects == (Settle(key="9.9", agent="other", usage=Usage()),)


def test_a_lone_long_input_is_cut_to_the_window_and_no_further(tmp_path: Path) -> None:
    crew = a_crew(tmp_path, CREW.replace("settings: {", "settings: {max_context_window: 1000, "))
    talk = Conversation(crew, RoutingTable(crew))
    history = [Entry(role="user", author="user", text="x" * 80_000, turn=0)]
    shown = talk.messages(history, Turn(number=1, agent="a", history=1))
    assert talk.estimate_of("a", shown) <= 1_000 < 2 * talk.estimate_of("a", shown)


async def test_a_host_may_be_told_by_a_plain_function(tmp_path: Path) -> None:
    told: list[str] = []
    crew = CREW.replace('{signal: "[WAIT]"}', '{signal: "[REPORT]", type: external}')

    async with Interlock(
        tmp_path / "data",
        models=lambda _: "well [REPORT] [END]",
        tools=[look],
        on_external=lambda tell: told.append(tell.signal),
    ) as box:
        await (await box.start(a_crew(tmp_path, crew), "go")).result()
        while await box.store.pending():
            await asyncio.sleep(0)
    assert told == ["[REPORT]"]


def test_a_crew_may_name_the_tools_that_the_program_will_give(tmp_path: Path) -> None:
    a_crew(tmp_path)
    assert load_definition(tmp_path, tools=[look]).name == "story"
