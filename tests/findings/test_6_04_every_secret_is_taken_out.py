"""Secrets of every source through every door: none is in the data folder, the log, an answer, a stream or an output."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from interlock import CrewContext, Interlock, load_crew
from interlock.adapters.config import host_secrets as sources
from interlock.adapters.config.host_file import HostSettings, read_settings
from interlock.adapters.config.host_secrets import host_secrets, short_secret_warnings
from interlock.adapters.config.known_secrets import REDACTED, KnownSecrets, RedactingStream
from interlock.adapters.cron import next_cron
from interlock.adapters.models.redacting_model import RedactingModel
from interlock.compose.crews import host_settings
from interlock.errors import UsageError
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime import commit
from interlock.runtime.run_scheduler import RunScheduler
from interlock.server.auth import OWNER, Authenticator
from interlock.server.mcp_crews import CrewTools
from interlock.testing import ManualClock
from tests.server.process import COMMAND, PATIENT, Served, serving, stream

OUT, IN, OLD = ("whsec_" + base64.b64encode(word * 8).decode() for word in (b"outs", b"inco", b"olds"))
SECRETS = {
    "OPENAI_API_KEY": "sk-canary-provider-0001",
    "HOUSE_CODE": "canary.house.0002",
    "OUT_SECRET": OUT,
    "IN_SECRET": IN,
    "OLD_SECRET": OLD,
    "IN_TOKEN": "canary-token-0003",
    "MCP_KEY": "canary-mcp-key-0004",
    "MCP_TOKEN": "canary-mcp-env-0005",
}
PASSWORD = "canary/pa ss+0006"
ADDRESS = "postgres://user:canary%2Fpa%20ss%2B0006@db.example/x"
READER, STRONGER = "ilk_" + "r" * 43, "a-key-that-somebody-chose-0007"
TOML = f"""\
{PATIENT}
[server.keys.reader]
sha256 = "{hashlib.sha256(READER.encode()).hexdigest()}"
scopes = ["read"]
[server.keys.chosen]
sha256 = "{hashlib.sha256(STRONGER.encode()).hexdigest()}"
scopes = ["admin"]
[tools]
modules = ["leaky"]
[providers.house]
url = "https://house.example/v1"
key_env = "HOUSE_CODE"
[webhooks.out]
url = "https://out.example/"
secret_env = "OUT_SECRET"
[webhooks.in]
secret_env = "IN_SECRET"
old_secret_env = "OLD_SECRET"
types = ["in:*"]
[webhooks.token]
token_env = "IN_TOKEN"
types = ["in:*"]
[mcp.far]
url = "https://mcp.example/"
key_env = "MCP_KEY"
[mcp.near]
command = ["true"]
env = ["MCP_TOKEN", "HOME"]
"""
TOOLS = """\
from pathlib import Path
def leak() -> str: return Path("canaries").read_text()
def burst() -> str: raise ValueError(Path("canaries").read_text())
"""
CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [leak, burst, memory_write, generate_signal]}]
routing: {signals: {clerk: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""


def told_secrets() -> list[str]:
    """All that is known before a server is there, in every form."""
    return [*SECRETS.values(), PASSWORD, READER]


def script_of(text: str) -> str:
    calls = [
        {"name": "leak", "arguments": {}},
        {"name": "burst", "arguments": {}},
        {"name": "memory_write", "arguments": {"key": "k", "value": {"deep": [text]}}},
        {"name": "generate_signal", "arguments": {"type": "agent:said", "data": {"text": text}}},
    ]
    replies = [{"text": text, "tool_calls": calls}, f"{text}\n[WAIT]", f"{text}\n[DONE]"]
    return msgspec.json.encode({"replies": {"clerk": replies}}).decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", ADDRESS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "leaky", raising=False)
    (tmp_path / "leaky.py").write_text(TOOLS, "utf-8")
    return tmp_path


def found_in(data: Path, secrets: list[str]) -> list[tuple[str, str]]:
    """Which secret stands in which file; the key has a file of its own."""
    files = [file for file in data.rglob("*") if file.is_file() and file.name != "server.key"]
    bodies = {file.name: file.read_bytes() for file in files}
    return [(name, secret) for name, body in bodies.items() for secret in secrets if secret.encode() in body]


class Asked:
    """Everything that a server says, to look through."""

    def __init__(self, client: httpx2.Client, text: str) -> None:
        self._client, self.text, self.said = client, text, list[str]()

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self._client.request(method, path, **more)
        self.said.append(f"{method} {answer.status_code}\n{answer.text}\n{answer.headers}")
        return answer.json() if "json" in answer.headers.get("content-type", "") else None

    def through_every_door(self, secrets: list[str]) -> None:
        text = self.text
        context = {"shared_memory": {"m": [text]}, "previous_results": {"x": text}, "original_input": text}
        run = self.ask("POST", "/v1/runs", json={"crew": "office", "input": text, "context": context})["id"]
        while self.ask("GET", f"/v1/runs/{run}")["status"] == "running":
            pass
        self.ask("GET", "/v1/questions")
        (waiting,) = self.ask("GET", f"/v1/runs/{run}")["questions"]
        self.ask("POST", f"/v1/questions/{waiting['id']}/answer", json={"answer": text})
        self.said += [str(event) for event in stream(self._client, f"/v1/runs/{run}/events")]
        self.said += [str(event) for event in stream(self._client, "/v1/engine/events?follow=false")]
        self.ask("POST", "/v1/engine/signals", json={"type": "told", "data": {"deep": [text]}})
        self.ask("POST", "/v1/engine/signals/delayed", json={"type": "later", "data": text, "inMs": 10**8})
        body = {"id": "1", "type": "in:now", "data": {"text": text}}
        self.ask("POST", "/v1/webhooks/token", json=body, headers={"x-webhook-token": SECRETS["IN_TOKEN"]})
        for secret in secrets:
            self._echoed(secret)
        for path in (
            "runs",
            f"runs/{run}",
            f"runs/{run}/events",
            f"runs/{run}/explain",
            "usage",
            "crews",
            "crews/office",
        ):
            self.ask("GET", f"/v1/{path}")
        for path in ("events", "delayed", "dead", "subscriptions"):
            self.ask("GET", f"/v1/engine/signals/{path}")

    def _echoed(self, secret: str) -> None:
        """Whatever an error repeats of a request: path, parameters, headers, body."""
        self.ask("GET", f"/v1/runs/{secret}")
        self.ask("GET", "/v1/runs", params={"cursor": secret})
        self.ask("POST", "/v1/runs", json={"crew": secret, "input": "x"}, headers={"idempotency-key": "k" + secret[:5]})
        self.ask("POST", "/v1/runs", json={"crew": "office"}, headers={"idempotency-key": secret.replace(" ", "")})
        self.ask("POST", "/v1/engine/signals", json={"type": f"a:{secret}"})
        self.ask("POST", "/v1/engine/signals", json={"type": 1, secret: 2})
        self.ask("GET", "/v1/crews", headers={"origin": f"https://{secret.replace(' ', '')}"})


def session_of(server: Served) -> str:
    answer = httpx2.post(f"{server.address}/v1/session", json={"code": server.code}, headers={"origin": server.address})
    return str(answer.headers["set-cookie"].partition("=")[2].partition(";")[0])


def test_no_secret_of_any_source_comes_out_of_any_door(folder: Path) -> None:
    secrets = told_secrets()
    with serving(folder, "--print-code", toml=TOML, script=script_of(" ".join(secrets)), crew=CREW) as server:
        (folder / "canaries").write_text(" ".join(secrets), "utf-8")
        session = session_of(server)
        httpx2.get(f"{server.address}/v1/crews", headers={"authorization": f"Bearer {STRONGER}"})  # known from now on
        secrets += [server.key, STRONGER, server.code, session]
        (folder / "canaries").write_text(" ".join(secrets), "utf-8")
        with server.asking() as client:
            asked = Asked(client, " ".join(secrets))
            asked.through_every_door(secrets)
        with server.asking(headers={"authorization": f"Bearer {READER}"}) as reader:
            weak = Asked(reader, "")
            run = weak.ask("GET", "/v1/runs")["runs"][0]["id"]
            for path in (f"/v1/runs/{run}", f"/v1/runs/{run}/events", "/v1/engine/signals/events"):
                weak.ask("GET", path)
        log = server.log
        assert server.stopped() == 0
    said = [*asked.said, *weak.said, log, *commands(folder, run)]
    assert sum(REDACTED in each for each in said) > 10
    assert [(secret, each[:200]) for each in said for secret in secrets if secret in each] == []
    assert found_in(folder / "data", secrets) == []


def commands(folder: Path, run: str) -> list[str]:
    lines = [f"runs show {run}", f"runs explain {run}", f"runs replay {run}", "broadcast tail", "broadcast tail --json"]
    lines += [f"runs export {run} data/out.jsonl", "backup data/copy.db", "doctor", f"runs script {run}"]
    return [_said(folder, line) for line in lines]


def _said(folder: Path, line: str) -> str:
    words = line.split()
    done = subprocess.run([COMMAND, *words, "--data", "data"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "runs show {}",
        "runs list --status {}",
        "runs answer {} x",
        "runs list --no-such-option-{}",
        "schedule delete {}",
        "run . x --model {}",
        "broadcast emit {}",
    ],
)
@pytest.mark.parametrize("secret", ["sk-canary-provider-0001", "canary.house.0002", READER])
def test_an_error_of_a_command_repeats_no_secret_that_was_typed(folder: Path, line: str, secret: str) -> None:
    """It may be kept in the log of a build."""
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "interlock.toml").write_text(TOML, "utf-8")
    words = [COMMAND, *line.format(secret).split(), "--data", "data"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr != ""
    assert secret not in done.stdout + done.stderr


def test_a_command_without_a_crew_knows_the_secrets_that_the_host_file_names(folder: Path) -> None:
    (folder / "interlock.toml").write_text(TOML, "utf-8")
    text = " ".join(told_secrets())
    body = msgspec.json.encode({"deep": [text]}).decode()
    for words in (["emit", "told", body], ["schedule", "later", body, "--in", "1h"]):
        command = [COMMAND, "broadcast", *words, "--data", "data"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
    assert REDACTED in _said(folder, "broadcast tail --json")
    assert found_in(folder / "data", told_secrets()) == []


async def test_a_tool_over_mcp_answers_with_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "interlock.toml").write_text(TOML, "utf-8")

    async def report(_progress: float, _message: str) -> None:
        """Nobody waits for it."""

    async with Interlock("data", host=host_settings("interlock.toml"), models=lambda _: "") as box:
        tools = CrewTools(box, ["office"])
        answers: list[Any] = [await tools.resume(secret, "x", None, report) for secret in told_secrets()]
    assert answers
    for answer in answers:
        assert answer.is_error
        assert [secret for secret in told_secrets() if secret in str(answer)] == []
        assert answer.structured_content["code"] == "run-not-found"


# What is listed, and what stays as it is


def test_every_source_of_secrets_is_listed(folder: Path) -> None:
    (folder / "interlock.toml").write_text(TOML, "utf-8")
    found = {secret.value for secret in host_secrets(read_settings(folder / "interlock.toml"), os.environ)}
    assert {*SECRETS.values(), PASSWORD, OUT.removeprefix("whsec_")} <= found
    assert os.environ["HOME"] not in found
    store = {secret.value for secret in host_secrets(HostSettings(), {"INTERLOCK_STORE": ADDRESS})}
    assert store == {PASSWORD, "canary%2Fpa%20ss%2B0006"}


def read_settings_text(text: str) -> HostSettings:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return read_settings(Path(file.name))


def test_short_values_are_not_searched_for_and_doctor_and_serve_say_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_CODE", "short")
    settings = read_settings_text('[providers.house]\nurl = "https://house.example/v1"\nkey_env = "HOUSE_CODE"\n')
    (warning,) = short_secret_warnings(settings, {"HOUSE_CODE": "short"})
    assert "HOUSE_CODE" in warning
    assert "short" not in warning.replace("shorter", "")
    assert KnownSecrets(["short"]).redact("a short word") == "a short word"
    with serving(folder, toml=TOML, crew=CREW) as server:
        assert "HOUSE_CODE has fewer than 8 characters" in server.log
        assert server.stopped() == 0
    assert "HOUSE_CODE has fewer than 8 characters" in _said(folder, "doctor")


def test_keys_of_objects_ids_and_digests_are_never_changed() -> None:
    keys = KnownSecrets(["password", "abcdef0123456789"])
    assert keys.redact_json('{"password": "my password"}') == f'{{"password":"my {REDACTED}"}}'
    assert keys.redact_value({"password": ["password", 1]}) == {"password": [REDACTED, 1]}
    body = msgspec.json.encode({"id": "password", "crew_sha": "abcdef0123456789", "text": "password"})
    assert msgspec.json.decode(keys.redact_body(body)) == {
        "id": "password",
        "crew_sha": "abcdef0123456789",
        "text": REDACTED,
    }


def test_what_servers_give_out_is_known_by_its_shape_also_in_pieces() -> None:
    access = Authenticator("ilk_" + "k" * 43, {}, ManualClock(), 1, port=1)
    for secret in ("ilk_" + "Z" * 43, access.issue_code(), access.new_session_cookie(OWNER)):
        keys = KnownSecrets()
        assert keys.redact(f"<{secret}>") == f"<{REDACTED}>"
        for cut in range(1, len(secret)):
            hidden = RedactingStream(keys)
            assert hidden.add(f"I will {secret[:cut]}") + hidden.add(f"{secret[cut:]}.") + hidden.flush() == (
                f"I will {REDACTED}."
            )


async def test_schedules_and_messages_of_the_host_keep_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "interlock.toml").write_text(TOML, "utf-8")
    text = " ".join(told_secrets())

    async def fail(*_: object) -> None:
        raise ValueError(text)

    clock = ManualClock()
    async with Interlock("data", host=host_settings("interlock.toml"), clock=clock, models=lambda _: "") as box:
        for times in ({"at": clock.now_ms() + 1_000}, {"cron": "* * * * *"}):
            await box.schedules.add("office", text, **times)
        scheduler = RunScheduler(box.store, clock, fail, next_cron, box.redactor().redact)
        clock.advance(120_000)
        await scheduler._start_due()
        planned = await box.schedules.list()
        assert [REDACTED in each.input and REDACTED in each.problem for each in planned] == [True, True]
        with pytest.raises(UsageError, match="the key of a message contains a secret"):
            await box.send_message("r", "NOTE", "clerk", key=text)
    assert found_in(folder / "data", told_secrets()) == []


async def test_a_reply_in_pieces_leaves_nothing_to_be_closed_later() -> None:
    """A generator that is left open is closed by a task of its own, with every call of every run."""
    left: list[object] = []

    class Says:
        async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            yield Delta("it is sk-canary-")
            yield Delta("provider-0001.")
            yield ModelReply(text="it is sk-canary-provider-0001.")

    request = ModelRequest(key="k", agent="a", number=1, system="", messages=())
    sys.set_asyncgen_hooks(finalizer=left.append)
    pieces = RedactingModel(Says(), KnownSecrets(SECRETS.values())).reply(request)
    said = [await anext(pieces), await anext(pieces), await anext(pieces)]
    assert said == [Delta("it is "), Delta(f"{REDACTED}."), ModelReply(text=f"it is {REDACTED}.")]
    await pieces.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert left == []


# Planted faults (6.11)


async def leaks(folder: Path) -> list[tuple[str, str]]:
    """The same without a server: input, memory, tools, replies, answers and broadcasts of a program."""
    text = " ".join(told_secrets())
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "interlock.toml").write_text(TOML, "utf-8")
    (folder / "canaries").write_text(text, "utf-8")

    def clerk(request: ModelRequest) -> str:
        return f"{text}\n[WAIT]" if request.number == 1 else f"{text}\n[DONE]"

    context = CrewContext(shared_memory={"m": text})
    settings = host_settings("interlock.toml")
    async with Interlock("data", host=settings, models=clerk) as box:
        run = await box.start(load_crew("."), text, context=context)
        await run.result()
        await (await box.resume(run.id, text)).result()
        await box.signals.emit("told", {"deep": [text]})
    return found_in(folder / "data", told_secrets())


def sees_events_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "redact_event", lambda event, _: event)


def announces_data_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownSecrets, "redact_value", lambda _, value: value)


def forgets_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_variables", lambda _: [])


def forgets_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.config.known_secrets._SHAPED", re.compile(r"(?!)"))


@pytest.mark.parametrize(
    "fault", [None, sees_events_as_they_come, announces_data_as_it_is, forgets_webhooks, forgets_shapes]
)
async def test_a_planted_fault_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None] | None
) -> None:
    monkeypatch.chdir(folder)
    if fault is not None:
        fault(monkeypatch)
    assert bool(await leaks(folder)) == (fault is not None)
