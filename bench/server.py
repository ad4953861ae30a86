"""Measures the server: requests beside a bare FastAPI app, and 1,000 parallel readers of 200 runs.

Rule 1: servers are processes of their own; the CPU time of all their threads is read from the system, in nanoseconds.
Rule 2: the bare app runs on the same uvicorn with the same parser and settings, and answers the same bytes. Both are
asked in turn, by the same client, and the best of several rounds counts: noise only ever adds.
Rule 3: readers check what they get: every event of their run, once and in order.

Usage: python -m bench.server    writes bench/SERVER.md
"""

import asyncio
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import msgspec

from bench.harness import machine, table, verdict

RESULTS = Path(__file__).parent / "SERVER.md"
KEYS, READERS, RUNS, REQUESTS, ROUNDS = 50, 1_000, 200, 100, 6
PATIENCE_SECONDS = 300

CREW = """\
version: "2.0"
name: pair
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", target: a}]
"""
# Long enough for all readers to connect before a run ends.
SCRIPT = """\
replies:
  a: [{text: "one [NEXT]", delay_seconds: 20}, "three [NEXT]", "five [END]"]
  b: ["two [NEXT]", "four [NEXT]"]
"""
BARE = """\
import gc, sys, uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
app = FastAPI()
BODY = open("body").read().encode()
class Start(BaseModel):
    crew: str
    input: str = ""
@app.get("/v1/runs/{run}")
async def show(run: str) -> Response:
    return Response(BODY, media_type="application/json")
@app.post("/v1/runs", status_code=201)
async def start(order: Start) -> Response:
    return Response(BODY, 201, media_type="application/json")
gc.collect()
gc.freeze()
settings = {"http": "h11", "ws": "none", "lifespan": "off", "server_header": False, "proxy_headers": False}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning", **settings)
"""


class Process(NamedTuple):
    address: str
    pid: int

    def cpu_seconds(self) -> float:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def keys() -> list[str]:
    return [f"ilk_{hashlib.sha256(str(n).encode()).hexdigest()[:43]}" for n in range(KEYS)]


