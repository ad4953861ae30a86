"""Crews, questions, health and counters over HTTP."""

import base64
from pathlib import Path
from typing import Any

import pytest

from interlock import load_crew
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.text import as_text
from interlock.errors import UsageError
from interlock.testing import ScriptedModel
from tests.server.office import CREW, code_of, open_office

TRAVEL = Path(__file__).parents[3] / "examples" / "travel"


async def test_crews_are_listed_shown_drawn_and_their_problems_told(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        crews = (await office.get("/v1/crews")).json()["crews"]
        assert [(crew["name"], crew["sound"]) for crew in crews] == [("office", True), ("broken", False)]
        shown = (await office.get("/v1/crews/office")).json()
        clerk = shown["agent_details"][0]
        assert clerk["instructions"].startswith("Serve the customer.")
        assert "[WAIT]" in clerk["instructions"]  # the contract of its marks
        assert {route["signal"] for route in shown["routes"]} == {"[WAIT]", "[NEXT]", "[DONE]"}
        assert "[END]" in {signal["name"] for signal in shown["signals"]}
        assert shown["settings"]["max_handoffs"] == 30
        graph = (await office.get("/v1/crews/office/graph")).json()
        assert {node["name"] for node in graph["nodes"]} >= {"clerk", "boss"}
        assert (await office.get("/v1/crews/office/problems")).json() == {"ok": True, "problems": []}
        problems = (await office.get("/v1/crews/broken/problems")).json()
        assert not problems["ok"]
        assert {problem["code"] for problem in problems["problems"]} >= {"unknown-target"}
        assert problems["problems"][0]["line"] > 0
        broken = (await office.get("/v1/crews/broken")).json()
        assert (broken["sound"], broken["signals"]) == (False, [])


@pytest.mark.parametrize(
    ("form", "kind", "begins"),
    [("text", "text/plain", "office"), ("mermaid", "text/plain", ""), ("svg", "image/svg+xml", "<svg")],
)
async def test_a_graph_has_several_forms(tmp_path: Path, form: str, kind: str, begins: str) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.get("/v1/crews/office/graph", params={"format": form})
        assert answer.headers["content-type"].startswith(kind)
        assert answer.text.startswith(begins)
        if form == "text":
            assert answer.text == as_text(diagram_of(office.service.crews.require_crew("office").crew))
        assert code_of(await office.get("/v1/crews/office/graph", params={"format": "png"})) == (400, "bad-parameter")


async def test_a_crew_that_is_not_served_is_answered_with_what_was_probably_meant(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.get("/v1/crews/offise")
        assert code_of(answer) == (404, "crew-not-served")
        assert "did you mean 'office'?" in answer.json()["detail"]


async def test_two_crews_of_one_name_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two crews have the name 'office'"):
        async with open_office(tmp_path, crews={"one": CREW, "two": CREW}):
            pytest.fail("they are served")


async def test_questions_of_all_runs_are_in_one_place_page_by_page(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        runs = [await office.finished(f"Question {n}? [WAIT]") for n in range(5)]
        await office.finished("no question")
        seen: list[str] = []
        page = (await office.get("/v1/questions", params={"limit": 2})).json()
        while True:
            seen += [question["question"] for question in page["questions"]]
            if page["next"] is None:
                break
            page = (await office.get("/v1/questions", params={"limit": 2, "cursor": page["next"]})).json()
        assert seen == [f"Question {n}?" for n in reversed(range(5))]
        assert {question["id"] for question in runs[0]["questions"]} == {runs[0]["token"]}
        await office.post(f"/v1/questions/{runs[0]['token']}/answer", json={"answer": "yes"})
        await office.box.runner.wait_until_settled(runs[0]["id"])
        assert len((await office.get("/v1/questions")).json()["questions"]) == 4


@pytest.mark.parametrize("cursor", ["", "x", "cnVubmluZyB4IHk", "bm93aGVyZSB4", "/../"])
async def test_a_cursor_that_was_never_given_out_is_refused(tmp_path: Path, cursor: str) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/v1/questions", "/v1/runs"):
            answer = await office.get(path, params={"cursor": cursor})
            assert code_of(answer) == (404, "cursor-not-found")


async def test_counters_tell_requests_by_route_and_what_is_under_way(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.start("hang")
        await office.get("/v1/runs/none")
        await office.request("BREW", "/v1/runs")
        lines = (await office.get("/metrics")).text.splitlines()
        assert 'interlock_http_requests_total{method="POST",route="/v1/runs",status="201"} 1' in lines
        assert 'interlock_http_requests_total{method="GET",route="/v1/runs/{run}",status="404"} 1' in lines
        assert any(line.startswith('interlock_http_requests_total{method="other"') for line in lines)
        assert "interlock_runs_under_way 1" in lines
        assert "interlock_streams_open 0" in lines
        counted = next(line for line in lines if line.startswith("interlock_http_request_seconds_count"))
        assert counted.endswith(" 3")
        assert f'interlock_http_request_seconds_bucket{{le="+Inf"}} {counted.split()[1]}' in lines


ASKING_CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [ask_user]}]
routing: {signals: {clerk: [{signal: "[DONE]"}]}}
"""


@pytest.mark.parametrize(
    ("rules", "expects", "choices", "wrong", "right"),
    [
        ({"choices": ["blue", "red"]}, "one of: blue, red", ["blue", "red"], "green", "BLUE"),
        ({"pattern": "[0-9]{2}"}, "a text of the form [0-9]{2}", [], "7", "42"),
        ({"answer_schema": {"type": "integer"}}, "a whole number", [], "many", "7"),
        ({}, "", [], " ", "anything"),
    ],
)
async def test_a_question_tells_what_an_answer_must_look_like_and_is_asked_again_until_one_does(
    tmp_path: Path, rules: dict[str, Any], expects: str, choices: list[str], wrong: str, right: str
) -> None:
    asking = ToolCall(name="ask_user", arguments={"question": "Which?", **rules})
    replies: list[ScriptedAnswer | str] = [ScriptedAnswer(tool_calls=(asking,)), "So. [DONE]"]

    async with open_office(tmp_path, crews={"crew": ASKING_CREW}, model=ScriptedModel({"clerk": replies})) as office:
        run = await office.finished()
        (first,) = (await office.get("/v1/questions")).json()["questions"]
        assert first == run["questions"][0]
        assert (first["question"], first["expects"], first["choices"]) == ("Which?", expects, choices)
        await office.post(f"/v1/questions/{first['id']}/answer", json={"answer": wrong})
        await office.box.runner.wait_until_settled(run["id"])
        (again,) = (await office.get("/v1/questions")).json()["questions"]
        assert again["question"].startswith("Which?\n(")
        assert (again["expects"], again["choices"], again["id"]) == (expects, choices, first["id"])
        assert again["token"] != first["token"]
        await office.post(f"/v1/questions/{again['id']}/answer", json={"answer": right})
        await office.box.runner.wait_until_settled(run["id"])
        assert (await office.get(f"/v1/runs/{run['id']}")).json()["status"] == "completed"


async def test_a_question_is_answered_by_the_id_of_its_message_too(tmp_path: Path) -> None:
    async with open_office(tmp_path, model=ScriptedModel(read_script(TRAVEL / "script.yaml"))) as office:
        await (await office.box.start(load_crew(TRAVEL), "Plan a trip from LAX to Italy", run_id="trip")).result()
        (asked,) = await office.box.questions()
        await office.post(f"/v1/questions/{asked.id}/answer", json={"answer": "so many"})  # it is asked again
        await office.box.runner.wait_until_settled("trip")
        (asked,) = await office.box.questions()
        (shown,) = (await office.get("/v1/questions")).json()["questions"]
        assert (shown["token"], shown["asked_at"]) == (asked.token, asked.since)
        assert asked.id != asked.token
        answer = await office.post(f"/v1/questions/{asked.id}/answer", json={"answer": "5"})
        assert answer.status_code == 200
        await office.box.runner.wait_until_settled("trip")
        assert (await office.get("/v1/questions")).json() == {"questions": [], "next": None}


@pytest.mark.parametrize(
    "cursor",
    ["x", "x trip:1.0", "0 trip:1.0", "-1 trip:1.0", "1 ", "1 a/b:1.0", "1 trip", "1 trip:1.0 x", f"{10**18} trip:1.0"],
)
async def test_a_forged_cursor_of_questions_is_refused(tmp_path: Path, cursor: str) -> None:
    async with open_office(tmp_path) as office:
        forged = base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")
        assert code_of(await office.get("/v1/questions", params={"cursor": forged})) == (404, "cursor-not-found")
