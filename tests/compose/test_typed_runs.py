"""Typed values in whole runs: of files, groups, sub-crews and tools, through crashes, forks, hooks and redaction."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Ask, Crew, Interlock, Refuse, RunOutput, load_crew
from interlock.engine.events import HooksDecided, ModelReplied, Nudged, OutputVerdict, ToolRequest
from interlock.errors import HostLacks
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import ScriptedModel
from tests.compose.typed_child import CREW as PAYMENTS
from tests.compose.typed_child import Payment, pay

REFUND = "{type: object, properties: {order: {type: string}, amount: {type: number}}, required: [order, amount]}"
DESK = """\
version: "2.0"
name: desk
entry_point: a
output: OUTPUT
agents: [{id: a}]
routing: {signals: {a: [{signal: "[WAIT]", type: pause}, {signal: "[DONE]", type: terminate}]}}
"""
SAID = '{"order": "A-17", "amount": 24.5}'
VALUE = {"order": "A-17", "amount": 24.5}


def desk(folder: Path, text: str = DESK.replace("OUTPUT", REFUND)) -> Crew[Any]:
    (folder / "crew.yaml").write_text(text, "utf-8")
    return load_crew(folder)


async def events_of(box: Interlock, run: str = "r") -> list[Any]:
    return [event for record in await box.journal.records(run) for event in record.events]


# Files


@pytest.mark.parametrize("name", ["refund.json", "refund.yaml"])
async def test_an_output_beside_the_crew_is_the_one_in_place(tmp_path: Path, name: str) -> None:
    (tmp_path / "refund.json").write_text(
        '{"type": "object", "properties": {"order": {"type": "string"}, "amount": {"type": "number"}}, '
        '"required": ["order", "amount"]}'
    )
    (tmp_path / "refund.yaml").write_text(REFUND)
    beside, in_place = desk(tmp_path, DESK.replace("OUTPUT", name)), desk(tmp_path)
    assert beside.definition.output == in_place.definition.output
    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": [f"{SAID}\n[DONE]"]})) as box:
        result = await (await box.start(beside, "hello", run_id="r")).result()
        assert (result.value, result.text) == (VALUE, SAID)
        assert (await box.result("r")).value == VALUE and (await box.run("r").result()).value == VALUE


# Groups, sub-crews, tools

GROUP = """\
version: "2.0"
name: desk
entry_point: a
output: {type: integer}
agents: [{id: a}, {id: b}, {id: c}]
routing:
  signals:
    a: [{signal: "[BOTH]", target: both, type: parallel}, {signal: "[DONE]", type: terminate}]
    b: [{signal: "[DONE]", type: terminate}]
    c: [{signal: "[DONE]", type: terminate}]
  parallel_groups: {both: {agents: [b, c]}}
"""


async def test_a_group_ends_the_run_with_the_value_of_the_member_that_decides(tmp_path: Path) -> None:
    script = {"a": ["[BOTH]"], "b": ["I have looked."], "c": ["many [DONE]", "7\n[DONE]"]}
    async with Interlock(tmp_path / "data", models=ScriptedModel(script)) as box:
        result = await (await box.start(desk(tmp_path, GROUP), "hello", run_id="r")).result()
        assert (result.status, result.value, result.agent) == ("completed", 7, "c")
        nudged = [(event.agent, event.because) for event in await events_of(box) if isinstance(event, Nudged)]
        assert nudged == [("c", "invalid_output")]
        assert (await box.state("r")).value == 7, "a replay gives the same"


async def test_a_member_without_a_valid_value_fails_and_the_group_goes_on(tmp_path: Path) -> None:
    script = {"a": ["[BOTH]", "9\n[DONE]"], "b": ["I have looked."], "c": ["many [DONE]"] * 3}
    async with Interlock(tmp_path / "data", models=ScriptedModel(script)) as box:
        result = await (await box.start(desk(tmp_path, GROUP), "hello", run_id="r")).result()
        assert (result.status, result.value, result.agent) == ("completed", 9, "a")


async def test_with_signals_by_a_tool_the_reply_is_the_value(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ModelReply:
        asked.append(request)
        call = ToolRequest(id="1", name="emit_signal", arguments='{"name": "DONE"}')
        return ModelReply(text="soon" if len(asked) == 1 else SAID, tool_calls=(call,))

    text = DESK.replace("OUTPUT", REFUND) + "settings: {signal_mode: tool}\n"
    async with Interlock(tmp_path / "data", models=model) as box:
        result = await (await box.start(desk(tmp_path, text), "hello", run_id="r")).result()
        assert (result.status, result.value, len(asked)) == ("completed", VALUE, 2)
        assert (await box.state("r")).value == VALUE
    assert all("## Output" in request.system and request.typed is None for request in asked)
    assert "Your output was not taken" in asked[1].messages[-1].text


async def test_a_part_of_a_typed_result_fills_the_template_of_the_next_call(tmp_path: Path) -> None:
    for name, output in (("refunds", REFUND), ("letters", "{type: string}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "crew.yaml").write_text(
            f'version: "2.0"\nname: {name}\nentry_point: x\noutput: {output}\nagents: [{{id: x, is_terminal: true}}]\n'
        )
    crew = desk(
        tmp_path,
        """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a}]
