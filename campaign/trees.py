"""Simulates many random trees of agents and crews that talk to each other, and writes its part of campaign/RESULTS.md.

Usage: python -m campaign.trees [TREES] [FIRST-SEED]      10,000 and seed 0 unless told; 1 if a law broke

A seed decides the tree, what everybody says and what goes wrong; a line of the result can be seen again with
`python -c "from tests.testing.trees import simulated; print(simulated(SEED))"`.
"""

import logging
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.harness import machine, table
from campaign import results
from tests.testing.trees import mail_of, simulated

TREES = 10_000
LANES = 2


def lane(seeds: range) -> tuple[Counter[str], list[str]]:
    """Simulates trees; gives the counts, and the violated laws."""
    logging.getLogger("interlock").setLevel(logging.CRITICAL)
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for seed in seeds:
        simulation = simulated(seed)
        counts["trees"] += 1
        counts["processes they took"] += simulation.lives
        counts["faults injected"] += len(simulation.faults)
        fates = Counter(mail_of(simulation).values())
        counts["messages sent"] += fates.total()
        counts["runs of crews that were given a task"] += len(simulation.below)
        counts.update({f"messages {fate or 'open, in runs left paused'}": n for fate, n in fates.items()})
        counts[f"runs {simulation.status}"] += 1
        broken += [f"seed {seed}: {violation}" for violation in simulation.violations[:1]]
        if fates[""] and simulation.status != "paused":
            broken.append(f"seed {seed}: {fates['']} messages have no fate, and the run is {simulation.status}")
    return counts, broken


def run(trees: int, first_seed: int) -> tuple[Counter[str], list[str]]:
    with ProcessPoolExecutor(LANES, mp_context=get_context("spawn")) as pool:
        lanes = [pool.submit(lane, range(first_seed + n, first_seed + trees, LANES)) for n in range(LANES)]
        found = [each.result() for each in lanes]
    return sum((counts for counts, _ in found), Counter[str]()), [line for _, lines in found for line in lines]


def page(first_seed: int, counts: Counter[str], broken: list[str]) -> str:
    parts = [
        "# Conversation campaign",
        f"Written by `python -m campaign.trees`. {machine()}. {counts['trees']:,} trees from seed {first_seed}.",
        "Random trees of agents that delegate to agents and crews, query, ask people and report, or do not, under"
        " virtual time with faults. Every message of a tree of runs that is over was answered, refused, undelivered or"
        " timed out, once.",
        table(("what", "count"), [*sorted(counts.items()), ("laws broken", len(broken))]),
        *(["## Laws broken", "\n".join(f"- {each}" for each in broken[:50])] if broken else []),
    ]
    return "\n\n".join(parts) + "\n"


def main(words: list[str]) -> int:
    trees, first_seed = int(words[0]) if words else TREES, int(words[1]) if len(words) > 1 else 0
    counts, broken = run(trees, first_seed)
    text = page(first_seed, counts, broken)
    print(text)
    results.put(text)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