@contextmanager
def interlock_server(folder: Path) -> Iterator[Process]:
    (folder / "crew.yaml").write_text(CREW)
    (folder / "script.yaml").write_text(SCRIPT)
    lines = ["[server]", "requests_per_second = 1000000", "connections_max = 3000"]
    for n, key in enumerate(keys()):
        sha = hashlib.sha256(key.encode()).hexdigest()
        lines += [f"[server.keys.k{n}]", f'sha256 = "{sha}"', 'scopes = ["read", "run"]']
    (folder / "interlock.toml").write_text("\n".join(lines) + "\n")
    command = [str(Path(sys.executable).parent / "interlock"), "serve", "crew.yaml", "--script", "script.yaml"]
    with subprocess.Popen([*command, "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Process(process.stdout.readline().split()[-1], process.pid)
        finally:
            process.terminate()


@contextmanager
def bare_server(folder: Path, body: str) -> Iterator[Process]:
    (folder / "bare.py").write_text(BARE)
    (folder / "body").write_text(body)
    port = "18321"
    with subprocess.Popen([sys.executable, "bare.py", port], cwd=folder) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            while not _answers(address):
                pass
            yield Process(address, process.pid)
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/v1/runs/x", trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


def client_of(process: Process) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {keys()[0]}"}
    limits = httpx2.Limits(max_connections=20)
    return httpx2.AsyncClient(
        base_url=process.address,
        headers=headers,
        trust_env=False,
        verify=False,
        timeout=PATIENCE_SECONDS,
        limits=limits,
    )


class Cost(NamedTuple):
    """Milliseconds per request: of the server's CPU, and of waiting."""

    cpu: float
    half: float
    most: float


async def cost_of(process: Process, method: str, paths: Sequence[str]) -> Cost:
    body, count = {"crew": "pair", "input": "go"} if method == "POST" else None, len(paths)
    async with client_of(process) as client:
        await client.get("/healthz")
        before, waits = process.cpu_seconds(), []
        for path in paths:
            begun = time.perf_counter()
            answer = await client.request(method, path, json=body)
            waits.append((time.perf_counter() - begun) * 1000)
            assert answer.status_code in (200, 201), answer.text
    cpu = (process.cpu_seconds() - before) / count * 1000
    waits.sort()
    return Cost(cpu, waits[len(waits) // 2], waits[len(waits) * 99 // 100])


class Row(NamedTuple):
    name: str
    ours: Cost
    bare: Cost | None

    @property
    def times(self) -> float:
        return self.ours.cpu / self.bare.cpu if self.bare is not None else 0.0


async def row_of(
    name: str, ours: tuple[Process, list[str]], bare: tuple[Process, str] | None, method: str = "GET"
) -> Row:
    """The least cost of a request over several rounds, beside that of the bare app in the same rounds.

    Of several paths each is asked for once.
    """
    own, floor = [], []
    for at in range(ROUNDS):
        paths = ours[1] * REQUESTS if len(ours[1]) == 1 else ours[1][at * REQUESTS : (at + 1) * REQUESTS]
        own.append(await cost_of(ours[0], method, paths))
        if bare is not None:
            floor.append(await cost_of(bare[0], method, [bare[1]] * REQUESTS))
    return Row(name, min(own), min(floor) if floor else None)


async def read_run(process: Process, run: str, key: str, there: asyncio.Semaphore) -> int:
    """The number of events that a reader got, in order and once; 0 if not."""
    host, _, port = process.address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**20)
    head = f"GET /v1/runs/{run}/events?deltas=false HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
    writer.write(f"{head}Accept: text/event-stream\r\n\r\n".encode())
    seen, first = 0, True
    async for line in reader:
        if line.startswith(b"id:") and first:
            first = False
            there.release()
        if line.startswith(b"data: {"):
            event = msgspec.json.decode(line[6:])
            if "seq" not in event:  # the reason why the stream ends
                break
            if event["seq"] != seen + 1:
                return 0
            seen += 1
    writer.close()
    return seen


async def start_runs(process: Process, count: int) -> list[str]:
    async with client_of(process) as client:
        starting = [client.post("/v1/runs", json={"crew": "pair", "input": "go"}) for _ in range(count)]
        return [answer.json()["id"] for answer in await asyncio.gather(*starting)]


async def finished_runs(process: Process, count: int) -> list[str]:
    runs = await start_runs(process, count)
    async with client_of(process) as client, asyncio.timeout(PATIENCE_SECONDS):
        while (await client.get("/v1/runs?status=running&limit=1")).json()["runs"]:
            await asyncio.sleep(1)
    return runs


class Load(NamedTuple):
    whole: int
    events: int
    seconds: float
    cpu_us: float
    api: Cost


async def under_load(process: Process) -> Load:
    runs = await start_runs(process, RUNS)
    there = asyncio.Semaphore(0)
    before, begun = process.cpu_seconds(), time.perf_counter()
    readers = [
        asyncio.ensure_future(read_run(process, runs[n % RUNS], keys()[n % KEYS], there)) for n in range(READERS)
    ]
    for _ in range(READERS):
        await there.acquire()
    api = await cost_of(process, "GET", [f"/v1/runs/{runs[0]}"] * 200)
    seen = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_SECONDS)
    async with client_of(process) as client:
        ends = {run: (await client.get(f"/v1/runs/{run}")).json()["seq"] for run in runs}
    whole = sum(count == ends[runs[n % RUNS]] for n, count in enumerate(seen))
    cpu = process.cpu_seconds() - before
    return Load(whole, sum(seen), time.perf_counter() - begun, cpu / max(1, sum(seen)) * 1e6, api)


async def measured() -> str:
    with tempfile.TemporaryDirectory() as folder, interlock_server(Path(folder)) as ours:
        async with client_of(ours) as client:
            run = (await client.post("/v1/runs", json={"crew": "pair", "input": "go"})).json()["id"]
            body = (await client.get(f"/v1/runs/{run}")).text
        with bare_server(Path(folder), body) as bare:
            rows = [
                await row_of("GET a run", (ours, [f"/v1/runs/{run}"]), (bare, "/v1/runs/x")),
                await row_of("GET a list of 50", (ours, ["/v1/runs?limit=50"]), None),
                await row_of("POST a run", (ours, ["/v1/runs"]), (bare, "/v1/runs"), "POST"),
            ]
            others = [f"/v1/runs/{each}" for each in await finished_runs(ours, REQUESTS * ROUNDS)]
            rows.insert(1, await row_of("GET another run each time", (ours, others), (bare, "/v1/runs/x")))
    with tempfile.TemporaryDirectory() as folder, interlock_server(Path(folder)) as ours:
        load = await under_load(ours)
    return _page(rows, load)


def _page(rows: list[Row], load: Load) -> str:
    cells = [
        (
            row.name,
            row.ours.cpu,
            row.bare.cpu if row.bare else "",
            row.times if row.bare else "",
            row.ours.half,
            row.ours.most,
        )
        for row in rows
    ]
    heads = ("request", "CPU ms", "bare FastAPI, CPU ms", "times", "p50 ms", "p99 ms")
    get, first, post = rows[0].times, rows[1].times, rows[3].times
    lines = [
        f"{machine()}. {REQUESTS} requests one after another on one connection, the best of {ROUNDS} rounds.",
        table(heads, cells),
        f"{READERS:,} event streams over {KEYS} keys on {RUNS} runs at once: {load.events:,} events handed out in "
        f"{load.seconds:.1f} s, {load.cpu_us:.0f} µs of the server's CPU an event handed out (the runs themselves and"
        f" opening the streams included). Meanwhile GET a run: p50 {load.api.half:.1f} ms, p99 {load.api.most:.1f} ms.",
        verdict(
            "every reader sees every event of its run, once and in order",
            f"{load.whole:,} of {READERS:,}",
            load.whole == READERS,
        ),
        verdict("GET a run costs at most 2 times a bare FastAPI app", f"{get:.2f} times", get <= 2),
        verdict("the same for a run that was not read before", f"{first:.2f} times", first <= 2),
        verdict("POST a run costs at most 4 times a bare FastAPI app", f"{post:.2f} times", post <= 4),
        "- what a GET does beside the bare app: it checks the host, the key among 50, its scope and its rate, asks the"
        " store whether anything has changed, looks for secrets in the answer, counts the request, and sends security"
        " headers; a run that was not read before is read in a thread, so that a slow disk stops no other request",
        "- what a POST does beside the bare app: it stores a run durably, writes a line of the log, and starts the run",
    ]
    return "\n\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:])


if __name__ == "__main__":
    text = f"# Results of the server\n\nWritten by `python -m bench.server`.\n\n{asyncio.run(measured())}\n"
    RESULTS.write_text(text, "utf-8")
    print(text)
