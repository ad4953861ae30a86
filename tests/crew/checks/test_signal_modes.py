"""What a crew says about how its agents emit signals must make a difference."""

from pathlib import Path

import pytest

from interlock.adapters.crews.crew_files import read_crew

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, tools: [TOOLS]}, {id: b, is_terminal: true}]
routing:
  signals: {a: [ROUTES]}
  defaults: {DEFAULTS}
  agent_behaviors: {BEHAVIORS}
settings: {SETTINGS}
"""
NEXT = '{signal: "[NEXT]", target: b}'


def problems(folder: Path, **parts: str) -> list[tuple[str, str]]:
    text = CREW
    for part in ("tools", "routes", "defaults", "behaviors", "settings"):
        text = text.replace(part.upper(), parts.get(part, ""))
    (folder / "crew.yaml").write_text(text, "utf-8")
    loaded = read_crew(folder)
    assert loaded.is_sound, "these are warnings"
    return [(problem.code, problem.path) for problem in loaded.problems]


@pytest.mark.parametrize("mode", ["tool", "constrained"])
def test_a_mode_without_marks_is_written_in_vain(tmp_path: Path, mode: str) -> None:
    found = problems(tmp_path, defaults="a: b", settings=f"signal_mode: {mode}")
    assert found == [("misplaced-key", "settings.signal_mode")]
    assert problems(tmp_path, routes=NEXT, settings=f"signal_mode: {mode}") == []


def test_nothing_is_cut_where_marks_in_text_are_ignored(tmp_path: Path) -> None:
    found = problems(tmp_path, routes=NEXT, settings="signal_mode: tool, cut_on_signal: true")
    assert found == [("misplaced-key", "settings.cut_on_signal")]
    assert problems(tmp_path, routes=NEXT, settings="cut_on_signal: true") == []


def test_a_reply_that_always_ends_in_a_mark_takes_no_way_without_one(tmp_path: Path) -> None:
    ways = {"routes": NEXT, "defaults": "a: b", "behaviors": "a: {wait_for_signal: true}"}
    found = problems(tmp_path, **ways, settings="signal_mode: constrained")
    assert [path for _, path in found] == ["routing.defaults.a", "routing.agent_behaviors.a.wait_for_signal"]
    assert problems(tmp_path, **ways) == []


def test_the_tool_that_emits_is_for_tool_mode(tmp_path: Path) -> None:
    assert problems(tmp_path, routes=NEXT, tools="emit_signal") == [("misplaced-key", "agents[0].tools[0]")]
    assert problems(tmp_path, routes=NEXT, tools="emit_signal", settings="signal_mode: tool") == []
