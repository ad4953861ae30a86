"""Reasoning in whole runs: shown while it comes, sent back within the turn's tool loop, and nowhere else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from interlock import Interlock, ModelRequest, ReasoningDelta, Refuse, RunHandle, load_crew, tool
from interlock.adapters.files.run_scripts import script_of, script_yaml
from interlock.adapters.models.scripted_model import answers_from
from interlock.engine.events import ModelReplied
from interlock.events import ModelDeltaEvent, ModelRepliedEvent, ReasoningDeltaEvent, ToolReturnedEvent
from interlock.ports import ModelReply
from interlock.testing import Answer, ScriptedModel, ScriptedReasoning, ToolCall

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [add]}, {id: b, tools: [add]}]
routing: {signals: {a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}], b: [{signal: "[END]"}]}}
settings: {SETTINGS}
"""

ADD = (ToolCall("add", {"a": 2, "b": 2}),)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "crew.yaml").write_text(CREW.replace("SETTINGS", "max_handoffs: 5"), "utf-8")
    return tmp_path


def box_of(folder: Path, model: Any, **more: Any) -> Interlock:
    return Interlock(folder / "data", models=model, **more)


async def followed(run: RunHandle, gate: asyncio.Event) -> list[Any]:
    """All events of a run whose model waits for the gate, so that no piece of it is missed."""
    events = []
    async for event in run.events():
        events.append(event)
        if event.type == "model.called":
            gate.set()
    return events


def blocks_in(request: ModelRequest) -> list[str]:
    return [block.text for message in request.messages for block in message.reasoning]


def words_in(request: ModelRequest) -> str:
    return "\n".join([request.system, *(message.text for message in request.messages)])


async def test_reasoning_goes_back_within_the_tool_loop_of_its_turn_only(folder: Path) -> None:
    model = ScriptedModel(
        {
            "a": [
                Answer(reasoning="first thought", tool_calls=ADD),
                Answer(reasoning="second thought", text="one more", tool_calls=ADD),
                Answer(reasoning="third thought", text="4\n[NEXT]"),
            ],
            "b": [Answer(reasoning="own thought", tool_calls=ADD), "fine\n[END]"],
        }
    )
    async with box_of(folder, model) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        result = await run.result()
        assert [blocks_in(request) for request in model.asked] == [
            [],
            ["first thought"],
            ["first thought", "second thought"],
            [],
            ["own thought"],
        ]
        assert not any("thought" in words_in(request) for request in model.asked)
        assert (result.output, result.text) == ("fine\n[END]", "fine")


async def test_a_fork_and_a_continued_run_have_no_reasoning_of_turns_that_are_over(folder: Path) -> None:
    """A fork inside a tool loop continues that loop, so it has what the provider wants back."""
    model = ScriptedModel(
        {"a": [Answer(reasoning="old", tool_calls=ADD), "4\n[NEXT]", "again\n[END]"],
         "b": [Answer(reasoning="new", tool_calls=ADD), "fine\n[END]", "fine\n[END]"]}
    )  # fmt: skip
    crew = load_crew(folder, tools=[add])
    async with box_of(folder, model) as box:
        run = await box.start(crew, "go")
        events = [event async for event in run.events()]
        calls = [event.seq for event in events if isinstance(event, ToolReturnedEvent)]
        fork = await box.fork(run.id, calls[1] + 1)
        await fork.result()
        assert blocks_in(model.asked[-1]) == ["new"]
        before = len(model.asked)
        continued = await box.continue_run(crew, "once more", run.id)
        await continued.result()
        assert blocks_in(model.asked[before]) == []
        assert "old" not in words_in(model.asked[before])


async def test_a_run_that_is_over_keeps_no_reasoning_in_its_state(folder: Path) -> None:
    model = ScriptedModel({"a": [Answer(reasoning="thought", tool_calls=ADD), "<think>inline</think>4\n[END]"]})
    async with box_of(folder, model) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        await run.result()
        state = await box.state(run.id)
    assert "thought" not in str(state)
    assert "inline" not in str(state)


