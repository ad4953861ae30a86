"""Open a store for reading, also where it cannot be written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from interlock.cli.crew_argument import safe_line
from interlock.compose.crews import host_settings
from interlock.compose.stores.homes import StoreName
from interlock.compose.stores.store_url import ReadStore
from interlock.compose.upkeep.read_only import CopyInspection, Inspection

T = TypeVar("T")
# A folder or the URL of a store, as options give it, or a copy.
StoreToRead = str | ReadStore


def with_read_only(data: StoreName | ReadStore, read: Callable[[Inspection], Awaitable[T]]) -> T:
    async def open_and_read() -> T:
        durability = host_settings(None).durability
        is_copy = isinstance(data, ReadStore)
        kind, named = (CopyInspection, data.url) if isinstance(data, ReadStore) else (Inspection, data)
        async with kind(named, durability=durability) as box:
            if is_copy:
                for warning in box.store_warnings:
                    click.echo(f"interlock: {safe_line(warning)}", err=True)
            elif box.is_read_only:
                warn_read_only(box.home.name)
            return await read(box)

    return asyncio.run(open_and_read())


def warn_read_only(name: str) -> None:
    click.echo(
        f"interlock: {safe_line(name)} is read-only here; newer writes of other processes may be missing", err=True
    )
