"""A model that lies about types, in more than 300 ways: nothing that does not validate reaches a caller.

The oracle is another library than the one that Interlock validates with.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock import Interlock, load_crew
from interlock.compose.interlock import Result
from interlock.engine.events import Nudged
from interlock.ports import ModelRequest

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[A-Z]-[0-9]+$"},
        "amount": {"type": "number", "minimum": 0, "maximum": 1000},
        "kind": {"enum": ["refund", "exchange"]},
        "paid": {"type": "boolean"},
        "lines": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string", "minLength": 1}, "count": {"type": "integer", "minimum": 1}},
                "required": ["sku", "count"],
                "additionalProperties": False,
            },
        },
        "note": {"type": ["string", "null"], "maxLength": 40},
    },
    "required": ["order", "amount", "kind", "paid", "lines"],
    "additionalProperties": False,
}
TRUTH: dict[str, Any] = {
    "order": "A-17",
    "amount": 24.5,
    "kind": "refund",
    "paid": True,
    "lines": [{"sku": "lamp", "count": 1}],
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1001,
    1.5,
    "",
    "24",
    "a-17",
    "A-17\n",
    [],
    [None],
    [[]],
    {},
    {"sku": "lamp"},
    [{"sku": "", "count": 1}],
    [{"sku": "lamp", "count": 0}],
    [{"sku": "lamp", "count": "1"}],
    [{"sku": "lamp", "count": 1.5}],
    [{"sku": "lamp", "count": 1, "more": 1}],
    [{"sku": "lamp", "count": 1}] * 4,
)


def said(value: Any, mark: str = "\n[DONE]") -> str:
    return json.dumps(value) + mark


def wrong_values() -> Iterator[tuple[str, str]]:
    for name in SCHEMA["properties"]:
        for n, wrong in enumerate(WRONG):
            yield f"{name} is {n}", said({**TRUTH, name: wrong})
    for name in TRUTH:
        yield f"without {name}", said({key: value for key, value in TRUTH.items() if key != name})
        yield f"{name} in upper case", said({key.upper() if key == name else key: v for key, v in TRUTH.items()})
    for wrong in (*WRONG, "text", [TRUTH], {"value": TRUTH}, {"data": {"value": TRUTH}}, json.dumps(TRUTH)):
        yield f"the whole is {wrong!r:.40}", said(wrong)
    for name in ("more", "Order", "order ", "__proto__", "$schema", "", "\u0000", "\U0001f4a1"):
        yield f"with {name!r}", said({**TRUTH, name: 1})
    yield "note too long", said({**TRUTH, "note": "x" * 41})


def wrong_texts() -> Iterator[tuple[str, str]]:
    text = json.dumps(TRUTH)
    for cut in range(len(text)):
        yield f"cut at {cut}", f"{text[:cut]}\n[DONE]"
    for n, number in enumerate(("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 30, "9" * 5000, "0x10", "01")):
        yield f"number {n}", f"{text.replace('24.5', number)}\n[DONE]"
    for n, around in enumerate(
        (
            "Here it is: {}\n[DONE]",
            "{}\nI hope this helps!\n[DONE]",
            "{} and {}\n[DONE]",
            "{}{}\n[DONE]",
            "{}\n{}\n[DONE]",
            "[{}]\n[DONE]",
            "\ufeff{}\n[DONE]",
            "// a comment\n{}\n[DONE]",
            "{} // a comment\n[DONE]",
            "{},\n[DONE]",
            "'{}'\n[DONE]",
            "`{}`\n[DONE]",
            "```json\n{}\n[DONE]",
            "```json\n{}\n``\n[DONE]",
            "```json\n{}\n~~~\n[DONE]",
            "```json\n{}\n```\n```json\n{}\n```\n[DONE]",
            "```json\nThe value:\n{}\n```\n[DONE]",
            "<json>{}</json>\n[DONE]",
            "output = {}\n[DONE]",
            "{}\x00\n[DONE]",
            "{}\u200b\n[DONE]",
            "<think>{}</think>\n[DONE]",
            "[UNKNOWN]\n{}\n[DONE]",
            "{}\n[NOT-A-MARK]\n[DONE]",
            "```json\n{}\n``` done\n[DONE]",
        )
    ):
        yield f"around {n}", around.replace("{}", text)
    yield "nothing", ""
    yield "blanks", " \n\t "
    yield "a mark alone", "[DONE]"
    yield "prose", "I have paid it. [DONE]"
    yield "python", f"{TRUTH!r}\n[DONE]"
    yield "a trailing comma", text[:-1] + ",}\n[DONE]"
    yield "no quotes", text.replace('"', "") + "\n[DONE]"
    yield "single quotes", text.replace('"', "'") + "\n[DONE]"
    yield "a duplicate key", text.replace('"paid": true', '"paid": true, "paid": true') + "\n[DONE]"
    yield "a duplicate key within", text.replace('"count": 1', '"count": 1, "count": 1') + "\n[DONE]"
    yield "an escaped duplicate", text.replace('"paid": true', '"paid": true, "p\\u0061id": true') + "\n[DONE]"
    yield "half a surrogate", text.replace("lamp", "\\ud800") + "\n[DONE]"
    yield "a control character", text.replace("lamp", "la\nmp") + "\n[DONE]"
    yield "a bad escape", text.replace("lamp", "\\x41") + "\n[DONE]"
    yield "deep", "[" * 100_000 + "]" * 100_000 + "\n[DONE]"
    yield "deep within", said({**TRUTH, "lines": json.loads("[" * 500 + "]" * 500)})
    yield "huge", said({**TRUTH, "note": "x" * 300_000})
    yield "huge list", said({**TRUTH, "lines": TRUTH["lines"] * 20_000})
    yield "a mark inside only", said({**TRUTH, "order": "[DONE]"}, "")
    yield "yaml", "\n".join(f"{key}: {value}" for key, value in TRUTH.items()) + "\n[DONE]"


LIES = dict((*wrong_values(), *wrong_texts()))

TRUTHS = {
    "bare": said(TRUTH),
    "the mark first": f"[DONE]\n{json.dumps(TRUTH)}",
    "on one line": f"{json.dumps(TRUTH)} [DONE]",
    "fenced": f"```json\n{json.dumps(TRUTH, indent=2)}\n```\n[DONE]",
    "tildes": f"~~~\n{json.dumps(TRUTH)}\n~~~\n\n**[DONE]**",
    "marks inside": said({**TRUTH, "note": "[DONE] [ASK] and [END]"}),
    "null": said({**TRUTH, "note": None}),
    "a whole number": said({**TRUTH, "amount": 1000}),
    "other scripts": said({**TRUTH, "note": "Kết thúc \U0001f4a1"}),
}

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
output: refund.json
agents: [{id: clerk, model: "openai:none"}]
routing: {signals: {clerk: [{signal: "[DONE]"}, {signal: "[ASK]", target: clerk, type: route}]}}
"""


