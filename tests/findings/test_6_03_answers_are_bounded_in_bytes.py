"""Answers are bounded in bytes: lists are written while they are read, pages end early, and what one key leaves unread
is bounded."""

import json
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock import Interlock, load_crew
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.sqlite.runs import run_queries
from interlock.adapters.store_rules import broadcast_rows
from interlock.limits import PAGE_BYTES_MAX
from interlock.server.http import guard, list_responses
from interlock.server.http.list_responses import list_response
from tests.server.office import Office, open_office
from tests.server.process import PATIENT, Served, serving

MB = 1024 * 1024
LARGE = "x" * 250_000
CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk}]
routing: {signals: {clerk: [{signal: "[DONE]"}]}}
settings: {max_request_body_size_kb: 1024, max_input_size_kb: 1024}
"""


def memory_of(server: Served) -> int:
    """What the process has had at most, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


async def large_broadcasts(folder: Path, count: int) -> None:
    async with Interlock(folder / "data") as box:
        for n in range(count):
            await box.signals.emit(f"big:{n}", LARGE)


async def test_twenty_unread_lists_of_large_broadcasts_stay_far_below_what_they_hold(tmp_path: Path) -> None:
    """The figure of the finding: 20 lists of 400 broadcasts of 250 kB took 1.7 GB; in all it must be under 600 MB."""
    await large_broadcasts(tmp_path, 400)
    with serving(tmp_path, toml=PATIENT, crew=CREW) as server, ExitStack() as unread:
        ask = f"GET /v1/engine/signals/events?limit=400 HTTP/1.1\r\nhost: {server.address[7:]}\r\n"
        for _ in range(20):
            connection = unread.enter_context(closing(server.connected()))
            connection.sendall(f"{ask}authorization: Bearer {server.key}\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        with server.asking() as client:  # others are served, and one who reads gets all of it
            events = client.get("/v1/engine/signals/events?limit=400").json()["events"]
        assert [each["type"] for each in events] == [f"big:{n}" for n in range(400)]
        assert memory_of(server) < 600 * MB, memory_of(server)


async def test_a_page_of_events_ends_early_and_says_where_it_goes_on(tmp_path: Path) -> None:
    async with in_office(tmp_path) as asking:
        run = await asking.start("y" * 900_000)
        await asking.box.runner.wait_until_settled(run["id"])
        seen: list[int] = []
        after: int | None = 0
        sizes = []
        while after is not None:
            answer = await asking.get(f"/v1/runs/{run['id']}/events?after={after}&limit=1000")
            sizes.append(len(answer.content))
            seen += [event["seq"] for event in answer.json()["events"]]
            after = answer.json()["next"]
        assert seen == list(range(1, run_seq(await asking.get(f"/v1/runs/{run['id']}")) + 1))
        assert len(sizes) > 1
        assert max(sizes) < 3 * PAGE_BYTES_MAX


def run_seq(answer: httpx2.Response) -> int:
    return int(answer.json()["seq"])


def in_office(folder: Path, **how: Any) -> AbstractAsyncContextManager[Office]:
    return open_office(folder, crews={"crew": CREW}, **how)


async def test_every_list_is_the_same_in_pages_as_at_once(tmp_path: Path) -> None:
    """Broadcasts by pattern, the queue, what did not arrive: order and number as the contract says."""

    async with Interlock(tmp_path / "data") as box:
        for n in range(12):
            await box.signals.emit(f"{'odd' if n % 2 else 'even'}:{n}", LARGE)
            await box.signals.schedule("later", LARGE, in_ms=(12 - n) * 1000)
        for limit, pattern in ((1, None), (5, None), (12, None), (3, "odd:*"), (100, "even:*"), (5, "no:*")):
            paged = [page async for page in box.signals.newest_pages(limit, pattern)]
            assert [each for page in paged for each in page] == list(await box.signals.newest(limit, pattern))
            assert all(size_of(page) < PAGE_BYTES_MAX + len(LARGE) + 1000 for page in paged)
        queue = [page async for page in box.signals.bus.pages_of_delayed(10)]
        assert [each for page in queue for each in page] == list(await box.signals.list_delayed(10))
        assert len(queue) == 2


def size_of(page: Any) -> int:
    return sum(len(each.data) for each in page)


async def test_a_key_that_reads_nothing_is_refused_and_others_are_not(tmp_path: Path) -> None:
    async with in_office(tmp_path, settings=ServerSettings(unread_mb_per_key=1)) as asking:
        asking.guard._unread["owner"] += MB
        refused = await asking.get("/v1/runs")
        assert (refused.status_code, refused.json()["code"]) == (429, "too-much-unread")
        assert refused.headers["retry-after"] == "1"
        asking.guard._unread["owner"] -= MB
        assert (await asking.get("/v1/runs")).status_code == 200
        assert asking.guard._unread.total() == 0


async def test_a_document_waits_piece_by_piece_and_counts_until_it_is_taken(tmp_path: Path) -> None:
    """A reader that takes one piece at a time: no more than that is handed over, the rest counts as unread."""

    async with in_office(tmp_path) as asking:
        run = await asking.start("z" * 500_000)
        await asking.box.runner.wait_until_settled(run["id"])
        taken: list[int] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                taken.append(len(message["body"]))
                assert asking.guard._unread["owner"] >= 500_000

        headers = [(b"host", b"127.0.0.1:8321"), (b"authorization", asking.headers["authorization"].encode())]
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": f"/v1/runs/{run['id']}/events",
            "headers": headers,
        }
        scope |= {"query_string": b"", "raw_path": b"", "root_path": "", "scheme": "http", "http_version": "1.1"}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        await asking.guard({**scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8321)}, receive, send)
        assert max(taken) <= 64 * 1024
        assert sum(taken) > 500_000
        assert asking.guard._unread.total() == 0


