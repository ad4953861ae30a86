"""Runs over HTTP, the API called as a function."""

import asyncio
from pathlib import Path

from tests.server.office import CREW, code_of, open_office


async def test_a_run_is_started_looked_at_listed_and_explained(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Over to you. [NEXT]")
        assert (run["status"], run["reason"], run["agent"]) == ("completed", "signal:[DONE]", "boss")
        assert run["id"] == run["run"]
        assert run["usage"]["calls"] == 2
        listed = (await office.get("/v1/runs")).json()
        assert [each["id"] for each in listed["runs"]] == [run["id"]]
        assert listed["next"] is None
        explained = (await office.get(f"/v1/runs/{run['id']}/explain")).json()
        assert explained["run"] == run["id"]
        texts = [reason["text"] for reason in explained["reasons"]]
        assert texts[0] == "started by owner"
        assert texts[1].startswith("clerk handed over to boss on [NEXT]")
        assert explained["reasons"][1]["event"]["candidates"][0]["signal"] == "[NEXT]"


TYPED = CREW.replace("entry_point: clerk\n", "entry_point: clerk\noutput: {type: object, required: [order]}\n")


async def test_the_value_of_a_typed_run_is_in_the_run_its_events_and_its_stream(tmp_path: Path) -> None:
    async with open_office(tmp_path, crews={"crew": TYPED}) as office:
        run = await office.finished('{"order": "A-17"} [DONE]')
        assert (run["status"], run["value"]) == ("completed", {"order": "A-17"})
        path = f"/v1/runs/{run['id']}/events"
        page = (await office.get(path)).json()["events"]
        (finished,) = (event for event in page if event["type"] == "run.finished")
        assert finished["value"] == {"order": "A-17"}
        streamed = [event.data for event in await office.events(path)]
        assert [event["value"] for event in streamed if event.get("type") == "run.finished"] == [{"order": "A-17"}]
        (replied,) = (event for event in page if event["type"] == "model.replied")
        assert replied["output"]["fault"] == ""


async def test_a_run_without_a_value_has_none_over_http(tmp_path: Path) -> None:
    async with open_office(tmp_path, crews={"crew": TYPED}) as office:
        run = await office.finished('{"lamp": 1} [DONE]')
        assert (run["status"], run["reason"], run["value"]) == ("failed", "invalid_output", None)
        page = (await office.get(f"/v1/runs/{run['id']}/events")).json()["events"]
        assert "value" not in page[-1] and sum(event["type"] == "nudged" for event in page) == 2


async def test_a_list_is_filtered_and_paged_by_a_cursor_without_gap_or_repetition(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        runs = [await office.finished() for _ in range(5)]
        paused = await office.finished("Who? [WAIT]")
        seen: list[str] = []
        cursor = None
        while True:
            page = (await office.get("/v1/runs", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
            seen += [run["id"] for run in page["runs"]]
            if (cursor := page["next"]) is None:
                break
        assert seen == [paused["id"], *(run["id"] for run in reversed(runs))]
        waiting = (await office.get("/v1/runs", params={"status": "paused", "crew": "office"})).json()["runs"]
        assert [run["id"] for run in waiting] == [paused["id"]]
        assert (await office.get("/v1/runs", params={"crew": "other"})).json() == {"runs": [], "next": None}


async def test_a_cursor_whose_run_was_deleted_says_so(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.finished()
        run = await office.finished()
        page = (await office.get("/v1/runs", params={"limit": 1})).json()
        await office.box.archive.delete_run(run["id"], 0)
        assert code_of(await office.get("/v1/runs", params={"cursor": page["next"]})) == (404, "cursor-not-found")


async def test_a_finished_run_is_continued_from_its_history(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        first = await office.finished()
        second = await office.start("And now?", **{"continue": first["id"]})
        assert second["continues"] == first["id"]
        await office.box.runner.wait_until_settled(second["id"])
        history = (await office.box.state(second["id"])).history
        assert [entry.text for entry in history] == ["hello", "hello [DONE]", "And now?", "And now? [DONE]"]


async def test_a_run_is_resumed_and_the_same_answer_again_gives_the_first_outcome(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Which colour? [WAIT]")
        assert (run["status"], run["text"], run["reason"]) == ("paused", "Which colour?", "signal:[WAIT]")
        assert [question["token"] for question in run["questions"]] == [run["token"]]
        path, answer = f"/v1/runs/{run['id']}/resume", {"token": run["token"], "input": "blue"}
        assert (await office.post(path, json=answer)).status_code == 200
        await office.box.runner.wait_until_settled(run["id"])
        again = await office.post(path, json=answer)
        assert (again.status_code, again.json()["status"]) == (200, "completed")
        other = await office.post(path, json={**answer, "input": "red"})
        assert code_of(other) == (409, "already-resumed")
        assert other.json()["outcome"]["text"] == "blue"


async def test_a_hundred_equal_answers_at_once_have_one_effect(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Which colour? [WAIT]")
        path = f"/v1/questions/{run['token']}/answer"
        answers = await asyncio.gather(*(office.post(path, json={"answer": "blue"}) for _ in range(100)))
        assert {answer.status_code for answer in answers} == {200}
        await office.box.runner.wait_until_settled(run["id"])
        events = (await office.get(f"/v1/runs/{run['id']}/events", params={"limit": 1000})).json()["events"]
        assert [event["type"] for event in events].count("run.resumed") == 1


async def test_a_run_is_cancelled_and_one_that_is_over_stays_as_it_is(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.start("hang")
        assert (await office.post(f"/v1/runs/{run['id']}/cancel")).json()["status"] == "cancelled"
        over = await office.finished()
        assert (await office.post(f"/v1/runs/{over['id']}/cancel", json={})).json()["status"] == "completed"


async def test_a_run_is_forked_where_nothing_is_open(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Over to you. [NEXT]")
        events = (await office.get(f"/v1/runs/{run['id']}/events")).json()["events"]
        after = next(event["seq"] for event in events if event["type"] == "handoff")
        refused = await office.post(f"/v1/runs/{run['id']}/fork", json={"after": 2**40})
        assert code_of(refused) == (409, "cannot-fork")
        near = refused.json()["near"]
        forked = await office.post(f"/v1/runs/{run['id']}/fork", json={"after": near[0]})
        assert forked.status_code == 201, (after, forked.text)
        assert forked.json()["continues"] == run["id"]
        assert forked.json()["id"] != run["id"]


async def test_the_body_of_a_start_is_bound_by_its_crew_and_any_body_by_the_most_generous(tmp_path: Path) -> None:
    small = f"{CREW}settings: {{max_request_body_size_kb: 1}}\n"
    large = CREW.replace("name: office", "name: palace") + "settings: {max_request_body_size_kb: 3}\n"

    async with open_office(tmp_path, crews={"small": small, "large": large}) as office:
        text = "x" * 2000
        assert code_of(await office.post("/v1/runs", json={"crew": "office", "input": text})) == (413, "body-too-large")
        assert (await office.post("/v1/runs", json={"crew": "palace", "input": text})).status_code == 201
        text = "x" * 4000
        assert code_of(await office.post("/v1/runs", json={"crew": "palace", "input": text})) == (413, "body-too-large")
