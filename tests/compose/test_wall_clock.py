"""A wall clock that is set during a real run, with the machine's own monotonic clock and a real store.

In a process of its own, whose clock is set in one of two ways: by a function in place of `time.time_ns`, and where
libfaketime is installed (Debian's `faketime`) also by that, for all that asks the system.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOUR_MS = 3_600_000

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))

CREW = """\
version: "2.0"
name: turns
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals:
    a: [{signal: "[NEXT]", type: route, target: b}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", type: route, target: a}]
settings: {timeout_seconds: 600}
"""

# The clock is set at every call of a model; each jump is longer than the run may work.
STORY = """
import asyncio, json, os, sys, time
from pathlib import Path
from interlock import Interlock, load_crew

folder, hours = Path(sys.argv[1]), int(sys.argv[2])
real, jumped = time.time_ns, 0

def jump():
    global jumped
    jumped += hours
    if file := os.environ.get("FAKETIME_TIMESTAMP_FILE"):
        Path(file).write_text(f"{jumped:+d}h")
    else:
        time.time_ns = lambda: real() + jumped * 3_600_000_000_000

def reply(request):
    jump()
    return "[END]" if request.number == 3 else "[NEXT]"

async def main():
    async with Interlock(folder / "data", models=reply) as box:
        run = await box.start(load_crew(folder / "crew.yaml"), "go")
        result = await run.result()
        records, state = await box.journal.records(run.id), await box.state(run.id)
    seqs, at = [record.seq for record in records], [record.at for record in records]
    print(json.dumps([result.status, result.reason, state.worked_ms, seqs, at]))

asyncio.run(main())
"""


@pytest.mark.parametrize("library", [None, *LIBRARIES], ids=["by a function", *("by libfaketime" for _ in LIBRARIES)])
@pytest.mark.parametrize("hours", [-2, 2, 72])
def test_a_wall_clock_that_jumps_ends_no_run_and_changes_no_order(
    tmp_path: Path, hours: int, library: Path | None
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    command = [sys.executable, "-c", STORY, str(tmp_path), str(hours)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=os.environ | faked(tmp_path, library)
    )
    assert done.returncode == 0, done.stderr
    status, reason, worked_ms, seqs, at = json.loads(done.stdout)
    assert (status, reason) == ("completed", "signal:[END]")
    assert worked_ms < 600_000
    assert seqs == sorted(seqs)
    assert abs(at[-1] - at[0]) >= 5 * abs(hours) * HOUR_MS - 60_000  # people see what the wall clock said


def faked(folder: Path, library: Path | None) -> dict[str, str]:
    if library is None:
        return {}
    file = folder / "clock"
    file.write_text("+0h", "utf-8")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }
