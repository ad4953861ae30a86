"""Commits of events: apply, store, tell, act.

Rule 1: store, then act. After `append` a crash repeats work and never loses it.
Rule 2: one commit of a run at a time. The caller holds the lock of the run.
"""

import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from interlock.engine.effects import CallModel, Effect
from interlock.engine.events import IncomingEvent, RunResumed
from interlock.engine.flow.parking import pause_reason
from interlock.engine.kinds import PAUSED
from interlock.engine.run import Run
from interlock.errors import PortError, StoreFailed
from interlock.ports import (
    NO_WRITES,
    AtomicWrites,
    Clock,
    Journal,
    Observer,
    OrderOutcome,
    Record,
    RunRow,
    StoredRecord,
)
from interlock.runtime.broadcasts import NO_CLAIMED_INBOXES, BroadcastHub
from interlock.runtime.calls.approvals import approvals_to_store
from interlock.runtime.calls.effects import EffectRunner
from interlock.runtime.calls.external_signals import ExternalSender
from interlock.runtime.calls.reservations import NO_GRANTS, grants_by_key
from interlock.runtime.live_run import LiveRun
from interlock.runtime.redaction import Redactor, redact_event
from interlock.runtime.store_retry import retry_while_store_away
from interlock.runtime.watchers import Watchers, public_events

_log = logging.getLogger("interlock")


class Committer:
    """Takes events into runs. `reads_inboxes` is False where no agent can receive a broadcast.

    `owns_new` is False if this process creates runs for others to drive.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        hub: BroadcastHub,
        effect_runner: EffectRunner,
        external_sender: ExternalSender,
        watchers: Watchers,
        observers: Sequence[Observer] = (),
        redactor: Redactor | None = None,
        reads_inboxes: bool = True,
        owns_new: bool = True,
    ) -> None:
        self._journal, self._clock, self._hub = journal, clock, hub
        self._owns_new = owns_new
        self._effect_runner, self._external_sender = effect_runner, external_sender
        self._watchers, self.observers = watchers, observers
        self._redactor, self._reads_inboxes = redactor, reads_inboxes
        # The run whose record observers are looking at; it may be claimed for this one record.
        self.observed: LiveRun | None = None

    async def commit_event(
        self, live: LiveRun, event: IncomingEvent, *, first: bool = False, order: str = "", value: str = ""
    ) -> None:
        """Applies an event, stores the record, tells followers and runs the effects.

        `order` is the key of the order that the record carries out, `value` the result of that order.
        """
        now_ms, state = self._clock.monotonic_ms(), live.run.state
        if self._reads_inboxes and not self._hub.has_current_inboxes():
            await self._refresh_inboxes()
        event = self._as_recorded(live, event, now_ms)
        seq = state.seq + 1
        redoes = type(event) is RunResumed and event.token == state.parked
        step = live.run.apply(event)
        record = Record(seq=seq, at=self._clock.now_ms(), events=(event, *step.facts))
        live.row = row_of(live.run, live.row, record.at)
        also = NO_WRITES
        if len(step.effects) != 1 or type(step.effects[0]) is not CallModel:  # nearly always it is one call
            also = self._atomic_writes(live, step.effects, record.at)
        also = self._hub.with_bus_writes(live, event, step, record.at, also)
        if state.waits or live.open_tokens:
            also = live.with_questions(record, also)
        if order:
            also = msgspec.structs.replace(also, orders=((order, OrderOutcome(seq=seq, value=value)),))
        try:
            if first:
                appended = await self._journal.create(live.row, record, also, owned=self._owns_new)
            else:
                appended = await self._journal.append(live.row, record, also)
        except StoreFailed as error:
            if first or not error.passes:
                raise
            _log.warning("run %s: %s; the record is kept in memory and stored when the store is back", live.id, error)
            appended = await retry_while_store_away(self._clock, partial(self._journal.append, live.row, record, also))
        if self.observers or self._watchers.by_run:
            self._notify_followers(live, record, appended.position)
        if also.outgoing:
            self._external_sender.start_sending(also.outgoing)
        claimed = self._hub.on_committed(also, appended) if also is not NO_WRITES else NO_CLAIMED_INBOXES
        grants = grants_by_key(also.spending, appended.grants) if appended.grants else NO_GRANTS
        run_effects = self._effect_runner.report_lost_tools if redoes else self._effect_runner.run_effects
        run_effects(live, step.effects, grants, claimed)

    def _as_recorded(self, live: LiveRun, event: IncomingEvent, now_ms: int) -> IncomingEvent:
        """The event without secrets, with the working time since the last one, and with the agents that have mail."""
        if self._redactor is not None:
            event = redact_event(event, self._redactor)
        before_ms, live.last_ms = live.last_ms, now_ms
        if before_ms is not None and now_ms > before_ms:
            event = msgspec.structs.replace(event, worked_ms=now_ms - before_ms)
        if self._hub.unread and (mail := self._hub.agents_with_unread(live.crew.name)):
            event = msgspec.structs.replace(event, mail=mail)
        return event

    async def _refresh_inboxes(self) -> None:
        try:
            await self._hub.refresh_inboxes()
        except PortError as error:  # nothing is lost: a broadcast stays in its inbox for the next turn
            _log.warning("inboxes cannot be read now: %s", error)

    def _atomic_writes(self, live: LiveRun, effects: Sequence[Effect], at: int) -> AtomicWrites:
        """The writes in the transaction of the record."""
        spending = self._effect_runner.reservations.budget_writes(live, effects, at)
        outgoing = self._external_sender.outgoing_signals(live.id, effects)
        approvals = approvals_to_store(live, effects, at)
        if not (spending or outgoing or approvals):
            return NO_WRITES
        return AtomicWrites(spending=spending, outgoing=outgoing, approvals=approvals)

    def _notify_followers(self, live: LiveRun, record: Record, position: int) -> None:
        self._watchers.flush_frames_of(live.id)
        if watchers := self._watchers.of(live.id):
            for event in public_events(live.id, record):
                for watcher in watchers:
                    watcher.send_event(event)
        if self.observers:
            stored, self.observed = StoredRecord(position=position, run=live.id, record=record), live
            for observer in self.observers:
                try:
                    observer(stored)
                except Exception:  # an observer must not change the run
                    _log.exception("an observer failed at run %s, seq %s", live.id, record.seq)
            self.observed = None


def row_of(run: Run, row: RunRow, now: int) -> RunRow:
    """The row of a run in its present state; the reason of a paused run is what it waits for."""
    state = run.state
    waits_for = ""
    if state.status is PAUSED:
        waits_for = pause_reason(state) if state.parked else state.waits[0].reason
    return msgspec.structs.replace(
        row,
        status=str(state.status),
        reason=state.reason or waits_for,
        agent=state.agent,
        seq=state.seq,
        usage=state.usage,
        updated_at=now,
    )
