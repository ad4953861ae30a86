"""A process that dies at each point around its statements: what it acknowledged is there, and at most one more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.adapters.crash_points import CRASH_EXIT_CODE
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import RunNotFound

CHILD = Path(__file__).parent / "crash_child.py"
ROOT = Path(__file__).parents[3]


def crash(url: str, point: str) -> "subprocess.CompletedProcess[str]":
    env = os.environ | {"INTERLOCK_CRASH_AT": point, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, str(CHILD), url], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == CRASH_EXIT_CODE, ended.stderr
    return ended


@pytest.mark.parametrize("point", range(1, 5))
async def test_nothing_acknowledged_is_lost_and_the_journal_is_whole(postgres_url: str, point: int) -> None:
    ended = crash(postgres_url, str(point))
    acked = [int(line) for line in ended.stdout.split()]
    when = "before statement" if point % 2 else "after statement"
    assert when in ended.stderr
    store = PostgresStore(postgres_url)
    try:
        stored = [record.seq for record in await store.records("r1")]
    except RunNotFound:
        stored = []
    finally:
        await store.close()
    assert acked == [1, 2, 3, 4][: (point - 1) // 2]
    assert stored == [1, 2, 3, 4][: point // 2]


@pytest.mark.parametrize(("point", "acked"), [("1:append", 1), ("2:after statement, append", 2), ("1:close", 4)])
def test_a_point_is_chosen_by_what_is_done_there(postgres_url: str, point: str, acked: int) -> None:
    ended = crash(postgres_url, point)
    assert len(ended.stdout.split()) == acked
    assert point.partition(":")[2] in ended.stderr
