"""Model calls of a turn: budgets are reserved, the model is called, and a failed call is retried."""

from zlib import crc32

from interlock.engine.budgets.shortages import stop_at_limit
from interlock.engine.budgets.spending import (
    call_shortage,
    count_lost_call,
    estimate_shortage,
    is_to_wait,
    release_reservation,
    settle_reservation,
    wait_for_window,
    warn_of_alerts,
    warn_of_large_call,
    warn_of_unknown_price,
    window_shortage,
)
from interlock.engine.budgets.usage import ONE_CALL
from interlock.engine.effects import CallModel, Reserve
from interlock.engine.events import (
    LimitReached,
    ModelCalled,
    ModelCallLost,
    ModelFailed,
    ModelReplied,
    Reserved,
    Usage,
)
from interlock.engine.kinds import ADVISORY_KINDS, RunStatus, TimerKind, WorkStatus
from interlock.engine.stages import (
    AskModel,
    CloseBranch,
    CloseTask,
    EndSideTurn,
    FailAdvisoryCall,
    FinishRun,
    Stage,
)
from interlock.engine.state import Turn
from interlock.engine.timers import start_timer
from interlock.engine.transition import Transition

# A failed model call is retried this often before it counts as failed.
RETRIES_MAX = 2

# A provider may ask for a longer wait than ours. Beyond this it is called again anyway, because a run that sleeps for
# an hour on one header looks dead.
RETRY_AFTER_MAX_MS = 60_000


def ask_model(t: Transition, stage: AskModel) -> Stage | None:
    turn = stage.turn
    if turn.rounds >= t.settings.max_rounds:
        t.record(LimitReached(limit="max_rounds"))
        return fail_turn(t, turn, "max_rounds", FinishRun(RunStatus.STOPPED, "max_rounds"))
    turn.rounds += 1
    turn.attempt = 0
    return _reserve_or_call(t, turn)


def _reserve_or_call(t: Transition, turn: Turn) -> Stage | None:
    """Calls the model, or reserves room in the budgets first, if there are any."""
    budget = t.budgets[turn.agent]
    if budget.counts_calls and (short := call_shortage(t, turn.agent)) is not None:
        return stop_at_limit(t, short)
    if budget.needs_estimate:
        turn.reserving = t.new_key()
        t.emit(Reserve(key=turn.reserving, agent=turn.agent, turn=turn.number))
    else:
        call_model(t, turn)
    return None


def call_model(t: Transition, turn: Turn) -> None:
    turn.call, turn.called_ms = t.new_key(), t.state.worked_ms
    # It is numbered among all calls of the agent, and among those for its purpose if there are several.
    calls, agent = t.state.calls, turn.agent
    turn.call_number = calls[agent] = calls.get(agent, 0) + 1
    if turn.kind in ADVISORY_KINDS:
        name = f"{agent}:{turn.kind}"
        turn.purpose_number = calls[name] = calls.get(name, 0) + 1
    elif t.crew.delegation is not None and (others := sum(calls.get(f"{agent}:{kind}", 0) for kind in ADVISORY_KINDS)):
        turn.purpose_number = turn.call_number - others
    order = call_model_effect(t, turn)
    t.record(
        ModelCalled(agent=turn.agent, call=turn.call, attempt=turn.attempt, model=order.model, purpose=order.purpose)
    )
    t.emit(order)


def purpose_of(turn: Turn) -> str:
    """The purpose of a turn's calls; empty for the agent's own work."""
    return str(turn.kind) if turn.kind in ADVISORY_KINDS else ""


def on_reserved(t: Transition, event: Reserved) -> Stage | None:
    """Makes the reserved call, waits for room, or stops the run at the limit."""
    turn = t.turn_reserving(event.call, event.agent)
    assert turn is not None, "stale answers are rejected before"
    turn.reserving = ""
    warn_of_alerts(t, turn, event)
    if event.refused and event.what == "errors" and _switch_to_backup(t, turn):
        return _reserve_or_call(t, turn)
    if event.refused and is_to_wait(event):
        wait_for_window(t, turn, event)
        return None
    if event.refused:
        return stop_at_limit(t, window_shortage(t, turn, event))
    short = estimate_shortage(t, turn, event)
    if short is not None:
        release_reservation(t, turn, event)
        return stop_at_limit(t, short)
    warn_of_large_call(t, turn, event)
    turn.reserved, turn.held_tokens, turn.held_micros = event.call, event.tokens, event.cost_micros
    call_model(t, turn)
    return None


