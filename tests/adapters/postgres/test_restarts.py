"""A server that goes away and comes back: nothing acknowledged is lost, and its processes keep their runs."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import StoreFailed
from tests.contracts.places import request as claim_request
from tests.contracts.test_journal import a_row, replied, started
from tests.postgres import Cluster


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.end()


async def append_until_stored(store: PostgresStore, seq: int) -> None:
    """As the runtime does: a failure that passes is tried again."""
    async with asyncio.timeout(30):
        while True:
            try:
                await store.append(a_row(), replied(seq))
                return
            except StoreFailed as error:
                assert error.passes, error
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], ids=["fast", "immediate", "crash"])
async def test_a_restart_loses_nothing_and_takes_no_run_away(own_cluster: Cluster, how: signal.Signals) -> None:
    address = PostgresAddress(own_cluster.url(f"restart_{how.name.lower()}"))
    migrate(address)
    store, other = PostgresStore(address), PostgresStore(address)
    lost: list[str] = []
    store.on_lost(lambda: lost.append("lost"))
    try:
        await store.create(a_row(), started())
        for seq in (3, 4):
            await store.append(a_row(), replied(seq))
        own_cluster.stop(how)
        outcomes = await asyncio.gather(store.append(a_row(), replied(5)), other.row("r1"), return_exceptions=True)
        if how != signal.SIGKILL:  # the processes of a crashed server may answer for a moment
            assert [isinstance(outcome, StoreFailed) for outcome in outcomes] == [True, True]
        own_cluster.start()  # by this thread: the kernel ends the server with the thread that started it
        for seq in range(5, 9):
            await append_until_stored(store, seq)
        assert [record.seq for record in await other.records("r1")] == [1, 3, 4, 5, 6, 7, 8]
        assert await other.claim_some(claim_request()) == []
        assert lost == []
    finally:
        for each in (store, other):
            await each.close()
