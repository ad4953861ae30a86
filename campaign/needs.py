"""Kills programs whose runs need them, at every boundary, and writes its part of campaign/RESULTS.md.

Usage: python -m campaign.needs [STEP]      every boundary unless told; 1 if something was driven, lost or repeated

A run is begun with a function as model, function tools and deps, and its program is killed at boundary N. A server, a
`resume` and a schedule without these find it, and die at boundary M as well. A second program with everything ends it.
"""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import machine, table
from campaign import results
from tests.campaign.needs_story import NeedyLives, story_of

LANES = 2
# Boundaries of a process that only sets the run aside; past the last one it does not die.
LACKING_DEATHS = (0, 1, 2, 3, 5, 8, 13)


def lane(first: int, step: int) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    broken: list[str] = []
    lives, crash_at, died = NeedyLives(), 1 + first * step, True
    with TemporaryDirectory() as folder:
        while died:
            for lacking in LACKING_DEATHS:
                wrong, died = story_of(lives, Path(folder) / f"{crash_at}-{lacking}", crash_at, lacking)
                counts["stories"] += 1
                counts["boundaries at which the first program died"] += died and not lacking
                broken += [f"killed at {crash_at}, the others at {lacking}: {each}" for each in wrong]
                if not died:
                    break
            crash_at += LANES * step
    lives.close()
    return counts, broken


def main(step: int) -> int:
    with ThreadPoolExecutor(LANES) as pool:
        found = list(pool.map(lambda first: lane(first, step), range(LANES)))
    counts = sum((counts for counts, _ in found), Counter[str]())
    broken = [line for _, lines in found for line in lines]
    parts = [
        "# Needs campaign",
        f"Written by `python -m campaign.needs`. {machine()}.",
        "Runs begun with a function as model, function tools and deps. Their program is killed at a boundary; a server,"
        " a `resume` and a schedule without these find the run, and are killed too; a second program with everything"
        " ends it. Only that one drives it; nothing is lost, and no call with a recorded answer is made again.",
        table(("what", "count"), [*sorted(counts.items()), ("broken", len(broken))]),
        *(["## Broken", "\n".join(f"- {each}" for each in broken[:50])] if broken else []),
    ]
    results.put("\n\n".join(parts) + "\n")
    print(parts[3])
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
