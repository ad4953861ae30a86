"""A value is validated where one was asked for, and nowhere else: not in side turns, tasks and advisory calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import Interlock, load_crew
from interlock.engine.events import ModelReplied, OutputVerdict, TurnStarted
from interlock.ports import CrewRef, NoValidator
from interlock.testing import ScriptedModel

ASIDE = """\
version: "2.0"
name: desk
entry_point: a
agents:
  - {id: a}
  - {id: c, output: {type: integer}}
signals: [{name: "[SHOUT]", behavior: broadcast}]
routing:
  signals:
    a: [{signal: "[SHOUT]", type: broadcast, targets: [c]}, {signal: "[NEXT]", target: c, type: route}]
    c: [{signal: "[DONE]", type: terminate}]
"""
TASKS = """\
version: "2.0"
name: desk
entry_point: root
agents:
  - {id: root, is_terminal: true}
  - {id: child, output: {type: integer}}
delegation: {children: {root: [child]}, select: all}
"""


async def replies_of(folder: Path, text: str, script: Mapping[str, Any]) -> tuple[list[Any], ScriptedModel]:
    (folder / "crew.yaml").write_text(text, "utf-8")
    model = ScriptedModel(script)
    async with Interlock(folder / "data", models=model) as box:
        await (await box.start(load_crew(folder), "hello", run_id="r")).result()
        events = [event for record in await box.journal.records("r") for event in record.events]
    return [event for event in events if isinstance(event, ModelReplied | TurnStarted)], model


async def test_a_side_turn_is_neither_asked_for_an_output_nor_checked(tmp_path: Path) -> None:
    script = {"a": ["listen [SHOUT] [NEXT]"], "c": ["7", "8\n[DONE]"]}
    events, model = await replies_of(tmp_path, ASIDE, script)
    assert [event.side for event in events if isinstance(event, TurnStarted) and event.agent == "c"] == [True, False]
    told = [event.output for event in events if isinstance(event, ModelReplied) and event.agent == "c"]
    assert told == [None, OutputVerdict()]
    aside, floor = (request for request in model.asked if request.agent == "c")
    assert "## Output" not in aside.system and aside.typed is None
    assert "## Output" in floor.system and floor.typed is not None


async def test_a_task_is_neither_asked_for_an_output_nor_checked(tmp_path: Path) -> None:
    task = {"name": "delegate", "arguments": {"to": "child", "task": "count"}}
    events, model = await replies_of(tmp_path, TASKS, {"root": [{"tool_calls": [task]}, "done"], "child": ["7"] * 5})
    replies = [event for event in events if isinstance(event, ModelReplied) and event.agent == "child"]
    assert replies and all(event.output is None for event in replies)
    assert all("## Output" not in request.system for request in model.asked if request.agent == "child")


async def test_a_process_without_a_validator_takes_no_value() -> None:
    assert await NoValidator().fault_in({}, 7, CrewRef("desk")) == "this process cannot check outputs"
