"""External signals leave a server by its webhooks, and the host's handler gets a public `ExternalSignal`."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Interlock, load_crew
from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.adapters.webhooks.sender import WebhookNotSent
from interlock.ports import ModelRequest, WebhookDelivery
from interlock.server import webhooks
from interlock.server.webhooks import RETRY_DELAYS_MS, WebhookPublisher
from interlock.testing import ManualClock
from tests.server.office import ALONE, open_office
from tests.server.process import PATIENT, serving, stream
from tests.server.receiving import SECRET, SECRET_VALUE, Receiver, receiving

CREW = """\
version: "2.0"
name: door
entry_point: porter
agents: [{id: porter}]
signals: [{name: "[RING]", behavior: external}, {name: "[OPEN]", behavior: external}]
routing: {signals: {porter: [{signal: "[RING]"}, {signal: "[OPEN]", pause: true}, {signal: "[DONE]"}]}}
"""
SCRIPT = 'replies: {porter: ["Ring it.\\n[RING] [OPEN]", "Come in.\\n[DONE]"]}\n'


def told_by_a_server(folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Starts a run, answers the signal that waits by what the webhook says alone; gives the run as it is then."""
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    toml = PATIENT + receiver.as_toml("external")
    with serving(folder, toml=toml, script=SCRIPT, crew=CREW) as server, server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "door", "input": "knock"}).json()["id"]
        receiver.require(2)
        waiting = next(each.body["data"] for each in receiver.taken if each.body["data"]["name"] == "[OPEN]")
        answer = waiting["answer"]
        body = {"token": answer["token"], "input": "it is open"}
        resumed = client.request(answer["method"], answer["path"], json=body)
        assert resumed.status_code == 200, resumed.text
        assert list(stream(client, f"/v1/runs/{run}/events"))[-1]["event"] == "stream.closed"
        return dict(client.get(f"/v1/runs/{run}").json())


def test_a_webhook_is_told_of_external_signals_and_says_how_to_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(200) as receiver:
        run = told_by_a_server(tmp_path, receiver, monkeypatch)
    assert (run["status"], run["text"]) == ("completed", "Come in.")
    assert [each.body["type"] for each in receiver.taken] == ["external", "external"]
    by_name = {each.body["data"]["name"]: each for each in receiver.taken}
    ring, open_ = by_name["[RING]"].body["data"], by_name["[OPEN]"].body["data"]
    for told in (ring, open_):
        assert (told["run"], told["agent"], told["agent_id"]) == (run["id"], "porter", "porter")
        assert told["content"] == "Ring it.\n[RING] [OPEN]"
    assert (ring["requires_response"], "answer" in ring) == (False, False)
    assert open_["requires_response"] is True
    assert by_name["[OPEN]"].id == f"{run['id']}:{open_['seq']}"


def test_it_is_sent_again_under_the_same_id_until_it_is_taken_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this server could not deliver the next one does: the letters are in the store."""
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    with receiving(503) as receiver:
        toml = PATIENT + receiver.as_toml("external")
        with serving(tmp_path, toml=toml, script=SCRIPT, crew=CREW) as server, server.asking() as client:
            client.post("/v1/runs", json={"crew": "door", "input": "knock"})
            receiver.require(2)
            first = {each.id for each in receiver.taken}
            while server.log.count("did not accept") < 2:
                client.get("/healthz")
            server.process.kill()
        receiver.status = 200
        with serving(tmp_path, toml=toml, script=SCRIPT, crew=CREW):
            receiver.require(4)  # 5 s after the first try
    assert {each.id for each in receiver.taken[2:]} == first


def test_a_webhook_that_does_not_ask_for_external_signals_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, SECRET_VALUE)
    with receiving(200) as receiver:
        toml = PATIENT + receiver.as_toml("question")
        with serving(tmp_path, toml=toml, script=SCRIPT, crew=CREW) as server, server.asking() as client:
            client.post("/v1/runs", json={"crew": "door", "input": "knock"})
            receiver.require(1)
    assert [each.body["type"] for each in receiver.taken] == ["question"]


async def test_the_host_gets_a_public_external_signal(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    told: list[interlock.ExternalSignal] = []

    def porter(request: ModelRequest) -> str:
        return "Ring it.\n[RING] [OPEN]" if request.number == 1 else "Come in.\n[DONE]"

    async with Interlock(tmp_path / "data", models=porter, on_external=told.append) as box:
        run = await box.start(load_crew(tmp_path), "knock")
        await run.result()
        while await box.store.signals_to_deliver():
            await asyncio.sleep(0)
        waiting = next(each for each in told if each.token)
        assert (await (await box.resume(waiting.run, "it is open", token=waiting.token)).result()).status == "completed"
    assert [type(each) for each in told] == [interlock.ExternalSignal] * 2
    assert {(each.signal, each.requires_response) for each in told} == {("[RING]", False), ("[OPEN]", True)}
    assert all((each.agent_id, each.agent, each.content) == ("porter", "porter", told[0].content) for each in told)
    assert all(each.key.startswith(f"{each.run}:") for each in told)


class Postbox:
    """Takes letters in place of a receiver; the first time it takes none."""

    def __init__(self) -> None:
        self.tried: list[WebhookDelivery] = []

    async def send(self, letter: WebhookDelivery) -> None:
        self.tried.append(letter)
        if len(self.tried) == 1:
            raise WebhookNotSent("not now")


async def require_told(folder: Path) -> None:
    """The story of this file without processes: what faults are planted into."""

    clock, postbox = ManualClock(), Postbox()
    hook = OutgoingHook(url="https://a.example/", secret_env="S", on=("external",))
    async with open_office(folder, clock=clock, crews={"crew": CREW}, model=lambda _: "Please.\n[OPEN]") as asking:
        box = asking.box
        telling = WebhookPublisher(box.store, box.signals.bus, clock, {"ops": hook}, {"ops": postbox})  # type: ignore[dict-item]
        await telling.initialize_positions()
        run = (await asking.post("/v1/runs", json={"crew": "door", "input": "knock"})).json()["id"]
        await box.runner.wait_until_settled(run)
        await telling.fill_and_send_outbox(ALONE)
        clock.advance(RETRY_DELAYS_MS[0])
        await telling.fill_and_send_outbox(ALONE)
        token = (await box.result(run)).token
    assert [each.key for each in postbox.tried] == [postbox.tried[0].key] * 2
    data = json.loads(postbox.tried[1].body)["data"]
    assert (data["name"], data["agent"], data["content"], data["run"]) == (
        "[OPEN]",
        "porter",
        "Please.\n[OPEN]",
        run,
    )
    assert data.get("answer") == {"token": token, "method": "POST", "path": f"/v1/runs/{run}/resume"}


def forgets_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "OUTGOING_EVENTS", {"run.finished": "run.finished", "question": "input.requested"})


def does_not_say_how_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_external_view", lambda event, *_: {**event, "name": event["signal"]})


def is_sent_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "RETRY_DELAYS_MS", ())


async def test_what_planted_faults_are_looked_for_with_holds(tmp_path: Path) -> None:
    await require_told(tmp_path)


@pytest.mark.parametrize("fault", [forgets_the_kind, does_not_say_how_to_answer, is_sent_once_only])
async def test_a_planted_fault_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):
        await require_told(tmp_path)
