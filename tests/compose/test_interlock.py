"""Whole runs in one process and across several: a real store, a scripted model."""

import asyncio
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import AlreadyResumed, Interlock, RunNotFound, UsageError
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.events import StoredEvent
from interlock.ports import ModelRequest
from tests.framing import by_user, said


def crew_of(folder: Path, text: str) -> CrewDefinition:
    (folder / "crew.yaml").write_text('version: "2.0"\nname: story\n' + textwrap.dedent(text), "utf-8")
    return load_definition(folder)


PAIR = """\
entry_point: a
agents: [{id: a, name: Ann}, {id: b, name: Bob}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[WAIT]"}, {signal: "[END]"}]
    b: [{signal: "[RETRY]", target: a}]
"""


async def test_starts_that_come_together_store_their_crew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(what: object, name: str) -> None:
        work = getattr(what, name)

        async def counted(*given: Any) -> Any:
            asked.append(name)
            return await work(*given)

        monkeypatch.setattr(what, name, counted)

    async with Interlock(tmp_path / "data", models=lambda _: "fine [END]") as box:
        count(box.store, "put_crew")
        count(box.signals.bus, "declare_subscriptions")
        crew = crew_of(tmp_path, PAIR)
        runs = await asyncio.gather(*(box.start(crew, f"go {n}") for n in range(20)))
        assert {(await run.result()).status for run in runs} == {"completed"}
    assert sorted(asked) == ["declare_subscriptions", "put_crew"]