@pytest.fixture
def crew_folder(tmp_path: Path) -> Path:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "crew.yaml").write_text(CREW)
    (tmp_path / "desk" / "refund.json").write_text(json.dumps(SCHEMA))
    return tmp_path / "desk"


def is_true(value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(value))


async def outcome_of(box: Interlock, crew: Any, name: str) -> tuple[Result, list[str]]:
    run = await box.start(crew, name)
    result = await run.result()
    records = await box.journal.records(run.id)
    nudges = [event.fault for record in records for event in record.events if isinstance(event, Nudged)]
    state = await box.state(run.id)  # raises if a replay differs
    assert (state.status, state.reason, state.output) == (result.status, result.reason, result.output)
    assert (None if result.value is None else result.value) == (state.value or None)
    return result, nudges


def script(request: ModelRequest) -> str:
    """The same reply to each call; the input names it."""
    told = request.messages[0].text
    return next(text for name, text in {**LIES, **TRUTHS}.items() if f"<{name}>" in told)


async def test_no_value_that_does_not_validate_reaches_a_caller(tmp_path: Path, crew_folder: Path) -> None:
    assert len(LIES) >= 300
    crew = load_crew(crew_folder)
    failed = 0
    async with Interlock(tmp_path / "data", models=script) as box:
        for name in LIES:
            result, nudges = await outcome_of(box, crew, f"<{name}>")
            if result.status == "completed":  # some of the values are no lies for their field
                assert is_true(result.value), name
                continue
            assert (result.status, result.value, len(nudges)) == ("failed", None, 2), name
            if result.reason == "no_signal":  # nothing ends the run, so no value is needed: marks inside do not count
                assert name in ("nothing", "blanks", "a mark inside only"), name
                continue
            assert result.reason == "invalid_output" and result.detail and all(nudges), name
            failed += 1
    assert failed >= 300


async def test_the_truth_is_taken_in_every_dress(tmp_path: Path, crew_folder: Path) -> None:
    crew = load_crew(crew_folder)
    async with Interlock(tmp_path / "data", models=script) as box:
        for name in TRUTHS:
            result, nudges = await outcome_of(box, crew, f"<{name}>")
            assert (result.status, nudges) == ("completed", []), name
            assert is_true(result.value), name
            assert json.loads(result.text) == result.value
