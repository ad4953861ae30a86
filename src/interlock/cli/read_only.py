"""Open a store for reading, also where it cannot be written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from interlock.cli.crew_argument import safe_line
from interlock.compose.crews import host_settings
from interlock.compose.stores.homes import StoreName
from interlock.compose.upkeep.read_only import Inspection

T = TypeVar("T")


def with_read_only(data: StoreName, read: Callable[[Inspection], Awaitable[T]]) -> T:
    async def open_and_read() -> T:
        async with Inspection(data, durability=host_settings(None).durability) as box:
            if box.is_read_only:
                warn_read_only(box.home.name)
            return await read(box)

    return asyncio.run(open_and_read())


def warn_read_only(name: str) -> None:
    click.echo(
        f"interlock: {safe_line(name)} is read-only here; newer writes of other processes may be missing", err=True
    )
