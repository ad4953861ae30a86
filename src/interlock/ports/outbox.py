"""The outbox of signals that leave the process."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class OutgoingSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for the outside, stored until it is acknowledged."""

    key: str
    run: str
    body: bytes


class Outbox(Protocol):
    """Signals that may not have been handed over yet."""

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        """The oldest first."""
        ...

    async def ack_outgoing(self, key: str) -> None: ...
