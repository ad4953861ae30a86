"""Measures the cost of a model call besides the model: our client, raw httpx2 and others on one loopback server.

Rule 1: the server is a process of its own, so CPU time here is the client's alone.
Rule 2: every client streams the same reply, reads every piece of it and gives the whole text.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from bench import cutting, peers
from bench.harness import Measurement, machine, measure_async, table, verdict
from bench.model_calls import CALLS, MODEL, PIECES, TOGETHER, Call, in_a_row, together
from bench.model_server import model_server
from interlock import Interlock, load_crew
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.engine.state import TurnMessage
from interlock.ports import ModelReply, ModelRequest

RUNS, WAIT_MS, STEPS = 1_000, 500, 5
PATIENCE_SECONDS = 300
KEY = "sk-0123456789abcdef0123456789abcdef"

CREW = """\
version: "2.0"
name: pair
entry_point: a
agents:
  - {{id: a, model: "openai-compatible:{model}"}}
  - {{id: b, model: "openai-compatible:{model}"}}
routing:
  signals:
    a: [{{signal: "[NEXT]", target: b}}, {{signal: "[END]"}}]
    b: [{{signal: "[NEXT]", target: a}}, {{signal: "[END]"}}]
"""


class Row(NamedTuple):
    client: str
    one: Measurement
    many: Measurement


@asynccontextmanager
async def raw_call(url: str, model_name: str = MODEL) -> AsyncIterator[Call]:
    """The least that works: only httpx2's own deadline, no limit, no check."""
    import httpx2

    body = {
        "model": model_name,
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Authorization": f"Bearer {KEY}"}
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)

    async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as client:

        async def call() -> str:
            pieces = []
            async with client.stream("POST", f"{url}/chat/completions", json=body, headers=headers) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        choices = json.loads(line[6:])["choices"]
                        pieces += [choice["delta"].get("content", "") for choice in choices]
            return "".join(pieces)

        yield call


@asynccontextmanager
async def our_call(url: str, model_name: str = MODEL) -> AsyncIterator[Call]:
    endpoint = Endpoint(server=Server("bench"), url=url, key=KEY)
    model = OpenAICompatibleModel(endpoint, model_name, keys=KnownSecrets([KEY]))
    messages = [TurnMessage(role="user", text="hi")]
    request = ModelRequest(key="r:1", agent="a", number=1, system="be kind", messages=messages)

    async def call() -> str:
        async for piece in model.reply(request):
            if isinstance(piece, ModelReply):
                return piece.text
        raise AssertionError("no reply")

    try:
        yield call
    finally:
        await model.close()


async def clients(url: str) -> list[Row]:
    rows = []
    for name, client in (("ours", our_call), ("raw httpx2", raw_call)):
        async with client(url) as call:
            assert (await call()).endswith(("[NEXT]", "[END]"))
            one = await measure_async(lambda call=call: in_a_row(call), CALLS)  # type: ignore[misc]
            many = await measure_async(lambda call=call: together(call), TOGETHER)  # type: ignore[misc]
        rows.append(Row(name, one, many))
    return rows


def peer_rows(url: str, folder: Path) -> tuple[list[Row], list[str]]:
    (folder / "url.txt").write_text(url, "utf-8")
    try:
        peers.install(peers.PINNED_CLIENTS)
        found = peers.measured("model_calls.py", folder)
    except peers.PeerUnavailable as reason:
        return [], [f"- other clients were not measured: {reason}"]
    return [Row(row["peer"], Measurement(*row["one"]), Measurement(*row["many"])) for row in found], []


class Crowd(NamedTuple):
    """A thousand runs at once: seconds in all, CPU a step, how long the first and the last run took."""

    wall_s: float
    cpu_us: float
    fastest_s: float
    slowest_s: float
    completed: int


