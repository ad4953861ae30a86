"""Whole runs over the wire: models of strict providers reason, call tools, and get back what they gave."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import END, Agent, Crew, Interlock, tool
from interlock.events import ModelRepliedEvent
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.clients import use
from tests.fakes.dialects.features import ANTHROPIC, shows
from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Say, Tokens, Use

LONG = "You look things up, and say what you found. " * 200
BOTH = [
    pytest.param(AnthropicServer, "anthropic:claude-sonnet-4-6", id="anthropic"),
    # It binds its thoughts to what came before them: the prompt must not change within the loop.
    pytest.param(AnthropicServer, "anthropic:claude-opus-5-5", id="anthropic that binds"),
    pytest.param(AnthropicServer, "anthropic:claude-haiku-4-5", id="anthropic with a budget"),
    pytest.param(GeminiServer, "google:gemini-3-flash", id="gemini"),
    pytest.param(GeminiServer, "google:gemini-2.5-flash", id="gemini with a budget"),
]
Server = Callable[..., DialectServer]
DONE = Say(reasoning="that is it", text="Gulls.\n[DONE]")


@tool(idempotent=True)
def find(q: str) -> str:
    """Find things."""
    return f"something about {q}"


def searching(n: int) -> Say:
    tokens = Tokens(input=100, output=20, reasoning=5)
    uses = (Use(name="find", arguments={"q": str(n)}),)
    return Say(reasoning=f"[DONE] or not, thought {n}", text=f"step {n}", uses=uses, tokens=tokens)


def desk(model: str, found: Any = find, **keys: Any) -> Crew[Any]:
    clerk = Agent("clerk", LONG, model=model, tools=[found], on={"[DONE]": END}, **{"reasoning": "high"} | keys)
    return Crew("desk", agents=[clerk], settings={"max_rounds": 40})


def point(server: DialectServer, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(server, model.partition(":")[0], monkeypatch)


@pytest.mark.parametrize(("server_of", "model"), BOTH)
async def test_five_rounds_of_tools_with_reasoning(
    server_of: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_of(*map(searching, range(5)), DONE) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            result = await (await box.start(desk(model), "Look up gulls.")).result()
        assert (result.status, result.reason, server.refusals) == ("completed", "signal:[DONE]", [])
        assert len(server.requests) == 6
    assert "thought" not in result.output and "Gulls." in result.output
    assert result.usage.reasoning_tokens >= 25


@pytest.mark.parametrize(("server_of", "model"), BOTH)
async def test_a_run_that_is_cut_off_in_the_tool_loop_goes_on_with_its_reasoning(
    server_of: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, count = asyncio.Event(), itertools.count()

    @tool(name="find", idempotent=True)
    async def find_until_cut(q: str) -> str:
        """Find things."""
        if next(count) == 2:
            reached.set()
            await asyncio.Event().wait()
        return f"something about {q}"

    with server_of(*map(searching, range(5)), DONE) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            await box.start(desk(model, find_until_cut), "Look up gulls.", run_id="r")
            await reached.wait()
        async with Interlock(tmp_path) as box:
            run = await box.start(desk(model), "Look up gulls.", run_id="r")  # the same one again: it goes on
            result = await run.result()
        assert (result.status, server.refusals, len(server.requests)) == ("completed", [], 6)


@shows("cache", ANTHROPIC)
async def test_thirty_calls_read_nine_tenths_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "anthropic:claude-sonnet-4-6"
    with AnthropicServer(*map(searching, range(29)), DONE, has_cache=True) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            run = await box.start(desk(model), "Look up gulls.")
            usage = (await run.result()).usage
        assert (len(server.requests), server.refusals) == (30, [])
    assert usage.cache_read_tokens >= 0.9 * usage.input_tokens
    assert usage.cache_write_tokens > 0


async def test_many_calls_in_one_reply_do_not_put_the_cache_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a mark the cache looks back over twenty blocks; the end of the prompt before has a mark of its own."""
    model = "anthropic:claude-sonnet-4-6"
    many = [Say(reasoning="hm", uses=tuple(Use(name="find", arguments={"q": f"{n}"}) for n in range(25)))] * 3
    with AnthropicServer(*many, DONE, has_cache=True) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            run = await box.start(desk(model), "Look up gulls.")
            assert (await run.result()).status == "completed"
            replied = [event async for event in run.events() if isinstance(event, ModelRepliedEvent)]
        assert server.refusals == []
    spent = [event.usage for event in replied]
    for before, after in itertools.pairwise(spent):
        assert after.cache_read_tokens == before.cache_read_tokens + before.cache_write_tokens > 0


