"""Budgets of Python calls: what a request, a start and a streamed piece cost. Each only ever falls (issue 20).

Calls of functions of the package and of its web framework are counted; they are the same in each run, where times are
not. Some work is done only now and then (files are compared, a timer is set), so the least of several runs counts.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import interlock
from interlock import Interlock, load_crew
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.chat_stream import ChatStream
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.adapters.models.openai.event_lines import EventLines
from interlock.adapters.sqlite.store import SqliteStore
from interlock.events import ModelCalledEvent, ModelDeltaEvent
from interlock.ports import Delta, ModelReply, ModelRequest
from tests.adapters.sqlite.runs.handing_over import HandingOver
from tests.server.office import CREW, KEY, crew_file, open_office

POST_RUN_CALLS_MAX = 527
GET_RUN_CALLS_MAX = 96
START_CALLS_MAX = 363
# A handoff alone, in a data folder: the append, and the question whether another process has committed.
APPEND_CALLS_MAX = 34
# A reply of 400 pieces: in the client, by one read each and by reads of 4 kB, and a whole run of one reply, without a
# watcher and with one.
CLIENT_REPLY_CALLS_MAX = 4_411
CLIENT_READS_CALLS_MAX = 1_000
REPLY_RUN_CALLS_MAX = 3_085
WATCHED_RUN_CALLS_MAX = 4_055

PIECES = 400
TIMES = 5

COUNTED = (str(Path(interlock.__file__).parent), "/starlette/", "/fastapi/", "/pydantic/")


class Calls:
    """The number of calls so far."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and any(part in frame.f_code.co_filename for part in COUNTED):
            self.count += 1


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()
    gc.disable()  # a collection in between would call finalizers
    sys.setprofile(calls.add)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that found its disk slow would commit in its thread; one that rests compares its files again."""
    monkeypatch.setattr("interlock.adapters.sqlite.writer.SLOW_S", 60.0)
    monkeypatch.setattr("interlock.adapters.sqlite.writer.CHECKED_S", 60.0)


async def least(work: Callable[[], Awaitable[object]]) -> int:
    """The least number of calls of several times, when all caches are filled."""
    await work()
    found = []
    for _ in range(TIMES):
        with counted() as calls:
            await work()
        found.append(calls.count)
    assert min(found) > 0, "the counter saw the work"
    return min(found)


async def hangs(_: ModelRequest) -> str:
    await asyncio.Event().wait()
    raise AssertionError("it never ends")


async def ask(guard: Any, method: str, path: str, body: bytes = b"") -> int:
    """The status of an answer; the application is called as uvicorn calls it."""
    headers = {"host": "127.0.0.1:8321", "authorization": f"Bearer {KEY}", "content-type": "application/json"}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "state": {},
    }
    answers: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    await guard(scope, receive, send)
    return int(answers[0]["status"])


async def test_requests_cost_no_more_calls_than_before(tmp_path: Path) -> None:
    async with open_office(tmp_path, model=hangs) as office:
        run = (await office.start("hang"))["id"]
        body = b'{"crew": "office", "input": "hang"}'

        async def post() -> None:
            assert await ask(office.guard, "POST", "/v1/runs", body) == 201

        async def get() -> None:
            assert await ask(office.guard, "GET", f"/v1/runs/{run}") == 200

        assert await least(get) <= GET_RUN_CALLS_MAX
        assert await least(post) <= POST_RUN_CALLS_MAX
        office.box.stop_without_waiting()


async def test_a_start_costs_no_more_calls_than_before(tmp_path: Path) -> None:
    crew = load_crew(crew_file(tmp_path, CREW))
    async with Interlock(tmp_path / "data", models=hangs) as box:
        assert await least(lambda: box.start(crew, "go")) <= START_CALLS_MAX
        box.stop_without_waiting()


async def test_an_append_costs_no_more_calls_than_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, durability="normal")
    run = HandingOver(store, "r")
    await run.start()

    async def hand_over() -> None:
        store.version()
        await run.hand_over()

    assert await least(hand_over) <= APPEND_CALLS_MAX
    await store.close()


async def test_a_piece_in_the_client_costs_no_more_calls_than_before() -> None:
    event = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"so many words, "},"finish_reason":null}]}\n\n'

    body = event * PIECES

    async def read(size: int) -> None:
        lines, said = EventLines(10_000), list[str]()
        keys = KnownSecrets(["sk-0123456789abcdef0123456789abcdef"])
        stream = ChatStream(Endpoint(server=Server("test"), url="http://test"), keys, key="r:1", tools={})
        for start in range(0, len(body), size):
            for piece in stream.add_payloads(lines.add(body[start : start + size])):
                said.append(piece.text)
        assert "".join(said) == "so many words, " * PIECES

    assert await least(lambda: read(len(event))) <= CLIENT_REPLY_CALLS_MAX
    assert await least(lambda: read(4_000)) <= CLIENT_READS_CALLS_MAX


class Speaks:
    """Says a reply in many pieces, all at once, as soon as it may."""

    def __init__(self) -> None:
        self.may_speak = asyncio.Event()

    async def reply(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        await self.may_speak.wait()
        for _piece in range(PIECES):
            yield Delta("word ")
        yield ModelReply(text="word " * PIECES + "[DONE]")


async def test_a_piece_in_a_run_costs_no_more_calls_than_before_watched_or_not(tmp_path: Path) -> None:
    crew = load_crew(crew_file(tmp_path, CREW))
    model = Speaks()
    async with Interlock(tmp_path / "data", models=model) as box:

        async def speak() -> None:
            model.may_speak.set()
            await (await box.start(crew, "go")).result()

        async def watch() -> None:
            model.may_speak.clear()
            handle, said = await box.start(crew, "go"), ""
            async for event in handle.events():
                if isinstance(event, ModelCalledEvent):
                    model.may_speak.set()
                elif isinstance(event, ModelDeltaEvent):
                    said += event.text
            assert said == "word " * PIECES

        assert await least(speak) <= REPLY_RUN_CALLS_MAX
        assert await least(watch) <= WATCHED_RUN_CALLS_MAX
