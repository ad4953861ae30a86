"""Every refusal has a code, a status and a test that reaches it, and is in the OpenAPI document."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import msgspec
import pytest

from interlock import Interlock, load_crew
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.config.store_settings import LimitSettings
from interlock.adapters.config.webhook_settings import IncomingHook
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.adapters.webhooks.verification import TOKEN_HEADER, incoming_webhooks
from interlock.compose import orders
from interlock.engine.events import ModelCalled
from interlock.errors import (
    InputRefused,
    JournalDiverged,
    NotOwner,
    OutOfOrder,
    ParentIsOver,
    StorageFull,
    StoreBroken,
    StoreFailed,
)
from interlock.messages.refusals import TooManyMessages
from interlock.ports import OrderReceipt, RunOrder
from interlock.runtime.claiming.work import WorkSettings
from interlock.server import readiness
from interlock.server.http.problems import CODES, PROBLEM_JSON, problem_of
from interlock.testing import ManualClock
from tests.boxes import sqlite_of
from tests.server.office import ADDRESS, Office, code_of, crew_file, open_office, parrot

Ask = Callable[[Office], Awaitable[httpx2.Response]]
START = {"crew": "office", "input": "hello"}
JSON = {"content-type": "application/json"}
TWO_A_SECOND = ServerSettings(requests_per_second=1, failures_per_minute=1, streams_per_key_max=1)


def get(path: str, **headers: str) -> Ask:
    return lambda office: office.get(path, headers=headers)


def delete(path: str) -> Ask:
    return lambda office: office.delete(path)


def post(path: str, body: Any = None, **headers: str) -> Ask:
    return lambda office: office.post(path, json={} if body is None else body, headers=headers)


def raw(path: str, content: bytes) -> Ask:
    return lambda office: office.post(path, content=content, headers=JSON)


def without_key(path: str, **headers: str) -> Ask:
    async def ask(office: Office) -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(office.guard), base_url=ADDRESS) as stranger:
            return await stranger.get(path, headers=headers)

    return ask


def again(ask: Ask, times: int = 3) -> Ask:
    async def asked(office: Office) -> httpx2.Response:
        for _ in range(times - 1):
            await ask(office)
        return await ask(office)

    return asked


def of_run(told: str, ask: Callable[[str], Ask]) -> Ask:
    """Asks about a run that was told this."""

    async def asked(office: Office) -> httpx2.Response:
        run = await office.finished(told)
        return await ask(run["id"])(office)

    return asked


async def missing_scope(office: Office) -> httpx2.Response:
    access = office.service.access
    assert access is not None
    (owner, caller), *_ = access._known
    access._known = [(owner, msgspec.structs.replace(caller, scopes=frozenset({"answer"})))]
    return await office.get("/v1/runs")


async def in_progress(office: Office) -> httpx2.Response:
    office.service.idempotency._in_progress.add(("owner", "a"))
    return await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})


async def key_reused(office: Office) -> httpx2.Response:
    await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})
    return await office.post("/v1/runs", json={**START, "input": "x"}, headers={"idempotency-key": "a"})


async def draining(office: Office) -> httpx2.Response:
    office.service.is_draining = True
    assert (await office.get("/v1/runs")).status_code == 200
    ready = await office.get("/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
    return await office.post("/v1/runs", json=START)


async def too_slow(office: Office) -> httpx2.Response:
    async def dripping() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    return await office.post("/v1/runs", content=dripping(), headers=JSON)


async def many_streams(office: Office) -> httpx2.Response:
    office.service.streams._open["owner"] = 1
    return await office.get("/v1/engine/events")


async def internal(office: Office) -> httpx2.Response:
    async def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("secret insides")

    office.box.journal.rows = broken  # type: ignore[method-assign]
    answer = await office.get("/v1/runs")
    assert "insides" not in answer.text
    return answer


async def deleted(office: Office) -> httpx2.Response:
    run = await office.finished()
    await office.box.archive.delete_run(run["id"], 0)
    return await office.get(f"/v1/runs/{run['id']}")


async def too_many_messages(office: Office) -> httpx2.Response:
    run = await office.finished("Who? [WAIT]")
    order = {"type": "NOTE", "to": "clerk"}

    async def full(*_: Any, **__: Any) -> Any:
        raise TooManyMessages("m1", "messages of a run", 1)

    office.box.runner.send_message = full  # type: ignore[method-assign]
    return await office.post(f"/v1/runs/{run['id']}/messages", json=order)


async def answered(office: Office) -> httpx2.Response:
    run = await office.finished("Who? [WAIT]")
    path = f"/v1/questions/{run['token']}/answer"
    await office.post(path, json={"answer": "me"})
    return await office.post(path, json={"answer": "you"})


async def begun_with_deps(office: Office) -> httpx2.Response:
    """A program began it with deps, which a server does not have."""
    folder = office.box.data
    async with Interlock(folder, models=parrot, deps="a client") as other:
        run = (await (await other.start(load_crew(crew_file(folder.parent)), "Who? [WAIT]")).result()).run
    return await office.post(f"/v1/runs/{run}/resume", json={"input": "me"})


async def too_many_queued(office: Office) -> httpx2.Response:
    """A run waits for a worker, and this server claims nothing."""
    office.box.stop_claiming()
    folder = office.box.data
    async with Interlock(folder, work=WorkSettings(drives=False)) as other:
        waiting = await other.start(load_crew(crew_file(folder.parent)), "hello")
    refused = await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})
    assert refused.headers["retry-after"] == "5"
    await office.box.runner.owners.claim(waiting.id)
    assert (await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})).status_code == 201
    return refused


async def nothing(owner: str) -> list[RunOrder]:
    return []


async def elsewhere(office: Office) -> httpx2.Response:
    """Another process of the same folder drives it, and takes no order in time."""
    folder = office.box.data
    async with Interlock(folder, models=parrot) as other:
        handle = await other.start(load_crew(crew_file(folder.parent)), "hang")
        other.runner.orders.orders_for = nothing  # type: ignore[method-assign]
        with patch.object(orders, "WAIT_MS", 0):
            return await office.post(f"/v1/runs/{handle.id}/cancel")


async def refused_elsewhere(office: Office) -> httpx2.Response:
    """The process that drives the run refuses for a reason that only it knows."""
    folder = office.box.data
    async with Interlock(folder, models=parrot) as other:
        handle = await other.start(load_crew(crew_file(folder.parent)), "hang")

        async def refuse(*_: Any, **__: Any) -> None:
            raise RuntimeError("no more")

        other.runner.cancel = refuse  # type: ignore[method-assign]
        return await office.post(f"/v1/runs/{handle.id}/cancel")


async def lost_order(office: Office) -> httpx2.Response:
    """The order is gone before its outcome was read."""
    folder = office.box.data
    async with Interlock(folder, models=parrot) as other:
        handle = await other.start(load_crew(crew_file(folder.parent)), "hang")
        posted = office.box.runner.orders.post

        async def lose(order: RunOrder) -> OrderReceipt:
            done = await posted(order)
            await office.box.runner.orders.forget(order.key)
            return done

        office.box.runner.orders.post = lose  # type: ignore[method-assign]
        return await office.post(f"/v1/runs/{handle.id}/cancel")


async def damaged(office: Office) -> httpx2.Response:
    run = await office.finished()
    with sqlite3.connect(office.box.data / "interlock.db") as connection:
        connection.execute("update records set body = x'7b7d' where seq = 1")
    connection.close()
    return await office.get(f"/v1/runs/{run['id']}/explain")


async def damaged_answer(office: Office) -> httpx2.Response:
    """What was answered under a key; its seal is left as it was."""
    await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})
    with sqlite3.connect(office.box.data / "interlock.db") as connection:
        (seal,) = connection.execute("select seal from requests").fetchone()
        connection.create_function("interlock_seal", -1, lambda *_: seal)
        connection.execute("update requests set body = x'7b7d'")
    connection.close()
    return await office.post("/v1/runs", json=START, headers={"idempotency-key": "a"})


async def diverged(office: Office) -> httpx2.Response:
    """A journal whose conclusions the engine does not draw."""
    run = await office.finished("Who? [WAIT]")
    row, records = await office.box.journal.row(run["id"]), await office.box.journal.records(run["id"])
    called = records[0].events[-1]
    assert isinstance(called, ModelCalled)
    events = (*records[0].events[:-1], msgspec.structs.replace(called, attempt=7))
    told = [msgspec.structs.replace(records[0], events=events), *records[1:]]
    other = msgspec.structs.replace(row, run="other", epoch=0)
    await office.box.archive.add_run(other, seal_chain("other", told))
    return await office.post("/v1/runs/other/resume", json={"input": "me"})


async def closed_store(office: Office) -> httpx2.Response:
    await office.box.store.close()
    return await office.get("/v1/runs")


async def broken_store(office: Office) -> httpx2.Response:
    (office.box.data / "interlock.db-wal").unlink()
    await office.post("/v1/runs", json=START)
    return await office.post("/v1/runs", json=START)


async def full(office: Office) -> httpx2.Response:
    await sqlite_of(office.box).limit_bytes(1)
    return await office.post("/v1/runs", json={**START, "input": "x" * 100_000})


async def full_before(office: Office) -> httpx2.Response:
    """New work is refused for a moment, reading continues, and work is accepted again when there is room."""
    assert code_of(await full(office)) == (507, "storage-full")
    assert (await office.get("/readyz")).json() == {"status": "storage-full"}
    assert (await office.get("/v1/runs")).status_code == 200
    refused = await office.post("/v1/runs", json=START)
    clock = office.box.clock
    assert isinstance(clock, ManualClock)
    clock.advance(1000)
    await sqlite_of(office.box).limit_bytes(2**30)
    assert (await office.post("/v1/runs", json=START)).status_code == 201
    return refused


def webhook(said: dict[str, str]) -> Ask:
    return lambda office: office.post("/v1/webhooks/plain", json=said, headers={TOKEN_HEADER: "token"})


async def much_unread(office: Office) -> httpx2.Response:
    office.guard._unread["owner"] = 64 * 1024 * 1024
    return await office.get("/v1/runs")


HOOKS = incoming_webhooks({"plain": IncomingHook(types=("known",), token_env="T")}, {"T": "token"})

REACHED: dict[str, Ask] = {
    "headers-too-large": get("/healthz", x="y" * 20_000),
    "bad-parameter": get("/v1/runs?limit=1001"),
    "bad-event-id": get("/v1/engine/events", **{"last-event-id": "nope"}),
    "event-ahead": get("/v1/engine/events", **{"last-event-id": "1000000"}),
    "cursor-not-found": get("/v1/runs?cursor=nope"),
    "bad-json": raw("/v1/runs", b'{"crew": NaN}'),
    "too-deep": raw("/v1/runs", b"[" * 65 + b"]" * 65),
    "bad-idempotency-key": post("/v1/runs", START, **{"idempotency-key": "a b"}),
    "no-key": without_key("/v1/runs"),
    "wrong-key": without_key("/v1/runs", authorization="Bearer x"),
    "missing-scope": missing_scope,
    "host-not-allowed": get("/v1/runs", host="evil.example"),
    "origin-not-allowed": get("/v1/runs", origin="http://evil.example"),
    "not-found": get("/v1/nothing"),
    "method-not-allowed": post("/v1/crews"),
    "body-too-slow": too_slow,
    "body-too-large": raw("/v1/runs", b'"' + b"x" * 1024 * 1024 + b'"'),
    "not-json": lambda office: office.post("/v1/runs", content=b"{}", headers={"content-type": "text/plain"}),
    "bad-body": post("/v1/runs", {"crew": "office", "unknown": 1}),
    "idempotency-key-reused": key_reused,
    "request-in-progress": in_progress,
    "too-many-requests": again(get("/v1/crews")),
    "too-much-unread": much_unread,
    "too-many-queued": too_many_queued,
    "too-many-failures": again(without_key("/v1/runs", authorization="Bearer x"), 2),
    "too-many-streams": many_streams,
    "draining": draining,
    "admission-closed": full_before,
    "internal-error": internal,
    "crew-not-served": post("/v1/runs", {"crew": "offise"}),
    "unsound-crew": post("/v1/runs", {"crew": "broken"}),
    "question-not-found": post("/v1/questions/none:1.0/answer", {"answer": "x"}),
    "bad-broadcast": post("/v1/engine/signals", {"type": " "}),
    "bad-format": post("/v1/engine/signals/subscriptions", {"crew": "office", "agent": "clerk", "pattern": "x:**"}),
    "unknown-subscriber": post("/v1/engine/signals/subscriptions", {"crew": "none", "agent": "x", "pattern": "x"}),
    "bad-message": of_run("Who? [WAIT]", lambda run: post(f"/v1/runs/{run}/messages", {"type": "NONE", "to": "clerk"})),
    "too-many-messages": too_many_messages,
    "no-such-signal": post("/v1/engine/signals/dead/none/revive"),
    "webhook-not-found": post("/v1/webhooks/none", {"type": "x"}),
    "webhook-type-not-allowed": webhook({"id": "1", "type": "other"}),
    "no-such-schedule": post("/v1/schedules/none/pause"),
    "no-such-approval": delete("/v1/approvals/none"),
    "letter-not-found": post("/v1/engine/webhooks/dead/7/retry"),
    "run-not-found": get("/v1/runs/none"),
    "run-deleted": deleted,
    "already-resumed": answered,
    "host-lacks": begun_with_deps,
    "not-waiting": of_run("hello", lambda run: post(f"/v1/runs/{run}/resume", {"input": "x"})),
    "cannot-fork": of_run("hello", lambda run: post(f"/v1/runs/{run}/fork", {"after": 99})),
    "order-pending": elsewhere,
    "order-refused": refused_elsewhere,
    "order-lost": lost_order,
    "usage-error": of_run("Who? [WAIT]", lambda run: post("/v1/runs", {**START, "continue": run})),
    "damaged-run": damaged,
    "damaged-row": damaged_answer,
    "journal-diverged": diverged,
    "store-failed": closed_store,
    "store-broken": broken_store,
    "storage-full": full,
}
# A race of two processes in the middle of a request; what is answered then is looked at alone.
RACES = {
    "input-refused": InputRefused("r", "hook 'guard' refused: rude"),
    "not-owner": NotOwner("r"),
    "out-of-order": OutOfOrder("r", 2, 3),
    "parent-is-over": ParentIsOver("r~1.0", "r"),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "body-too-slow": {"settings": ServerSettings(body_timeout_seconds=0.01)},
    "too-many-requests": {"settings": TWO_A_SECOND, "clock": ManualClock()},
    "too-many-failures": {"settings": TWO_A_SECOND, "clock": ManualClock()},
    "too-many-streams": {"settings": TWO_A_SECOND},
    "too-many-queued": {"host": HostSettings(limits=LimitSettings(queued_runs=1))},
    "admission-closed": {"clock": ManualClock()},
}


# Answered before there is a request: see test_sockets.py and test_flood.py.
# Or before the data folder is open: see tests/findings/test_6_01_a_lost_log_is_noticed.py.
BELOW = ("bad-request", "headers-too-slow", "too-many-connections", "records-missing")


def test_every_code_has_a_test() -> None:
    assert sorted([*REACHED, *RACES, *BELOW]) == sorted(CODES)


@pytest.mark.parametrize("code", REACHED)
async def test_a_refusal_has_its_code_and_is_documented(tmp_path: Path, code: str) -> None:
    try:
        async with open_office(tmp_path, incoming=HOOKS, **OPTIONS.get(code, {})) as office:
            document = (await office.get("/openapi.json")).json()
            answer = await REACHED[code](office)
            assert code_of(answer) == (CODES[code][0], code)
            if code not in ("not-found", "method-not-allowed"):
                assert _is_documented(document, answer, code), (answer.request.method, answer.request.url)
    except Exception as error:  # a broken store says so once more when it is closed
        assert code == "store-broken"
        assert getattr(error, "code", "") == "store-broken"


def _is_documented(document: Any, answer: httpx2.Response, code: str) -> bool:
    asked = answer.request.url.path.split("/")
    for path, operations in document["paths"].items():
        parts = path.split("/")
        fits = all(part == word or part.startswith("{") for part, word in zip(parts, asked, strict=False))
        if len(parts) == len(asked) and fits and answer.request.method.lower() in operations:
            told = operations[answer.request.method.lower()]["responses"].get(str(answer.status_code), {})
            return code in told.get("content", {}).get(PROBLEM_JSON, {}).get("examples", {})
    return False


@pytest.mark.parametrize("code", RACES)
def test_a_race_is_a_conflict(code: str) -> None:
    assert (problem_of(RACES[code])["status"], problem_of(RACES[code])["code"]) == (409, code)


def test_an_error_that_is_not_for_callers_keeps_its_insides() -> None:
    class Odd(JournalDiverged):
        code = "odd"

    problem = problem_of(Odd("r", 3))
    assert (problem["status"], problem["code"]) == (500, "internal-error")
    assert "seq 3" not in problem["detail"]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (get("/v1/runs/"), "not-found"),
        (get("/v1/runs?limit=1&limit=2"), "bad-parameter"),
        (raw("/v1/engine/signals", b'{"type": "a", "type": "b"}'), "bad-json"),
        (post("/v1/runs/none/cancel", {"why": "because"}), "bad-body"),
        (lambda office: office.request("DELETE", "/v1/session", json={"all": True}), "bad-body"),
        (get("/v1/runs/a%00b"), "bad-parameter"),
        (get("/v1/runs?before=%00"), "bad-parameter"),
        (get("/v1/engine/events?after=1000000"), "event-ahead"),
        (get("/v1/crews", host="127.0.0.1:1@evil.example"), "host-not-allowed"),
        (get("/v1/crews", host="127.0.0.1:8321:1"), "host-not-allowed"),
        (get("/v1/crews", host="[::1"), "host-not-allowed"),
    ],
)
async def test_what_nobody_would_read_or_could_mean_two_things_is_refused(tmp_path: Path, ask: Ask, code: str) -> None:
    async with open_office(tmp_path) as office:
        assert code_of(await ask(office)) == (CODES[code][0], code)


async def test_a_server_whose_store_is_gone_is_not_ready(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.box.store.close()
        ready = await office.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "store-failed"})
        assert (await office.get("/healthz")).status_code == 200


async def test_a_server_without_a_lease_or_with_a_slow_store_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_office(tmp_path) as office:
        with monkeypatch.context() as cut:
            cut.setattr(office.box.store, "has_lease", lambda: False)
            ready = await office.get("/readyz")
            assert (ready.status_code, ready.json()) == (503, {"status": "lease-lost"})
        with monkeypatch.context() as slow:
            slow.setattr(readiness, "ANSWER_S", 0.01)
            slow.setattr(office.box.store, "newest_position", asyncio.Event().wait)
            ready = await office.get("/readyz")
            assert (ready.status_code, ready.json()) == (503, {"status": "store-failed"})
        assert (await office.get("/readyz")).json() == {"status": "ready"}


async def test_a_disk_that_is_full_closes_the_door_whoever_finds_it_full(tmp_path: Path) -> None:
    async with open_office(tmp_path, incoming=HOOKS, clock=ManualClock()) as office:
        await sqlite_of(office.box).limit_bytes(1)
        said = {"id": "1", "type": "known", "data": "x" * 100_000}
        headers = {TOKEN_HEADER: "token"}
        assert code_of(await office.post("/v1/webhooks/plain", json=said, headers=headers)) == (507, "storage-full")
        assert (await office.get("/readyz")).json() == {"status": "storage-full"}


async def test_a_refusal_names_what_is_wrong_in_the_body(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.post("/v1/runs", json={"crew": 7, "other": 1})
        found = {(each["in"], each["at"]) for each in answer.json()["errors"]}
        assert found == {("body", "crew"), ("body", "other")}
        advice = await office.get("/v1/runs?statu=paused")
        assert "did you mean 'status'?" in advice.json()["detail"]


@pytest.mark.parametrize("kind", [StoreFailed, StoreBroken, StorageFull])
def test_what_a_store_says_of_itself_is_for_the_log(
    kind: type[StoreFailed], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("interlock"), "propagate", True)
    said = 'could not append: connection to server at "db.example.com", port 5432 failed; CONTEXT: update runs'
    problem = problem_of(kind(said))
    assert "db.example.com" not in str(problem) and "runs" not in str(problem)
    assert "data folder" not in str(problem)
    assert said in caplog.text
