"""Broadcasts from outside: announced once under the id they are given, however often they are asked for."""

from typing import Any

from interlock.broadcast.naming import derived_id
from interlock.broadcast.record import Broadcast, Source
from interlock.compose.box import Interlock


async def announced(box: Interlock, key: str, type: str, data: Any, source: Source) -> tuple[Broadcast, bool]:  # noqa: A002
    """The broadcast, and whether it is news; the same key is the same broadcast, in the transaction that keeps it."""
    return await box.signals.announce(derived_id(key), type, data, source)
