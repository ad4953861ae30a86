"""Reasoning and usage of chat completions, as servers write them."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.chat_request import chat_body
from interlock.adapters.models.openai.chat_stream import ChatStream
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.engine.events import ReasoningBlock, Usage
from interlock.engine.state import TurnMessage
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta
from tests.adapters.hostile_server import chunk

HERE = Endpoint(server=Server("here"), url="http://here/v1", provider="house", source="house")
CALL = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}


def reasoning_in(pieces: Iterable[Delta | ReasoningDelta]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta))


def reply_of(*chunks: dict[str, Any]) -> tuple[str, ModelReply]:
    """What is shown of the reasoning, and the reply."""
    stream, shown = ChatStream(HERE, KnownSecrets(), key="r:1", tools={}), ""
    for each in (*chunks, chunk(finish="stop")):
        shown += reasoning_in(stream.add_payloads([json.dumps(each).encode()]))
    return shown + reasoning_in(stream.flush()), stream.reply(is_framed=True)


def sent_back(reply: ModelReply) -> dict[str, Any]:
    """The message of the reply in the next request of its tool loop."""
    said = TurnMessage(role="assistant", text=reply.text, tool_calls=reply.tool_calls, reasoning=reply.reasoning)
    request = ModelRequest(key="r:2", agent="a", number=2, system="", messages=[said])
    body: dict[str, Any] = json.loads(chat_body(HERE, "m", request))
    message: dict[str, Any] = body["messages"][0]
    return message


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_the_field_in_which_it_came(field: str) -> None:
    shown, reply = reply_of(chunk(**{field: "Two "}), chunk(**{field: "and two."}), chunk(tool_calls=[CALL]))
    assert shown == "Two and two."
    assert reply.reasoning == (ReasoningBlock(provider="house", kind=field, text="Two and two."),)
    assert sent_back(reply)[field] == "Two and two."


def test_a_server_that_says_it_twice_gets_it_twice_and_shows_it_once() -> None:
    shown, reply = reply_of(chunk(reasoning="Hm.", reasoning_content="Hm."), chunk("Fine."))
    assert (shown, reply.text) == ("Hm.", "Fine.")
    back = sent_back(reply)
    assert (back["reasoning"], back["reasoning_content"]) == ("Hm.", "Hm.")


def test_empty_reasoning_belongs_to_a_tool_call_and_to_nothing_else() -> None:
    assert reply_of(chunk(reasoning_content=""), chunk("Fine."))[1].reasoning == ()
    _, reply = reply_of(chunk(reasoning_content=""), chunk(tool_calls=[CALL]))
    assert sent_back(reply)["reasoning_content"] == ""


@pytest.mark.parametrize("odd", [None, 3, ["x"], {"text": "x"}])
def test_reasoning_that_is_no_text_is_no_reasoning(odd: Any) -> None:
    shown, reply = reply_of(chunk("Fine.", reasoning=odd, reasoning_content=odd, reasoning_details=odd))
    assert (shown, reply.text, reply.reasoning) == ("", "Fine.", ())


def test_details_of_openrouter_are_put_together_and_go_back_whole() -> None:
    text = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "abc", "format": "openai-responses-v1", "id": "rs_1"}
    pieces = [
        chunk(reasoning="Two ", reasoning_details=[{**text, "text": "Two ", "signature": None}]),
        chunk(reasoning="and two.", reasoning_details=[{**text, "text": "and two."}]),
        chunk(reasoning_details=[{**text, "signature": "sig"}]),
        chunk(reasoning_details=[sealed]),
    ]
    shown, reply = reply_of(*pieces, chunk(tool_calls=[CALL]))
    assert shown == "Two and two."
    back = sent_back(reply)
    assert back["reasoning_details"] == [{**text, "text": "Two and two.", "signature": "sig"}, sealed]
    assert back["reasoning"] == "Two and two."


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 4},
            Usage(input_tokens=9, cache_read_tokens=4, output_tokens=5),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 3},
            Usage(input_tokens=9, cache_read_tokens=3, output_tokens=5),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 6},
            },
            Usage(input_tokens=9, cache_read_tokens=2, cache_write_tokens=6, output_tokens=5),
        ),
        (  # the same tokens in two buckets would be paid for twice
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 8}},
            Usage(input_tokens=9, cache_read_tokens=8, cache_write_tokens=1),
        ),
        # Counted beside the reply, as the sum shows.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "total_tokens": 34,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(input_tokens=9, output_tokens=25, reasoning_tokens=20),
        ),
        # Numbers that cannot be.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 99},
                "completion_tokens_details": {"reasoning_tokens": 99},
            },
            Usage(input_tokens=9, cache_read_tokens=9, output_tokens=5, reasoning_tokens=5),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": "x", "completion_tokens_details": []},
            Usage(input_tokens=9, output_tokens=5),
        ),
    ],
)
def test_cached_and_reasoned_tokens_are_parts_of_the_whole(usage: dict[str, Any], counted: Usage) -> None:
    assert reply_of(chunk("Fine."), {"choices": [], "usage": usage})[1].usage == counted


def test_what_comes_in_one_read_keeps_its_order_and_is_few_pieces() -> None:
    said = [
        *(chunk(reasoning=word) for word in ("Hm, ", "two ", "and two.")),
        *(chunk(word) for word in ("It ", "is ", "four.")),
        chunk(" So.", reasoning="Really?"),
        *(chunk(reasoning=word) for word in ("Yes", "!")),
        chunk(" Done."),
        chunk(finish="stop"),
    ]
    stream = ChatStream(HERE, KnownSecrets(), key="r:1", tools={})
    pieces = list(stream.add_payloads([*(json.dumps(each).encode() for each in said), b"[DONE]"]))
    assert pieces == [
        ReasoningDelta("Hm, two and two."),
        Delta("It is four."),
        ReasoningDelta("Really?"),
        Delta(" So."),
        ReasoningDelta("Yes!"),
        Delta(" Done."),
    ]
    assert list(stream.flush()) == [] and stream.is_done
    assert stream.reply(is_framed=True).text == "It is four. So. Done."