async def crowd(url: str, folder: Path, runs: int = RUNS) -> Crowd:
    """Runs of five calls each, every call half a second at the server."""
    (folder / "crew.yaml").write_text(CREW.format(model=f"1/{WAIT_MS}"), "utf-8")
    crew = load_crew(folder)
    took: list[float] = []

    async def one(box: Interlock) -> bool:
        started = time.perf_counter()
        result = await (await box.start(crew, "go")).result()
        took.append(time.perf_counter() - started)
        return result.status == "completed"

    box = Interlock(folder / f"data{runs}", host=cutting.host_at(url), durability="normal")
    async with box, asyncio.timeout(PATIENCE_SECONDS):
        cpu, wall = time.process_time(), time.perf_counter()
        done = await asyncio.gather(*(one(box) for _ in range(runs)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Crowd(wall, cpu / (runs * STEPS) * 1e6, min(took), max(took), sum(done))


def _crowd_lines(found: Crowd) -> list[str]:
    ideal = STEPS * WAIT_MS / 1000
    heads = ["1,000 runs of 5 calls, each 500 ms at the server, one process", "measured"]
    rows: list[list[object]] = [
        ["wall seconds in all (the waits alone: 2.5)", found.wall_s],
        ["steps a second", RUNS * STEPS / found.wall_s],
        ["CPU µs a step, journal included", found.cpu_us],
        ["the fastest run, seconds", found.fastest_s],
        ["the slowest run, seconds", found.slowest_s],
    ]
    lines = [table(heads, rows), ""]
    lines.append(verdict("every one of 1,000 runs completes", f"{found.completed:,}", found.completed == RUNS))
    share = found.slowest_s / found.fastest_s
    lines.append(verdict("no run is starved: the slowest takes at most twice the fastest", f"{share:.2f}", share <= 2))
    busy = found.cpu_us * RUNS * STEPS / 1e6
    claim = "what 1,000 runs take is their waits and our CPU time, nothing else: at most 1.25 times both"
    most = found.wall_s / (ideal + busy)
    lines.append(verdict(claim, f"{most:.2f} ({ideal:g} s of waits, {busy:.1f} s of CPU)", most <= 1.25))
    return lines


def _client_lines(rows: list[Row], skipped: list[str]) -> list[str]:
    raw = next(row for row in rows if row.client == "raw httpx2")
    heads = ["a call, 20 pieces", "CPU µs", "wall µs", "CPU / raw", f"CPU µs, {TOGETHER} at once", "CPU / raw there"]
    shown = [_client_row(row, raw) for row in rows]
    ours = rows[0]
    lines = [table(heads, shown), ""]
    one, many = ours.one.cpu_us / raw.one.cpu_us, ours.many.cpu_us / raw.many.cpu_us
    lines.append(verdict("a call costs at most 1.2 times raw httpx2", f"{one:.2f} of CPU", one <= 1.2))
    lines.append(verdict(f"{TOGETHER} streams at once, each at most 1.2 times raw", f"{many:.2f} of CPU", many <= 1.2))
    for row in rows[2:]:
        ratio = ours.one.cpu_us / row.one.cpu_us
        lines.append(verdict(f"less than {row.client}", f"{ratio:.2f} of its CPU", ratio < 1))
    return [*lines, *skipped]


def _client_row(row: Row, raw: Row) -> list[object]:
    one, many = row.one.cpu_us / raw.one.cpu_us, row.many.cpu_us / raw.many.cpu_us
    return [row.client, row.one.cpu_us, row.one.wall_us, one, row.many.cpu_us, many]


def run() -> str:
    head = f"A reply of {PIECES} pieces, each in a packet of its own, from a server in another process."
    # Not in /tmp, which may be kept in memory, where a sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".models-") as name, model_server() as url:
        folder = Path(name)
        rows = asyncio.run(clients(url))
        others, skipped = peer_rows(url, folder)
        asyncio.run(crowd(url, folder, 10))  # loading is not part of a step
        found = asyncio.run(crowd(url, folder))
        cut = cutting.lines(url, folder)
    lines = [*_client_lines([*rows, *others], skipped), "", *_crowd_lines(found), "", *cut]
    return "\n".join(["## models: the cost of a call", "", machine(), "", head, "", *lines])


if __name__ == "__main__":
    print(run())
