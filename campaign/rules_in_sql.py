"""Plays random histories of the bus and of budgets through the rules in Python and the functions in SQL, and writes its
part of campaign/RESULTS.md.

Usage: python -m campaign.rules_in_sql [HISTORIES] [FIRST-SEED]      100,000 and seed 0 unless told; 1 if any differ

Rule: a seed decides a history, so any line of the result can be seen again:
`python -c "from campaign.rules_in_sql import see_again; see_again('bus', SEED)"`.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import NamedTuple

from bench.harness import machine, table
from campaign import results
from tests.adapters.postgres.bus.budget_walk import walk_on_budgets
from tests.adapters.postgres.bus.bus_walk import DifferenceFound, walk_on_bus
from tests.adapters.postgres.bus.walking import Walk, two_stores
from tests.postgres import end_shared_cluster

HISTORIES = 100_000
WALKS: dict[str, Walk] = {"bus": walk_on_bus, "budgets": walk_on_budgets}
LANES = 2
# A lane that finds more than this has found one bug many times.
DIFFERENCES_MAX = 10


class LaneTally(NamedTuple):
    """The histories of a lane, and the seeds that differ."""

    played: dict[str, int]
    different: list[str]


def see_again(kind: str, seed: int) -> None:
    """Plays one history; raises what differs."""
    _with_stores(lambda walk: walk(kind, seed))


def _with_stores(play: Callable[[Callable[[str, int], None]], None]) -> None:
    try:
        with two_stores() as stores:
            play(lambda kind, seed: WALKS[kind](Random(seed), *stores))
    finally:
        end_shared_cluster()


def play_lane(seeds: range) -> LaneTally:
    """Both kinds of history for every seed, in a cluster of its own."""
    tally = LaneTally(dict.fromkeys(WALKS, 0), [])

    def play(walk: Callable[[str, int], None]) -> None:
        for seed in seeds:
            for kind in WALKS:
                if len(tally.different) >= DIFFERENCES_MAX:
                    return
                tally.played[kind] += 1
                try:
                    walk(kind, seed)
                except DifferenceFound as difference:
                    tally.different.append(f"{kind}, seed {seed}: {str(difference).partition(' after')[0]}")

    _with_stores(play)
    return tally


def page(histories: int, first_seed: int, tallies: list[LaneTally]) -> str:
    """The results as Markdown."""
    different = [each for tally in tallies for each in tally.different]
    rows = [(f"histories of {kind}", sum(tally.played[kind] for tally in tallies)) for kind in WALKS]
    parts = [
        "# Rules in SQL",
        f"Written by `make campaign`. {machine()}. {histories:,} histories from seed {first_seed}.",
        "Each history is 12 random steps through tables in memory, PostgreSQL with the rules in Python, and PostgreSQL"
        " with the functions in SQL; answers and tables are compared after every step. Planted differences in"
        " `tests/adapters/postgres/bus` show what is found.",
        table(("what", "count"), [*rows, ("histories that differ", len(different))]),
        *(["## Different", "\n".join(f"- {each}" for each in different)] if different else []),
    ]
    return "\n\n".join(parts) + "\n"


def run(histories: int, first_seed: int) -> list[LaneTally]:
    """Half of the histories are of the bus, half of budgets; lanes get seeds in turn."""
    last = first_seed + histories // len(WALKS)
    with ProcessPoolExecutor(LANES, mp_context=get_context("spawn")) as pool:
        started = [pool.submit(play_lane, range(first_seed + n, last, LANES)) for n in range(LANES)]
        return [lane.result() for lane in started]


if __name__ == "__main__":
    histories = int(sys.argv[1]) if len(sys.argv) > 1 else HISTORIES
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tallies = run(histories, first_seed)
    text = page(histories, first_seed, tallies)
    results.put(text)
    print(text)
    sys.exit(1 if any(tally.different for tally in tallies) else 0)