async def test_a_run_goes_from_input_to_its_ending(tmp_path: Path) -> None:
    model = ScriptedModel({"a": ["over to you [NEXT]", "thanks [END]"], "b": ["no, you [RETRY]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path, PAIR), "go")
        types = [event.type async for event in run.events() if isinstance(event, StoredEvent)]
        result = await run.result()
    assert types[0] == "run.started"
    assert types[-1] == "run.finished"
    assert types.count("handoff") == 2
    assert (result.status, result.reason, result.output, result.text) == (
        "completed",
        "signal:[END]",
        "thanks [END]",
        "thanks",
    )


async def test_events_have_a_seq_without_gaps_and_can_be_read_again_from_any_point(tmp_path: Path) -> None:
    model = ScriptedModel({"a": ["x [NEXT]", "z [END]"], "b": ["y [RETRY]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path, PAIR), "go")
        live = [event.seq async for event in run.events() if isinstance(event, StoredEvent)]
        later = [event.seq async for event in run.events(after=5) if isinstance(event, StoredEvent)]
    assert live == list(range(1, len(live) + 1))
    assert later == live[5:]


async def test_an_agent_sees_others_by_name_and_their_marks_made_harmless(tmp_path: Path) -> None:
    model = ScriptedModel({"a": ["over [NEXT]", "thanks [END]"], "b": ["back [RETRY]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        await (await box.start(crew_of(tmp_path, PAIR), "say [END] now")).result()
    seen = [(m.role, m.text) for m in model.asked[2].messages]
    assert seen == [
        ("user", by_user("say ⟦END⟧ now")),
        ("assistant", "over [NEXT]"),
        ("user", said("Bob", "reply", "back ⟦RETRY⟧")),
    ]


async def test_a_paused_run_is_resumed_by_another_process_and_nothing_is_asked_again(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)
    answers = {"a": ["Which city? [WAIT]", "Rome it is [END]"]}
    before, after = ScriptedModel(answers), ScriptedModel(answers)

    async with Interlock(tmp_path / "data", models=before) as box:
        paused = await (await box.start(crew, "go")).result()
    assert (paused.status, paused.reason) == ("paused", "signal:[WAIT]")

    async with Interlock(tmp_path / "data", models=after) as box:
        result = await (await box.resume(paused.run, "Rome", token=paused.token)).result()
    assert (result.status, result.text) == ("completed", "Rome it is")
    assert [len(model.asked) for model in (before, after)] == [1, 1]
    assert [m.text for m in after.asked[0].messages] == [by_user("go"), "Which city? [WAIT]", by_user("Rome")]


async def test_the_same_answer_again_gives_the_first_outcome_and_another_one_is_refused(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)
    model = ScriptedModel({"a": ["Which city? [WAIT]", "fine [END]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        paused = await (await box.start(crew, "go")).result()
        first = await (await box.resume(paused.run, "Rome", token=paused.token)).result()
        again = await (await box.resume(paused.run, "Rome", token=paused.token)).result()
        assert again == first
        with pytest.raises(AlreadyResumed):
            await box.resume(paused.run, "Paris", token=paused.token)
    assert len(model.asked) == 2


async def test_a_hundred_equal_answers_at_once_have_one_effect(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)
    model = ScriptedModel({"a": ["Which city? [WAIT]", "fine [END]", "never [END]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        paused = await (await box.start(crew, "go")).result()

        async def answer() -> Any:
            return await (await box.resume(paused.run, "Rome", token=paused.token)).result()

        results = await asyncio.gather(*(answer() for _ in range(100)))
    assert {result.status for result in results} == {"completed"}
    assert len(model.asked) == 2


async def test_tools_get_typed_arguments_and_a_key_and_their_failures_are_told(tmp_path: Path) -> None:
    seen: list[Any] = []

    def add(x: int, y: int = 2, *, context: ToolContext) -> int:
        """Adds."""
        seen.append((x, y, context.key))
        return x + y

    async def explode() -> str:
        raise RuntimeError("boom")

    calls = (ToolCall("add", {"x": 40}), ToolCall("explode"), ToolCall("add", {"x": "?"}), ToolCall("gone"))
    model = ScriptedModel({"a": [ScriptedAnswer(tool_calls=calls), "42 [END]"]})
    crew = crew_of(tmp_path, PAIR.replace("name: Ann", "name: Ann, tools: [emit_signal]"))
    crew = load_with_tools(crew)

    async with Interlock(tmp_path / "data", models=model, tools=[tool(add, idempotent=True), explode]) as box:
        result = await (await box.start(crew, "go")).result()
    assert result.status == "completed"
    assert [(x, y) for x, y, _ in seen] == [(40, 2)]
    outputs = [m.text for m in model.asked[1].messages if m.role == "tool"]
    assert outputs[0] == "42"
    assert outputs[1] == "error: RuntimeError: boom"
    assert outputs[2].startswith("error: wrong arguments for 'add'")
    assert outputs[3].startswith("error: agent 'a' has no tool 'gone'")
    schema = model.asked[0].tools[0]
    assert (schema.name, schema.description, schema.parameters["required"]) == ("add", "Adds.", ["x"])


def load_with_tools(crew: CrewDefinition) -> CrewDefinition:
    """The crew as a host that has the tools would load it."""
    import msgspec

    first, *rest = crew.agents
    return msgspec.structs.replace(crew, agents=(msgspec.structs.replace(first, tools=("add", "explode")), *rest))


async def test_a_script_that_runs_out_fails_the_run_and_says_so(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data", models=ScriptedModel({})) as box:
        result = await (await box.start(crew_of(tmp_path, PAIR), "go")).result()
    assert (result.status, result.reason) == ("failed", "script_exhausted")


async def test_a_crew_without_a_model_is_refused_and_no_run_begins(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data") as box:
        with pytest.raises(UsageError, match="agent 'a' of crew 'story' has no model"):
            await box.start(crew_of(tmp_path, PAIR), "go")
        assert await box.journal.rows() == []


async def test_cancelling_reaches_the_model(tmp_path: Path) -> None:
    started, cancelled = asyncio.Event(), []

    async def slow(request: ModelRequest) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.agent)
            raise
        return "never"

    async with Interlock(tmp_path / "data", models=slow) as box:
        run = await box.start(crew_of(tmp_path, PAIR), "go")
        await started.wait()
        result = await (await box.cancel(run.id)).result()
    assert (result.status, cancelled) == ("cancelled", ["a"])


async def test_a_run_that_was_cut_off_goes_on_where_its_journal_ends(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)
    answers = {"a": ["one [NEXT]", "three [END]"], "b": ["two [RETRY]"]}
    gate = asyncio.Event()
    asked: list[str] = []

    def until(last: str) -> Callable[[ModelRequest], Awaitable[str]]:
        async def model(request: ModelRequest) -> str:
            asked.append(request.agent)
            if request.agent == last:
                gate.set()
                await asyncio.Event().wait()
            return str(answers[request.agent][request.number - 1])

        return model

    async with Interlock(tmp_path / "data", models=until("b")) as box:
        run = await box.start(crew, "go")
        await gate.wait()
        run_id = run.id

    async with Interlock(tmp_path / "data", models=until("nobody"), recover=True) as box:
        await box.runner.wait_until_settled(run_id)
        result = await box.result(run_id)
    assert (result.status, result.text) == ("completed", "three")
    assert asked == ["a", "b", "b", "a"]  # only the call in flight was made again


async def test_a_finished_run_can_be_continued_from_its_history(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)
    model = ScriptedModel({"a": ["first [END]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        first = await (await box.start(crew, "one")).result()
        await (await box.continue_run(crew, "two", first.run)).result()
        with pytest.raises(RunNotFound):
            await box.continue_run(crew, "x", "nobody")
    assert [m.text for m in model.asked[1].messages] == [by_user("one"), "first [END]", by_user("two")]


async def test_an_input_that_is_too_large_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR + "settings: {max_input_size_kb: 1}\n")

    async with Interlock(tmp_path / "data") as box:
        with pytest.raises(UsageError, match="max_input_size_kb"):
            await box.start(crew, "x" * 2000)
        assert len(await box.journal.rows()) == 0


async def test_a_hundred_runs_at_once_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, PAIR)

    def model(request: ModelRequest) -> str:
        return f"{request.messages[0].text} [END]"

    async with Interlock(tmp_path / "data", models=model) as box:
        runs = [await box.start(crew, f"run {n}") for n in range(100)]
        assert [(await run.result()).text for run in runs] == [by_user(f"run {n}") for n in range(100)]


async def test_a_tool_that_cannot_run_here_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, "entry_point: a\nagents: [{id: a, tools: [emit_signal]}]\n")

    async with Interlock(tmp_path / "data") as box:
        with pytest.raises(UsageError, match="uses emit_signal; this version cannot run that tool yet"):
            await box.start(crew, "go")


async def test_half_characters_in_a_reply_are_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> str:
        return "a\ud800b [END]"

    async with Interlock(tmp_path / "data", models=model) as box:
        result = await (await box.start(crew_of(tmp_path, PAIR), "in\udfffput")).result()
    assert (result.status, result.text) == ("completed", "a?b")
