"""The outbox of signals that leave the process.

Rule: a signal has one sender at a time: the process that stored it, then the one that claims it. A claim ends with its
process, as the claim of a run does.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

# The longest time for which a signal is put off.
PUT_OFF_MAX_MS = 3_600_000


class OutgoingSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for the outside, stored until it is acknowledged. `attempts` have failed so far."""

    key: str
    run: str
    body: bytes
    attempts: int = 0


class Outbox(Protocol):
    """Signals that may not have been handed over yet.

    One that is stored with a record (`AtomicWrites.outgoing`) is claimed by the owner of the run from the start.
    """

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        """All signals that are not acknowledged, claimed or not, due or not; the oldest first."""
        ...

    async def claim_signals(
        self, at: int, limit: int, run: str | None = None, sending: Collection[str] | None = None
    ) -> Sequence[OutgoingSignal]:
        """Claims signals that are due at a time and have no living sender, of one run or of all; the oldest first.

        One that would be due more than `PUT_OFF_MAX_MS` later is due now: the clock was set back. `sending` are the
        keys that this process sends now: all others that it has claimed are claimed again, because the answer to a
        claim may be lost. With None all that it has claimed are left out.
        """
        ...

    async def put_off(self, key: str, attempts: int, due_at: int) -> None:
        """Ends this process's claim of a signal: it has failed so often, and is due again at that time.

        Does nothing if this process has not claimed it.
        """
        ...

    async def ack_outgoing(self, key: str) -> None:
        """Deletes a signal that was handed over, whichever process has claimed it."""
        ...
