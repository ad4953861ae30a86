"""Bugs that a simulation must find, put into the real parts; each breaks one promise, and one law says so."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.record_format import Tip
from interlock.crew.definition import CrewDefinition
from interlock.engine import run as step
from interlock.engine.effects import CallModel, Effect, SetTimer, StartChild
from interlock.engine.events import (
    ChildReturned,
    IncomingEvent,
    ModelReplied,
    ParkRequested,
    ReasoningBlock,
    RunResumed,
    Usage,
)
from interlock.engine.flow import control, groups, sub_crews, waits
from interlock.engine.kinds import RunStatus
from interlock.engine.routing.candidates import Verb
from interlock.engine.routing.decision import Decision
from interlock.engine.run import Run, Step
from interlock.engine.stages import ConcludeTurn, FinishRun
from interlock.engine.transition import Transition
from interlock.engine.turns import model_calls, tool_calls
from interlock.errors import OutOfOrder, RunError, StoreFailed
from interlock.ports import AppendResult, AtomicWrites, Record, RunRow
from interlock.runtime import broadcasts, commit, live_runs, replay
from interlock.runtime.calls import reply_stream
from interlock.runtime.calls.effects import EffectRunner
from interlock.runtime.calls.reservations import Reservations
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRun, LiveRuns
from interlock.runtime.runner import GivenAnswer, Runner
from interlock.signals.reasoning_tags import SplitText
from interlock.testing import Faults, MemoryStore

LEASE_LOST_OFTEN = Faults(lease_lost=0.4, stalled=0.1)
PARKED_OFTEN = Faults(parked=0.5, crash=0.01, stalled=0)
AWAY_OFTEN = Faults(hour_away=0.3, crash=0, stalled=0, store_away=0, store_unsure=0)

Plant = Callable[[pytest.MonkeyPatch], None]


def forgets_lost_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reservations, "events_of_lost_calls", lambda _self, _live: [])


def counts_lost_calls_twice(patch: pytest.MonkeyPatch) -> None:
    events = Reservations.events_of_lost_calls
    patch.setattr(Reservations, "events_of_lost_calls", lambda self, live: 2 * events(self, live))


def acts_before_it_stores(patch: pytest.MonkeyPatch) -> None:
    apply, perform, steps = Run.apply, EffectRunner.run_effects, dict[Run, Step]()
    transit = Committer.commit_event

    def noting(self: Run, event: IncomingEvent) -> Step:
        steps[self] = apply(self, event)
        return steps[self]

    async def hasty(self: Committer, live: LiveRun, event: IncomingEvent, *, first: bool = False) -> None:
        acting = asyncio.get_running_loop().call_soon(lambda: _act(self, live))
        await transit(self, live, event, first=first)
        acting.cancel()

    def _act(self: Committer, live: LiveRun) -> None:
        if live.run in steps:
            perform(self._effect_runner, live, steps.pop(live.run).effects)

    def once(self: EffectRunner, live: LiveRun, effects: Sequence[Effect], *more: Any) -> None:
        if steps.pop(live.run, None) is not None:
            perform(self, live, effects, *more)

    patch.setattr(Run, "apply", noting)
    patch.setattr(Committer, "commit_event", hasty)
    patch.setattr(EffectRunner, "run_effects", once)


def acknowledges_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    append = MemoryStore.append

    async def hasty(self: MemoryStore, row: RunRow, record: Record, also: AtomicWrites) -> AppendResult:
        await self.row(row.run)
        asyncio.get_running_loop().call_later(0.2, lambda: _write(append(self, row, record, also)))
        return AppendResult(0)

    patch.setattr(MemoryStore, "append", hasty)


def _write(work: Any) -> None:
    try:
        work.send(None)  # a memory store never waits
    except (StopIteration, RunError):
        return


def lets_anybody_append(patch: pytest.MonkeyPatch) -> None:
    def careless(tip: Tip, row: RunRow, record: Record) -> None:
        if record.seq != tip.seq + 1:
            raise OutOfOrder(row.run, tip.seq, record.seq)

    patch.setattr(record_format, "require_next", careless)


def asks_a_finished_call_again(patch: pytest.MonkeyPatch) -> None:
    """A recovering process overlooks the last record."""
    replayed = replay.replay_run

    def overlooking(crew: CrewDefinition, run: str, records: Sequence[Record], *more: Any) -> Run:
        return replayed(crew, run, records[:-1] if len(records) > 1 else records, *more)

    patch.setattr(live_runs, "replay_run", overlooking)


def forgets_timers(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, SetTimer)


def forgets_calls(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, CallModel)


def _forgets(patch: pytest.MonkeyPatch, kind: type) -> None:
    outstanding = Run.outstanding_effects

    def forgetful(self: Run) -> tuple[Effect, ...]:
        return tuple(effect for effect in outstanding(self) if not isinstance(effect, kind))

    patch.setattr(Run, "outstanding_effects", forgetful)


def allows_one_handoff_more(patch: pytest.MonkeyPatch) -> None:
    transfer_control = control.transfer_control

    def generous(t: Transition, decision: Decision, *, by_member: bool) -> Any:
        t.state.handoffs -= 1
        try:
            return transfer_control(t, decision, by_member=by_member)
        finally:
            t.state.handoffs += 1

    patch.setattr(control, "transfer_control", generous)


def does_not_count_groups(patch: pytest.MonkeyPatch) -> None:
    transfer_control = control.transfer_control

    def forgetful(t: Transition, decision: Decision, *, by_member: bool) -> Any:
        before = t.state.handoffs
        follows = transfer_control(t, decision, by_member=by_member)
        if decision.verb is Verb.FORK:
            t.state.handoffs = before
        return follows

    patch.setattr(control, "transfer_control", forgetful)


def takes_a_reply_twice(patch: pytest.MonkeyPatch) -> None:
    """A reply that comes again counts as one to whatever was asked meanwhile."""
    apply = Run.apply

    def trusting(self: Run, event: IncomingEvent) -> Step:
        turn = self.state.turn
        if isinstance(event, ModelReplied) and turn is not None and turn.call and self.state.status == "running":
            event = msgspec.structs.replace(event, call=turn.call, agent=turn.agent)
        return apply(self, event)

    patch.setattr(Run, "apply", trusting)


def takes_an_answer_twice(patch: pytest.MonkeyPatch) -> None:
    """A wait stays open after it was answered."""

    def forgetful(t: Transition, event: RunResumed) -> Any:
        wait = t.wait_with(event.token)
        assert wait is not None, "stale tokens are turned away before"
        follows = waits.answer_wait(t, event)
        t.state.waits.append(wait)
        return follows

    patch.setitem(step._EVENT_HANDLERS, RunResumed, forgetful)


def loses_an_answer(patch: pytest.MonkeyPatch) -> None:
    """A person is told that her answer is taken before it is stored."""

    async def hasty(self: Runner, crew: CrewDefinition, run_id: str, answer: GivenAnswer) -> None:
        live = await self.live_runs.get_or_claim(run_id, crew)
        live.inbox.append(RunResumed(token=answer.token or "", input=answer.text))
        self.live_runs.drive(live)

    patch.setattr(Runner, "resume", hasty)


def pays_again(patch: pytest.MonkeyPatch) -> None:
    def eager(self: EffectRunner, live: LiveRun, effects: Sequence[Effect]) -> None:
        self.run_effects(live, effects)

    patch.setattr(EffectRunner, "report_lost_tools", eager)


def lets_tools_steer(patch: pytest.MonkeyPatch) -> None:
    def gullible(t: Transition, stage: ConcludeTurn) -> Any:
        said = [message.text for message in stage.turn.said if message.role == "tool"]
        return control.route_reply(t, ConcludeTurn(stage.turn, "\n".join([*said, stage.reply])))

    patch.setitem(step._STAGE_HANDLERS, ConcludeTurn, gullible)


def leaves_reasoning_in_the_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reply_stream, "split_reasoning", lambda text: SplitText(text, ""))


def sends_reasoning_to_others(patch: pytest.MonkeyPatch) -> None:
    seen = list[ReasoningBlock]()

    def everything(event: ModelReplied) -> tuple[ReasoningBlock, ...]:
        seen.extend(event.reasoning)
        return tuple(seen)

    patch.setattr(tool_calls, "reasoning_to_return", everything)


def lets_calls_go_on(patch: pytest.MonkeyPatch) -> None:
    """Calls that are not needed any more are not stopped."""
    patch.setattr(LiveRun, "cancel_work", lambda self, key: None)


def drops_a_result(patch: pytest.MonkeyPatch) -> None:
    merged = groups._merge_member_replies
    patch.setattr(groups, "_merge_member_replies", lambda t, done: merged(t, done[:-1] or done))


def pauses_while_others_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(waits, "_is_working", lambda t: False)


def nudges_on_and_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control, "NUDGES_MAX", 4)


def retries_on_and_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(model_calls, "RETRIES_MAX", 9)


def counts_time_twice(patch: pytest.MonkeyPatch) -> None:
    """A process that takes a run up counts the time before as if it had worked on it."""
    take = LiveRuns.claim_run

    async def greedy(self: LiveRuns, run_id: str, crew: CrewDefinition | None = None) -> LiveRun:
        live = await take(self, run_id, crew)
        live.last_ms = 0
        return live

    patch.setattr(LiveRuns, "claim_run", greedy)


def uses_a_key_twice(patch: pytest.MonkeyPatch) -> None:
    new_key = Transition.new_key
    patch.setattr(Transition, "new_key", lambda self: f"{self.at // 20}.{new_key(self).partition('.')[2]}")


def ends_without_a_reason(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(step._STAGE_HANDLERS, FinishRun, lambda t, stage: control.finish_run(t, FinishRun(stage.status, "")))


def forgets_children(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, StartChild)


def leaves_children_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control, "stop_child", lambda t, child: None)


def wakes_a_child_alone(patch: pytest.MonkeyPatch) -> None:
    async def wake_nothing(self: Resumption, child: LiveRun) -> None:
        return None

    patch.setattr(Resumption, "_wake_parent", wake_nothing)


def forgets_what_children_cost(patch: pytest.MonkeyPatch) -> None:
    def free(t: Transition, event: ChildReturned) -> Any:
        return sub_crews.on_child_returned(t, msgspec.structs.replace(event, usage=Usage()))

    patch.setitem(step._EVENT_HANDLERS, ChildReturned, free)


def tells_a_parent_too_late(patch: pytest.MonkeyPatch) -> None:
    """That a child waits is told when its parent gets round to it, and may be true no more."""

    async def later(self: LiveRuns, live: LiveRun, event: IncomingEvent) -> None:
        asyncio.get_running_loop().call_later(0.5, live.enqueue_event, event)

    patch.setattr(LiveRuns, "inject_event", later)


def works_on_although_it_is_parked(patch: pytest.MonkeyPatch) -> None:
    def careless(t: Transition, event: ParkRequested) -> None:
        t.state.parked, t.state.status = t.new_token(), RunStatus.PAUSED

    patch.setitem(step._EVENT_HANDLERS, ParkRequested, careless)


def lets_go_of_what_it_holds(patch: pytest.MonkeyPatch) -> None:
    """After five minutes the driver gives up, and the call is made again by the process that recovers the run."""

    async def impatient(clock: Any, ask: Callable[[], Any]) -> Any:
        for _ in range(600):
            try:
                return await ask()
            except StoreFailed:
                await clock.sleep_until(clock.monotonic_ms() + 500)
        raise StoreFailed("it was away for five minutes")

    patch.setattr(commit, "retry_while_store_away", impatient)


def forgets_who_wakes(patch: pytest.MonkeyPatch) -> None:
    change = broadcasts._presence_change
    patch.setattr(broadcasts, "_presence_change", lambda *of: (change(*of)[0], ()))


def works_on_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """Neither the runner nor its effects care that the lease is lost."""
    patch.setattr(MemoryStore, "has_lease", lambda self: True)
    patch.setattr(MemoryStore, "on_lost", lambda self, callback: None)


@dataclass(frozen=True)
class Planted:
    """A bug, the laws that may say so first, and what else a simulation is told so that it comes up soon."""

    bug: Plant
    laws: tuple[str, ...]
    how: dict[str, Any] = field(default_factory=dict)


BUGS = (
    Planted(acts_before_it_stores, ("journal first, then act",)),
    Planted(acknowledges_before_the_commit, ("the journal only grows", "nothing acknowledged is lost")),
    Planted(lets_anybody_append, ("only the owner appends",)),
    Planted(asks_a_finished_call_again, ("nothing finished is run again",)),
    Planted(forgets_timers, ("every run comes to its end",), {"faults": Faults(hanging=0.2, crash=0.05)}),
    Planted(forgets_calls, ("what is ordered is done",)),
    Planted(leaves_reasoning_in_the_text, ("reasoning is no text",)),
    Planted(sends_reasoning_to_others, ("reasoning stays with its turn",)),
    Planted(allows_one_handoff_more, ("departures are bounded",)),
    Planted(does_not_count_groups, ("departures are bounded",)),
    Planted(takes_a_reply_twice, ("an answer counts once",)),
    Planted(takes_an_answer_twice, ("an answer counts once",)),
    Planted(loses_an_answer, ("nothing acknowledged is lost",), {"faults": Faults(crash=0.05, repeated=0)}),
    Planted(pays_again, ("a tool that is not idempotent runs once",)),
    Planted(lets_tools_steer, ("only own words steer",)),
    Planted(lets_calls_go_on, ("nothing outlives its run", "every task has an owner and an end")),
    Planted(drops_a_result, ("joins keep every result",)),
    Planted(pauses_while_others_work, ("pauses only when idle",)),
    Planted(forgets_who_wakes, ("presence follows from the records",)),
    Planted(nudges_on_and_on, ("turns are bounded",), {"models": lambda request: "hm"}),
    Planted(counts_time_twice, ("working time is bounded",)),
    Planted(uses_a_key_twice, ("keys are used once",)),
    Planted(ends_without_a_reason, ("ends say why",)),
    Planted(works_on_although_it_is_parked, ("a parked run rests",), {"faults": PARKED_OFTEN}),
    Planted(lets_go_of_what_it_holds, ("what comes back is held",), {"faults": AWAY_OFTEN}),
    Planted(works_on_without_a_lease, ("no effect starts without a lease",), {"faults": LEASE_LOST_OFTEN}),
    Planted(retries_on_and_on, ("turns are bounded",), {"faults": Faults(failing=0.6)}),
)

# In crews that call crews.
BUGS_OF_TREES = (
    Planted(forgets_children, ("every run comes to its end", "what is ordered is done")),
    Planted(leaves_children_behind, ("nothing outlives its run",), {"faults": Faults(cancelled=0.2)}),
    Planted(wakes_a_child_alone, ("every wait can be answered",)),
    Planted(forgets_what_children_cost, ("what children cost counts",)),
    Planted(tells_a_parent_too_late, ("every run comes to its end", "every wait can be answered")),
)
BUGS_OF_BUDGETS = (
    Planted(forgets_lost_calls, ("what was lost is counted once",)),
    Planted(counts_lost_calls_twice, ("what was lost is counted once",)),
)
