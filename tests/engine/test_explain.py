"""Explanations of decisions, in the right tense."""

import pytest

from interlock.engine.events import (
    Decided,
    Event,
    HookDecision,
    HookOutcome,
    HooksDecided,
    HookVerdict,
    InputRequested,
    ModelReplied,
    RunPaused,
    RunStarted,
    ToolReturned,
)
from interlock.engine.explain import explain_events
from interlock.engine.routing.candidates import Verb

MOVED = Decided(agent="a", verb=Verb.HAND_OVER, signal="[NEXT]", target="b", candidates=())
ASKED = InputRequested(agent="a", question="now?", token="r:1")


def test_a_decision_that_is_carried_out_is_past_tense() -> None:
    assert explain_events([MOVED]) == ["a handed over to b on [NEXT]"]


def test_a_decision_that_a_person_must_approve_has_not_happened() -> None:
    paused = RunPaused(agent="a", token="r:1", reason="held:[NEXT]")
    lines = explain_events([MOVED, ASKED, paused])
    assert lines == ["a asks for approval to hand over to b on [NEXT]", "", "paused at a: held:[NEXT]"]


def test_a_decision_to_wait_is_not_held() -> None:
    waits = Decided(agent="a", verb=Verb.AWAIT, signal="[WAIT]", target="", candidates=())
    assert explain_events([waits, ASKED])[0] == "a waits for an answer on [WAIT]"
    assert explain_events([MOVED, InputRequested(agent="c", question="?", token="r:2")])[0].startswith("a handed over")


REFUSED = HookDecision(hook="guard", outcome=HookOutcome.REFUSED, reason="too much")
REPLACED = HookDecision(hook="redact", outcome=HookOutcome.REPLACED)
ASKS = HookDecision(hook="second", outcome=HookOutcome.ASKED, reason="sure?")
FAILED = HookDecision(hook="guard", outcome=HookOutcome.FAILED, reason="no answer within 30 s")


def verdict(point: str, *decisions: HookDecision) -> HookVerdict:
    return HookVerdict(point=point, decisions=decisions)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            HooksDecided(call="3", agent="a", verdict=verdict("before_tool", REPLACED, REFUSED)),
            "hook 'redact' replaced the tool call of a; hook 'guard' refused the tool call of a: too much",
        ),
        (
            HooksDecided(call="3", agent="a", verdict=verdict("before_model", ASKS)),
            "hook 'second' asks a person about the request of a: sure?",
        ),
        (
            ModelReplied(call="3", agent="a", text="", verdict=verdict("after_model", REPLACED)),
            "hook 'redact' replaced the reply of a",
        ),
        (
            ToolReturned(call="3", ok=True, output="", verdict=verdict("after_tool", FAILED)),
            "hook 'guard' failed at the result of the tool: no answer within 30 s",
        ),
        (
            RunStarted(crew="desk", input="", rules=1, by="user:maria", verdict=verdict("on_input", REFUSED)),
            "started by user:maria; hook 'guard' refused the input: too much",
        ),
        (HooksDecided(call="3", agent="a", verdict=verdict("on_output")), ""),
        (ModelReplied(call="3", agent="a", text=""), ""),
    ],
)
def test_what_hooks_decided_is_told(event: Event, line: str) -> None:
    assert explain_events([event]) == [line]
