"""The main road of a reply: a run without messages never enters delegation."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import CrewDefinition
from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied, RunStarted
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.run import RULES, Run

HANDOFF = """version: "2.0"
name: plain
entry_point: writer
agents: [{id: writer}, {id: editor, is_terminal: true}]
routing: {signals: {writer: [{signal: "[DRAFT]", type: route, target: editor}]}}
"""
TREE = """version: "2.0"
name: tree
entry_point: root
agents: [{id: root, is_terminal: true}, {id: child}]
delegation: {children: {root: [child]}, select: all}
"""


def crew_of(folder: Path, text: str) -> CrewDefinition:
    (folder / "crew.yaml").write_text(text, "utf-8")
    loaded = read_crew(folder)
    assert loaded.crew is not None
    assert loaded.is_sound, loaded.problems
    return loaded.crew


def delegation_functions_of(crew: CrewDefinition, *replies: str) -> set[str]:
    """The functions of `engine/delegation` that a run of these replies enters."""
    entered: set[str] = set()
    run = Run(crew, "r")
    conversation = Conversation(crew, run.table)

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "/engine/delegation/" in frame.f_code.co_filename:
            entered.add(frame.f_code.co_name)

    sys.setprofile(on_call)
    try:
        step = run.apply(RunStarted(crew=crew.name, input="go", rules=RULES))
        for reply in replies:
            (call,) = [effect for effect in step.effects if isinstance(effect, CallModel)]
            assert run.state.turn is not None
            conversation.instructions(run.state.turn.agent)
            step = run.apply(ModelReplied(call=call.key, agent=call.agent, text=reply))
    finally:
        sys.setprofile(None)
    assert run.state.status == "completed"
    return entered


def test_a_plain_handoff_does_not_enter_delegation(tmp_path: Path) -> None:
    assert delegation_functions_of(crew_of(tmp_path, HANDOFF), "text [DRAFT]", "done") == set()


def test_a_crew_that_delegates_does(tmp_path: Path) -> None:
    entered = delegation_functions_of(crew_of(tmp_path, TREE), "done")
    assert {"before_ask", "before_conclusion", "after_conclusion"} <= entered
