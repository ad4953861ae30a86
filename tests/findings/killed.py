"""A data folder as a killed process leaves it: with a log that was never written back."""

import subprocess
import sys
from pathlib import Path

HELLO = Path("src/interlock/templates/hello").absolute()

# Two runs: the first is written back to the database, the second is in the log alone.
PROGRAM = """
import asyncio, os, sys
from interlock import Interlock, load_crew
async def main():
    data, crew, durability = sys.argv[1:]
    for run in ("first", "second"):
        async with Interlock(data, script=crew + "/script.yaml", durability=durability) as box:
            await (await box.start(load_crew(crew), "go", run_id=run)).result()
            if run == "second":
                os._exit(0)
asyncio.run(main())
"""


def killed_folder(data: Path, durability: str = "full") -> Path:
    command = [sys.executable, "-c", PROGRAM, str(data), str(HELLO), durability]
    subprocess.run(command, check=True, timeout=60)
    assert (data / "interlock.db-wal").stat().st_size > 0
    return data
