"""Measures cutting replies at their signal: tokens that are not generated, and the cost of matching.

Rule 1: the server counts the tokens that it generated; it notices the cut because the connection closes.
"""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from bench.harness import table, verdict
from interlock import Interlock, load_crew
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.crew.definition import AgentDefinition, CrewDefinition, RouteDefinition
from interlock.engine.events import Usage
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.signals.definition import SignalBehavior

CHARS = 100_000

# The pieces of a reply before its signal, and those that a rambling model sends after it.
BEFORE, AFTER = 20, 80
RUNS = 100
PATIENCE_SECONDS = 120

CREW = """\
version: "2.0"
name: rambler
entry_point: a
agents: [{{id: a, model: "openai-compatible:{model}"}}]
routing: {{signals: {{a: [{{signal: "[END]"}}]}}}}
settings: {{signal_position: own_line, cut_on_signal: {cut}}}
"""


def host_at(url: str) -> HostSettings:
    """A host on which `openai-compatible` is the server at this address."""
    return HostSettings(provider_settings={"openai-compatible": ProviderSettings(url=url)})


class Rambled(NamedTuple):
    """Runs of one reply each: tokens that the server generated, and tokens that were counted."""

    generated: int
    usage: Usage
    seconds: float
    completed: int


async def rambled(url: str, folder: Path, *, cut: bool) -> Rambled:
    name = f"cut-{cut}".lower()
    file = folder / f"{name}.yaml"
    file.write_text(CREW.format(model=f"{BEFORE}/0/{AFTER}", cut=str(cut).lower()), "utf-8")
    crew, before, began = load_crew(file), _generated(url), time.perf_counter()
    async with (
        Interlock(folder / name, host=host_at(url), durability="normal") as box,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        runs = [await box.start(crew, "go") for _ in range(RUNS)]
        results = [await run.result() for run in runs]
    seconds = time.perf_counter() - began
    completed = sum(result.status == "completed" for result in results)
    used = sum((result.usage for result in results), Usage())
    return Rambled(_generated(url) - before, used, seconds, completed)


def _generated(url: str) -> int:
    with urlopen(url) as answer:
        return int(answer.read())


def crew_with_marks(*marks: str) -> CrewDefinition:
    """One agent that ends its run by any of the signals."""
    routes = tuple(RouteDefinition(signal=mark, behavior=SignalBehavior.TERMINATE, priority=100) for mark in marks)
    return CrewDefinition(
        version="2.0",
        name="cutting",
        entry_point="a",
        agents=(AgentDefinition(id="a", name="a"),),
        routes={"a": routes},
    )


def listening_ms(text: str) -> float:
    """Milliseconds of CPU to match a text in pieces of one character."""
    listener, began = ReplyScanner(RoutingTable(crew_with_marks("[END]")), "a"), time.process_time()
    for char in text:
        listener.feed(char)
    return 1000 * (time.process_time() - began)


TEXTS = {
    "prose": "word ",
    "marks amid text": "[END] x\n",
    "marks in a fence": "```\n[END]\n```\n",
    "open brackets": "[END\n",
}


def lines(url: str, folder: Path) -> list[str]:
    """Both kinds of runs on one server, and the cost of matching."""
    full, cut = (asyncio.run(rambled(url, folder, cut=each)) for each in (False, True))
    heads = [f"{RUNS} replies: {BEFORE} tokens, a mark, {AFTER} tokens more", "in full", "cut_on_signal"]
    rows: list[list[object]] = [
        ["tokens that the server generated", full.generated, cut.generated],
        ["output tokens accounted for (cut: our estimate)", full.usage.output_tokens, cut.usage.output_tokens],
        ["wall seconds", full.seconds, cut.seconds],
    ]
    saved = full.generated - cut.generated
    share, every = saved / (RUNS * AFTER), full.completed == cut.completed == RUNS
    return [
        table(heads, rows),
        "",
        verdict(
            "cut_on_signal saves at least nine tenths of what comes after the mark",
            f"{saved:,} of {RUNS * AFTER:,} tokens",
            share >= 0.9 and every,
        ),
        "",
        f"Listening to {CHARS:,} characters, one by one, costs:",
        "",
        *(f"- {name}: {listening_ms((unit * CHARS)[:CHARS]):.0f} ms of CPU" for name, unit in TEXTS.items()),
    ]
