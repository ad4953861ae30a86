"""Broadcasts from outside: announced once under the id they are given, however often they are asked for."""

from typing import Any

from interlock.broadcast.naming import derived_id
from interlock.broadcast.record import Broadcast, Emission, Source, checked_data, checked_type
from interlock.compose.box import Interlock


async def announced(box: Interlock, key: str, type: str, data: Any, source: Source) -> tuple[Broadcast, bool]:  # noqa: A002
    """The broadcast, and whether it is news; the same key is the same broadcast, in the transaction that keeps it."""
    broadcast = Broadcast(
        id=derived_id(key),
        type=checked_type(type),
        source=source,
        data=checked_data(data),
        created_at=box.clock.now_ms(),
    )
    outcome = await box.signals.bus.emit(Emission(broadcast=broadcast))
    box.runner.board.announced(outcome)
    return broadcast, outcome.news
