"""Lets one server finish many runs while streams are open, and looks at its memory; writes campaign/RESULTS.md.

Usage: python -m campaign.memory [RUNS] [STREAMS]      20,000 and 100 unless told; 1 if memory grew

Memory is what the kernel says the process holds (RSS), read after every thousand runs when all of them are finished.
After the first 2,000 it must stay within a tenth.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import httpx2

from bench.harness import machine, table
from campaign import results
from tests.server.process import Served, read_events, serving

RUNS, STREAMS = 20_000, 100
EVERY, WARM = 1_000, 2_000
GROWTH_MAX = 1.10
AT_ONCE = 20

TOML = "[server]\nrequests_per_second = 1000000\nstreams_max = 2000\nstreams_per_key_max = 2000\n"


def memory_of(pid: int) -> int:
    """Bytes that the process holds in memory."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say how much memory the process holds")


async def _read_along(client: httpx2.AsyncClient, counts: list[int], number: int) -> None:
    headers = {"accept": "text/event-stream"}
    async with client.stream("GET", "/v1/engine/events", headers=headers) as answer:
        async for _ in read_events(answer):
            counts[number] += 1


async def _finish(client: httpx2.AsyncClient, count: int) -> None:
    """So many runs, a few at a time; each is over when this returns."""
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            run = (await client.post("/v1/runs", json={"crew": "office", "input": "hello"})).json()["id"]
            while (await client.get(f"/v1/runs/{run}")).json()["status"] == "running":
                pass

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


async def measure(server: Served, runs: int, streams: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Memory after so many runs, and how many events each stream was given."""
    counts, found = [0] * streams, list[tuple[int, int]]()
    async with server.asking_async() as client:
        reading = [asyncio.create_task(_read_along(client, counts, n)) for n in range(streams)]
        for done in range(EVERY, runs + 1, EVERY):
            await _finish(client, EVERY)
            found.append((done, memory_of(server.process.pid)))
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    return found, counts


def growth_of(found: list[tuple[int, int]]) -> float:
    """The largest after the first ones, against the first after them."""
    later = [size for done, size in found if done >= WARM]
    return max(later) / later[0]


def page(runs: int, streams: int, found: list[tuple[int, int]], counts: list[int]) -> str:
    growth = growth_of(found)
    verdict = "met" if growth <= GROWTH_MAX else "MISSED"
    parts = [
        "# Memory campaign",
        f"Written by `python -m campaign.memory`. {machine()}. {runs:,} runs of one server, {streams} open streams.",
        f"- {verdict}: after the first {WARM:,} runs memory stays within {GROWTH_MAX - 1:.0%}; measured"
        f" {growth:.2f} times",
        table(("runs finished", "memory"), [(f"{done:,}", f"{size / 1024**2:.1f} MB") for done, size in found]),
        f"Every stream was given between {min(counts):,} and {max(counts):,} events.",
    ]
    return "\n\n".join(parts) + "\n"


def main(words: list[str]) -> int:
    runs, streams = int(words[0]) if words else RUNS, int(words[1]) if len(words) > 1 else STREAMS
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), toml=TOML) as server:
        found, counts = asyncio.run(measure(server, runs, streams))
    text = page(runs, streams, found, counts)
    print(text)
    if not words:
        results.put(text)
    return 0 if growth_of(found) <= GROWTH_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
