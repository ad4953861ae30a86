"""Agent files of the original: a model without a provider is OpenAI's, keys of its older versions are notes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import load_crew
from interlock.cli.main import interlock
from interlock.crew.definition import ModelRef
from tests.findings.test_1_03_files_of_version_1_keep_working import check, crew_in

CREW = """\
version: "%s"
entry_point: clerk
agents: [clerk]
"""
MINI = ModelRef(provider="openai", model="gpt-4o-mini")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for the check alone")


def crew_of(folder: Path, agent: str, version: str = "1.0") -> Path:
    return crew_in(folder, CREW % version, {"agents/clerk.yaml": agent})


@pytest.mark.parametrize(
    "agent",
    [
        "model: gpt-4o-mini\n",
        "primary: {model: gpt-4o-mini}\n",
        "primary:\n  model: 'gpt-4o-mini'\nbackup:\n  model: gpt-4o-mini\n",
    ],
)
def test_a_model_without_a_provider_is_openais(tmp_path: Path, agent: str) -> None:
    crew = crew_of(tmp_path, agent)
    assert check(crew) == (0, [])
    clerk = load_crew(crew).agents[0]
    assert clerk.primary == MINI
    assert clerk.backup in (None, MINI)
    assert {p[1] for p in check(crew_of(tmp_path, agent, "2.0"))[1]} == {"unknown-provider"}


def test_agents_in_place_follow_the_version_of_their_file(tmp_path: Path) -> None:
    text = 'version: "%s"\nentry_point: a\nagents: [{id: a, model: gpt-4o-mini}]\n'
    assert load_crew(crew_in(tmp_path, text % "1.0")).agents[0].primary == MINI
    assert check(crew_in(tmp_path, text % "2.0")) == (1, [("error", "unknown-provider", "agents[0].model")])


def test_a_provider_that_is_named_counts(tmp_path: Path) -> None:
    agent = "primary: {model: 'qwen3:1.7b', provider: ollama}\nbackup: {model: 'groq:fast'}\n"
    clerk = load_crew(crew_of(tmp_path, agent)).agents[0]
    assert clerk.primary == ModelRef(provider="ollama", model="qwen3:1.7b")
    assert clerk.backup == ModelRef(provider="groq", model="fast")


def test_beside_primary_an_old_model_is_ignored_with_a_warning(tmp_path: Path) -> None:
    """As the original did; a 2.0 file must say one thing."""
    agent = "model: gpt-4\nprimary: {model: gpt-4o-mini, provider: openai}\n"
    crew = crew_of(tmp_path, agent)
    assert check(crew) == (0, [("warning", "bad-value", "model")])
    assert load_crew(crew).agents[0].primary == MINI
    assert check(crew_of(tmp_path, agent, "2.0")) == (1, [("error", "bad-value", "model")])


@pytest.mark.parametrize(
    "line",
    [
        "enforce_quotas: true",
        "max_tokens_per_call: 4000",
        "max_tokens_per_day: 9",
        "max_cost_per_day: 1.5",
        "cost_alert_threshold: 0.8",
        "enforce_cost_limits: false",
    ],
)
def test_keys_of_older_versions_are_notes(tmp_path: Path, line: str) -> None:
    key = line.partition(":")[0]
    assert check(crew_of(tmp_path, f"{line}\n")) == (0, [("note", "legacy-key", key)])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpt-4o-mini", "openai:gpt-4o-mini"),
        ("'gpt-4o-mini'", "'openai:gpt-4o-mini'"),
        ('"gpt-4o-mini"', '"openai:gpt-4o-mini"'),
        ("groq:fast", "groq:fast"),
    ],
)
def test_migrate_writes_the_provider_out_in_the_agents_file(tmp_path: Path, before: str, after: str) -> None:
    agent = "# the clerk\nid: clerk\nmodel: {}   # as it was\nrole: Clerk\n"
    crew = crew_of(tmp_path, agent.format(before))
    meant = load_crew(crew)
    said = CliRunner().invoke(interlock, ["migrate", str(crew), "--write"])
    assert said.exit_code == 0, said.output
    assert (crew / "agents/clerk.yaml").read_text("utf-8") == agent.format(after)
    again = load_crew(crew)
    assert (again.version, again.agents) == ("2.0", meant.agents)


@pytest.mark.parametrize("value", ["|\n  gpt-4o-mini", ">-\n  gpt-4o-mini", "|+ # a comment\n  gpt-4o-mini\n"])
def test_migrate_keeps_what_follows_a_model_that_is_written_as_a_block(tmp_path: Path, value: str) -> None:
    crew = crew_of(tmp_path, f"model: {value}\n# the rest\nrole: Clerk\n")
    said = CliRunner().invoke(interlock, ["migrate", str(crew), "--write"])
    assert said.exit_code == 0, said.output
    text = (crew / "agents/clerk.yaml").read_text("utf-8")
    assert text.startswith('model: "openai:gpt-4o-mini"\n')
    assert text.endswith("\n# the rest\nrole: Clerk\n")
    assert load_crew(crew).agents[0].primary == MINI


def test_migrate_names_what_2_would_refuse_where_signals_must_be_registered(tmp_path: Path) -> None:
    """With that setting nothing acknowledges in 2.0, and the setting is the author's own."""
    text = 'version: "1.0"\nentry_point: a\nagents: [{id: a, is_terminal: true}]\n'
    text += 'settings: {signal_registration: required}\nrouting: {signals: {a: [{signal: "[OK]", target: ""}]}}\n'
    crew = crew_in(tmp_path, text)
    assert check(crew) == (0, [("note", "wrong-target", "routing.signals.a[0].signal")])
    said = CliRunner().invoke(interlock, ["migrate", str(crew), "--write"])
    assert said.exit_code == 1
    assert "routing signal '[OK]' must have a target agent" in said.stderr
    assert (crew / "crew.yaml").read_text("utf-8") == text


