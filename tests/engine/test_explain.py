"""Explanations of decisions, in the right tense."""

from interlock.engine.events import Decided, InputRequested, RunPaused
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
