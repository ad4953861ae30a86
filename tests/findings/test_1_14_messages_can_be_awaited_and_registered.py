"""Finding 1.14: mailbox and validator are awaited as in the protocol, and programs register message types."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew, messages
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.cli.main import interlock
from interlock.messages import HOST, AgentMailbox, BadMessage, Delegate, MessageValidator, Report, register, unregister
from interlock.messages.mailbox import ACK_TIMEOUT_MS
from interlock.ports import StoredRecord
from interlock.testing import ManualClock
from tests.server.office import code_of, crew_file, open_office

PRICE = {"type": "object", "properties": {"dollars": {"type": "integer", "minimum": 0}}, "required": ["dollars"]}
TASK = Delegate(message_id="1", from_="planner", to="flights", task="LAX to Rome")
CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents:
  - {id: clerk, tools: [ask_user, send_message]}
  - {id: boss, is_terminal: true}
routing: {signals: {clerk: [{signal: "[NEXT]", target: boss}]}}
delegation: {children: {clerk: []}, ack_timeout_seconds: 10}
"""
ASK = ScriptedAnswer(tool_calls=(ToolCall(name="ask_user", arguments={"question": "How many?"}),))


@pytest.fixture(autouse=True)
def types() -> Iterator[None]:
    register("PRICE", PRICE, from_=(HOST, "clerk"), to="*")
    register("APPROVE", PRICE, from_=HOST, to="clerk", requires_response=True)
    yield
    unregister("PRICE")
    unregister("APPROVE")


# Awaited, as in the protocol


async def test_a_mailbox_is_sent_and_received_with_await() -> None:
    parent, child = AgentMailbox("planner"), AgentMailbox("flights")
    await parent.send(TASK)
    assert list(parent.pending_responses) == ["1"] and parent.outbox.get() == TASK
    child.deliver(TASK)
    assert await child.receive() == TASK
    assert await child.receive() is None
    parent.acknowledge("1", Report(message_id="2", from_="flights", to="planner", result="x", in_response_to="1"))
    assert not parent.pending_responses


async def test_an_acknowledgement_is_awaited_and_its_deadline_ends_the_wait() -> None:
    validator = MessageValidator(TASK)
    assert validator.timeout == 30 and not validator.acknowledged
    waiting = asyncio.create_task(validator.wait_for_ack())
    await asyncio.sleep(0)
    assert not waiting.done()
    validator.acknowledged = True
    assert await waiting is True
    assert await MessageValidator(TASK, timeout=0).wait_for_ack() is False
    box = AgentMailbox("planner")
    sent = await box.send(TASK)
    box.acknowledge("1")
    assert await sent.wait_for_ack() is True


def test_importing_the_pure_package_loads_no_driver() -> None:
    code = "import sys, interlock.messages; print([m for m in sys.modules if m.startswith('interlock.runtime')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# Registered


@pytest.mark.parametrize(
    ("type_", "schema", "from_", "to"),
    [
        ("DELEGATE", PRICE, HOST, "*"),
        ("lower", PRICE, HOST, "*"),
        ("X", {"type": "string"}, HOST, "*"),
        ("X", {"type": "object", "properties": {"to": {"type": "string"}}}, HOST, "*"),
        ("X", {"type": "object", "properties": {"a": {"type": "strange"}}}, HOST, "*"),
        ("X", PRICE, (), "*"),
        ("X", PRICE, "*", HOST),
        ("PRICE", {"type": "object"}, HOST, "*"),
    ],
)
def test_a_type_that_cannot_be_is_refused(type_: str, schema: dict[str, Any], from_: Any, to: Any) -> None:
    with pytest.raises(BadMessage):
        register(type_, schema, from_=from_, to=to)


async def test_a_program_sends_to_an_agent_that_waits_and_gets_its_answer(tmp_path: Path) -> None:
    answering = ScriptedAnswer(tool_calls=(ToolCall(name="answer_message", arguments={"answer": "Fine."}),))
    model = ScriptedModel({"clerk": [ASK, answering]})

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(load_crew(crew_file(tmp_path, CREW)), "go")
        assert (await run.result()).reason == "question"
        sent = await box.send_message(run.id, "APPROVE", "clerk", {"dollars": 5}, key="k")
        assert await box.send_message(run.id, "APPROVE", "clerk", {"dollars": 5}, key="k") == sent
        assert (await run.result()).reason == "question"
        shown = model.asked[1].messages[-1].text
        assert shown.startswith("Message m2 (APPROVE) from the program, who waits for your answer (answer_message):")
        assert '{"dollars":5}' in shown
        assert "answer_message" in [tool.name for tool in model.asked[1].tools]
        events = [event async for event in box.runner.follow(run.id)]
        sent_wires = [event["message"] for event in events if event["type"] == "message.sent"]
        assert sent_wires[1] == {
            "type": "APPROVE", "from": HOST, "to": "clerk", "dollars": 5, "message_id": sent, "requires_response": True,
        }  # fmt: skip
        assert (sent_wires[2]["type"], sent_wires[2]["to"], sent_wires[2]["answer"]) == ("ANSWER", HOST, "Fine.")
        settled = {e["message_id"]: e["outcome"] for e in events if e["type"] == "message.settled"}
        assert settled[sent] == "answered"


