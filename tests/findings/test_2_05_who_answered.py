"""Who started, answered and cancelled a run is in its journal, and shown wherever the run is."""

import getpass
import json
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.cli.main import interlock
from interlock.errors import UsageError
from tests.server.office import CREW, PAGE, Office, crew_file, open_office, parrot

MARIA = "ilk_" + "m" * 43
KEYS = {"maria": ServerKey(sha256=sha256(MARIA.encode()).hexdigest(), scopes=("read", "run", "answer"))}
AS_MARIA = {"authorization": f"Bearer {MARIA}"}


async def _events(asking: Office, run: str) -> list[dict[str, object]]:
    return list((await asking.get(f"/v1/runs/{run}/events")).json()["events"])


async def test_an_answer_over_http_names_the_key(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(keys=KEYS)) as asking:
        run = (await asking.finished("wait [WAIT]"))["id"]
        question = (await asking.get("/v1/questions")).json()["questions"][0]["id"]
        answer = await asking.post(f"/v1/questions/{question}/answer", json={"answer": "yes"}, headers=AS_MARIA)
        assert answer.status_code == 200, answer.text
        by = {event["type"]: event.get("by") for event in await _events(asking, run)}
        reasons = (await asking.get(f"/v1/runs/{run}/explain")).json()["reasons"]
    assert (by["run.started"], by["input.given"], by["run.resumed"]) == ("owner", "key:maria", "key:maria")
    assert {"started by owner", "answered by key:maria"} <= {each["text"] for each in reasons}


async def test_the_page_is_named_by_its_session_and_key(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(keys=KEYS)) as asking:
        run = (await asking.finished("wait [WAIT]"))["id"]
        del asking.headers["authorization"]
        assert (await asking.post("/v1/session", json={"key": MARIA}, headers=PAGE)).status_code == 200
        assert (await asking.post(f"/v1/runs/{run}/cancel", json={}, headers=PAGE)).status_code == 200
        events = (await asking.get(f"/v1/runs/{run}/events", headers=PAGE)).json()["events"]
    assert [event["by"] for event in events if event["type"] == "cancel.requested"] == ["session:key:maria"]


async def test_python_names_whom_it_likes_and_old_journals_name_nobody(tmp_path: Path) -> None:
    crew = load_crew(crew_file(tmp_path))
    async with Interlock(tmp_path / "data", models=parrot) as box:
        named = await (await box.start(crew, "wait [WAIT]", by="nightly job")).result()
        await (await box.resume(named.run, "go", by="Maria from support")).result()
        nameless = await (await box.start(crew, "wait [WAIT]")).result()
        await (await box.resume(nameless.run, "go")).result()
        given = [event async for event in box.runner.follow(named.run) if event["type"] == "input.given"]
        raw = [
            msgspec.json.encode(event) for record in await box.journal.records(nameless.run) for event in record.events
        ]
        with pytest.raises(UsageError, match="the limit is 200"):
            await box.cancel(named.run, by="x" * 201)
    assert [event["by"] for event in given] == ["Maria from support"]
    assert not any(b'"by"' in event for event in raw)


def test_the_command_line_names_the_user_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGNAME", "maria")
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['Which? [WAIT]', 'Fine. [DONE]']}\n", "utf-8")
    ask = ["--script", "script.yaml"]
    started = CliRunner().invoke(interlock, ["run", "crew.yaml", "hello", *ask])
    run = json.loads(started.stdout.splitlines()[0])["run"]
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['', 'Fine. [DONE]']}\n", "utf-8")
    resumed = CliRunner().invoke(interlock, ["resume", run, "--input", "the red one", "--plain", *ask])
    shown = CliRunner().invoke(interlock, ["runs", "show", run]).output
    explained = CliRunner().invoke(interlock, ["runs", "explain", run]).output
    assert getpass.getuser() == "maria"
    assert "user (user:maria):\n  the red one" in resumed.output, resumed.output
    assert "started by user:maria" in shown and "answered by user:maria" in shown
    assert "answered by user:maria" in explained
