"""`interlock check` also looks at the rules of interlock.toml about tools."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, model: "scripted:script.yaml", tools: [pay]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""
SHOP = """\
from interlock import END, Agent, Crew

def ship(order: str) -> str:
    \"\"\"Ships.\"\"\"
    return "shipped"

shop = Crew("shop", [Agent("b", "Ship.", model="scripted:script.yaml", tools=[ship], on={"[END]": END})])
"""
MCP = """\
[mcp.files]
command = ["none"]
[mcp.notes]
command = ["none"]
tools = ["add"]
"""


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch, rules: str, *words: str) -> Result:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "script.yaml").write_text("replies: {a: ['so [END]'], b: ['so [END]']}", "utf-8")
    (folder / "checked_till.py").write_text("def pay(amount: int) -> str:\n    return 'paid'\n", "utf-8")
    (folder / "yard.py").write_text(SHOP, "utf-8")
    (folder / "interlock.toml").write_text(f'[tools]\nmodules = ["checked_till"]\n{MCP}[approvals]\n{rules}\n', "utf-8")
    monkeypatch.chdir(folder)
    return CliRunner().invoke(interlock, ["check", *(words or (".",))])


def test_a_rule_about_no_tool_is_a_warning_with_its_line_and_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(tmp_path, monkeypatch, 'deny = [\n"pya:amount > 5",\n]', ".", "--json")
    assert found.exit_code == 0
    (problem,) = json.loads(found.stdout)["problems"]
    assert problem == {
        "code": "unknown-tool",
        "severity": "warning",
        "message": "rule 'pya:amount > 5' is about no tool of this crew or of the host",
        "file": "interlock.toml",
        "line": 10,
        "column": 1,
        "path": "approvals.deny",
        "fix": "did you mean 'pay'? (it is right if another crew has such a tool)",
    }


@pytest.mark.parametrize(
    "rule", ["pay", "p*", "pay:amount > 5", "files_read", "notes_add", "notes_*", "signal_schedule"]
)
def test_rules_about_tools_of_the_host_its_servers_and_broadcasts_are_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    found = checked(tmp_path, monkeypatch, f'ask = ["{rule}"]')
    assert (found.exit_code, found.stdout) == (0, "desk is sound: 1 agent, 1 route\n")


def test_a_tool_that_a_server_does_not_list_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path, monkeypatch, 'ask = ["notes_ad"]')
    assert "did you mean 'notes_add'?" in found.stdout


def test_a_rule_about_a_built_in_tool_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path, monkeypatch, 'allow = ["report"]')
    assert found.exit_code == 1
    assert "'report' is built in, and no rule can be about it" in found.stdout


def test_a_rule_about_a_tool_of_a_python_crew_fits_that_crew_and_warns_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = checked(tmp_path, monkeypatch, 'deny = ["ship"]', "yard.py:shop")
    assert (own.exit_code, "unknown-tool" in own.stdout) == (0, False)
    other = checked(tmp_path, monkeypatch, 'deny = ["ship"]')
    assert (other.exit_code, "rule 'ship' is about no tool" in other.stdout) == (0, True)
    ran = CliRunner().invoke(interlock, ["run", ".", "go", "--plain"])
    assert ran.exit_code == 0, ran.output
    assert "rule 'ship' is about no tool" in ran.stderr