async def test_an_agent_sends_to_one_that_has_no_turn_yet_which_receives_it_with_its_next(tmp_path: Path) -> None:
    note = ToolCall(name="send_message", arguments={"type": "PRICE", "to": "boss", "body": {"dollars": 7}})
    wrong = ToolCall(name="send_message", arguments={"type": "PRICE", "to": "boss", "body": {"dollars": -7}})
    other = ToolCall(name="send_message", arguments={"type": "APPROVE", "to": "boss", "body": {"dollars": 7}})
    model = ScriptedModel({"clerk": [ScriptedAnswer(tool_calls=(note, wrong, other)), "over [NEXT]"], "boss": ["ok"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(load_crew(crew_file(tmp_path, CREW)), "go")
        assert (await run.result()).status == "completed"
        told = [message.text for message in model.asked[1].messages if message.role == "tool"]
        assert told[0].startswith("message m1 is on its way to boss")
        assert all(each.startswith("error: bad-message: ") for each in told[1:])
        shown = [message.text for message in model.asked[2].messages]
        assert any(text.startswith("Message m1 (PRICE) from clerk:") for text in shown)
        tools = {tool.name: tool.description for tool in model.asked[0].tools}
        assert "PRICE to *" in tools["send_message"] and "APPROVE" not in tools["send_message"]
        events = [event async for event in box.runner.follow(run.id)]
        assert [e["outcome"] for e in events if e["type"] == "message.settled"] == ["answered"]


async def test_what_an_agent_without_a_turn_does_not_receive_in_time_is_undelivered(tmp_path: Path) -> None:
    clock, is_sent, kept = ManualClock(), asyncio.Event(), list[str]()

    def watch(stored: StoredRecord) -> None:
        kept.extend(type(event).__name__ for event in stored.record.events)

    async def model(request: Any) -> str:
        await is_sent.wait()
        for event, count in (("MessageSent", 2), ("MessageSettled", 1)):
            clock.advance(ACK_TIMEOUT_MS)
            while kept.count(event) < count:
                await asyncio.sleep(0)
        return "over [NEXT]" if request.agent == "clerk" else "ok"

    crew_file(tmp_path, CREW)
    async with Interlock(tmp_path / "data", models=model, clock=clock, observers=[watch]) as box:
        run = await box.start(load_crew(tmp_path / "crew.yaml"), "go")
        await box.send_message(run.id, "PRICE", "boss", {"dollars": 7})
        is_sent.set()
        events = [event async for event in box.runner.follow(run.id)]
        assert [e["attempt"] for e in events if e["type"] == "message.sent"] == [0, 1]
        assert [e["outcome"] for e in events if e["type"] == "message.settled"] == ["undelivered"]
        assert (await run.result()).status == "completed"


def test_a_run_is_read_replayed_and_shown_where_its_types_are_not_registered(tmp_path: Path) -> None:
    answering = ScriptedAnswer(tool_calls=(ToolCall(name="answer_message", arguments={"answer": "Fine."}),))
    model = ScriptedModel({"clerk": [ASK, answering]})

    async def sent() -> str:
        async with Interlock(tmp_path / "data", models=model) as box:
            run = await box.start(load_crew(crew_file(tmp_path, CREW)), "go")
            await run.result()
            await box.send_message(run.id, "APPROVE", "clerk", {"dollars": 5})
            await run.result()
            return run.id

    run = asyncio.run(sent())
    for type_ in ("PRICE", "APPROVE"):
        unregister(type_)
    assert messages.registered() == ()

    def said(*words: str) -> str:
        result = CliRunner().invoke(interlock, ["runs", *words, "--data", str(tmp_path / "data")])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "the same decisions" in said("replay", run)
    assert f'APPROVE {HOST} -> clerk: answered\n    {{"dollars":5}}' in said("show", run, "--messages")
    assert "APPROVE" in said("show", run, "--mermaid")
    first, *_ = said("show", run, "--messages", "--json").splitlines()
    assert json.loads(first)


async def test_the_server_sends_once_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    async with open_office(tmp_path, crews={"crew": CREW}, model=ScriptedModel({"clerk": [ASK, "hm"]})) as office:
        run = await office.start("go")
        await office.box.runner.wait_until_settled(run["id"])
        path, good = f"/v1/runs/{run['id']}/messages", {"type": "PRICE", "to": "clerk", "body": {"dollars": 5}}
        faults: list[dict[str, Any]] = [{"type": "NONE"}, {"body": {"dollars": "x"}}, {"body": {}}, {"to": "nobody"}]
        for wrong in faults:
            assert code_of(await office.post(path, json={**good, **wrong})) == (422, "bad-message")
        first = await office.post(path, json=good, headers={"idempotency-key": "a"})
        again = await office.post(path, json=good, headers={"idempotency-key": "a"})
        assert (first.status_code, first.json()) == (201, again.json())
        await office.box.runner.wait_until_settled(run["id"])
        events = (await office.get(f"/v1/runs/{run['id']}/events")).json()["events"]
        sent = [event["message"]["type"] for event in events if event["type"] == "message.sent"]
        assert sent == ["REQUEST_USER_INPUT", "PRICE"]
        await office.post(f"/v1/runs/{run['id']}/cancel")
        assert code_of(await office.post(path, json=good)) == (422, "bad-message")