def test_migrate_writes_the_provider_of_an_agent_in_place(tmp_path: Path) -> None:
    text = 'version: "1.0"\nentry_point: a\nagents:\n  - {id: a, primary: {model: gpt-4o-mini}}\n'
    crew = crew_in(tmp_path, text)
    assert CliRunner().invoke(interlock, ["migrate", str(crew), "--write"]).exit_code == 0
    assert "primary: {model: openai:gpt-4o-mini}" in (crew / "crew.yaml").read_text("utf-8")
    assert load_crew(crew).agents[0].primary == MINI


DEAD_END = """\
version: "1.0"
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals: {a: [{signal: "[NEXT]", target: b}]}
"""


@pytest.mark.parametrize(
    ("behaviors", "expected"),
    [
        ("", "routing:\n  agent_behaviors:\n    b:\n      is_terminal: true\n  signals:"),
        ("  agent_behaviors:\n    b:\n      is_terminal: false\n", "    b:\n      is_terminal: true\n"),
        ("  agent_behaviors: {b: {auto_route: true}}\n", "{b: {is_terminal: true, auto_route: true}}"),
        ("  agent_behaviors:\n", "  agent_behaviors:\n    b:\n      is_terminal: true\n"),
        ("  agent_behaviors: null\n", "  agent_behaviors: {b: {is_terminal: true}}\n"),
    ],
)
def test_migrate_writes_out_that_a_dead_end_is_terminal(tmp_path: Path, behaviors: str, expected: str) -> None:
    crew = crew_in(tmp_path, DEAD_END + behaviors)
    said = CliRunner().invoke(interlock, ["migrate", str(crew), "--write"])
    assert said.exit_code == 0, said.output
    assert expected in (crew / "crew.yaml").read_text("utf-8")
    assert check(crew) == (0, [])


def test_migrate_leaves_a_crew_alone_that_has_agents_which_nobody_reaches(tmp_path: Path) -> None:
    crew = crew_in(tmp_path, DEAD_END.replace("{id: b}", "{id: b}, {id: c}"))
    before = (crew / "crew.yaml").read_bytes()
    said = CliRunner().invoke(interlock, ["migrate", str(crew), "--write"])
    assert said.exit_code == 1
    assert "agent 'c' can never get a turn" in said.stderr
    assert (crew / "crew.yaml").read_bytes() == before


def test_check_json_of_an_old_agent_file_names_its_line(tmp_path: Path) -> None:
    crew = crew_of(tmp_path, "id: clerk\nenforce_quotas: true\n")
    said = CliRunner().invoke(interlock, ["check", str(crew), "--json"])
    (problem,) = [each for each in json.loads(said.stdout)["problems"] if each["code"] != "no-model"]
    assert (Path(problem["file"]).name, problem["line"]) == ("clerk.yaml", 2)
