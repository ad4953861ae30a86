"""Streams of the Responses API that are not as they should be."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.endpoint import RESPONSES, Endpoint, Server
from interlock.adapters.models.openai.responses_stream import ResponsesStream
from interlock.errors import ModelRefused, ModelUnavailable, PromptTooLong
from interlock.ports import Delta, ModelReply, ReasoningDelta

HERE = Endpoint(server=Server("here"), url="http://here/v1", api=RESPONSES, provider="openai", source="openai")
DONE: dict[str, Any] = {"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 2}}}


def delta(text: Any, kind: str = "response.output_text") -> dict[str, Any]:
    return {"type": f"{kind}.delta", "delta": text}


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": fields}


def reasoning_in(pieces: Iterable[Delta | ReasoningDelta]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta))


def reply_of(*events: dict[str, Any] | bytes) -> tuple[str, ModelReply]:
    stream, shown = ResponsesStream(HERE, KnownSecrets(), key="r:1", tools={"mcp_look": "mcp:look"}), ""
    for event in events:
        payload = event if isinstance(event, bytes) else json.dumps(event).encode()
        shown += reasoning_in(stream.add_payloads([payload]))
    return shown + reasoning_in(stream.flush()), stream.reply(is_framed=True)


def test_events_that_nobody_knows_are_skipped() -> None:
    odd: list[dict[str, Any]] = [
        {"type": "response.confetti.delta", "delta": "x"},
        {"type": "response.output_text.delta", "delta": None},
        {},
    ]
    _, reply = reply_of(*odd, delta("Fine."), DONE, b"[DONE]")
    assert (reply.text, reply.usage.tokens, reply.uncounted) == ("Fine.", 5, False)


def test_a_stream_without_its_last_event_is_no_reply() -> None:
    with pytest.raises(ModelUnavailable, match="broke off"):
        reply_of(delta("Fine."))


@pytest.mark.parametrize("payload", [b"{", b"[]", b'"x"', b'{"type": 3}', b"[" * 100_000])
def test_what_is_no_event_fails_the_call(payload: bytes) -> None:
    with pytest.raises(ModelUnavailable, match="not an event of a response"):
        reply_of(payload, DONE)


def test_half_characters_are_replaced() -> None:
    assert reply_of(b'{"type": "response.output_text.delta", "delta": "a\xff"}', DONE)[1].text == "a\ufffd"


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, ModelUnavailable, "slow down"),
        ({"type": "error", "code": "invalid_prompt", "message": "no"}, ModelRefused, "no"),
        ({"type": "error", "code": "context_length_exceeded", "message": "long"}, PromptTooLong, "long"),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, ModelUnavailable, "failed"),
        ({"type": "response.failed"}, ModelUnavailable, "failed while it replied"),
    ],
)  # fmt: skip
def test_an_error_in_the_stream_is_one(event: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        reply_of(delta("Fi"), event)


def test_a_model_that_refuses_is_heard() -> None:
    with pytest.raises(ModelRefused, match="refused: I will not"):
        reply_of(delta("I will ", "response.refusal"), delta("not", "response.refusal"), DONE)


def test_ten_thousand_tool_calls_are_refused() -> None:
    calls = [item(type="function_call", call_id=str(n), name="look", arguments="{}") for n in range(200)]
    with pytest.raises(ModelRefused, match="more than 128 tools"):
        reply_of(*calls, DONE)


def test_calls_without_ids_or_with_the_same_get_ids_of_their_own() -> None:
    calls = [item(type="function_call", name="mcp_look", call_id=id_, arguments="") for id_ in ("a", "a", None)]
    found = reply_of(*calls, DONE)[1].tool_calls
    assert [(call.id, call.name, call.arguments) for call in found] == [
        ("a", "mcp:look", "{}"), ("r:1/1", "mcp:look", "{}"), ("r:1/2", "mcp:look", "{}"),
    ]  # fmt: skip


def test_a_tool_without_a_name_fails_the_call() -> None:
    with pytest.raises(ModelUnavailable, match="without a name"):
        reply_of(item(type="function_call", call_id="a", arguments="{}"), DONE)


def test_parts_of_a_summary_are_shown_apart() -> None:
    part = {"type": "response.reasoning_summary_part.added"}
    summary = "response.reasoning_summary_text"
    sealed = item(type="reasoning", id="rs", encrypted_content="x", summary=[{"text": "One."}, {"text": "Two."}])
    shown, reply = reply_of(part, delta("One.", summary), part, delta("Two.", summary), sealed, delta("Fine."), DONE)
    assert shown == "One.\n\nTwo." == reply.reasoning[0].text


def test_reasoning_that_could_not_be_read_again_is_not_kept() -> None:
    """Without its encrypted content the provider would look for the item, which it never stored."""
    reply = reply_of(item(type="reasoning", id="rs", summary=[]), delta("Fine."), DONE)[1]
    assert reply.reasoning == ()


def test_an_item_goes_back_without_what_is_null() -> None:
    sealed = item(type="reasoning", id="rs", encrypted_content="x", summary=[], status=None, content=None)
    call = item(type="function_call", id="fc", call_id="c", name="look", arguments="{}", status="completed")
    (block,) = reply_of(sealed, call, item(type="web_search_call", id="ws"), DONE)[1].reasoning
    assert json.loads(block.data) == [
        {"type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": []},
        {"type": "function_call", "id": "fc", "call_id": "c"},
    ]


@pytest.mark.parametrize("usage", [None, 3, {"input_tokens": "many"}, {"input_tokens_details": 3}])
def test_a_usage_that_is_none_costs_no_reply(usage: Any) -> None:
    reply = reply_of(delta("Fine."), {"type": "response.completed", "response": {"usage": usage}})[1]
    assert (reply.text, reply.uncounted) == ("Fine.", True)
