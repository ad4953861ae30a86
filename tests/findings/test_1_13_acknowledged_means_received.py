"""Finding 1.13: acknowledged means received, questions keep their id, and `delayed.json` is current."""

import asyncio
from pathlib import Path

from tests.compose.test_messages import paying
from tests.server.office import Office, played

ASKING = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [ask_user], is_terminal: true}]
"""


def test_a_question_keeps_its_id_when_an_answer_was_refused(tmp_path: Path) -> None:
    from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall

    call = ToolCall(name="ask_user", arguments={"question": "How many?", "pattern": "[0-9]+"})
    model = ScriptedModel({"clerk": [Answer(tool_calls=(call,)), "Thanks."]})

    async def story(office: Office) -> None:
        run = await office.start("go")
        await office.box.runner.settled(run["id"])
        (first,) = (await office.get("/v1/questions")).json()["questions"]
        await office.post(f"/v1/questions/{first['id']}/answer", json={"answer": "three"})
        await office.box.runner.settled(run["id"])
        (again,) = (await office.get("/v1/questions")).json()["questions"]
        assert again["id"] == first["id"] and again["token"] != first["token"]
        assert again["asked_at"] == first["asked_at"]
        done = await office.post(f"/v1/questions/{first['id']}/answer", json={"answer": "3"})
        assert done.status_code == 200, done.text
        await office.box.runner.settled(run["id"])
        assert (await office.get(f"/v1/runs/{run['id']}")).json()["status"] == "completed"

    played(tmp_path, story, crews={"crew": ASKING}, model=model)


def test_an_approval_keeps_its_id_when_an_answer_was_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with paying(tmp_path) as (box, _, done):
            (first,) = await box.questions()
            for answer in ("perhaps", '{"dollars": "few"}', "hm"):
                await (await box.answer(first.id, answer)).result()
                (again,) = await box.questions()
                assert (again.id, again.since) == (first.id, first.since) and again.token != first.token
            assert (await (await box.answer(first.id, "yes")).result()).status == "completed"
            assert done == [500]
            await box.answer(first.id, "yes")  # the same again gives the first outcome

    asyncio.run(story())
