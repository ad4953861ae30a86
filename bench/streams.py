"""Measures a streamed reply: the CPU of one piece in our client, in a run, and with watchers.

Rule 1: the model server is a process of its own. It sends each piece as an event of its own, as fast as it can, so that
several arrive with one read of the socket.
Rule 2: raw httpx2 in the same run is the floor: it only joins the text.
Rule 3: the same runs are measured in turns with every chunk read by itself, and every piece handed to every watcher by
itself: the way of the tree before issue 20, kept here.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock
from uuid import uuid4

from bench import cutting, models
from bench.harness import machine, table, verdict
from bench.model_server import model_server
from interlock import Interlock, load_crew
from interlock.adapters.models.openai import connections
from interlock.engine.effects import CallModel
from interlock.runtime.live_run import LiveRun
from interlock.runtime.watchers import TEXT, Watchers

PIECES, REPLIES, ROUNDS = 400, 5, 5
WATCHERS = (0, 1, 50)
Work = Callable[[], Awaitable[object]]


async def best_us(work: Work, pieces: int) -> float:
    """The least CPU of a piece, in microseconds."""
    await work()
    found = []
    for _ in range(ROUNDS):
        gc.collect()
        before = time.process_time()
        await work()
        found.append(time.process_time() - before)
    return min(found) / pieces * 1e6


def send_at_once(watchers: Watchers, live: LiveRun, call: CallModel, text: str) -> None:
    """In place of `Watchers.on_delta`: no frames."""
    if watchers.by_run:
        piece = {"run": live.id, "type": TEXT, "agent": call.agent, "text": text}
        watchers._send_piece(live, piece, live.run.state.seq, None)


@asynccontextmanager
async def watched_run(url: str, folder: Path, watchers: int) -> AsyncIterator[Work]:
    """A run of five replies, each followed from its start by so many watchers."""
    (folder / "crew.yaml").write_text(models.CREW.format(model=f"{PIECES}/0"), "utf-8")
    crew = load_crew(folder)
    async with Interlock(folder / f"data{watchers}-{uuid4()}", host=cutting.host_at(url), durability="normal") as box:

        async def one() -> None:
            handle = await box.start(crew, "go")

            async def watch() -> str:
                return [event.type async for event in handle.events()][-1]

            watching = [asyncio.create_task(watch()) for _ in range(watchers)]
            await handle.result()
            assert set(await asyncio.gather(*watching)) <= {"run.finished"}, "every watcher follows to the end"

        yield one


async def measured(url: str, folder: Path) -> list[tuple[str, float]]:
    rows = []
    for name, client in (("raw httpx2", models.raw_call), ("our client", models.our_call)):
        async with client(url, f"{PIECES}/0") as call:
            rows.append((name, await best_us(call, PIECES)))
    for watchers in WATCHERS:
        unmerged = mock.patch.object(connections, "MergingBackend", lambda backend: backend)
        with unmerged, mock.patch.object(Watchers, "on_delta", send_at_once):
            async with watched_run(url, folder, watchers) as work:
                rows.append((f"piece by piece, {watchers} watchers", await best_us(work, PIECES * REPLIES)))
        async with watched_run(url, folder, watchers) as work:
            rows.append((f"a run with {watchers} watchers", await best_us(work, PIECES * REPLIES)))
    return rows


def run() -> str:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".streams-") as name, model_server() as url:
        rows = asyncio.run(measured(url, Path(name)))
    floor = rows[0][1]
    heads = [f"a piece of a reply of {PIECES}", "CPU µs", "CPU / raw"]
    lines = [table(heads, [[name, cpu, cpu / floor] for name, cpu in rows]), ""]
    for watchers, (_, before), (_, cpu) in zip(WATCHERS, rows[2::2], rows[3::2], strict=True):
        claim = f"with {watchers} watchers at most 0.6 of the CPU of a run that reads and shows piece by piece"
        lines.append(verdict(claim, f"{cpu / before:.2f}", cpu / before <= 0.6))
    return "\n".join(["## streams: the cost of a piece", "", machine(), "", *lines])


if __name__ == "__main__":
    print(run())
