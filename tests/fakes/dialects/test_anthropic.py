"""The strict Anthropic refuses what the real one refuses."""

import copy
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.server import Say, Use

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
USE = {"type": "tool_use", "id": "c0", "name": "find", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c0", "content": "found"}
MARK = {"type": "ephemeral"}
GOOD: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 4_000,
    "stream": True,
    "system": [{"type": "text", "text": "Be kind."}],
    "tools": [{"name": "find", "description": "Find.", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "and now"}]},
    ],
}
Change = Callable[[dict[str, Any]], object]


def post(server: AnthropicServer, body: dict[str, Any], headers: dict[str, str] = HEADERS) -> tuple[int, str]:
    answer = httpx2.post(f"{server.url}/v1/messages", json=body, headers=headers)
    return answer.status_code, answer.text


def test_a_good_request_is_answered() -> None:
    with AnthropicServer(Say(text="done")) as server:
        status, events = post(server, GOOD)
    assert status == 200 and '"end_turn"' in events


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Field required: `max_tokens`", lambda body: body.pop("max_tokens")),
        ("Extra inputs are not permitted: `seed`", lambda body: body.update(seed=3)),
        ("Extra inputs are not permitted: `colour`", lambda body: body["messages"][0].update(colour="red")),
        ("max_tokens: must be greater", lambda body: body.update(max_tokens=0)),
        ("temperature: range: 0..1", lambda body: body.update(temperature=1.5)),
        ("each stop sequence must contain", lambda body: body.update(stop_sequences=[" "])),
        ("`temperature` is not supported", lambda body: body.update(model="claude-opus-5", temperature=1)),
        ("while providing tools", lambda body: body.update(tools=[], tool_choice={"type": "auto"})),
        ("does not support the effort", lambda b: b.update(model="claude-haiku-4-5", output_config={"effort": "low"})),
        ("greater than or equal to 1024", lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 1_000})),
        (
            "must be greater than `thinking.bud",
            lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 4_000}),
        ),
        ('"thinking.type.adaptive"', lambda b: b.update(model="claude-haiku-4-5", thinking={"type": "adaptive"})),
        ('"thinking.type.disabled"', lambda b: b.update(model="claude-opus-5-5", thinking={"type": "disabled"})),
        ('"thinking.type.between_tools"', lambda body: body.update(thinking={"type": "between_tools"})),
        ("first message must use", lambda body: body["messages"].pop(0)),
        ("prefill", lambda body: body["messages"].append({"role": "assistant", "content": "I"})),
        ("at least one message", lambda body: body.update(messages=[])),
        ("must have non-empty content", lambda body: body["messages"][0].update(content=[])),
        ("must be non-empty", lambda body: body["messages"][0].update(content="")),
        ("non-whitespace text", lambda body: body["messages"][0].update(content=" \n")),
        ("without `tool_result` blocks immediately", lambda body: body["messages"].insert(2, body["messages"][0])),
        ("without `tool_result` blocks immediately", lambda body: body["messages"][2]["content"].reverse()),
        ("unexpected `tool_use_id`", lambda body: body["messages"].pop(1)),
        ("unexpected `tool_use_id`", lambda body: body["messages"][2]["content"].insert(0, RESULT)),
        ("must be unique", lambda body: body["messages"][1].update(content=[USE, USE])),
        ("wrong role", lambda body: body["messages"][0].update(content=[USE])),
        ("must define tools", lambda body: body.pop("tools")),
        ("must be non-empty", lambda body: body.update(system=[{"type": "text", "text": ""}])),
        ("input_schema", lambda body: body["tools"][0].update(input_schema={})),
    ],
)
def test_a_wrong_request_is_refused(words: str, change: Change) -> None:
    body = copy.deepcopy(GOOD)
    change(body)
    with AnthropicServer() as server:
        status, answer = post(server, body)
    assert (status, words in answer.replace('\\"', '"')) == (400, True), answer


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"temperature": 0.5}, "may only be set to 1 when thinking is enabled"),
        ({"top_k": 4}, "must be unset when thinking is enabled"),
        ({"tool_choice": {"type": "any"}}, "forces tool use"),
    ],
)
def test_what_does_not_go_with_a_budget_is_refused(setting: dict[str, Any], words: str) -> None:
    with AnthropicServer() as server:
        status, answer = post(server, GOOD | {"thinking": {"type": "enabled", "budget_tokens": 2_000}} | setting)
    assert status == 400 and words in answer


