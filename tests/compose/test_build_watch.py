"""examples/build-watch, as a user runs it."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path("examples/build-watch/watch.py")


def test_two_agents_react_one_silently_and_a_reminder_fires_where_nobody_does() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=60, check=True)
    *signals, last = done.stdout.splitlines()
    assert [line.split()[0] for line in signals][-1] == "build:cellar:unheard"
    assert sorted(line.split()[0] for line in signals) == [
        "build:cellar:done", "build:cellar:unheard", "build:shop:done", "crew:build-watch:told",
    ]  # fmt: skip
    assert last == "I have heard of 3 builds."
