"""`needs_approval` under `[mcp.<id>]`: a real server, a person's word, and a new process in between."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands.test_run import COMMAND

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

SERVER = Path(__file__).parents[1] / "adapters" / "mcp_tool_server.py"
SECONDS_MAX = 120


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a crew of one agent that wants to use two tools, of which one needs approval."""
    (tmp_path / "interlock.toml").write_text(
        f'[mcp.s]\ncommand = ["{sys.executable}", "{SERVER}"]\nenv = ["NOTES"]\nneeds_approval = ["say"]\n', "utf-8"
    )
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: shop\nentry_point: a\n'
        'agents: [{id: a, is_terminal: true, tools: ["mcp:s/say", "mcp:s/once"]}]\n',
        "utf-8",
    )
    (tmp_path / "script.yaml").write_text(
        "replies:\n  a:\n    - tool_calls: [{name: s_once, arguments: {}}, "
        "{name: s_say, arguments: {words: sell all}}]\n"
        "    - done\n",
        "utf-8",
    )
    (tmp_path / "notes").write_text("", "utf-8")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return tmp_path


def interlock(shop: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """In a process of its own; gives its exit code and the objects that it wrote."""
    command = [sys.executable, "-c", COMMAND, *words]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def asked(shop: Path) -> dict[str, Any]:
    (question,) = interlock(shop, "runs", "questions", "--json")[1]
    return question


def said(shop: Path) -> list[str]:
    """How often the tool that needs approval has run, by its own notes."""
    return (shop / "notes").read_text("utf-8").split()


def outputs(events: list[dict[str, Any]]) -> list[str]:
    return [event["output"] for event in events if event["type"] == "tool.returned"]


@pytest.mark.parametrize(
    ("answer", "notes", "returned"),
    [
        ("yes", ["say"], ["once", "sell all"]),
        ("no: not today", [], ["once", "a person did not approve 's_say': not today"]),
        ('{"words": "sell one"}', ["say"], ["once", "sell one"]),
    ],
)
def test_an_mcp_tool_runs_as_a_person_says_in_another_process(
    shop: Path, answer: str, notes: list[str], returned: list[str]
) -> None:
    code, events = interlock(shop, "run", ".", "go", "--script", "script.yaml", "--json")
    assert (code, events[-1]["type"], events[-1]["reason"]) == (3, "run.paused", "approval")
    assert (outputs(events), said(shop)) == (["once"], []), "the tool that needs no approval has run, the other not"
    question = asked(shop)
    assert (question["reason"], question["agent"]) == ("approval", "a")
    assert 'a wants to use s_say with {"words":"sell all"}' in question["question"].replace(": ", ":")
    code, events = interlock(shop, "runs", "answer", question["id"], answer, "--script", "script.yaml", "--json")
    assert (code, events[-1]["status"]) == (0, "completed")
    assert said(shop) == notes
    assert outputs(events) == returned
    assert interlock(shop, "runs", "questions", "--json")[1] == []


def test_what_is_neither_yes_nor_no_nor_arguments_is_asked_again(shop: Path) -> None:
    interlock(shop, "run", ".", "go", "--script", "script.yaml", "--json")
    code, _ = interlock(shop, "runs", "answer", asked(shop)["id"], "perhaps", "--script", "script.yaml", "--json")
    assert (code, said(shop)) == (3, [])
    assert "that was neither yes nor no nor a JSON object" in asked(shop)["question"]
