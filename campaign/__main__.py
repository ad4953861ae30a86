"""Kills processes at random for a while and writes its part of campaign/RESULTS.md, with the date and the machine.

Usage: python -m campaign [MINUTES] [FIRST-SEED]       20 minutes and seed 0 unless told; exit code 1 if a law broke
"""

import sys
from collections import Counter

from bench.harness import machine, table
from campaign import crash, results

MINUTES = 20.0


def page(minutes: float, first_seed: int, tallies: list[crash.Tally]) -> str:
    """The results as Markdown."""
    faults = [fault for tally in tallies for fault in tally.faults]
    boundaries = sum((tally.by_boundary for tally in tallies), Counter[str]())
    rows = [
        ("stories played to their end over several lives", sum(tally.trials for tally in tallies)),
        ("processes started for them", sum(tally.lives for tally in tallies)),
        ("of these killed", sum(tally.kills for tally in tallies)),
        *((f"killed: {name}", count) for name, count in sorted(boundaries.items()) if name),
        ("calls in flight that were made again", sum(tally.repeats for tally in tallies)),
        ("faults found", len(faults)),
    ]
    parts = [
        "# Crash campaign",
        f"Written by `make campaign`. {machine()}. {minutes:g} minutes from seed {first_seed}.",
        "Random crews with tools (one idempotent, one not), groups, questions and failing models; each story is played"
        " once undisturbed and once with one to five deaths. Then: the same result, nothing acknowledged lost,"
        " no call with a journalled answer made again, no payment made twice unless a person said so, no question"
        " asked twice.",
        table(("what", "count"), rows),
        *(["## Faults", "\n".join(f"- {fault}" for fault in faults)] if faults else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tallies = crash.run(minutes * 60, first_seed)
    text = page(minutes, first_seed, tallies)
    results.put(text)
    print(text)
    sys.exit(1 if any(tally.faults for tally in tallies) else 0)
