"""The host's file in the commands: its tools are called, a run whose tools are missing stays, its durability counts."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.store import SqliteStore
from interlock.cli.main import interlock

CREW = """\
version: "2.0"
entry_point: a
agents: [{id: a, tools: [look_up]}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
"""
SCRIPT = """\
replies:
  a:
    - "Which?\\n[WAIT]"
    - {tool_calls: [{name: look_up, arguments: {word: gull}}]}
    - "fine\\n[END]"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "cli_tools", raising=False)
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    (tmp_path / "script.yaml").write_text(SCRIPT, "utf-8")
    (tmp_path / "cli_tools.py").write_text("def look_up(word: str) -> str: return f'a {word} is a bird'\n", "utf-8")
    toml = 'durability = "normal"\n[tools]\nmodules = ["cli_tools"]\n'
    (tmp_path / "interlock.toml").write_text(toml, "utf-8")
    (tmp_path / "empty.toml").write_text("", "utf-8")
    return tmp_path


def run(*words: str) -> Result:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def events(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def paused() -> str:
    done = run("run", ".", "go", "--script", "script.yaml", "--json")
    assert done.exit_code == 3, done.output
    return str(events(done)[0]["run"])


def test_tools_are_called_when_a_run_is_driven_and_a_run_without_them_stays_as_it_was() -> None:
    waiting = paused()
    options = ("--input", "this", "--script", "script.yaml", "--json")
    refused = run("resume", waiting, *options, "--config", "empty.toml")
    assert refused.exit_code == 2
    assert "needs tools that this host does not have: look_up" in refused.stderr
    assert run("runs", "list").stdout.split()[3] == "paused"
    done = run("resume", waiting, *options)
    returned = [event["output"] for event in events(done) if event["type"] == "tool.returned"]
    assert (done.exit_code, returned) == (0, ["a gull is a bird"])


def test_check_and_commands_that_only_look_execute_nothing_of_the_host(folder: Path) -> None:
    waiting = paused()
    del sys.modules["cli_tools"]
    for words in (
        ("check", "."),
        ("runs", "show", waiting),
        ("runs", "replay", waiting),
        ("doctor",),
        ("runs", "list"),
    ):
        assert run(*words).exit_code == 0, words
    assert "cli_tools" not in sys.modules


def test_every_command_that_writes_takes_the_durability_of_the_hosts_file(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    seen: list[str] = []

    def noting(data: Path, *, durability: str, connect: Connect) -> SqliteStore:
        seen.append(durability)
        return SqliteStore(data, durability=durability, connect=connect)

    monkeypatch.setattr("interlock.compose.stores.sqlite_folder.SqliteStore", noting)
    first = paused()
    run("runs", "export", first, "out.jsonl")
    run("resume", first, "--input", "this", "--script", "script.yaml", "--json")
    run("runs", "delete", first)
    run("runs", "import", "out.jsonl")
    run("runs", "cancel", first)
    run("runs", "prune", "--older-than", "0")
    run("doctor")
    assert seen == ["normal"] * 8
    (folder / "interlock.toml").write_text('durability = "fast"\n', "utf-8")
    refused = run("runs", "list")
    assert (refused.exit_code, "it must be one of full, normal" in refused.stderr) == (2, True)
