"""A key in the environment, and a server, a model and tools that all say it: it is in no output and in no file."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.config.known_secrets import REDACTED
from interlock.cli.main import interlock
from interlock.compose.crews import host_settings
from interlock.errors import ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest
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
    monkeypatch.delitem(sys.modules, "leaky_tools", raising=False)
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

    command("run", ".", f"go, with {CANARY}", "--json")
    run = next(iter(command("runs", "list").split()))
    command("resume", run, "--input", f"use {CANARY}", "--plain")
    command("run", ".", "and again", "--plain")
    for words in (("show",), ("show", "--json"), ("explain",), ("replay",), ("script",)):
        command("runs", words[0], run, *words[1:])
    for line in ("runs usage", "runs usage --json", "check .", "explain . --agent a --prompt"):
        command(*line.split())
    command("runs", "export", run, "out.jsonl")
    command("backup", "copy.db")
    command("doctor")
    (tmp_path / "log.txt").write_text(caplog.text, "utf-8")

    assert len(server.asked) == len(STORY)
    assert all(f"Bearer {CANARY}" in request.head for request in server.asked)
    assert REDACTED in said_by[f"runs show {run}"]
    assert "failed: openai:m at 127.0.0.1 answered 500: you sent Authorization" in said_by[f"runs explain {run}"]
    assert [words for words, text in said_by.items() if CANARY in text] == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"out.jsonl", "copy.db", "interlock.db"} <= {file.name for file in files}
    assert [file.name for file in files if CANARY.encode() in file.read_bytes()] == []


def test_a_crew_that_holds_a_key_is_refused_and_not_stored(server: HostileServer, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW.replace("id: a,", f"id: a, system_prompt: 'use {CANARY}',"), "utf-8")
    done = CliRunner().invoke(interlock, ["run", ".", "go"])
    assert (done.exit_code, CANARY in done.output + done.stderr) == (2, False)
    assert "contains a secret of this host; remove it" in done.stderr
    stored = [file for file in (tmp_path / ".interlock").rglob("*") if file.is_file()]
    assert [file.name for file in stored if CANARY.encode() in file.read_bytes()] == []


class Careless:
    """A client of the host's own, that says and shows the key wherever it can."""

    def __init__(self) -> None:
        self.calls = 0

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        self.calls += 1
        if self.calls == 1:
            raise ModelUnavailable(f"401 for Bearer {CANARY}")
        if self.calls == 3:
            raise OSError(f"no route for {CANARY}")
        for piece in (CANARY[:9], CANARY[9:], "\n[END]"):
            yield Delta(piece)
        yield ModelReply(text=f"{CANARY}\n[END]")


async def test_what_a_model_of_the_hosts_own_says_and_raises_is_hidden_too(
    server: HostileServer, tmp_path: Path
) -> None:
    told = []
    async with Interlock("data", host=host_settings(), models=Careless()) as box:
        for _ in range(2):
            run = await box.start(load_crew("."), "go")
            told += [event async for event in box.runner.follow(run.id)]
    errors = [event["error"] for event in told if event["type"] == "model.failed"]
    assert errors == [f"401 for Bearer {REDACTED}", f"OSError: no route for {REDACTED}"]
    assert [event["text"] for event in told if event["type"] == "model.delta"] == [REDACTED, "\n[END]"]
    assert [event["reason"] for event in told if event["type"] == "run.finished"] == ["signal:[END]", "model_error"]
    assert CANARY not in str(told)
    stored = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert [file.name for file in stored if CANARY.encode() in file.read_bytes()] == []
