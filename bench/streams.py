"""Measures a streamed reply: the CPU of one piece in our client, in a run, and with watchers.

Rule 1: the model server is a process of its own. It sends each piece as an event of its own, as fast as it can, so that
several arrive with one read of the socket.
Rule 2: raw httpx2 in the same run is the floor: it only joins the text.
Rule 3: the same runs are measured in turns with the source of the tree before issue 20, which git has. Each measurement
is a process of its own, and the best of several counts.
"""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import models
from bench.harness import machine, table, verdict
from bench.model_server import model_server

PIECES, REPLIES, ROUNDS, TURNS = 400, 5, 5, 3
WATCHERS = (0, 1, 50)
Work = Callable[[], Awaitable[object]]

ROOT = Path(__file__).parents[1]
# The tree of 2026-11-16, which the goals compare with.
BEFORE = "a1056bd4f"

# Prints the least CPU of a run of five replies, each followed from its start by so many watchers.
RUN = """\
import asyncio, gc, sys, time
from interlock import Interlock, load_crew
crew_text, url, watchers, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
try:  # a crew file may name an address only if the host lists it
    from interlock.adapters.config.host_file import HostSettings
    from interlock.adapters.models.openai.providers import ProviderSettings
    host = {"host": HostSettings(provider_settings={"openai-compatible": ProviderSettings(url=url)})}
except ImportError:  # before that was so
    host = {}
    crew_text = crew_text.replace('/0"}', f'/0", provider_url: "{url}"}}')
open("crew.yaml", "w").write(crew_text)

async def main():
    crew, found = load_crew("crew.yaml"), []
    async with Interlock("data", durability="normal", **host) as box:
        for turn in range(rounds + 1):
            gc.collect()
            before = time.process_time()
            handle = await box.start(crew, "go")

            async def watch():
                return [event.type if hasattr(event, "type") else event["type"] async for event in handle.events()][-1]

            watching = [asyncio.create_task(watch()) for _ in range(watchers)]
            await handle.result()
            # The tree before could show a piece of a reply after the end.
            ends = set(await asyncio.gather(*watching))
            assert ends <= {"run.finished", "model.delta"}, "every watcher follows to the end"
            found.append(time.process_time() - before)
    print(min(found[1:]))

asyncio.run(main())
"""


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


async def clients_us(url: str) -> list[tuple[str, float]]:
    rows = []
    for name, client in (("raw httpx2", models.raw_call), ("our client", models.our_call)):
        async with client(url, f"{PIECES}/0") as call:
            rows.append((name, await best_us(call, PIECES)))
    return rows


def run_us(source: Path, url: str, watchers: int) -> float:
    """The CPU of a piece in a run of a source tree, in microseconds."""
    crew = models.CREW.format(model=f"{PIECES}/0")
    command = [sys.executable, "-c", RUN, crew, url, str(watchers), str(ROUNDS)]
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".streams-") as folder:
        done = subprocess.run(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(source)}, stdout=subprocess.PIPE, check=True
        )
    return float(done.stdout) / (PIECES * REPLIES) * 1e6


def unpack_before(folder: Path) -> Path | None:
    """The source of the tree before issue 20; None where git does not have it."""
    packed = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        return None
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def run() -> str:
    with tempfile.TemporaryDirectory() as name, model_server() as url:
        before = unpack_before(Path(name))
        rows = asyncio.run(clients_us(url))
        verdicts = []
        for watchers in WATCHERS:
            trees = [ROOT / "src", *([before] if before is not None else [])]
            found = [[run_us(tree, url, watchers) for tree in trees] for _ in range(TURNS)]
            ours, *theirs = (min(each) for each in zip(*found, strict=True))
            rows += [(f"the tree before issue 20, {watchers} watchers", each) for each in theirs]
            rows.append((f"a run with {watchers} watchers", ours))
            claim = f"with {watchers} watchers at most 0.6 of the CPU of the tree before issue 20 ({BEFORE})"
            verdicts += [verdict(claim, f"{ours / each:.2f}", ours / each <= 0.6) for each in theirs]
    floor = rows[0][1]
    heads = [f"a piece of a reply of {PIECES}", "CPU µs", "CPU / raw"]
    lines = [table(heads, [[name, cpu, cpu / floor] for name, cpu in rows]), ""]
    return "\n".join(["## streams: the cost of a piece", "", machine(), "", *lines, *(verdicts or [NOT_COMPARED])])


NOT_COMPARED = f"- not measured: the tree before issue 20, because git does not have {BEFORE} here"

if __name__ == "__main__":
    print(run())
