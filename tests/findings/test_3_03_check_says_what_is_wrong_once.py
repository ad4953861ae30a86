"""FINDINGS 3.3: models that are not set, tools that cannot be called, indentation, and one problem for one mistake."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock

CREW = """version: "2.0"
entry_point: writer
agents:
  - {id: writer, model: "openai:gpt-4o-mini"}
  - {id: editor, is_terminal: true, model: "openai:gpt-4o-mini"}
routing:
  signals:
    writer:
      - {signal: "[DRAFT]", target: editor, type: route}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    return tmp_path


def problems_of(text: str) -> list[tuple[str, str, int, str, str]]:
    Path("crew.yaml").write_text(text)
    found = json.loads(CliRunner().invoke(interlock, ["check", ".", "--json"]).stdout)["problems"]
    return [(each["code"], each["severity"], each["line"], each["message"], each["fix"]) for each in found]


def test_the_crew_of_these_tests_is_sound() -> None:
    assert problems_of(CREW) == []


def test_agents_without_a_model_are_one_warning_and_the_run_is_refused() -> None:
    [(code, severity, line, message, fix)] = problems_of(CREW.replace(', model: "openai:gpt-4o-mini"', ""))
    assert (code, severity, line) == ("no-model", "warning", 4)
    assert message == "no model is set for 'writer', 'editor': a run would be refused"
    assert "under settings in crew.yaml" in fix
    assert "--script" in fix
    run = CliRunner().invoke(interlock, ["run", ".", "hello"])
    assert run.exit_code == 2
    assert "agent 'writer' of crew" in run.stderr
    assert "has no model; write 'model: PROVIDER:NAME' in its file or under settings" in run.stderr


def test_a_model_that_could_not_be_read_is_not_missing_as_well() -> None:
    found = problems_of(CREW.replace('{id: writer, model: "openai:gpt-4o-mini"}', "{id: writer, model: 7}"))
    assert [code for code, *_ in found] == ["bad-value"]


@pytest.mark.parametrize("signature", ["*args", "**options", "text, /", "text: str, *rest: str"])
def test_a_tool_that_takes_values_without_a_name_is_an_error_where_it_stands(signature: str) -> None:
    Path("interlock.toml").write_text('[tools]\nmodules = ["my_tools_3_03"]\n')
    Path("my_tools_3_03.py").write_text(f"def _help(*args): ...\n\n\ndef shout({signature}): ...\n")
    Path("crew.yaml").write_text(CREW.replace("{id: writer,", "{id: writer, tools: [shout],"))
    result = CliRunner().invoke(interlock, ["check", ".", "--json"])
    [problem] = json.loads(result.stdout)["problems"]
    assert result.exit_code == 1
    assert (problem["code"], problem["file"], problem["line"]) == ("uncallable-tool", "my_tools_3_03.py", 4)
    assert problem["message"].startswith("tool 'shout' cannot be called: its parameter '")
    assert "give each parameter a name and a type" in problem["fix"]


def test_what_a_decorator_makes_of_a_tool_is_not_judged() -> None:
    Path("interlock.toml").write_text('[tools]\nmodules = ["wrapped_3_03"]\n')
    Path("wrapped_3_03.py").write_text("from x import wrap\n\n@wrap\ndef shout(*args): ...\n")
    assert problems_of(CREW.replace("{id: writer,", "{id: writer, tools: [shout],")) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            'version: "2.0"\nsettings:\n    max_rounds: 3\n   max_handoffs: 4\n',
            4,
            "line 4 is indented by 3 spaces, its neighbour in line 3 by 4",
        ),
        (
            'version: "2.0"\nsettings:\n  max_rounds: 3\n     max_handoffs: 4\n',
            4,
            "line 4 is indented by 5 spaces, its neighbour in line 3 by 2",
        ),
        (
            'version: "2.0"\nagents:\n  - id: a\n    role: x\n   - id: b\n',
            5,
            "line 5 is indented by 3 spaces, its neighbour in line 3 by 2",
        ),
        (
            "agents:\n  - id: a\n    system_prompt: |\n          deep: text\n          more\n   role: x\n",
            6,
            "line 6 is indented by 3 spaces, its neighbour in line 3 by 4",
        ),
    ],
)
def test_wrong_indentation_names_the_line_how_far_and_beside_which(text: str, line: int, message: str) -> None:
    [(code, _, at, said, fix)] = problems_of(text)
    assert (code, at, said) == ("bad-yaml", line, message)
    assert fix.startswith(f"indent line {line} by ")


def test_other_faults_of_yaml_are_not_called_indentation() -> None:
    [(code, _, line, message, fix)] = problems_of('version: "2.0"\nname: "half\nentry_point: a\n')
    assert code == "bad-yaml"
    assert "indented" not in message + fix
    assert f"line {line}" in fix


GROUPS = "parallel_groups: {both: {agents: [writer, editor], next_agent: editor}}"
GROUPED = CREW.replace("target: editor, type: route", "target: both, type: parallel")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GROUPED + f"{GROUPS}\n", "a crew has no key 'parallel_groups'; it belongs under 'routing'"),
        (
            GROUPED + f"    {GROUPS}\n",
            "routing.signals has no key 'parallel_groups'; it belongs under 'routing'",
        ),
        (GROUPED + f"settings:\n  {GROUPS}\n", "settings has no key 'parallel_groups'; it belongs under 'routing'"),
        (CREW + "max_rounds: 4\n", "a crew has no key 'max_rounds'; it belongs under 'settings'"),
        (CREW + "defaults: {editor: writer}\n", "a crew has no key 'defaults'; it belongs under 'routing'"),
        (
            CREW.replace("routing:\n", "routing:\n  subscriptions: {writer: [{pattern: build:*}]}\n"),
            "routing has no key 'subscriptions'; it belongs at the top level",
        ),
    ],
)
def test_a_misplaced_key_is_one_problem(text: str, message: str) -> None:
    [(code, severity, _, said, fix)] = problems_of(text)
    assert (code, severity, said) == ("unknown-key", "error", message)
    assert fix.startswith(("move it under", "indent "))
