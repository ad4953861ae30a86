"""What a command that only looks asks of a data folder, also where nothing can be written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from interlock.cli.crews import shown
from interlock.compose.crews import host_settings
from interlock.compose.inspection import Inspection

T = TypeVar("T")


def with_look(data: str, ask: Callable[[Inspection], Awaitable[T]]) -> T:
    async def asked_of() -> T:
        async with Inspection(data, durability=host_settings(None).durability) as box:
            if box.is_read_only:
                say_read_only(data)
            return await ask(box)

    return asyncio.run(asked_of())


def say_read_only(data: str) -> None:
    click.echo(f"interlock: {shown(data)} can only be read here; what others write meanwhile may be missing", err=True)
