"""Broadcasts over HTTP: announced, listed, subscribed to, for later, dead."""

from pathlib import Path

import pytest

from tests.server.office import code_of, open_office

SIGNALS = "/v1/engine/signals"


async def test_a_broadcast_is_announced_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        body = {"type": "build:x:done", "data": {"ok": True}}
        first = await office.post(SIGNALS, json=body, headers={"idempotency-key": "a"})
        again = await office.post(SIGNALS, json=body, headers={"idempotency-key": "a"})
        assert (first.status_code, first.json()) == (201, again.json())
        assert first.json()["source"] == {"type": "process"}
        await office.post(SIGNALS, json={"type": "bare"})
        events = (await office.get(f"{SIGNALS}/events")).json()["events"]
        assert [(event["type"], event.get("data")) for event in events] == [
            ("build:x:done", {"ok": True}),
            ("bare", None),
        ]
        assert "data" not in events[1]
        chosen = (await office.get(f"{SIGNALS}/events", params={"pattern": "build:*:done", "limit": 1})).json()[
            "events"
        ]
        assert [event["id"] for event in chosen] == [first.json()["id"]]


@pytest.mark.parametrize("limit", [0, 1001, -1, "x"])
async def test_a_limit_outside_of_what_the_protocol_says_is_refused(tmp_path: Path, limit: object) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.get(f"{SIGNALS}/events", params={"limit": str(limit)})
        assert code_of(answer) == (400, "bad-parameter")


async def test_nobody_says_who_a_broadcast_is_from_but_us(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        forged = {"type": "x", "source": {"type": "system"}}
        assert code_of(await office.post(SIGNALS, json=forged)) == (422, "bad-body")
        assert code_of(await office.post(SIGNALS, json={"type": "  "})) == (422, "bad-broadcast")


async def test_an_agent_is_subscribed_and_not_any_more(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        order = {"crew": "office", "agent": "clerk", "pattern": "build:*"}
        await office.finished()  # the crew is known from now on, as with a real server from its start
        made = await office.post(f"{SIGNALS}/subscriptions", json=order)
        assert (made.status_code, made.json()) == (201, {**order, "silent": True, "origin": "api"})
        listed = (await office.get(f"{SIGNALS}/subscriptions")).json()["subscriptions"]
        assert made.json() in listed
        assert (await office.delete(f"{SIGNALS}/subscriptions", params=order)).status_code == 204
        gone = await office.delete(f"{SIGNALS}/subscriptions", params=order)
        assert code_of(gone) == (404, "no-such-signal")


async def test_a_signal_for_later_is_queued_replaced_listed_and_cancelled(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        order = {"type": "report:due", "data": 1, "inMs": 60_000, "repeatKey": "daily"}
        first = (await office.post(f"{SIGNALS}/delayed", json=order)).json()
        second = (await office.post(f"{SIGNALS}/delayed", json={**order, "data": 2})).json()
        listed = (await office.get(f"{SIGNALS}/delayed")).json()["delayed"]
        assert [(entry["id"], entry["data"], entry["attempts"]) for entry in listed] == [(second["id"], 2, 0)]
        assert first["id"] != second["id"]
        assert second["deliverAt"] > second["createdAt"]
        assert (await office.delete(f"{SIGNALS}/delayed", params={"id": second["id"]})).status_code == 204
        gone = await office.delete(f"{SIGNALS}/delayed", params={"id": second["id"]})
        assert code_of(gone) == (404, "no-such-signal")
        both = {**order, "deliverAt": 1}
        assert (await office.post(f"{SIGNALS}/delayed", json=both)).status_code == 409


@pytest.mark.parametrize("at", [0, -1, 2**62, 1])
async def test_absurd_times_are_refused(tmp_path: Path, at: int) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.post(f"{SIGNALS}/delayed", json={"type": "x", "deliverAt": at})
        assert code_of(answer) == (422, "bad-broadcast")


async def test_dead_letters_are_listed_and_one_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        assert (await office.get(f"{SIGNALS}/dead")).json() == {"dead": []}
        assert code_of(await office.post(f"{SIGNALS}/dead/none/revive")) == (404, "no-such-signal")