async def test_a_stream_reads_pages_of_bytes(tmp_path: Path) -> None:
    tmp_path.mkdir(exist_ok=True)
    async with Interlock(tmp_path / "data", models=lambda _: "Fine. [DONE]") as box:
        (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
        crew = load_crew(tmp_path)
        for n in range(16):
            await (await box.start(crew, LARGE, run_id=f"r{n}")).result()
        position, seen = 0, 0
        while page := await box.store.since(position, 1000):
            position, seen = page[-1].position, seen + len(page)
            assert sum(len(str(stored.record)) for stored in page[:-1]) < 2 * PAGE_BYTES_MAX
        assert seen == await box.store.newest_position()


# Planted faults (6.11)


async def held_at_once(folder: Path) -> int:
    """The most that a list of broadcasts has read beyond what was taken of it."""

    async with Interlock(folder / "data") as box:
        for n in range(20):
            await box.signals.emit(f"big:{n}", LARGE)
        read = taken = most = 0

        async def counted() -> Any:
            nonlocal read, most
            async for page in box.signals.newest_pages(20):
                read += size_of(page)
                most = max(most, read - taken)
                yield page

        answer = await list_response("events", counted(), bytes)
        async for piece in answer.body_iterator:  # type: ignore[attr-defined]
            taken += len(piece)
        assert taken > 20 * len(LARGE)
        return most


def unbounded(items: Iterator[Any], *_: Any) -> Iterator[Any]:
    yield from items


async def test_a_list_holds_a_page_and_a_planted_fault_that_holds_all_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 3 * PAGE_BYTES_MAX
    assert await held_at_once(tmp_path / "right") < bound
    monkeypatch.setattr(broadcast_rows, "PAGE_BYTES_MAX", 10**9)
    assert await held_at_once(tmp_path / "wrong") > bound


async def test_a_planted_fault_pages_without_bytes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await test_a_stream_reads_pages_of_bytes(tmp_path / "right")
    monkeypatch.setattr(run_queries, "first_page", unbounded)
    with pytest.raises(AssertionError):
        await test_a_stream_reads_pages_of_bytes(tmp_path / "wrong")


async def test_a_planted_fault_nothing_is_counted_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CHUNK_BYTES", 10**9)
    with pytest.raises(AssertionError):
        await test_a_document_waits_piece_by_piece_and_counts_until_it_is_taken(tmp_path)


async def test_a_list_that_breaks_off_is_no_document(tmp_path: Path) -> None:
    """What fails after the first page cannot be refused any more, and must not look whole."""

    async def broken() -> Any:
        yield [1, 2]
        raise OSError("gone")

    answer = await list_response("events", broken(), bytes)
    said = b""
    with pytest.raises(OSError, match="gone"):
        async for piece in answer.body_iterator:  # type: ignore[attr-defined]
            said += bytes(piece)
    assert said == b""
    assert list_responses.CHUNK_BYTES < PAGE_BYTES_MAX
    with pytest.raises(json.JSONDecodeError):
        json.loads(said)
