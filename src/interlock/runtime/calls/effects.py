"""Runs the effects of a run. Each one is answered by an event in the inbox of the run; a failure is an answer too."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from interlock.broadcast.record import ReceivedBroadcast
from interlock.engine.effects import (
    AckInbox,
    CallModel,
    Cancel,
    CheckOutput,
    ClaimInbox,
    Effect,
    HandBackBroadcast,
    PublishBroadcast,
    Reserve,
    ReserveAgain,
    RunTool,
    SendExternalSignal,
    SetAlarm,
    SetTimer,
    Settle,
    StartChild,
    StopChild,
    StoreApproval,
)
from interlock.engine.events import ChildReturned, IncomingEvent, MailTaken, TimerFired, ToolOutcomeLost
from interlock.errors import StoreFailed
from interlock.ports import Clock, Grant, RunBudgets, Toolbox
from interlock.runtime.broadcasts import NO_CLAIMED_INBOXES, BroadcastHub, ClaimedInboxes, inbox_claim
from interlock.runtime.calls.costs import CostOfRun
from interlock.runtime.calls.hook_checks import HookChecks
from interlock.runtime.calls.host_policies import HostPolicies
from interlock.runtime.calls.model_calls import Hook, ModelCalls, ModelFor
from interlock.runtime.calls.output_verdicts import OutputVerdicts
from interlock.runtime.calls.reservations import NO_GRANTS as NO_GRANTS
from interlock.runtime.calls.reservations import Reservations
from interlock.runtime.calls.tool_calls import ToolCalls
from interlock.runtime.live_run import STOPPING, LiveRun
from interlock.runtime.provider_holds import HeldProviders, ServerOf
from interlock.runtime.store_retry import retry_while_store_away
from interlock.runtime.watchers import Watchers

OnAlarm = Callable[[LiveRun, SetAlarm], None]


class ChildRuns(Protocol):
    """Starts, follows and stops the children of a run."""

    async def wait_for_child(self, parent: LiveRun, order: StartChild) -> ChildReturned | None: ...

    async def cancel_child(self, order: StopChild) -> ChildReturned: ...


class EffectRunner:
    """`children` and `on_alarm` are set after construction: they commit events, and commits run effects."""

    children: ChildRuns
    on_alarm: OnAlarm

    def __init__(
        self,
        *,
        clock: Clock,
        model_for: ModelFor,
        toolbox: Toolbox,
        watchers: Watchers,
        budgets: RunBudgets,
        calls_max: int,
        hook: Hook | None = None,
        costs: CostOfRun | None = None,
        policies: HostPolicies,
        hub: BroadcastHub,
        server_of: ServerOf,
    ) -> None:
        self.held = HeldProviders(budgets, hub.bus, clock, server_of)
        self._checks = checks = HookChecks(policies.hooks, OutputVerdicts(policies.outputs))
        self._clock, self._timers, self._hook, self._hub = clock, watchers.timers, hook, hub
        self.model_calls = ModelCalls(
            model_for=model_for,
            toolbox=toolbox,
            host_decisions=policies.decisions,
            on_delta=watchers.on_delta,
            on_reasoning=watchers.on_reasoning,
            on_reply_over=watchers.on_reply_over,
            calls_max=calls_max,
            costs=costs,
            answer=self._answer,
            hook=hook,
            checks=checks,
            held=self.held,
        )
        self.tool_calls = ToolCalls(
            toolbox=toolbox,
            clock=clock,
            hub=hub,
            on_progress=watchers.on_tool_progress,
            answer=self._answer,
            approvals=policies.approvals,
            checks=checks,
        )
        self.reservations = Reservations(
            budgets=budgets, clock=clock, costs=costs, toolbox=toolbox, answer=self._answer
        )

    def run_effects(
        self,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Mapping[str, Grant] = NO_GRANTS,
        claimed: ClaimedInboxes = NO_CLAIMED_INBOXES,
    ) -> None:
        """Starts the effects of a record; `grants` and `claimed` are the store's answers to it, by key."""
        lone = _lone_call(live, effects)
        for effect in effects:
            if self._hook is not None:
                self._hook("before effect")
            if lone is effect:
                live.lone = self.model_calls.prepare_call(live, lone)
            else:
                self._start_effect(live, effect, grants, claimed)

    def _start_effect(
        self, live: LiveRun, effect: Effect, grants: Mapping[str, Grant], claimed: ClaimedInboxes
    ) -> None:
        """Starts an effect in a task or with a timer, or answers it with what the store said."""
        match effect:
            case CallModel():
                call = self.model_calls.prepare_call(live, effect)
                live.start_task(effect.key, self.model_calls.call_in_task(live, call))
            case RunTool() | CheckOutput():
                live.start_task(effect.key, self._call_tool_or_hooks(live, effect))
            case StartChild() | StopChild():
                self._start_or_stop_child(live, effect)
            case SetTimer() | SetAlarm():
                self._set_timer(live, effect)
            case Cancel():
                self._timers.cancel(live.key(effect.key))
                live.cancel_work(effect.key)
            case Reserve() | ClaimInbox():
                self._apply_store_answer(live, effect, grants, claimed)
            case (
                Settle()
                | ReserveAgain()
                | StoreApproval()
                | SendExternalSignal()
                | PublishBroadcast()
                | AckInbox()
                | HandBackBroadcast()
            ):
                pass  # done in the transaction of the record, or by its observers

    async def _call_tool_or_hooks(self, live: LiveRun, effect: RunTool | CheckOutput) -> None:
        if isinstance(effect, RunTool):
            await self.tool_calls.call_in_task(live, effect)
        else:
            self._answer(live, await self._checks.on_output(live, effect))

    def report_lost_tools(
        self,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Mapping[str, Grant] = NO_GRANTS,
        claimed: ClaimedInboxes = NO_CLAIMED_INBOXES,
    ) -> None:
        """Runs effects again after a crash or parking; a person decides on tools that must not run twice."""
        again: list[Effect] = []
        for effect in effects:
            if isinstance(effect, RunTool) and not self.tool_calls.can_run_again(live, effect):
                self._answer(live, ToolOutcomeLost(call=effect.key))
            else:
                again.append(effect)
        self.run_effects(live, again, grants, claimed)

    def follow_child(self, live: LiveRun, key: str) -> None:
        """Follows a child that has continued, unless it is followed already."""
        order = next((each for each in live.run.outstanding_effects() if each.key == key), None)
        if isinstance(order, StartChild) and key not in live.tasks:  # there is no order while the run is parked
            live.start_task(key, self._wait_for_child(live, order))

    def _start_or_stop_child(self, live: LiveRun, order: StartChild | StopChild) -> None:
        if isinstance(order, StartChild):
            live.start_task(order.key, self._wait_for_child(live, order))
        else:
            live.cancel_work(order.key)
            live.start_task(f"{STOPPING}{order.key}", self._stop_child(live, order))

    async def _wait_for_child(self, live: LiveRun, order: StartChild) -> None:
        try:
            event = await retry_while_store_away(self._clock, lambda: self.children.wait_for_child(live, order))
        except Exception as error:  # the child cannot be driven here, and neither can this run
            live.fail(error)
            return
        if event is not None:
            self._answer(live, event)

    async def _stop_child(self, live: LiveRun, order: StopChild) -> None:
        try:
            event = await retry_while_store_away(self._clock, lambda: self.children.cancel_child(order))
        except Exception as error:  # another process has the child, and soon this run
            live.fail(error)
        else:
            self._answer(live, event)

    def _set_timer(self, live: LiveRun, effect: SetTimer | SetAlarm) -> None:
        if isinstance(effect, SetAlarm):
            self.on_alarm(live, effect)
            return
        fired = TimerFired(timer=effect.key)
        self._timers.set(live.key(effect.key), effect.duration_ms, lambda: self._answer(live, fired))

    def _apply_store_answer(
        self, live: LiveRun, effect: Reserve | ClaimInbox, grants: Mapping[str, Grant], claimed: ClaimedInboxes
    ) -> None:
        """Answers an effect that was done in the transaction of the record."""
        key = live.key(effect.key)
        if isinstance(effect, Reserve):
            self.reservations.answer_reservation(live, effect, grants.get(key))
        else:
            self._answer_inbox_claim(live, effect, claimed.get(key))

    def _answer_inbox_claim(
        self, live: LiveRun, effect: ClaimInbox, broadcasts: tuple[ReceivedBroadcast, ...] | None
    ) -> None:
        if broadcasts is not None:
            self._answer(live, MailTaken(call=effect.key, agent=effect.agent, heard=broadcasts))
        else:  # the answer was lost with the process that asked
            live.start_task(effect.key, self._claim_inbox_again(live, effect))

    async def _claim_inbox_again(self, live: LiveRun, effect: ClaimInbox) -> None:
        claim = inbox_claim(live, effect)
        try:
            broadcasts = await retry_while_store_away(self._clock, lambda: self._hub.bus.claim_inbox(claim))
        except StoreFailed as error:
            live.fail(error)
        else:
            self._answer(live, MailTaken(call=effect.key, agent=effect.agent, heard=broadcasts))

    def _answer(self, live: LiveRun, event: IncomingEvent) -> None:
        if self._hook is not None:
            self._hook("after effect")
        live.enqueue_event(event)


class UnstartedEffects(EffectRunner):
    """The effects of a process that drives no run: they stay outstanding for the process that claims the run."""

    def run_effects(
        self,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Mapping[str, Grant] = NO_GRANTS,
        claimed: ClaimedInboxes = NO_CLAIMED_INBOXES,
    ) -> None:
        """Starts nothing."""


def _lone_call(live: LiveRun, effects: Sequence[Effect]) -> CallModel | None:
    """The model call that the driver can await itself, because there is no other work, in progress or to do."""
    if live.tasks or live.alone or live.lone is not None or live.inbox:
        return None
    if live.driver is not None and live.driver is not asyncio.current_task():
        return None
    if len(effects) == 1:
        return effects[0] if isinstance(effects[0], CallModel) else None
    work = [effect for effect in effects if isinstance(effect, CallModel | RunTool | Reserve | ClaimInbox)]
    return work[0] if len(work) == 1 and isinstance(work[0], CallModel) else None
