"""Events as pages and as streams."""

import asyncio
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, load_crew
from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.ports import ModelRequest
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.positions import StreamPosition
from tests.server.office import CREW, Office, PieceByPiece, code_of, crew_file, live, open_office, parrot, parsed


def keys(events: list[Any]) -> list[tuple[str, int]]:
    return [(event["run"], event["seq"]) for event in events]


async def test_a_page_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Over to you. [NEXT]")
        path = f"/v1/runs/{run['id']}/events"
        page: dict[str, Any] = {"next": 0}
        seen: list[Any] = []
        while page["next"] is not None:
            page = (await office.get(path, params={"after": page["next"], "limit": 3})).json()
            seen += page["events"]
        assert keys(seen) == [(run["id"], seq) for seq in range(1, run["seq"] + 1)]
        assert seen[0]["type"] == "run.started"
        assert (await office.get(path, params={"after": run["seq"]})).json() == {"events": [], "next": None}


async def test_a_stream_has_the_same_events_ends_with_the_run_and_says_so(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Over to you. [NEXT]")
        path = f"/v1/runs/{run['id']}/events"
        page = (await office.get(path)).json()["events"]
        stream = await office.events(path)
        assert [event.data for event in stream[:-1]] == page
        assert (stream[-1]["event"], stream[-1].data["reason"]) == ("stream.closed", "run-over")
        assert int(stream[-1]["retry"]) > 0


async def test_a_reader_that_is_cut_off_after_any_event_goes_on_without_gap_or_repetition(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished("Over to you. [NEXT]")
        for path in (f"/v1/runs/{run['id']}/events", "/v1/engine/events?follow=false&after=0"):
            whole = (await office.events(path))[:-1]
            assert len(whole) > 5
            for n in range(len(whole) - 1):
                rest = await office.events(path, **{"last-event-id": whole[n]["id"]})
                assert [event.data for event in rest[:-1]] == [event.data for event in whole[n + 1 :]]


async def test_ids_are_positions_of_the_store_and_grow(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await asyncio.gather(*(office.finished("Over to you. [NEXT]") for _ in range(3)))
        events = (await office.events("/v1/engine/events?follow=false&after=0"))[:-1]
        positions = [int(event["id"].partition(".")[0]) for event in events]
        assert positions == sorted(positions)
        stored = await office.box.store.since(0)
        assert sorted(set(positions)) == [record.position for record in stored]


async def test_a_page_reads_no_more_of_a_run_than_it_shows(tmp_path: Path) -> None:
    """What is damaged beyond the page is found by reading that page."""

    async with open_office(tmp_path) as office:
        path = f"/v1/runs/{(await office.finished('Over to you. [NEXT]'))['id']}/events"
        whole = (await office.get(path)).json()["events"]
        with sqlite3.connect(office.box.data / "interlock.db") as connection:
            connection.execute("update records set body = x'7b7d' where seq = (select max(seq) from records)")
        connection.close()
        page = (await office.get(f"{path}?limit=1")).json()
        assert page == {"events": whole[:1], "next": 1}
        assert code_of(await office.get(path)) == (500, "damaged-run")


def damage_beginning(office: Office) -> None:
    """Of the first run."""
    with sqlite3.connect(office.box.data / "interlock.db") as connection:
        connection.execute("update records set body = x'7b7d' where position = 1")
    connection.close()


async def test_a_run_whose_beginning_is_damaged_does_not_end_the_streams_of_others(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.start("hang"))["id"]
        damage_beginning(office)
        async with live(office, "/v1/engine/events") as pieces:
            await until(lambda: office.service.feed.readers == 1)
            await office.box.cancel(run)
            other = (await office.finished())["id"]
            text = b""
            async for piece in pieces:
                text += piece
                if text.count(b"run.finished") == 2:
                    break
        ended = [event.data["run"] for event in parsed(text.decode()) if event.data["type"] == "run.finished"]
        assert ended == [run, other]


async def test_a_stream_of_the_past_leaves_out_what_is_damaged(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        runs = [(await office.finished())["id"] for _ in range(2)]
        damage_beginning(office)
        *events, _ = await office.events("/v1/engine/events?follow=false&after=0")
        assert {event.data["run"] for event in events} == set(runs)
        assert [event.data["run"] for event in events if event.data["type"] == "run.started"] == runs[1:]


async def test_a_key_of_a_crew_sees_its_runs_however_many_others_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of how many runs it is remembered whose they are makes no difference."""
    monkeypatch.setattr("interlock.server.streaming.feed.PATHS_MAX", 1)
    key = "ilk_" + "o" * 43
    mine = ServerKey(sha256=sha256(key.encode()).hexdigest(), scopes=("read",), crews=("office",))

    async with open_office(tmp_path, settings=ServerSettings(keys={"office": mine})) as office:
        runs = [(await office.finished("wait [WAIT]"))["id"] for _ in range(3)]
        headers = {"authorization": f"Bearer {key}"}
        *events, _ = await office.events("/v1/engine/events?follow=false&after=0", **headers)
        assert [event.data["run"] for event in events if event.data["type"] == "run.paused"] == runs


async def test_a_reader_that_has_seen_all_of_a_run_is_told_not_to_come_back(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished()
        path = f"/v1/runs/{run['id']}/events"
        last = (await office.events(path))[-2]["id"]
        answer = await office.get(path, headers={"accept": "text/event-stream", "last-event-id": last})
        assert (answer.status_code, answer.text) == (204, "")


async def test_a_stream_begins_after_a_seq_also_in_the_middle_of_a_record(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = await office.finished()
        path = f"/v1/runs/{run['id']}/events"
        assert run["seq"] > 3
        for after in range(run["seq"]):
            stream = await office.events(f"{path}?after={after}")
            assert stream[0].data["seq"] == after + 1


async def test_a_stream_follows_a_run_over_a_pause_to_its_end_with_the_pieces_of_replies(tmp_path: Path) -> None:
    async with open_office(tmp_path, model=PieceByPiece()) as office:
        run = await office.start("Which colour? [WAIT]")
        following = asyncio.create_task(office.events(f"/v1/runs/{run['id']}/events"))
        await until(lambda: office.service.feed.readers == 1)
        await office.box.runner.wait_until_settled(run["id"])
        await office.post(f"/v1/runs/{run['id']}/resume", json={"input": "blue"})
        events = [event.data for event in (await following)[:-1]]
        journal = [event for event in events if "seq" in event]
        assert keys(journal) == [(run["id"], seq) for seq in range(1, len(journal) + 1)]
        assert journal[-1]["type"] == "run.finished"
        pieces = [event for event in events if "seq" not in event][-2:]
        assert pieces == [
            {"run": run["id"], "type": "model.delta", "agent": "clerk", "text": text} for text in ("blue", "[DONE]")
        ]


async def test_a_stream_carries_what_a_model_thinks_apart_from_what_it_says(tmp_path: Path) -> None:
    async with open_office(tmp_path, model=PieceByPiece()) as office:
        run = await office.start("Which colour? [WAIT]")
        following = asyncio.create_task(office.events(f"/v1/runs/{run['id']}/events"))
        await until(lambda: office.service.feed.readers == 1)
        await office.box.runner.wait_until_settled(run["id"])
        await office.post(f"/v1/runs/{run['id']}/resume", json={"input": "<think>maybe so</think> blue"})
        events = [event.data for event in (await following)[:-1]]
        pieces = [(event["type"], event["text"]) for event in events if "seq" not in event]
        assert pieces[-4:] == [
            ("reasoning.delta", "maybe"),
            ("reasoning.delta", "so"),
            ("model.delta", "blue"),
            ("model.delta", "[DONE]"),
        ]
        replied = [event for event in events if event["type"] == "model.replied"][-1]
        assert (replied["text"], replied["reasoning"]) == ("blue [DONE]", "maybe so")


async def test_everything_that_happens_is_in_one_stream_also_what_another_process_does(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        reader = office.service.streams.new_reader(
            StreamPosition(await office.box.store.newest_position()), deltas=False
        )
        texts: list[bytes] = []

        async def read() -> None:
            async for text in office.service.feed.stream(reader, follow=True):
                texts.extend((text,))

        reading = asyncio.create_task(read())
        await until(lambda: office.service.feed.readers == 1)
        mine = await office.finished()
        async with Interlock(tmp_path / "data", models=parrot) as other:
            handle = await other.start(load_crew(crew_file(tmp_path)), "elsewhere")
            await handle.result()
        ours = await office.finished()
        stored = await office.box.store.since(0)
        count = sum(len(each.record.events) for each in stored)
        await until(lambda: len(parsed(b"".join(texts).decode())) >= count)
        reader.close("draining")
        await reading
        events = [event.data for event in parsed(b"".join(texts).decode())[:-1]]
        assert len(keys(events)) == len(set(keys(events))) == count
        assert {event["run"] for event in events} == {mine["id"], handle.id, ours["id"]}


async def until(holds: Any) -> None:
    """Loops until it does; the test's own bound ends one that never will."""
    while not holds():
        await asyncio.sleep(0)


async def test_a_slow_reader_is_dropped_told_why_and_goes_on_from_its_last_event(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(stream_buffer_kb=4)) as office:
        feed: EventFeed = office.service.feed
        reader = office.service.streams.new_reader(StreamPosition(0), deltas=False)
        stream = feed.stream(reader, follow=True)
        taken = await anext(stream)
        asking = asyncio.ensure_future(anext(stream))
        await until(lambda: feed.readers == 1)
        runs = [await office.finished("x" * 400) for _ in range(8)]
        assert feed.readers == 0
        assert "interlock_slow_readers_dropped_total 1" in office.service.metrics.text(()).splitlines()
        taken += await asking
        async for text in stream:
            taken += text
        *seen, last = parsed(taken.decode())
        assert last.data["reason"] == "slow-reader"
        rest = (await office.events("/v1/engine/events?follow=false", **{"last-event-id": seen[-1]["id"]}))[:-1]
        both = [event.data for event in [*seen, *rest]]
        assert keys(both) == [(run["id"], seq) for run in runs for seq in range(1, run["seq"] + 1)]
        assert seen
        assert rest


async def test_one_event_larger_than_the_buffer_reaches_a_reader_that_keeps_up(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(stream_buffer_kb=1)) as office:
        run = await office.start("Which colour? [WAIT]")
        following = asyncio.create_task(office.events(f"/v1/runs/{run['id']}/events?deltas=false"))
        await until(lambda: office.service.feed.readers == 1)
        await office.post(f"/v1/runs/{run['id']}/resume", json={"input": "y" * 50_000})
        seen: list[Any] = []
        events = await following
        while events[-1].data["reason"] != "run-over":  # it may be dropped on the way, and comes back
            seen += events[:-1]
            last = seen[-1]["id"]
            events = await office.events(f"/v1/runs/{run['id']}/events?deltas=false", **{"last-event-id": last})
        seen += events[:-1]
        assert keys([event.data for event in seen]) == [(run["id"], seq) for seq in range(1, len(seen) + 1)]


@pytest.mark.parametrize("place", ["x", "1.x", "-1", "1.2.3", "9" * 30])
async def test_an_id_that_was_never_given_out_is_refused(tmp_path: Path, place: str) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.get("/v1/engine/events", headers={"last-event-id": place})
        assert code_of(answer) == (400, "bad-event-id")


async def test_streams_are_bounded_by_key_and_in_all(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(streams_per_key_max=2)) as office:
        run = await office.start("hang")
        path = f"/v1/runs/{run['id']}/events"
        following = [asyncio.create_task(office.events(path)) for _ in range(2)]
        await until(lambda: office.service.feed.readers == 2)
        refused = await office.get(path, headers={"accept": "text/event-stream"})
        assert code_of(refused) == (429, "too-many-streams")
        assert refused.headers["retry-after"] == "1"
        await office.post(f"/v1/runs/{run['id']}/cancel")
        await asyncio.gather(*following)
        assert office.service.streams.count == 0


TEAM = """\
version: "2.0"
name: team
entry_point: lead
agents: [{id: lead, system_prompt: "Lead."}]
sub_crews: {office: {config_path: crew.yaml}}
routing: {signals: {lead: [{signal: "[ASK]", type: sub_crew, target_crew: office}, {signal: "[DONE]"}]}}
"""


async def leading(request: ModelRequest) -> str:
    """The lead asks its sub-crew once, whose clerk asks a person."""
    if request.agent == "lead":
        return "Ask them. [ASK]" if request.number == 1 else "Thanks. [DONE]"
    return "Which colour? [WAIT]" if request.number == 1 else "Blue. [DONE]"


async def test_a_stream_carries_the_events_of_runs_below_and_ends_with_its_own_last_one(tmp_path: Path) -> None:
    async with open_office(tmp_path, crews={"crew": CREW, "team": TEAM}, model=leading) as office:
        run = (await office.post("/v1/runs", json={"crew": "team", "input": "go"})).json()
        path = f"/v1/runs/{run['id']}/events"
        following = asyncio.create_task(office.events(f"{path}?deltas=false"))
        await until(lambda: office.service.feed.readers == 1)
        await office.box.runner.wait_until_settled(run["id"])
        (question,) = (await office.get("/v1/questions")).json()["questions"]
        shown = (await office.get(f"/v1/runs/{run['id']}")).json()
        assert shown["status"] == "paused"
        assert shown["questions"] == [question]
        assert question["run"].startswith(run["id"])
        assert question["run"] != run["id"]
        answer = await office.post(f"/v1/questions/{question['id']}/answer", json={"answer": "blue"})
        assert answer.status_code == 200, answer.text
        *events, closed = await following
        assert closed.data["reason"] == "run-over"
        assert (events[-1].data["type"], events[-1].data["run"]) == ("run.finished", run["id"])
        followed = [event async for event in office.box.runner.follow(run["id"]) if "seq" in event]
        assert sorted(map(str, [event.data for event in events])) == sorted(map(str, followed))
        below = [event.data for event in events if event.data["run"] != run["id"]]
        assert {tuple(event["path"]) for event in below} == {("office",)}
        for n in range(len(events) - 1):
            rest = (await office.events(f"{path}?deltas=false", **{"last-event-id": events[n]["id"]}))[:-1]
            assert [event.data for event in rest] == [event.data for event in events[n + 1 :]]
        listed = (await office.get("/v1/runs")).json()["runs"]
        assert [(each["id"], each["parent"]) for each in listed] == [(run["id"], "")]
        child = (await office.get(f"/v1/runs/{question['run']}")).json()
        assert (child["parent"], child["status"]) == (run["id"], "completed")


async def test_a_run_is_given_a_context_by_whoever_starts_it(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        context = {"shared_memory": {"colour": "blue"}, "previous_results": {"other": "red"}, "original_input": "x"}
        run = await office.start("hello", context=context)
        events = (await office.get(f"/v1/runs/{run['id']}/events")).json()["events"]
        assert events[0]["context"]["shared_memory"] == {"colour": "blue"}
        body = {"crew": "office", "continue": run["id"], "context": {}}
        assert code_of(await office.post("/v1/runs", json=body)) == (422, "bad-body")


@pytest.mark.parametrize("ahead", [1, 10**6])
async def test_a_place_that_the_store_has_not_reached_is_refused(tmp_path: Path, ahead: int) -> None:
    """As after a restore from a backup: a reader that waits there would miss everything up to it."""

    async with open_office(tmp_path) as office:
        run = await office.finished()
        newest = await office.box.store.newest_position()
        for path in ("/v1/engine/events", f"/v1/runs/{run['id']}/events"):
            for place in (str(newest + ahead), f"{newest + ahead}.1"):
                headers = {"accept": "text/event-stream", "last-event-id": place}
                assert code_of(await office.get(path, headers=headers)) == (409, "event-ahead")
        assert (await office.events("/v1/engine/events?follow=false", **{"last-event-id": str(newest)}))[-1].data[
            "reason"
        ] == "end"
