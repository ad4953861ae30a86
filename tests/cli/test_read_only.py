"""A data folder that may only be read: commands that look work and say so, commands that write refuse in one line.

In processes that are not root, as root may write everywhere.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock

HELLO = "src/interlock/templates/hello"

# Everything is loaded first: the one it becomes may not be able to read the source.
AS_NOBODY = """
import asyncio, importlib, os, pkgutil, sys
import interlock.cli
for module in pkgutil.iter_modules(interlock.cli.__path__):
    importlib.import_module(f"interlock.cli.{module.name}")
from interlock.cli.main import interlock
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
interlock(sys.argv[1:])
"""

# Ends without closing, so that the log stays as it is.
DIE = """
import asyncio, os, sys
from interlock import Interlock, load_crew
async def main():
    async with Interlock(sys.argv[1], script=sys.argv[3]) as box:
        await (await box.start(load_crew(sys.argv[2]), "go")).result()
        os._exit(0)
asyncio.run(main())
"""


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder that anybody may look into, with one run in it."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place, "data")
        done = CliRunner().invoke(
            interlock, ["run", HELLO, "go", "--script", f"{HELLO}/script.yaml", "--data", str(folder)]
        )
        assert done.exit_code == 0, done.output
        yield folder
        folder.chmod(0o755)


def lock_up(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o555 if file.is_dir() else 0o444)
    folder.chmod(0o555)


def by_nobody(data: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", AS_NOBODY, *words, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=Path.cwd())


def the_run(data: Path) -> str:
    return by_nobody(data, "runs", "list").stdout.split()[0]


def test_whatever_looks_works_and_says_that_the_folder_can_only_be_read(data: Path) -> None:
    lock_up(data)
    before = sorted(file.name for file in data.rglob("*"))
    run = the_run(data)
    for words in (
        ["runs", "list"],
        ["runs", "show", run],
        ["runs", "show", run, "--json"],
        ["runs", "explain", run],
        ["runs", "replay", run],
        ["runs", "export", run],
        ["runs", "script", run],
        ["doctor"],
    ):
        done = by_nobody(data, *words)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
        assert f"{data} is read-only here" in line
    assert f"{data} is healthy: 1 run" in done.stdout
    assert sorted(file.name for file in data.rglob("*")) == before


def test_whatever_writes_refuses_in_one_line(data: Path) -> None:
    lock_up(data)
    run = the_run(data)
    for words in (
        ["run", HELLO, "go"],
        ["resume", run],
        ["runs", "cancel", run],
        ["runs", "delete", run],
        ["runs", "prune", "--older-than", "1"],
        ["runs", "fork", run, "--after", "1"],
    ):
        done = by_nobody(data, *words)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (2, "")
        assert line.startswith("interlock: ")
        assert "Permission denied" in line or "cannot be written" in line


def test_what_is_only_in_the_log_is_read_too_and_refused_where_the_log_cannot_be(data: Path) -> None:
    command = [sys.executable, "-c", DIE, str(data), HELLO, f"{HELLO}/script.yaml"]
    subprocess.run(command, check=True, timeout=60)
    assert (data / "interlock.db-wal").stat().st_size > 0
    lock_up(data)
    assert len(by_nobody(data, "runs", "list").stdout.splitlines()) == 2
    data.chmod(0o755)
    (data / "interlock.db-shm").unlink()
    data.chmod(0o555)
    refused = by_nobody(data, "runs", "list")
    (line,) = refused.stderr.splitlines()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "holds changes that 'interlock.db' lacks" in line
    assert line.endswith("copy the data folder to a writable place")


def test_a_backup_can_be_made_of_it(data: Path) -> None:
    lock_up(data)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        copy = Path(place, "copy.db")
        done = by_nobody(data, "backup", str(copy))
        assert done.returncode == 0, done.stderr
        folder = Path(place, "restored")
        folder.mkdir()
        copy.rename(folder / "interlock.db")
        assert len(CliRunner().invoke(interlock, ["runs", "list", "--data", str(folder)]).stdout.splitlines()) == 1
