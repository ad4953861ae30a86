"""Runs of processes that die or stop are taken over, on real processes and with real leases."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.adapters.postgres.store import PostgresStore
from interlock.ports import ClaimedRun
from tests.contracts.places import request
from tests.contracts.test_journal import a_row, replied

CHILD = Path(__file__).parent / "owner_child.py"
ROOT = Path(__file__).parents[3]


@contextmanager
def an_owner(url: str) -> Iterator[subprocess.Popen[str]]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.Popen([sys.executable, str(CHILD), url], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "owned\n"
        yield child
    finally:
        child.kill()
        child.communicate()


async def claim_when_free(store: PostgresStore) -> ClaimedRun:
    async with asyncio.timeout(30):
        while not (claimed := await store.claim_some(request())):
            await asyncio.sleep(0.05)
    (run,) = claimed
    return run


async def test_the_runs_of_a_killed_process_are_taken_over(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        with an_owner(postgres_url) as child:
            child.kill()
            assert await claim_when_free(store) == ClaimedRun(run="r1", epoch=1, owner_died=True)
        await store.append(a_row(epoch=1), replied(2))
    finally:
        await store.close()


async def test_a_stopped_process_that_wakes_after_its_time_has_lost_its_runs(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        with an_owner(postgres_url) as child:
            child.send_signal(signal.SIGSTOP)
            assert await claim_when_free(store) == ClaimedRun(run="r1", epoch=1, owner_died=True)
            await store.append(a_row(epoch=1), replied(2, "by the successor"))
            child.send_signal(signal.SIGCONT)
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == "lease lost\n"
            assert await asyncio.to_thread(child.wait, 20) == 0
        assert [record.seq for record in await store.records("r1")] == [1, 2]
    finally:
        await store.close()