sub_crews: {refunds: {config_path: refunds}, letters: {config_path: letters}}
routing:
  signals:
    a:
      - {signal: "[PAY]", type: sub_crew, target_crew: refunds, return_to: a}
      - signal: "[LETTER]"
        type: sub_crew
        target_crew: letters
        return_to: a
        input_template: "{{.PreviousResults.refunds.order}}: {{.PreviousResults.refunds.amount}}"
      - {signal: "[DONE]", type: terminate}
""",
    )
    script = {"a": ["[PAY]", "[LETTER]", "[DONE]"], "refunds/x": [SAID], "letters/x": ['"Dear customer"']}
    model = ScriptedModel(script)
    async with Interlock(tmp_path / "data", models=model) as box:
        assert (await (await box.start(crew, "hello", run_id="r")).result()).status == "completed"
    letter = next(request for request in model.asked if "letters" in str(request.path))
    assert "A-17: 24.5" in letter.messages[0].text


# Resume, crash, fork


async def test_a_typed_run_is_resumed_and_forked(tmp_path: Path) -> None:
    script = ScriptedModel({"a": ["[WAIT]", "no value [DONE]", f"{SAID}\n[DONE]"]})
    async with Interlock(tmp_path / "data", models=script) as box:
        assert (await (await box.start(desk(tmp_path), "hello", run_id="r")).result()).value is None
    async with Interlock(tmp_path / "data", models=script) as box:
        assert (await (await box.resume("r", "go on")).result()).value == VALUE
        records = await box.journal.records("r")
        nudged = next(record for record in records if any(isinstance(event, Nudged) for event in record.events))
        forked = await (await box.fork("r", nudged.last_seq)).result()
        assert (forked.status, forked.value) == ("completed", VALUE) and forked.run != "r"
        assert (await box.state(forked.run)).value == VALUE


@pytest.mark.parametrize("point", range(1, 9))
async def test_a_typed_run_survives_a_crash_at_any_step(tmp_path: Path, point: int) -> None:
    """The child process dies at the point; this one has the crew, with its type, and continues."""
    child = [sys.executable, "-m", "tests.compose.typed_child", str(tmp_path / "data")]
    environment = {**os.environ, "INTERLOCK_CRASH_AT": str(point), "PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run(child, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode != 0 and "Error" not in died.stderr, died.stderr
    async with Interlock(tmp_path / "data", models=pay) as box:
        if [row.run for row in await box.journal.rows()]:
            with pytest.raises(HostLacks, match="output type of payments"):
                await box.resume("r")
        result = PAYMENTS.as_typed_result(await (await box.start(PAYMENTS, "hello", run_id="r")).result())
        assert result.value == Payment(order="A-17", amount=24.5)
        nudges = [event.fault for event in await events_of(box) if isinstance(event, Nudged)]
        assert nudges == ["amount: Value error, too much"]
        assert (await box.state("r")).value == VALUE


# Redaction


async def test_a_value_is_checked_as_it_is_stored_without_its_secret(tmp_path: Path) -> None:
    only_orders = REFUND.replace("order: {type: string}", 'order: {type: string, pattern: "^[A-Z]"}')
    with_secret = '{"order": "Acanary-7", "amount": 1}\n[DONE]'
    script = ScriptedModel({"a": [with_secret.replace("Ac", "c"), with_secret]})
    async with Interlock(tmp_path / "data", models=script) as box:
        box.redactor().add("canary-7")
        crew = desk(tmp_path, DESK.replace("OUTPUT", only_orders))
        result = await (await box.start(crew, "hello", run_id="r")).result()
        assert result.value == {"order": "A[redacted]", "amount": 1}
        events = await events_of(box)
    assert "canary" not in str(events)
    (nudged,) = (event for event in events if isinstance(event, Nudged))
    assert '"[redacted]" does not match' in nudged.fault


class SecretHook:
    """Puts a secret into the first reply."""

    name = "clumsy"

    def __init__(self) -> None:
        self.times = 0

    def after_model(self, request: ModelRequest, reply: ModelReply) -> str | None:
        self.times += 1
        return '{"order": "canary-7", "amount": 1}\n[DONE]' if self.times == 1 else None


async def test_the_verdict_on_a_text_that_is_not_stored_is_dropped_and_its_value_is_not_taken(tmp_path: Path) -> None:
    script = ScriptedModel({"a": [f"{SAID}\n[DONE]"] * 2})
    async with Interlock(tmp_path / "data", models=script, hooks=[SecretHook()]) as box:
        box.redactor().add("canary-7")
        result = await (await box.start(desk(tmp_path), "hello", run_id="r")).result()
        events = await events_of(box)
        assert (result.status, result.value) == ("completed", VALUE)
    replies = [event for event in events if isinstance(event, ModelReplied)]
    assert [reply.output for reply in replies] == [None, OutputVerdict()] and "canary" not in str(events)
    assert [event.fault for event in events if isinstance(event, Nudged)] == ["it was not checked"]


# Hooks


class OutputHook:
    """A hook that sees the output; `seen` is what it was shown."""

    name = "guard"

    def __init__(self, answer: Callable[[RunOutput], Any]) -> None:
        self._answer = answer
        self.seen: list[RunOutput] = []

    def on_output(self, output: RunOutput) -> Any:
        self.seen.append(output)
        return self._answer(output)


async def hooked(folder: Path, hook: OutputHook, *more: OutputHook) -> tuple[Any, HooksDecided]:
    """The result of a typed run under hooks, which a replay gives too, and what the hooks decided."""
    for n, each in enumerate(more):
        each.name = f"guard{n}"
    async with Interlock(folder / "data", models=ScriptedModel({"a": [f"{SAID}\n[DONE]"]}), hooks=[hook, *more]) as box:
        result = await (await box.start(desk(folder), "hello", run_id="r")).result()
        (decided,) = (event for event in await events_of(box) if isinstance(event, HooksDecided))
        seen = len(hook.seen)
        state = await box.state("r")
        assert (None if state.value is msgspec.UNSET else state.value) == result.value or result.status == "failed"
        assert len(hook.seen) == seen, "a replay calls no hook"
        return result, decided


def with_value(value: Any) -> Callable[[RunOutput], Any]:
    return lambda output: msgspec.structs.replace(output, value=value)


LESS = {"order": "A-17", "amount": 1}


@pytest.mark.parametrize(
    "answer", [with_value(LESS), lambda _: json.dumps(LESS), lambda _: f"{json.dumps(LESS)} [DONE]"]
)
async def test_a_hook_replaces_the_value_of_a_typed_run(tmp_path: Path, answer: Callable[[RunOutput], Any]) -> None:
    hook = OutputHook(answer)
    result, decided = await hooked(tmp_path, hook)
    assert hook.seen[0].value == VALUE
    assert (result.status, result.value, json.loads(result.text)) == ("completed", LESS, LESS)
    assert decided.output == OutputVerdict()


async def test_a_hook_that_gives_true_for_1_replaces_the_value(tmp_path: Path) -> None:
    result, _ = await hooked(tmp_path, OutputHook(with_value(LESS)), OutputHook(with_value({**LESS, "amount": True})))
    assert result.reason == "hook_failed" and 'true is not of type "number"' in result.detail


async def test_a_later_hook_sees_nothing_of_an_output_that_was_replaced(tmp_path: Path) -> None:
    later = OutputHook(lambda _: None)
    await hooked(tmp_path, OutputHook(lambda _: f"{json.dumps(LESS)} [DONE]"), later)
    (seen,) = later.seen
    assert (json.loads(seen.text), seen.value, seen.output) == (LESS, LESS, f"{json.dumps(LESS)} [DONE]")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (with_value({"order": "A-17"}), '"amount" is a required property'),
        (with_value(None), "null is not of type"),
        (lambda _: "paid", "it is not JSON"),
        (lambda _: '{"order": "A-17", "amount": 1} and more', "text after it"),
        (with_value({"order": "A-17", "amount": math.nan}), "NaN and Infinity are not JSON"),
        (with_value({"order": "A-17", "amount": [{"deep": -math.inf}]}), "NaN and Infinity are not JSON"),
        (lambda o: msgspec.structs.replace(o, value=1, output="2"), "the output or the value, not both"),
    ],
)
async def test_a_hook_that_gives_a_value_which_is_not_valid_fails_closed(
    tmp_path: Path, answer: Callable[[RunOutput], Any], fault: str
) -> None:
    result, _ = await hooked(tmp_path, OutputHook(answer))
    assert (result.status, result.reason, result.value, result.output) == ("failed", "hook_failed", None, "")
    assert result.detail.startswith("hook 'guard' failed: ") and fault in result.detail


async def test_what_a_hook_changes_in_place_does_not_count(tmp_path: Path) -> None:
    def change(output: RunOutput) -> None:
        output.value["amount"] = 0

    later = OutputHook(lambda _: None)
    result, _ = await hooked(tmp_path, OutputHook(change), later)
    assert result.value == VALUE and later.seen[0].value == VALUE


async def test_a_hook_that_refuses_or_asks_after_another_replaced_a_value(tmp_path: Path) -> None:
    result, decided = await hooked(tmp_path, OutputHook(with_value({})), OutputHook(lambda _: Refuse("no")))
    assert (result.reason, result.value, decided.output) == ("refused:output", None, None)
    hooks = [OutputHook(with_value(LESS)), OutputHook(lambda _: Ask("Hand it out?"))]
    hooks[1].name = "person"
    async with Interlock(tmp_path / "more", models=ScriptedModel({"a": [f"{SAID}\n[DONE]"]}), hooks=hooks) as box:
        await (await box.start(desk(tmp_path), "hello", run_id="r")).result()
        assert (await (await box.resume("r", "yes")).result()).value == LESS


async def test_a_secret_in_the_value_of_a_hook_ends_the_run(tmp_path: Path) -> None:
    hook = OutputHook(with_value({"order": "canary-7", "amount": 1}))
    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": [f"{SAID}\n[DONE]"]}), hooks=[hook]) as box:
        box.redactor().add("canary-7")
        result = await (await box.start(desk(tmp_path), "hello", run_id="r")).result()
        assert (result.reason, result.value) == ("hook_failed", None) and "a secret of the host" in result.detail
        assert "canary" not in str(await events_of(box))


async def test_an_untyped_output_is_replaced_by_any_text(tmp_path: Path) -> None:
    crew = desk(tmp_path, DESK.replace("output: OUTPUT\n", ""))
    hook = OutputHook(lambda _: "anything")
    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": ["done [DONE]"]}), hooks=[hook]) as box:
        result = await (await box.start(crew, "hello")).result()
        assert (result.status, result.output, result.value) == ("completed", "anything", None)
        assert hook.seen[0].value is None