@pytest.mark.parametrize("cache", ["on", "1h", "off"])
async def test_the_cache_is_asked_for_as_the_agent_says(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "anthropic:claude-sonnet-4-6"
    with AnthropicServer(searching(1), DONE, has_cache=True) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            usage = (await (await box.start(desk(model, cache=cache), "Look up gulls.")).result()).usage
    assert (usage.cache_read_tokens > 0) == (cache != "off")


@pytest.mark.parametrize(("server_of", "model"), [BOTH[0], BOTH[1], BOTH[3]])
async def test_a_value_that_is_wrong_is_given_again_after_reasoning(
    server_of: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(birds: object) -> Callable[[Call], Say]:
        return lambda _call: Say(reasoning="hm", text=f'{{"value": {{"birds": {birds}}}, "signal": "[DONE]"}}')

    output = {"type": "object", "properties": {"birds": {"type": "integer", "minimum": 3}}, "required": ["birds"]}
    with server_of(searching(1), given(1), given(7)) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            result = await (await box.start(desk(model, output=output), "Count gulls.")).result()
        assert (result.status, server.refusals, len(server.requests)) == ("completed", [], 3)
    assert result.value == {"birds": 7}


@pytest.mark.parametrize(("server_of", "model"), [BOTH[0], BOTH[1], BOTH[3]])
async def test_a_reply_is_held_to_its_marks_after_a_tool_loop_with_reasoning(
    server_of: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Say(reasoning="[ASK] or", text='{"text": "Gulls.", "signal": "[DONE]"}')
    with server_of(searching(1), held) as server:
        point(server, model, monkeypatch)
        clerk = Agent("clerk", LONG, model=model, tools=[find], reasoning="low", on={"[DONE]": END, "[ASK]": END})
        crew = Crew("desk", agents=[clerk], settings={"signal_mode": "constrained"})
        async with Interlock(tmp_path) as box:
            result = await (await box.start(crew, "Look up gulls.")).result()
        assert (result.reason, server.refusals) == ("signal:[DONE]", [])
    assert result.output == "Gulls.\n[DONE]"


async def test_a_backup_of_another_provider_goes_on_without_the_reasoning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Refusal(400, "no longer", "invalid_request_error")
    with AnthropicServer(searching(1), refused) as first, GeminiServer(DONE) as second:
        point(first, "anthropic:", monkeypatch)
        point(second, "google:", monkeypatch)
        backup = {"provider": "google", "model": "gemini-3-flash"}
        async with Interlock(tmp_path) as box:
            crew = desk("anthropic:claude-sonnet-4-6", backup=backup)
            result = await (await box.start(crew, "Look up gulls.")).result()
        assert (result.status, second.refusals) == ("completed", [])
        assert "thought 1" not in str(second.requests)


async def test_reasoning_is_stored_with_its_reply_and_never_shown_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "anthropic:claude-sonnet-4-6"
    writer = Agent("writer", "Write.", model=model, reasoning="low", on={"[DRAFT]": "editor"})
    editor = Agent("editor", "Edit.", model=model, reasoning="low", on={"[REWRITE]": "writer", "[DONE]": END})
    replies = (
        Say(reasoning="secret plan", text="Gulls!\n[DRAFT]"),
        Say(reasoning="too short", text="More.\n[REWRITE]"),
        Say(reasoning="longer then", text="Gulls and gulls!\n[DRAFT]"),
        DONE,
    )
    with AnthropicServer(*replies) as server:
        point(server, model, monkeypatch)
        async with Interlock(tmp_path) as box:
            run = await box.start(Crew("pair", agents=[writer, editor]), "Gulls.")
            assert (await run.result()).status == "completed"
            events = [event async for event in run.events()]
        assert server.refusals == [] and len(server.requests) == 4
        assert not any(words in str(server.requests) for words in ("secret plan", "too short", "longer then"))
    replied = [event for event in events if isinstance(event, ModelRepliedEvent)]
    assert [event.reasoning for event in replied] == ["secret plan", "too short", "longer then", "that is it"]