async def test_reasoning_is_shown_as_it_comes_and_is_no_text_of_the_run(folder: Path) -> None:
    gate = asyncio.Event()

    async def think(request: ModelRequest) -> AsyncIterator[Any]:
        await gate.wait()
        for piece in ("<thi", "nk>hm [NE", "XT]</thin", "king></think>\n\nSo.", "\n[END]"):
            yield piece

    async with box_of(folder, think) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        events = await followed(run, gate)
        result = await run.result()
    reasoned = "".join(event.text for event in events if isinstance(event, ReasoningDeltaEvent))
    shown = "".join(event.text for event in events if isinstance(event, ModelDeltaEvent))
    (replied,) = [event for event in events if isinstance(event, ModelRepliedEvent)]
    assert (reasoned, shown) == ("hm [NEXT]</thinking>", "So.\n[END]")
    assert (replied.text, replied.reasoning) == ("So.\n[END]", "hm [NEXT]</thinking>")
    assert (result.reason, result.output) == ("signal:[END]", "So.\n[END]")


async def test_the_text_stream_never_contains_reasoning(folder: Path) -> None:
    replies = iter(["<think>hidden [END]</think>Shown.\n[NEXT]", "Too.\n<reasoning>hidden"])

    async def think(request: ModelRequest) -> AsyncIterator[Any]:
        reply = next(replies)
        yield ReasoningDelta("hidden")
        for sign in reply:
            yield sign

    async with box_of(folder, think) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        text = "".join([piece async for piece in run.text_stream()])
        again = "".join([piece async for piece in box.run(run.id).text_stream()])
    assert text.startswith("Shown.\n\nToo.")
    assert "hidden" not in text + again


@pytest.mark.parametrize("as_script", [True, False])
async def test_scripted_models_and_functions_are_split_too(folder: Path, as_script: bool) -> None:
    reply = "<think>\n[NEXT]\n</think>\nDone. [END]"
    model: Any = ScriptedModel({"a": [reply]}) if as_script else (lambda request: reply)
    async with box_of(folder, model) as box:
        result = await (await box.start(load_crew(folder, tools=[add]), "go")).result()
    assert (result.reason, result.output) == ("signal:[END]", "Done. [END]")


async def test_an_empty_rest_is_no_signal(folder: Path) -> None:
    model = ScriptedModel({"a": ["<think>[END]", "Done. [END]"]})
    async with box_of(folder, model) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        kinds = [event.type async for event in run.events()]
    assert "nudged" in kinds
    assert len(model.asked) == 2


async def test_text_that_turns_out_to_be_reasoning_is_taken_back_once_and_held_back_later(folder: Path) -> None:
    gate = asyncio.Event()

    async def think(request: ModelRequest) -> AsyncIterator[Any]:
        await gate.wait()
        for piece in ("hm [END]", "\n</think>", "So.\n[NEXT]" if request.agent == "a" else "Done.\n[END]"):
            yield piece

    crew = load_crew(folder, tools=[add])
    async with box_of(folder, think) as box:
        run = await box.start(crew, "go")
        events = await followed(run, gate)
        gate.clear()
        second = await box.start(crew, "go")
        held = await followed(second, gate)
        text = "".join([piece async for piece in second.text_stream()])
        handed = [event.to_dict()["to"] for event in events if event.type == "handoff"]
    pieces = [event for event in events if isinstance(event, ModelDeltaEvent | ReasoningDeltaEvent)]
    live = [event for event in pieces if event.agent == "a"]
    assert [(event.text, getattr(event, "takes_back", None)) for event in live] == [
        ("hm [END]", None), ("\n", None), ("", True), ("So.\n[NEXT]", None),
    ]  # fmt: skip
    assert handed == ["b"]
    assert "".join(event.text for event in held if isinstance(event, ModelDeltaEvent)) == "So.\n[NEXT]Done.\n[END]"
    assert text == "So.\n\nDone."


