"""Reasoning over the wire: strict providers get back what they gave, and refuse anything else."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.pydantic_ai.reasoning import blocks_of, parts_with_reasoning
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.engine.events import ReasoningBlock
from interlock.engine.state import TurnMessage
from interlock.errors import ModelRefused
from interlock.ports import Delta, ModelReply, ReasoningDelta
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.clients import (
    FIND,
    FLASH,
    KEY,
    SONNET,
    USER,
    pieces_from,
    reply_from,
    request_of,
    results,
    spoken,
    use,
)
from tests.fakes.dialects.features import ANTHROPIC, GEMINI, shows
from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import DialectServer, Say, Use

HIGH = ModelSettings(reasoning="high")
BOTH = [pytest.param(AnthropicServer, SONNET, id="anthropic"), pytest.param(GeminiServer, FLASH, id="gemini")]
Server = Callable[..., DialectServer]


def searching(n: int) -> Say:
    return Say(reasoning=f"thought {n}", text=f"step {n}", uses=(Use(name="find", arguments={"q": str(n)}),))


@shows("streaming", ANTHROPIC, GEMINI)
@shows("reasoning shown", ANTHROPIC, GEMINI)
@pytest.mark.parametrize(("server_of", "model"), BOTH)
async def test_reasoning_is_shown_apart_from_the_text(
    server_of: Server, model: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_of(Say(reasoning="let me see", text="well done")) as server:
        use(server, model.provider, monkeypatch)
        pieces = await pieces_from(model, request_of(settings=HIGH))
    reply = pieces[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta)) == "let me see"
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == reply.text == "well done"
    assert [type(piece) for piece in pieces] == [ReasoningDelta] * 3 + [Delta] * 3 + [ModelReply]
    assert "".join(block.text for block in reply.reasoning) == "let me see"


@shows("reasoning sent back", ANTHROPIC, GEMINI)
@shows("tools", ANTHROPIC, GEMINI)
@pytest.mark.parametrize(("server_of", "model"), BOTH)
async def test_each_reply_of_a_tool_loop_goes_back_with_its_reasoning(
    server_of: Server, model: ModelRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_of(*map(searching, range(5)), Say(reasoning="at last", text="done")) as server:
        use(server, model.provider, monkeypatch)
        messages = [USER]
        for _ in range(5):
            reply = await reply_from(model, request_of(*messages, tools=(FIND,), settings=HIGH))
            messages += [spoken(reply), *results(reply)]
        last = await reply_from(model, request_of(*messages, tools=(FIND,), settings=HIGH))
    assert (last.text, server.refusals, len(server.requests)) == ("done", [], 6)


def altered(message: TurnMessage, *, text: str | None = None, **parts: Any) -> TurnMessage:
    blocks = tuple(
        msgspec.structs.replace(block, text=text if text is not None else block.text, **parts)
        for block in message.reasoning
    )
    return msgspec.structs.replace(message, reasoning=blocks)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda message: msgspec.structs.replace(message, reasoning=()), "Expected `thinking`"),
        (lambda message: altered(message, text="another thought"), "Invalid `signature`"),
        (lambda message: altered(message, data='{"signature":"c2ln"}'), "Invalid `signature`"),
        (lambda message: altered(message, data=message.reasoning[0].data.replace("}", ',"calls":1}')), "Expected"),
        (lambda message: altered(message, data=message.reasoning[0].data.replace("}", ',"chars":3}')), "Expected"),
    ],
)
async def test_a_strict_anthropic_refuses_reasoning_that_is_missing_altered_or_moved(
    change: Callable[[TurnMessage], TurnMessage], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AnthropicServer(searching(1), Say(text="done")) as server:
        use(server, "anthropic", monkeypatch)
        reply = await reply_from(SONNET, request_of(tools=(FIND,), settings=HIGH))
        messages = (USER, change(spoken(reply)), *results(reply))
        with pytest.raises(ModelRefused, match=words):
            await reply_from(SONNET, request_of(*messages, tools=(FIND,), settings=HIGH))


async def test_a_strict_gemini_refuses_a_call_without_its_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    with GeminiServer(searching(1), Say(text="done")) as server:
        use(server, "google", monkeypatch)
        reply = await reply_from(FLASH, request_of(tools=(FIND,), settings=HIGH))
        messages = (USER, msgspec.structs.replace(spoken(reply), reasoning=()), *results(reply))
        with pytest.raises(ModelRefused, match="signature is not valid"):
            await reply_from(FLASH, request_of(*messages, tools=(FIND,), settings=HIGH))


BETWEEN: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "first"},
    {"type": "text", "text": "I look. "},
    {"type": "redacted_thinking"},
    {"type": "thinking", "thinking": "then"},
    {"type": "text", "text": "Here."},
    {"type": "tool_use", "name": "find", "input": {"q": "a"}},
    {"type": "thinking", "thinking": "and"},
    {"type": "tool_use", "name": "find", "input": {"q": "b"}},
]


@shows("parallel tools", ANTHROPIC)
async def test_thoughts_between_texts_and_calls_go_back_to_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    with AnthropicServer(Say(extra={"blocks": BETWEEN}), Say(text="done")) as server:
        use(server, "anthropic", monkeypatch)
        reply = await reply_from(SONNET, request_of(tools=(FIND,), settings=HIGH))
        assert reply.text == "I look. Here." and [block.kind for block in reply.reasoning] == [
            "thinking",
            "redacted_thinking",
            "thinking",
            "thinking",
        ]
        messages = (USER, spoken(reply), *results(reply))
        assert (await reply_from(SONNET, request_of(*messages, tools=(FIND,), settings=HIGH))).text == "done"
        sent = server.requests[-1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == [block["type"] for block in BETWEEN]


async def test_thoughts_that_a_model_leaves_out_go_back_by_their_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer models think by themselves and show nothing unless they are asked to."""
    opus = ModelRef(provider="anthropic", model="claude-opus-5-5")
    with AnthropicServer(searching(1), searching(2), Say(text="done")) as server:
        use(server, "anthropic", monkeypatch)
        messages = [USER]
        for _ in range(2):
            reply = await reply_from(opus, request_of(*messages, tools=(FIND,)))
            assert [(block.text, bool(block.data)) for block in reply.reasoning] == [("", True)]
            messages += [spoken(reply), *results(reply)]
        assert (await reply_from(opus, request_of(*messages, tools=(FIND,)))).text == "done"
        assert server.refusals == []


