"""`Idempotency-Key`: asking twice does nothing twice, also across a restart and a crash in between."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock import Interlock, load_crew
from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.compose import orders
from interlock.ports import RunOrder
from interlock.testing import ManualClock
from tests.boxes import sqlite_of
from tests.server.office import Office, code_of, crew_file, open_office, parrot

START = {"crew": "office", "input": "hello"}


def keyed(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


async def test_the_same_request_again_gets_the_first_answer_also_after_a_restart(tmp_path: Path) -> None:
    answers: list[tuple[int, str]] = []

    for _ in range(2):
        async with open_office(tmp_path) as office:
            for _ in range(2):
                answer = await office.post("/v1/runs", json=START, headers=keyed("a"))
                answers.append((answer.status_code, answer.text))
                await office.box.runner.wait_until_settled(answer.json()["id"])
            assert len(await office.box.journal.rows()) == 1
    assert len(set(answers)) == 1
    assert answers[0][0] == 201


async def test_another_request_under_the_key_is_refused_be_it_another_body_or_another_address(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.post("/v1/runs", json=START, headers=keyed("a"))).json()
        for path, body in (("/v1/runs", {**START, "input": "x"}), (f"/v1/runs/{run['id']}/cancel", {})):
            answer = await office.post(path, json=body, headers=keyed("a"))
            assert code_of(answer) == (409, "idempotency-key-reused")
        assert len(await office.box.journal.rows()) == 1


async def test_a_refusal_is_an_answer_too_and_our_own_failure_is_none(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        paused = await office.finished("Who? [WAIT]")
        path = f"/v1/runs/{paused['id']}/resume"
        refused = await office.post(path, json={"token": "none"}, headers=keyed("a"))
        assert code_of(refused) == (409, "not-waiting")
        assert (await office.post(path, json={"token": "none"}, headers=keyed("a"))).text == refused.text
        await sqlite_of(office.box).limit_bytes(1)
        full = await office.post("/v1/runs", json={**START, "input": "x" * 100_000}, headers=keyed("b"))
        assert code_of(full) == (507, "storage-full")


@pytest.mark.parametrize("crashed_after_start", [False, True])
async def test_what_was_asked_before_a_crash_is_made_once(tmp_path: Path, crashed_after_start: bool) -> None:
    """The server died after it took the request, before or after it started the run, and before it could answer."""
    planned: list[str] = []

    async with open_office(tmp_path) as office:
        real_answered = office.box.store.store_response
        real_start = office.box.start

        async def die(*args: Any, **more: Any) -> Any:
            planned.append(more.get("run_id") or args[0].planned)
            raise asyncio.CancelledError

        if crashed_after_start:
            office.box.store.store_response = die  # type: ignore[method-assign]
        else:
            office.box.start = die  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await office.post("/v1/runs", json=START, headers=keyed("a"))
        office.box.store.store_response, office.box.start = real_answered, real_start  # type: ignore[method-assign]
    async with open_office(tmp_path) as office:
        answer = await office.post("/v1/runs", json=START, headers=keyed("a"))
        assert answer.status_code == 201
        assert answer.json()["id"] == planned[0]
        assert [row.run for row in await office.box.journal.rows()] == planned


async def test_while_the_first_is_under_way_the_second_is_told_to_wait(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        begun, go_on = asyncio.Event(), asyncio.Event()
        real = office.box.start

        async def slow(*args: Any, **more: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await real(*args, **more)

        office.box.start = slow  # type: ignore[method-assign]
        first = asyncio.create_task(office.post("/v1/runs", json=START, headers=keyed("a")))
        await begun.wait()
        second = await office.post("/v1/runs", json=START, headers=keyed("a"))
        assert code_of(second) == (409, "request-in-progress")
        assert second.headers["retry-after"] == "1"
        go_on.set()
        assert (await first).status_code == 201


async def no_orders(owner: str) -> list[RunOrder]:
    return []


async def test_an_answer_that_waiting_helps_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_office(tmp_path) as office:
        folder = office.box.data
        async with Interlock(folder, models=parrot) as other:
            handle = await other.start(load_crew(crew_file(folder.parent)), "hang")
            other.runner.orders.orders_for = no_orders  # type: ignore[method-assign]
            path = f"/v1/runs/{handle.id}/cancel"
            monkeypatch.setattr(orders, "WAIT_MS", 0)
            pending = await office.post(path, headers=keyed("a"))
            assert code_of(pending) == (202, "order-pending")
            assert pending.headers["retry-after"] == "1"
        answer = await office.post(path, headers=keyed("a"))
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_a_signal_for_later_that_was_asked_for_before_a_crash_is_queued_once(tmp_path: Path) -> None:
    async def ask(office: Office) -> httpx2.Response:
        order = {"type": "later", "inMs": 60_000}
        return await office.post("/v1/engine/signals/delayed", json=order, headers=keyed("a"))

    async with open_office(tmp_path) as office:

        async def die(_: Any) -> None:
            raise asyncio.CancelledError

        office.box.store.store_response = die  # type: ignore[method-assign,assignment]
        with pytest.raises(asyncio.CancelledError):
            await ask(office)
    async with open_office(tmp_path) as office:
        answer = await ask(office)
        assert answer.status_code == 201, answer.text
        queued = (await office.get("/v1/engine/signals/delayed")).json()["delayed"]
        assert [entry["id"] for entry in queued] == [answer.json()["id"]]


async def test_two_keys_at_once_are_none(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        two = [("idempotency-key", "a"), ("idempotency-key", "b")]
        answer = await office.post("/v1/runs", json=START, headers=two)
        assert code_of(answer) == (400, "bad-idempotency-key")


async def test_a_key_is_its_callers_own(tmp_path: Path) -> None:
    other = "ilk_" + "o" * 43
    sha = hashlib.sha256(other.encode()).hexdigest()
    settings = ServerSettings(keys={"ci": ServerKey(sha256=sha, scopes=("run",))})

    async with open_office(tmp_path, settings=settings) as office:
        mine = await office.post("/v1/runs", json=START, headers=keyed("a"))
        headers = {**keyed("a"), "authorization": f"Bearer {other}"}
        theirs: httpx2.Response = await office.post("/v1/runs", json=START, headers=headers)
        assert mine.json()["id"] != theirs.json()["id"]


async def test_a_key_is_forgotten_after_a_day(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_office(tmp_path, clock=clock) as office:
        first = (await office.post("/v1/runs", json=START, headers=keyed("a"))).json()["id"]
        clock.jump(24 * 60 * 60 * 1000 - 1)
        assert (await office.post("/v1/runs", json=START, headers=keyed("a"))).json()["id"] == first
        clock.jump(2)
        assert (await office.post("/v1/runs", json=START, headers=keyed("a"))).json()["id"] != first


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256])
async def test_what_cannot_be_a_key_is_refused(tmp_path: Path, key: str) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.post("/v1/runs", json=START, headers={b"idempotency-key": key.encode()})
        assert code_of(answer) == (400, "bad-idempotency-key")