def test_a_key_a_version_and_the_right_address_are_needed() -> None:
    with AnthropicServer() as server:
        assert post(server, GOOD, {"anthropic-version": "1"})[0] == 401
        assert post(server, GOOD, {"x-api-key": "k"})[0] == 400
        assert httpx2.post(f"{server.url}/v1/complete", json=GOOD, headers=HEADERS).status_code == 404


def test_four_marks_are_taken_and_five_are_not() -> None:
    body = copy.deepcopy(GOOD)
    body["messages"][1]["content"] = [dict(USE)]
    places = [*body["tools"], *body["system"], *body["messages"][1]["content"], *body["messages"][2]["content"]]
    with AnthropicServer(Say(text="done")) as server:
        for place in places[:4]:
            place["cache_control"] = MARK
        assert post(server, body)[0] == 200
        places[4]["cache_control"] = MARK
        status, answer = post(server, body)
    assert status == 400 and "A maximum of 4 blocks with cache_control may be provided. Found 5." in answer


def test_a_longer_mark_comes_first() -> None:
    body = copy.deepcopy(GOOD)
    body["tools"][0]["cache_control"] = MARK
    body["system"][0]["cache_control"] = MARK | {"ttl": "1h"}
    with AnthropicServer() as server:
        status, answer = post(server, body)
    assert status == 400 and "ttl='1h' cache_control block must not come after" in answer


def test_thinking_takes_no_mark_and_no_signature_of_others() -> None:
    body = copy.deepcopy(GOOD)
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    with AnthropicServer() as server:
        body["messages"][1]["content"] = [thinking | {"cache_control": MARK}, USE]
        assert "Extra inputs are not permitted: `cache_control`" in post(server, body)[1]
        body["messages"][1]["content"] = [thinking, USE]
        assert "Invalid `signature` in `thinking` block" in post(server, body)[1]
        body["messages"][1]["content"] = [{"type": "redacted_thinking", "data": "c2ln"}, USE]
        assert "Invalid `data` in `redacted_thinking` block" in post(server, body)[1]


def test_a_schema_that_is_open_is_refused() -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    with AnthropicServer() as server:
        assert "additionalProperties" in post(server, GOOD | {"output_config": {"format": form}})[1]
        strict = [GOOD["tools"][0] | {"strict": True, "input_schema": form["schema"]}]
        assert "additionalProperties" in post(server, GOOD | {"tools": strict})[1]


def test_only_what_is_marked_is_cached_and_only_what_is_equal_is_read() -> None:
    long = {"type": "text", "text": "Be kind. " * 1_000}
    with AnthropicServer(*[Say(text="done")] * 4, has_cache=True) as server:
        for system, read in ((long, 0), (long | {"cache_control": MARK}, 0), (long | {"cache_control": MARK}, 1)):
            status, events = post(server, GOOD | {"system": [system]})
            assert status == 200 and ('"cache_read_input_tokens": 0' not in events) == bool(read)
        shorter = {"type": "text", "text": "Be kind. " * 10, "cache_control": MARK}
        assert '"cache_creation_input_tokens": 0' in post(server, GOOD | {"system": [shorter]})[1]


def test_a_look_back_ends_after_twenty_blocks() -> None:
    start: list[dict[str, Any]] = [{"type": "text", "text": "Be kind. " * 1_000, "cache_control": MARK}]
    with AnthropicServer(*[Say(text="done")] * 3, has_cache=True) as server:
        post(server, GOOD | {"messages": [{"role": "user", "content": start}]})
        start[0].pop("cache_control")
        for count, is_read in ((20, True), (21, False)):
            more = [{"type": "text", "text": f"{count} {n}"} for n in range(count)]
            more[-1]["cache_control"] = MARK  # type: ignore[assignment]
            _, events = post(server, GOOD | {"messages": [{"role": "user", "content": start + more}]})
            assert ('"cache_read_input_tokens": 0' not in events) == is_read


def test_a_reply_without_thinking_when_it_is_off() -> None:
    with AnthropicServer(Say(reasoning="hm", uses=(Use(name="find"),))) as server:
        status, events = post(server, GOOD)
    assert status == 200 and "thinking" not in events and '"tool_use"' in events
