"""What a host tells a crew besides its input, and what of it shows in the events."""

from pathlib import Path
from typing import Any

from interlock import CrewContext, Interlock, load_crew
from interlock.engine.events import Entry
from interlock.testing import ScriptedModel

CREW = """\
version: "2.0"
name: caller
entry_point: a
agents: [{id: a, tools: [memory_read]}]
sub_crews: {inner: {config_path: inner}}
routing:
  signals:
    a:
      - signal: "[CALL]"
        type: sub_crew
        target_crew: inner
        input_template: "{{.OriginalInput}}, {{.PreviousResults.inner}}, {{.SharedMemory.color}}"
      - {signal: "[END]"}
"""
INNER = """\
version: "2.0"
name: inner
entry_point: b
agents: [{id: b}]
routing: {signals: {b: [{signal: "[END]"}]}}
"""
ANSWERS = {"a": ["x\n[CALL]", "y\n[END]"], "inner/b": ["z\n[END]"]}


async def events_with(folder: Path, context: CrewContext | None) -> tuple[list[dict[str, Any]], ScriptedModel]:
    (folder / "inner").mkdir()
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "inner" / "crew.yaml").write_text(INNER, "utf-8")
    crew, model = load_crew(folder), ScriptedModel(ANSWERS)

    async with Interlock(folder / "data", models=model) as box:
        run = await (box.start(crew, "go", context=context) if context else box.start(crew, "go"))
        return [event async for event in box.runner.follow(run.id)], model


async def test_a_crew_is_told_all_of_its_context(tmp_path: Path) -> None:
    context = CrewContext(
        original_input="a lamp",
        previous_results={"inner": "found one"},
        shared_memory={"color": "red"},
        parent_history=(Entry(role="user", author="chief/boss", text="Be quick.", turn=1),),
    )
    events, model = await events_with(tmp_path, context)
    started = [event for event in events if event["type"] == "run.started"]
    assert [event["input"] for event in started] == ["go", "a lamp, found one, red"]
    assert "Be quick." in model.asked[0].messages[0].text
    assert started[0]["context"]["shared_memory"] == {"color": "red"}
    assert started[1]["context"]["original_input"] == "a lamp"


async def test_what_holds_nothing_is_left_out_of_the_events(tmp_path: Path) -> None:
    events, _ = await events_with(tmp_path, None)
    root, child = (event for event in events if event["type"] == "run.started")
    assert not {"context", "bounds", "calls"} & root.keys()
    assert {"crew", "input", "history", "path", "continues"} <= root.keys()
    assert (child["context"]["original_input"], child["path"], "calls" in child) == ("go", ["inner"], False)
