"""A debugger is one option away: `pytest path::test --pdb` stops where a test failed, in the same process."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FAILING = """\
import asyncio


async def test_it() -> None:
    await asyncio.sleep(0)
    kept = "in hand"
    assert not kept


def test_plain() -> None:
    assert 6 * 7 == 42
"""


def session(folder: Path, test: str, typed: str, *options: str) -> str:
    (folder / "test_failing.py").write_text(FAILING, "utf-8")
    words = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", f"{folder / 'test_failing.py'}::{test}"]
    command = [sys.executable, "-m", "pytest", *words, *options]
    return subprocess.run(command, input=typed, capture_output=True, text=True, cwd=ROOT, check=False).stdout


@pytest.mark.parametrize("options", [("--pdb",), ("-x", "--pdb")], ids=" ".join)
def test_a_test_that_fails_is_looked_into_where_it_failed(tmp_path: Path, options: tuple[str, ...]) -> None:
    told = session(tmp_path, "test_it", "p kept * 2\nq\n", *options)
    assert "(Pdb) 'in handin hand'" in told


def test_a_test_is_gone_through_from_its_beginning(tmp_path: Path) -> None:
    told = session(tmp_path, "test_plain", "p 'here'\nc\n", "--trace")
    assert "test_failing.py(11)test_plain()" in told
    assert "(Pdb) 'here'" in told


def test_an_async_test_is_gone_through_from_a_place_in_it(tmp_path: Path) -> None:
    """What `--trace` finds first of it is the plugin that runs it."""
    told = session(tmp_path, "test_it", f"b {tmp_path / 'test_failing.py'}:7\nc\np kept\nq\n", "--trace")
    assert "test_failing.py(7)test_it()" in told
    assert "(Pdb) 'in hand'" in told
