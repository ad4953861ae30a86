"""Writes that share the transaction of a record."""

import msgspec

from interlock.approvals.standing import StandingApproval
from interlock.broadcast.record import Emission
from interlock.ports.budgets import Reservation, Settlement
from interlock.ports.bus import InboxClaim
from interlock.ports.outbox import OutgoingSignal
from interlock.ports.processes.orders import OrderOutcome
from interlock.ports.questions import RunQuestions


class AtomicWrites(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Writes in the transaction of a record: all of them are committed with it, or none.

    Fields are listed in the order of writing. All are written AFTER the record, BEFORE the append is acknowledged, and
    so BEFORE the runtime acts on any of them.
    """

    # BEFORE a signal is sent outside: it stays in the outbox until it is acknowledged.
    outgoing: tuple[OutgoingSignal, ...] = ()
    # AFTER this record the run has these open questions; None if they did not change.
    asking: RunQuestions | None = None
    # AFTER a person gave them, BEFORE a call that they approve.
    approvals: tuple[StandingApproval, ...] = ()
    # AFTER the orders are carried out, by this record: their keys, each with its outcome.
    orders: tuple[tuple[str, OrderOutcome], ...] = ()
    # BEFORE a model is called (reservations) and AFTER it has answered (settlements).
    spending: tuple[Reservation | Settlement, ...] = ()
    # AFTER a run has read deliveries, with this record: their numbers, each with the id of its broadcast.
    heard: tuple[tuple[int, str], ...] = ()
    # AFTER claimed inbox messages are in a record: keys of claims to acknowledge.
    taken: tuple[str, ...] = ()
    # BEFORE any model has seen the claimed messages: keys of claims to undo.
    put_back: tuple[str, ...] = ()
    # AFTER a delivery was read but not acted upon: crew, agent and broadcast, to be delivered again.
    handed_back: tuple[tuple[str, str, str], ...] = ()
    # BEFORE a model call that shows them: inboxes to claim, AFTER the four fields above.
    taking: tuple[InboxClaim, ...] = ()
    # AFTER `taking`: a broadcast of this record is not in the messages that it claims.
    broadcasts: tuple[Emission, ...] = ()
    # AFTER `broadcasts`: agents that ended and that began work with this record, with the hops of their broadcasts.
    ended: tuple[tuple[str, int], ...] = ()
    begun: tuple[tuple[str, int], ...] = ()

    @property
    def has_bus_writes(self) -> bool:
        """Without presence, which mostly needs none."""
        inbox = self.taking or self.taken or self.put_back or self.heard or self.handed_back
        return bool(self.broadcasts or inbox)

    def to_repeat(self) -> "AtomicWrites":
        """What is done again with a record that is stored already: only what has an answer, which is then the same.

        All else was written with the record, and may have changed since, as an approval that was revoked.
        """
        return AtomicWrites(
            spending=self.spending, taking=self.taking, broadcasts=self.broadcasts, ended=self.ended, begun=self.begun
        )


NO_WRITES = AtomicWrites()
