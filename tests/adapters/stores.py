"""A store of SQLite for the time of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.store import SqliteStore
from interlock.errors import StoreFailed


@asynccontextmanager
async def opened(
    folder: Path, durability: str = "full", connect: migrations.Connect = migrations.connect
) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(folder, durability=durability, connect=connect)
    try:
        yield store
    except BaseException:
        with suppress(StoreFailed):  # a store that is broken says so again, which must not hide what a test found
            await store.close()
        raise
    await store.close()
