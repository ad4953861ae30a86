"""FINDINGS 3.1: interlock.toml beside the crew is found, and a crew has a default model with prices."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.crews.crew_files import read_crew
from interlock.cli.main import interlock
from interlock.compose.crews import load_definition

CREW = """version: "2.0"
entry_point: clerk
agents: [{id: clerk, is_terminal: true%s}]
%s"""
TOML = '[tools]\nmodules = ["clerk_tools_3_01"]\n'
SCRIPT = "replies:\n  clerk: [{text: done}]\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("desk").mkdir()
    Path("script.yaml").write_text(SCRIPT)
    Path("desk/clerk_tools_3_01.py").write_text("def look(text: str) -> str:\n    return text\n")
    return tmp_path


def crew(folder: str = "desk", agent: str = "", rest: str = "") -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "crew.yaml").write_text(CREW % (agent, rest))


def interlock_says(*command: str) -> Result:
    return CliRunner().invoke(interlock, command)


def test_the_file_beside_the_crew_is_found_and_said() -> None:
    crew(agent=', tools: [look], model: "openai:x"')
    assert "unknown-tool" in interlock_says("check", "desk").stdout
    Path("desk/interlock.toml").write_text(TOML)
    result = interlock_says("check", "desk")
    assert result.exit_code == 0
    assert result.stderr == "interlock: settings from desk/interlock.toml\n"
    assert interlock_says("check", "desk/crew.yaml").exit_code == 0
    run = interlock_says("run", "desk", "go", "--script", "script.yaml", "--plain")
    assert run.exit_code == 0, run.stderr
    assert load_definition("desk").agents[0].tools == ("look",)


def test_without_one_it_is_said_where_it_was_looked_for(here: Path) -> None:
    crew(agent=', tools: [look], model: "openai:x"')
    said = interlock_says("check", "desk").stdout
    assert f"interlock.toml (there is none in {here} or {here / 'desk'}; --config FILE names another)" in said


def test_the_working_folder_counts_before_the_crews_and_the_other_is_named() -> None:
    crew(agent=', model: "nobody:x"')
    Path("interlock.toml").write_text('[providers.nobody]\nurl = "http://127.0.0.1:9/v1"\n')
    Path("desk/interlock.toml").write_text(TOML)
    result = interlock_says("check", "desk")
    assert result.exit_code == 0, result.stdout
    assert result.stderr == (
        "interlock: using interlock.toml of this folder and not desk/interlock.toml; choose another with --config\n"
    )
    other = interlock_says("check", "desk", "--config", "desk/interlock.toml")
    assert "unknown provider 'nobody' (no [providers.nobody] in desk/interlock.toml)" in other.stdout
    assert other.stderr == ""


def test_crews_with_different_files_must_be_told_which_counts() -> None:
    for folder in ("desk", "lab"):
        crew(folder, ', model: "openai:x"')
        Path(folder, "interlock.toml").write_text(f'[providers.{folder}]\nurl = "http://127.0.0.1:9/v1"\n')
    refused = interlock_says("mcp", "desk", "lab")
    assert refused.exit_code == 2
    assert (
        "these crews have different host files: desk/interlock.toml and lab/interlock.toml; "
        "choose one with --config" in refused.stderr
    )


def test_the_command_that_continues_names_the_file() -> None:
    crew(rest='routing: {signals: {clerk: [{signal: "[WAIT]"}]}}\n')
    Path("desk/interlock.toml").write_text('model = "scripted:../wait.yaml"\n')
    Path("wait.yaml").write_text('replies:\n  clerk: [{text: "Well? [WAIT]"}, {text: done}]\n')
    said = interlock_says("run", "desk", "go", "--plain").stdout
    assert " --config desk/interlock.toml --input TEXT" in said


def test_a_crew_names_one_model_and_its_prices_for_all_agents() -> None:
    own = '[{id: a, handoff_targets: [b]}, {id: b, is_terminal: true, model: "openai:own"}]'
    Path("desk/crew.yaml").write_text(
        f'version: "2.0"\nentry_point: a\nagents: {own}\nsettings:\n  model: "openai:shared"\n'
        "  input_token_price_per_million: 2\n  output_token_price_per_million: 4\n"
    )
    a, b = load_definition("desk").agents
    assert a.primary is not None
    assert b.primary is not None
    assert (a.primary.name, b.primary.name) == ("openai:shared", "openai:own")
    assert a.cost_limits is not None
    assert a.cost_limits.input_token_price_per_million == 2
    assert a.cost_limits.output_token_price_per_million == 4
    assert b.cost_limits is None, "the prices are those of the crew's model"


def test_a_mistake_in_the_crews_model_is_one_problem_where_it_stands() -> None:
    agents = "[{id: a, handoff_targets: [b]}, {id: b, is_terminal: true}]"
    Path("desk/crew.yaml").write_text(
        f'version: "2.0"\nentry_point: a\nagents: {agents}\nsettings:\n  model: "opnai:x"\n'
    )
    [problem] = json.loads(interlock_says("check", "desk", "--json").stdout)["problems"]
    assert (problem["code"], problem["line"], problem["path"]) == ("unknown-provider", 5, "settings.model")
    Path("desk/crew.yaml").write_text(f'version: "2.0"\nentry_point: a\nagents: {agents}\nsettings: {{model: gpt}}\n')
    [problem] = json.loads(interlock_says("check", "desk", "--json").stdout)["problems"]
    assert (problem["code"], problem["path"]) == ("unknown-provider", "settings.model")


def test_the_host_names_a_model_for_crews_that_name_none() -> None:
    crew()
    Path("desk/interlock.toml").write_text('model = "scripted:../script.yaml"\n')
    run = interlock_says("run", "desk", "go", "--plain")
    assert run.exit_code == 0, run.stderr
    crew(rest='settings: {model: "openai:own"}\n')
    assert read_crew("desk").crew == load_definition("desk"), "the crew's own comes first"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"gpt"', "model is 'gpt'; write a provider and a name, such as 'openai:gpt-4o-mini'"),
        ("7", "model is 7; write a provider and a name"),
        ('"opnai:x"', "there is no provider 'opnai'; did you mean 'openai'?"),
    ],
)
def test_a_wrong_model_of_the_host_is_refused(written: str, said: str) -> None:
    crew()
    Path("interlock.toml").write_text(f"model = {written}\n")
    result = interlock_says("check", "desk")
    assert result.exit_code == 2
    assert f"interlock.toml: {said}" in result.stderr or said in result.stderr
