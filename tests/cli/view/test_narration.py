"""What is added to events for people."""

from typing import Any

import pytest

from interlock import END, Agent, Crew
from interlock.cli.view.narration import EventAnnotator, OpenCalls
from interlock.cli.view.transcript import lines_of

DESK = Crew("desk", [Agent("a", "Pay.", on={"[END]": END})])
CALLED: dict[str, Any] = {"type": "tool.called", "run": "r", "agent": "a", "name": "pay", "arguments": {"n": 1}}


def annotator(tools: OpenCalls | None = None) -> EventAnnotator:
    return EventAnnotator(DESK.definition, lambda _: "", tools)


def told(*events: dict[str, Any]) -> list[str]:
    seen = annotator()
    return [
        line.text.strip() for event in events for line in lines_of(seen.annotate_event({"at": 0, "seq": 1, **event}))
    ]


@pytest.mark.parametrize("decision", ["tool.decided", "hook.decided"])
def test_a_call_is_told_once_also_if_it_is_decided_about(decision: str) -> None:
    decided = {"type": decision, "run": "r", "call": "1"}
    again = {**CALLED, "call": "2"}
    assert told({**CALLED, "call": "1"}, decided, again) == ['a uses pay {"n":1}']
    changed = {**again, "arguments": {"n": 2}}
    assert told({**CALLED, "call": "1"}, decided, changed) == ['a uses pay {"n":1}', 'a uses pay {"n":2}']
    assert len(told({**CALLED, "call": "1"}, again)) == 2  # the model called it twice
    denied = {"type": "tool.returned", "run": "r", "call": "1", "ok": False, "output": "denied"}
    assert len(told({**CALLED, "call": "1"}, decided, denied, again)) == 3


def test_a_tool_has_its_name_also_after_a_question_interrupted_the_watch() -> None:
    calls: OpenCalls = {}
    annotator(calls).annotate_event({**CALLED, "call": "1"})
    returned = {"type": "tool.returned", "run": "r", "call": "1", "ok": False, "output": "no"}
    assert annotator(calls).annotate_event(returned)["name"] == "pay"
