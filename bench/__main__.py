"""Runs every benchmark and writes bench/RESULTS.md, each part with its date and the machine.

Usage: python -m bench [NAME ...]    only those named, such as models; the other parts stay as they were measured
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import broadcast, check, engine, matching, messages, models, nesting, processes, slow_disk, streams

RESULTS = Path(__file__).parent / "RESULTS.md"
BENCHMARKS = {
    "matching": matching,
    "check": check,
    "engine": engine,
    "models": models,
    "nesting": nesting,
    "messages": messages,
    "broadcast": broadcast,
    "processes": processes,
    "streams": streams,
    "slow_disk": slow_disk,
}
HEAD = "# Results\n\nWritten by `make bench`. CPU time is what counts; these machines are noisy.\n\n"


def with_parts(before: str, parts: Sequence[str]) -> str:
    """The results with parts of the same heading replaced, and others added at the end."""
    kept = {_heading(part): part.strip("\n") for part in re.split(r"^(?=## )", before, flags=re.MULTILINE)[1:]}
    kept.update({_heading(part): part for part in parts})
    return HEAD + "\n\n".join(kept.values()) + "\n"


def _heading(part: str) -> str:
    return part.partition("\n")[0]


if __name__ == "__main__":
    named = sys.argv[1:] or list(BENCHMARKS)
    measured = [BENCHMARKS[name].run() for name in named]
    RESULTS.write_text(with_parts(RESULTS.read_text("utf-8") if sys.argv[1:] else "", measured), "utf-8")
    print("\n\n".join(measured))
