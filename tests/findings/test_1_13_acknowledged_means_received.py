"""Finding 1.13: acknowledged means received, questions keep their id, and `delayed.json` is current."""

import asyncio
import json
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.adapters.files import signal_files
from interlock.adapters.files.signal_files import SignalFiles
from interlock.adapters.files.view_keeper import SqliteSignalSource
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import ManualClock
from tests.boxes import sqlite_of
from tests.compose.test_messages import paying
from tests.server.office import crew_file, open_office

ASKING = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [ask_user], is_terminal: true}]
"""


async def test_a_question_keeps_its_id_when_an_answer_was_refused(tmp_path: Path) -> None:
    call = ToolCall(name="ask_user", arguments={"question": "How many?", "pattern": "[0-9]+"})
    model = ScriptedModel({"clerk": [ScriptedAnswer(tool_calls=(call,)), "Thanks."]})

    async with open_office(tmp_path, crews={"crew": ASKING}, model=model) as office:
        run = await office.start("go")
        await office.box.runner.wait_until_settled(run["id"])
        (first,) = (await office.get("/v1/questions")).json()["questions"]
        await office.post(f"/v1/questions/{first['id']}/answer", json={"answer": "three"})
        await office.box.runner.wait_until_settled(run["id"])
        (again,) = (await office.get("/v1/questions")).json()["questions"]
        assert again["id"] == first["id"] and again["token"] != first["token"]
        assert again["asked_at"] == first["asked_at"]
        done = await office.post(f"/v1/questions/{first['id']}/answer", json={"answer": "3"})
        assert done.status_code == 200, done.text
        await office.box.runner.wait_until_settled(run["id"])
        assert (await office.get(f"/v1/runs/{run['id']}")).json()["status"] == "completed"


async def test_an_approval_keeps_its_id_when_an_answer_was_refused(tmp_path: Path) -> None:
    async with paying(tmp_path) as (box, _, done):
        (first,) = await box.questions()
        for answer in ("perhaps", '{"dollars": "few"}', "hm"):
            await (await box.answer(first.id, answer)).result()
            (again,) = await box.questions()
            assert (again.id, again.since) == (first.id, first.since) and again.token != first.token
        assert (await (await box.answer(first.id, "yes")).result()).status == "completed"
        assert done == [500]
        await box.answer(first.id, "yes")  # the same again gives the first outcome


DELEGATING = """\
version: "2.0"
name: office
entry_point: boss
agents: [{id: boss, is_terminal: true}, {id: clerk}]
delegation: {children: {boss: [clerk]}, select: all, report_check: none, ack_timeout_seconds: 1}
"""


async def test_a_second_task_to_a_busy_child_is_neither_sent_again_nor_undelivered(tmp_path: Path) -> None:
    """The first task takes five minutes of working time, and acknowledgements have a second."""
    crew, clock = load_crew(crew_file(tmp_path, DELEGATING)), ManualClock()
    tasks = [ToolCall(name="delegate", arguments={"to": "clerk", "task": task}) for task in ("first", "second")]
    script = ScriptedModel(
        {"boss": [ScriptedAnswer(tool_calls=tuple(tasks)), "Both are done."], "clerk": ["one", "two"]}
    )

    async def model(request: ModelRequest) -> ModelReply:
        if request.messages[-1].text.endswith("first"):
            for _ in range(300):
                clock.advance(1_000)
                await asyncio.sleep(0)
        (reply,) = [piece async for piece in script.reply(request) if isinstance(piece, ModelReply)]
        return reply

    async with Interlock(tmp_path / "data", models=model, clock=clock) as box:
        run = await box.start(crew, "go")
        events = [event async for event in box.runner.follow(run.id)]
        assert (await run.result()).text == "Both are done."
    sent = [event for event in events if event["type"] == "message.sent"]
    assert [event["attempt"] for event in sent] == [0] * 4
    outcomes = [event["outcome"] for event in events if event["type"] == "message.settled"]
    assert outcomes == ["answered"] * 4


async def test_delayed_json_is_current_after_the_process_that_dispatched_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died after it had noted what the file would hold, and before it replaced the file."""

    box = Interlock(tmp_path / "data")
    box._listens = False  # no keeper of its own: the test has both
    async with box:
        box.runner.hub.on_news = lambda: None  # the views are written by nobody but this test
        await box.signals.schedule("report:due", in_ms=1_000, id="one")

        def views() -> SignalFiles:
            truth = SqliteSignalSource(sqlite_of(box).open_reader())
            return SignalFiles(sqlite_of(box).folder, truth, lambda report: None, lambda: 0)

        survivor, dying = views(), views()
        survivor.refresh()
        dying.refresh()
        await box.signals.cancel("one")
        replace = signal_files._replace

        def die(path: Path, body: bytes) -> None:
            if path.name == signal_files.DELAYED:
                raise KeyboardInterrupt
            replace(path, body)

        monkeypatch.setattr(signal_files, "_replace", die)
        with pytest.raises(KeyboardInterrupt):
            dying.refresh()
        monkeypatch.setattr(signal_files, "_replace", replace)
        survivor.refresh()
        assert json.loads((tmp_path / "data" / "signals" / "delayed.json").read_bytes())["events"] == []