def call_model_effect(t: Transition, turn: Turn) -> CallModel:
    """The effect of a turn's current call."""
    backup = t.budgets[turn.agent].agent.backup if turn.backup else None
    return CallModel(
        model=backup.name if backup is not None else "",
        key=turn.call,
        agent=turn.agent,
        turn=turn.number,
        history=turn.history,
        attempt=turn.attempt,
        number=turn.call_number,
        purpose=purpose_of(turn) if turn.kind else "",
        purpose_number=turn.purpose_number or turn.call_number,
        hooked=turn.hooked,
    )


def repeat_call(t: Transition, turn: Turn) -> None:
    """Orders the current call of a turn again, under a new key: hooks of the host have decided about it."""
    turn.call = t.new_key()
    order = call_model_effect(t, turn)
    called = ModelCalled(
        agent=turn.agent, call=turn.call, attempt=turn.attempt, model=order.model, purpose=order.purpose
    )
    t.record(called)
    t.emit(order)


def fail_turn(t: Transition, turn: Turn, error: str, otherwise: FinishRun) -> Stage:
    """The stage after a failed turn: its advisory call, task, side turn or branch fails, else the run ends."""
    if turn.kind in ADVISORY_KINDS:
        return FailAdvisoryCall(turn, error)
    task, branch = t.task_of(turn), t.branch_of(turn)
    if task is not None:
        return CloseTask(task, error)
    if t.state.aside is not None:
        return EndSideTurn(error)
    return CloseBranch(branch, WorkStatus.FAILED, error) if branch is not None else otherwise


def end_call(t: Transition, event: ModelReplied | ModelFailed) -> Turn:
    """Ends the call of a turn, accounts for its cost, and returns the turn."""
    turn, usage = t.caller, event.usage
    assert turn is not None, "stale outcomes are rejected before"
    turn.call = ""
    if turn.hooked:
        turn.hooked, turn.replaced = False, ""
    before = t.state.usage
    t.state.usage = Usage(
        calls=before.calls + usage.calls + 1,
        input_tokens=before.input_tokens + usage.input_tokens,
        cache_read_tokens=before.cache_read_tokens + usage.cache_read_tokens,
        cache_write_tokens=before.cache_write_tokens + usage.cache_write_tokens,
        output_tokens=before.output_tokens + usage.output_tokens,
        reasoning_tokens=before.reasoning_tokens + usage.reasoning_tokens,
        cost_micros=before.cost_micros + usage.cost_micros,
        unpriced_calls=before.unpriced_calls + usage.unpriced_calls,
    )
    if turn.reserved:
        settle_reservation(t, turn, usage, before, failed=isinstance(event, ModelFailed))
    if usage.unpriced_calls:
        warn_of_unknown_price(t, turn)
    return turn


def on_model_call_lost(t: Transition, event: ModelCallLost) -> None:
    """Counts a call that was lost with its process; the driver makes it again, under the same key."""
    turn, before = t.caller, t.state.usage
    assert turn is not None, "stale outcomes are rejected before"
    t.state.usage = before + event.usage + ONE_CALL
    count_lost_call(t, turn, before)


def on_model_failed(t: Transition, event: ModelFailed) -> Stage | None:
    turn = end_call(t, event)
    if event.too_long and not turn.trimmed:
        turn.trimmed = True
        return _reserve_or_call(t, turn)
    if event.retry and turn.attempt < RETRIES_MAX:
        _retry_later(t, turn, event.retry_after_ms)
        return None
    if event.reason == "model_error" and _switch_to_backup(t, turn):
        return _reserve_or_call(t, turn)
    return fail_turn(t, turn, event.error, FinishRun(RunStatus.FAILED, event.reason))


def _switch_to_backup(t: Transition, turn: Turn) -> bool:
    """Switches the rest of the turn to the backup model, with its own retries; returns whether there is one."""
    if turn.backup or t.budgets[turn.agent].agent.backup is None:
        return False
    turn.backup, turn.attempt = True, 0
    return True


def _retry_later(t: Transition, turn: Turn, retry_after_ms: int) -> None:
    turn.attempt += 1
    wait = t.settings.retry_backoff_min_millis * 2 ** (turn.attempt - 1)
    wait = min(wait, int(t.settings.retry_backoff_max_seconds * 1000))
    asked = min(retry_after_ms, RETRY_AFTER_MAX_MS)
    if asked > wait:
        # Many runs get the same wait; they return spread over a quarter of it, not all at once.
        wait = asked + crc32(f"{t.state.run}:{turn.call_number}:{turn.agent}".encode()) % (asked // 4 + 1)
    start_timer(t, TimerKind.RETRY.of(turn.number), wait)


def retry_call(t: Transition, number: int) -> Stage | None:
    return _reserve_or_call(t, next(turn for turn in t.turns() if turn.number == number))
