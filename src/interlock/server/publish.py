"""Emits broadcasts of clients, at most once per key."""

from typing import Any

from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import Broadcast, Source
from interlock.compose.interlock import Interlock


async def publish_once(box: Interlock, key: str, type: str, data: Any, source: Source) -> tuple[Broadcast, bool]:  # noqa: A002
    """Emits a broadcast; also returns True if it is new. The key is stored in the same transaction as the broadcast."""
    return await box.signals.announce(stable_id(key), type, data, source)