async def test_how_much_was_reasoned_is_counted_or_estimated(folder: Path) -> None:
    def reply(request: ModelRequest) -> ModelReply:
        return ModelReply(text=f"<think>{'w' * 300}</think>Done.\n[END]", uncounted=True)

    async with box_of(folder, reply) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        (replied,) = [event async for event in run.events() if isinstance(event, ModelRepliedEvent)]
    assert replied.usage.reasoning_tokens == 100
    assert replied.usage.output_tokens > 100


class Guard:
    name = "guard"

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, list[ModelReply]()

    def after_model(self, request: ModelRequest, reply: ModelReply) -> Any:
        self.seen.append(reply)
        return self.answer


@pytest.mark.parametrize(("answer", "kept"), [(None, "a plan"), ("Fine.\n[END]", "a plan"), (Refuse("no"), "")])
async def test_hooks_see_the_text_without_reasoning_and_what_they_refuse_is_not_kept(
    folder: Path, answer: Any, kept: str
) -> None:
    guard = Guard(answer)
    async with box_of(folder, lambda _: "<think>a plan</think>Done.\n[END]", hooks=[guard]) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        events = [event async for event in run.events()]
        journal = await box.journal.records(run.id)
    assert [(reply.text, reply.reasoning[0].text) for reply in guard.seen] == [("Done.\n[END]", "a plan")]
    assert not any(isinstance(event, ReasoningDeltaEvent) for event in events)
    (replied,) = [event for record in journal for event in record.events if isinstance(event, ModelReplied)]
    assert "".join(block.text for block in replied.reasoning) == kept


async def test_a_typed_value_is_read_from_the_text_without_reasoning(folder: Path) -> None:
    crew = CREW.replace("{id: a, tools: [add]}", "{id: a, output: {type: object, required: [n]}}")
    (folder / "crew.yaml").write_text(crew.replace("SETTINGS", "max_handoffs: 5"), "utf-8")
    async with box_of(folder, ScriptedModel({"a": ['<think>{"n": 1}</think>{"n": 2}\n[END]']})) as box:
        result = await (await box.start(load_crew(folder, tools=[add]), "go")).result()
    assert (result.reason, result.value) == ("signal:[END]", {"n": 2})


async def test_secrets_are_removed_from_reasoning_and_a_signed_block_with_one_is_dropped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    blocks = [
        {"provider": "p", "text": f"the key is {key}"},
        {"provider": "p", "text": "fine", "data": f"signed {key}"},
        {"provider": "p", "text": f"with {key}", "data": "signed"},
        {"provider": "p", "text": "clean", "data": "signed"},
    ]
    calls = [{"name": "add", "arguments": {"a": 1, "b": 1}}]
    model = ScriptedModel({"a": [{"reasoning": blocks, "tool_calls": calls}, "[END]"]})
    async with box_of(folder, model) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        live = [event.text async for event in run.events() if isinstance(event, ReasoningDeltaEvent)]
    assert key not in "".join(live)
    assert blocks_in(model.asked[1]) == ["the key is [redacted]", "clean"]


async def test_a_recorded_run_keeps_its_reasoning_as_a_script(folder: Path) -> None:
    signed = ScriptedReasoning(provider="p", kind="k", text="signed thought", data="sig")
    answer = Answer(reasoning=(signed,), text="<think>x</think>4 [END]")
    model = ScriptedModel({"a": [Answer(reasoning="plain", tool_calls=ADD), answer]})
    async with box_of(folder, model) as box:
        run = await box.start(load_crew(folder, tools=[add]), "go")
        await run.result()
        tree = await box.journal.tree(run.id)
    assert [answer.reasoning for answer in script_of(tree)["a"]] == ["plain", (signed, ScriptedReasoning(text="x"))]
    again = ScriptedModel(answers_from(yaml.safe_load(script_yaml(tree)), "a recording"))
    async with Interlock(folder / "other", models=again) as box:
        result = await (await box.start(load_crew(folder, tools=[add]), "go")).result()
    assert (result.output, blocks_in(again.asked[1])) == ("4 [END]", ["plain"])
