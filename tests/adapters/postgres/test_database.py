"""Opening and closing a store: all of it, or nothing."""

import asyncio
import threading

import psycopg
import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import StoreFailed
from tests.adapters.postgres.faulty import Faults
from tests.contracts.test_journal import a_row, started


def own_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("interlock-")}


def test_a_store_that_opens_in_part_leaves_nothing(postgres_url: str) -> None:
    opened: list[PostgresConnection] = []

    def connect_once(address: PostgresAddress) -> PostgresConnection:
        if opened:
            raise psycopg.OperationalError("too many connections")
        opened.append(connect(address))
        return opened[-1]

    before = own_threads()
    with pytest.raises(StoreFailed, match="too many connections"):
        PostgresStore(postgres_url, connect=connect_once)
    assert own_threads() == before
    assert opened[0].closed


async def test_closing_ends_all_threads_and_connections(postgres_url: str) -> None:
    before, faults = own_threads(), Faults()
    store = PostgresStore(postgres_url, connect=faults.connect)
    await store.create(a_row(), started())
    await store.row("r1")
    assert {"interlock-writer", "interlock-session"} <= own_threads()
    await store.close()
    assert own_threads() == before
    assert not store.has_lease()


async def test_a_store_closes_while_its_server_is_away(postgres_url: str) -> None:
    faults = Faults()
    store = PostgresStore(postgres_url, connect=faults.connect)
    await store.create(a_row(), started())
    faults.refuse_connections, faults.before = True, "begin"
    await store.close()
    with pytest.raises(StoreFailed, match="closed"):
        await store.row("r1")


async def test_a_close_that_is_cancelled_ends_all_threads_and_connections(postgres_url: str) -> None:
    before, faults = own_threads(), Faults()
    store = PostgresStore(postgres_url, connect=faults.connect)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert own_threads() == before
