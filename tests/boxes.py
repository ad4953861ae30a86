"""A box for the time of a story, in tests of commands: each of those runs a loop of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock import Interlock
from interlock.adapters.sqlite.store import SqliteStore

T = TypeVar("T")


def inside(box: Interlock, ask: Callable[[Interlock], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with box:
            return await ask(box)

    return asyncio.run(asked())


def sqlite_of(box: Interlock) -> SqliteStore:
    """The store of a box in a data folder, for what only SQLite has."""
    assert isinstance(box.store, SqliteStore)
    return box.store