async def test_a_strict_anthropic_refuses_thoughts_after_another_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the instructions of an agent must stay the same within its turn."""
    opus = ModelRef(provider="anthropic", model="claude-opus-5-5")
    with AnthropicServer(searching(1), Say(text="done")) as server:
        use(server, "anthropic", monkeypatch)
        reply = await reply_from(opus, request_of(tools=(FIND,)))
        later = request_of(USER, spoken(reply), *results(reply), tools=(FIND,), system="Be kind. It is noon.")
        with pytest.raises(ModelRefused):
            await reply_from(opus, later)
        assert "bound to a different conversation" in server.refusals[0].message


@shows("parallel tools", GEMINI)
async def test_the_first_of_several_calls_has_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (Use(name="find", arguments={"q": "a"}), Use(name="find", arguments={"q": "b"}))
    with GeminiServer(Say(reasoning="hm", uses=both), Say(text="done")) as server:
        use(server, "google", monkeypatch)
        reply = await reply_from(FLASH, request_of(tools=(FIND,), settings=HIGH))
        assert [block.kind for block in reply.reasoning] == ["thinking", "call_signature"]
        messages = (USER, spoken(reply), *results(reply))
        assert (await reply_from(FLASH, request_of(*messages, tools=(FIND,), settings=HIGH))).text == "done"
        parts = server.requests[-1]["contents"][1]["parts"]
    assert [("functionCall" in part, "thoughtSignature" in part) for part in parts] == [
        (False, False),
        (True, True),
        (True, False),
    ]


async def test_reasoning_of_another_provider_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with GeminiServer(searching(1)) as gemini, AnthropicServer(Say(text="done")) as anthropic:
        use(gemini, "google", monkeypatch)
        use(anthropic, "anthropic", monkeypatch)
        reply = await reply_from(FLASH, request_of(tools=(FIND,), settings=HIGH))
        messages = (USER, spoken(reply), *results(reply))
        assert (await reply_from(SONNET, request_of(*messages, tools=(FIND,)))).text == "done"
        assert "thought" not in str(anthropic.requests)


def test_a_thought_with_a_key_is_shown_redacted_and_not_sent_back() -> None:
    from pydantic_ai.messages import ModelResponse, ThinkingPart

    response = ModelResponse(parts=[ThinkingPart(f"it is {KEY}", signature="s", provider_name="anthropic")])
    (block,) = blocks_of(response, "anthropic", KnownSecrets([KEY]))
    assert (block.text, block.provider, block.data) == ("it is [redacted]", "", "")
    assert parts_with_reasoning("", [], [block], "anthropic", "anthropic") == []


def test_a_signature_whose_call_was_dropped_goes_to_the_call_in_its_place() -> None:
    from pydantic_ai.messages import ToolCallPart

    block = ReasoningBlock(provider="google", kind="call_signature", data='{"signature":"c2ln","calls":1}')
    (part,) = parts_with_reasoning("", [ToolCallPart("find")], [block], "google", "google")
    assert part.provider_details == {"thought_signature": "c2ln"}
    assert parts_with_reasoning("", [], [block], "google", "google") == []
