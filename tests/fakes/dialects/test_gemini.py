"""The strict Gemini refuses what the real one refuses."""

import base64
import copy
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import Say

ASKED = {"functionCall": {"name": "find", "args": {}}, "thoughtSignature": base64.b64encode(b"x").decode()}
INSTEAD = base64.b64encode(b"skip_thought_signature_validator").decode()
GIVEN = {"functionResponse": {"name": "find", "response": {"output": "found"}}}
GOOD: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [ASKED | {"thoughtSignature": INSTEAD}]},
        {"role": "user", "parts": [GIVEN]},
    ],
    "tools": [{"functionDeclarations": [{"name": "find", "description": "Find."}]}],
    "generationConfig": {},
}
Change = Callable[[dict[str, Any]], object]


def post(
    server: GeminiServer, body: dict[str, Any], model: str = "gemini-3-flash", headers: dict[str, str] | None = None
) -> tuple[int, str]:
    url = f"{server.url}/v1/models/{model}:streamGenerateContent?alt=sse"
    answer = httpx2.post(url, json=body, headers={"x-goog-api-key": "k"} if headers is None else headers)
    return answer.status_code, answer.text


def test_a_good_request_is_answered() -> None:
    with GeminiServer(Say(text="done")) as server:
        status, events = post(server, GOOD)
    assert status == 200 and '"finishReason": "STOP"' in events


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Unknown name `colour`", lambda body: body.update(colour="red")),
        ("Unknown name `seeds`", lambda body: body["generationConfig"].update(seeds=3)),
        ("temperature must be", lambda body: body["generationConfig"].update(temperature=3)),
        ("number of stop sequences", lambda body: body["generationConfig"].update(stopSequences=list("abcdef"))),
        ("max_output_tokens", lambda body: body["generationConfig"].update(max_output_tokens=0)),
        ("begins with a user turn", lambda body: body["contents"].pop(0)),
        ("parts must not be empty", lambda body: body["contents"][0].update(parts=[])),
        ("number of function response parts", lambda body: body["contents"][2]["parts"].append(GIVEN)),
        ("number of function response parts", lambda body: body["contents"].pop(1)),
        ("followed by its function responses", lambda body: body["contents"].pop(2)),
        ("response turn comes immediately after", lambda body: body["contents"][2].update(parts=[other()])),
        ("call turn comes immediately after", lambda b: b["contents"].insert(1, {"role": "model", "parts": [text()]})),
        ("missing a thought_signature", lambda body: body["contents"][1]["parts"][0].pop("thoughtSignature")),
        ("signature is not valid", lambda body: body["contents"][1].update(parts=[ASKED])),
        ("needs response_mime_type", lambda body: body["generationConfig"].update(responseJsonSchema={})),
        ("unknown name allOf", lambda body: body["generationConfig"].update(schema({"allOf": []}))),
    ],
)
def test_a_wrong_request_is_refused(words: str, change: Change) -> None:
    body = copy.deepcopy(GOOD)
    change(body)
    with GeminiServer() as server:
        status, answer = post(server, body)
    assert (status, words in answer) == (400, True), answer


def other() -> dict[str, Any]:
    return {"functionResponse": {"name": "search", "response": {}}}


def text() -> dict[str, Any]:
    return {"text": "I look."}


def schema(form: dict[str, Any]) -> dict[str, Any]:
    return {"responseMimeType": "application/json", "responseJsonSchema": form}


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        ("gemini-2.0-flash", {"includeThoughts": True}, "Thinking is not enabled"),
        ("gemini-2.5-flash", {"thinkingLevel": "LOW"}, "Thinking level is not supported"),
        ("gemini-3-flash", {"thinkingLevel": "LOW", "thinkingBudget": 9}, "only one of"),
        ("gemini-2.5-pro", {"thinking_budget": 0}, "only works in thinking mode"),
        ("gemini-3-pro-preview", {"thinkingLevel": "MEDIUM"}, "MEDIUM is not supported"),
    ],
)
def test_a_wrong_thinking_setting_is_refused(model: str, config: dict[str, Any], words: str) -> None:
    with GeminiServer() as server:
        status, answer = post(server, GOOD | {"generationConfig": {"thinkingConfig": config}}, model)
    assert status == 400 and words in answer


def test_an_older_model_takes_no_schema_beside_functions() -> None:
    with GeminiServer() as server:
        status, answer = post(server, GOOD | {"generationConfig": schema({"type": "string"})}, "gemini-2.5-flash")
    assert status == 400 and "unsupported" in answer


def test_a_key_and_the_right_address_are_needed() -> None:
    with GeminiServer() as server:
        assert post(server, GOOD, headers={})[0] == 403
        assert httpx2.post(f"{server.url}/v1/models/m:other", json=GOOD).status_code == 404
