"""A key in the environment, and a server, a model and tools that all say it: it is in no output and in no file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.adapters.models.known_keys import REDACTED
from interlock.cli.main import interlock
from tests.adapters.hostile_server import (
    Behaviour,
    HostileServer,
    answers,
    data,
    fails,
    replies,
    said,
    sends,
    served_beside,
    tool_pieces,
)

CANARY = "sk-canary-9f8e7d6c5b4a39281706"

CREW = """\
version: "2.0"
entry_point: a
agents: [{id: a, model: "openai:m", tools: [leak, burst]}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
settings: {retry_backoff_min_millis: 1}
"""
TOOLS = """\
import os
def leak(word: str) -> str: return f"{word} {os.environ['OPENAI_API_KEY']}"
def burst(word: str) -> str: raise ValueError(os.environ["OPENAI_API_KEY"])
"""


def call(name: str) -> Behaviour:
    arguments = f'{{"word": "{CANARY}"}}'
    return replies(tool_pieces({"index": 0, "id": CANARY, "function": {"name": name, "arguments": arguments}}), 99)


STORY = (
    fails("500 X", f"you sent Authorization: Bearer {CANARY}", f"X-Echo: {CANARY}"),
    sends(f"HTTP/1.1 {CANARY}\r\n\r\n".encode()),
    call("leak"),
    call("burst"),
    call(CANARY),
    replies(said(f"your key is {CANARY}, is it not?\n[WAIT]", pieces=30), 99),
    replies(data({"error": {"message": f"key {CANARY}"}})),
    answers("429 X", CANARY.encode(), f"Retry-After: {CANARY}"),
    replies(said(f"bye, {CANARY}\n[END]", pieces=2)),
    fails("401 X", f"Incorrect API key provided: {CANARY}"),
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    (tmp_path / "leaky_tools.py").write_text(TOOLS, "utf-8")
    with served_beside(*STORY) as served:
        host = f'[tools]\nmodules = ["leaky_tools"]\n[providers.openai]\nurl = "{served.url}"\n'
        (tmp_path / "interlock.toml").write_text(host, "utf-8")
        yield served


def test_a_key_is_in_no_output_and_in_no_file(
    server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said_by: dict[str, str] = {}

    def command(*words: str) -> str:
        result = CliRunner().invoke(interlock, list(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        said_by[" ".join(words)] = result.output + result.stderr
        return result.output

    command("run", ".", "go", "--json")
    run = next(iter(command("runs", "list").split()))
    command("resume", run, "--plain")
    command("run", ".", "and again", "--plain")
    for words in (("show",), ("show", "--json"), ("explain",), ("replay",), ("script",)):
        command("runs", words[0], run, *words[1:])
    command("runs", "export", run, "out.jsonl")
    command("backup", "copy.db")
    command("doctor")
    (tmp_path / "log.txt").write_text(caplog.text, "utf-8")

    assert len(server.asked) == len(STORY)
    assert all(f"Bearer {CANARY}" in request.head for request in server.asked)
    assert REDACTED in said_by[f"runs show {run}"]
    assert "got no reply: openai:m at 127.0.0.1 answered 500: you sent Authorization" in said_by[f"runs explain {run}"]
    assert [words for words, text in said_by.items() if CANARY in text] == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"out.jsonl", "copy.db", "interlock.db"} <= {file.name for file in files}
    assert [file.name for file in files if CANARY.encode() in file.read_bytes()] == []
