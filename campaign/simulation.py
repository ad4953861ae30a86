"""Simulates crews for a while, each seed with its own trouble, and writes its part of campaign/RESULTS.md.

Usage: python -m campaign.simulation [MINUTES] [FIRST-SEED]      10 minutes and seed 0 unless told; 1 if a law broke

Rule 1: a seed decides the crew, what everybody says and what goes wrong, so any line of the result can be seen again:
`python -c "from campaign.simulation import seen_again; print(seen_again(SEED))"`.
Rule 2: every tenth seed is played twice and must give the same bytes, and is forked at one of its places.
"""

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random

import msgspec

from bench.harness import machine, table
from campaign import results
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.testing import Simulation, simulate
from tests.engine.test_random_runs import a_crew, is_a_sound_crew
from tests.testing.workshop import TOOLS, WORKSHOP

MINUTES = 10.0
ROOT = Path(__file__).parent.parent
FOLDERS = (
    "examples/quiz-exam",
    "examples/giao-vien",
    "src/interlock/templates/hello",
    "src/interlock/templates/support",
)

# The heading under which a fault is counted, by its text.
KINDS = {
    "dies: before commit": "deaths before a commit",
    "dies: after commit": "deaths after a commit, before it was acknowledged",
    "dies: before effect": "deaths before an effect",
    "dies: after effect": "deaths after an effect",
    "dies: at a random moment": "deaths at a random moment",
    "dies:": "deaths at other doors",
    "stands still": "processes that stood still and lost their runs",
    "comes back": "processes that came back afterwards",
    "is never answered": "calls never answered",
    "is slow": "slow calls",
    "fails": "failed calls",
    "is refused": "refused calls",
    "delivered again": "answers delivered again",
    "clock jumps": "jumps of the wall clock",
    "the store is away": "appends refused by a store that was away",
    "its answer was lost": "appends whose outcome was not known",
    "a person answers": "answers of people",
    "a person cancels": "cancellations",
    "gives up": "drivers that gave up",
}


class Tally(msgspec.Struct):
    """The counts of a lane so far."""

    simulations: int = 0
    lives: int = 0
    steps: int = 0
    records: int = 0
    virtual_ms: int = 0
    repeats: int = 0
    forks: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    endings: Counter[str] = msgspec.field(default_factory=Counter)
    violations: list[str] = []

    def add(self, seed: int, simulation: Simulation) -> None:
        self.simulations += 1
        self.lives += simulation.lives
        self.steps += simulation.steps
        self.records += len(simulation.records)
        self.virtual_ms += simulation.virtual_ms
        self.endings[f"{simulation.status}: {simulation.reason.partition(':')[0]}".removesuffix(": ")] += 1
        for fault in simulation.faults:
            self.faults[next((kind for words, kind in KINDS.items() if words in fault.what), "others")] += 1
        self.violations += [f"seed {seed}, crew '{simulation.crew.name}': {v}" for v in simulation.violations[:1]]


@cache
def _loaded() -> tuple[CrewDefinition, ...]:
    return (*(load_definition(ROOT / folder) for folder in FOLDERS), WORKSHOP)


def crew_of(seed: int) -> CrewDefinition:
    """One of ours for every other seed, else a random sound one with tools."""
    chance = Random(f"crew:{seed}")
    if chance.random() < 0.5:
        return chance.choice(_loaded())
    while not is_a_sound_crew(crew := a_crew(chance)):
        pass
    owned = (("pay", "look_up"), ("pay",), ("look_up",), ())
    agents = tuple(msgspec.structs.replace(agent, tools=chance.choice(owned)) for agent in crew.agents)
    return msgspec.structs.replace(crew, agents=agents)


def seen_again(seed: int) -> Simulation:
    return simulate(crew_of(seed), seed=seed, tools=TOOLS)


def _lane(first_seed: int, step: int, seconds: float) -> Tally:
    tally, seed, until = Tally(), first_seed, time.monotonic() + seconds
    while time.monotonic() < until:
        simulation = seen_again(seed)
        tally.add(seed, simulation)
        if seed % 10 == 0:
            _look_closer(tally, seed, simulation)
        seed += step
    return tally


def _look_closer(tally: Tally, seed: int, simulation: Simulation) -> None:
    tally.repeats += 1
    if seen_again(seed) != simulation:
        tally.violations.append(f"seed {seed}: the same seed gave another run")
    if simulation.fork_places:
        place = Random(f"fork:{seed}").choice(simulation.fork_places)
        tally.forks += 1
        fork = simulate(simulation.crew, seed=seed + 1, tools=TOOLS, fork=(simulation, place))
        tally.violations += [f"seed {seed} forked after {place}: {violation}" for violation in fork.violations[:1]]


def run(seconds: float, first_seed: int = 0, lanes: int = 2) -> list[Tally]:
    """Seeds are dealt to the lanes in turn."""
    with ProcessPoolExecutor(lanes, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(_lane, first_seed + n, lanes, seconds) for n in range(lanes)]
        return [lane.result() for lane in started]


def page(minutes: float, first_seed: int, tallies: list[Tally]) -> str:
    """The results as Markdown."""
    violations = [violation for tally in tallies for violation in tally.violations]
    faults = sum((tally.faults for tally in tallies), Counter[str]())
    endings = sum((tally.endings for tally in tallies), Counter[str]())
    rows = [
        ("runs simulated", sum(tally.simulations for tally in tallies)),
        ("processes they took", sum(tally.lives for tally in tallies)),
        ("records, each judged by every law", sum(tally.records for tally in tallies)),
        ("steps of the loop", sum(tally.steps for tally in tallies)),
        ("hours of virtual time", sum(tally.virtual_ms for tally in tallies) // 3_600_000),
        *((name, faults[name]) for name in [*KINDS.values(), "others"] if faults[name]),
        *((f"ended as {name}", count) for name, count in sorted(endings.items())),
        ("seeds played twice, for the same bytes", sum(tally.repeats for tally in tallies)),
        ("forks that ran on", sum(tally.forks for tally in tallies)),
        ("laws broken", len(violations)),
    ]
    parts = [
        "# Simulation campaign",
        f"Written by `make campaign`. {machine()}. {minutes:g} minutes from seed {first_seed}.",
        "The examples, the templates, a crew with everything and random sound crews, under virtual time: faults first,"
        " then a quiet phase in which every run must come to its end. The laws in `testing/simulation/laws.py` and"
        " `invariants.py` are looked at after every record; 21 planted bugs in `tests/testing` show what they find.",
        table(("what", "count"), rows),
        *(["## Laws broken", "\n".join(f"- {each}" for each in violations[:50])] if violations else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tallies = run(minutes * 60, first_seed)
    text = page(minutes, first_seed, tallies)
    results.put(text)
    print(text)
    sys.exit(1 if any(tally.violations for tally in tallies) else 0)
