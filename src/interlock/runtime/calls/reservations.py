"""Budget reservations before a call, and settlements after it."""

from collections.abc import Mapping, Sequence

import msgspec

from interlock.engine.budgets.inherited_limits import WARN, WindowLimit
from interlock.engine.budgets.limits import cost_of, most_of_prompt, with_cost
from interlock.engine.effects import CallModel, Effect, Reserve, ReserveAgain, Settle
from interlock.engine.events import ModelCallLost, Reserved, Usage
from interlock.engine.prompt.conversation import UNSCALED
from interlock.engine.state import turns_by
from interlock.errors import RunError, StoreFailed
from interlock.ports import BudgetStore, Clock, Grant, Reservation, Settlement, Toolbox
from interlock.runtime.calls.costs import CostOfRun
from interlock.runtime.calls.model_calls import Answer
from interlock.runtime.calls.model_request import ordering_turn, tokens_of_tools, tool_schemas
from interlock.runtime.live_run import LiveRun
from interlock.runtime.store_retry import retry_while_store_away

# A limit of this size is never reached: what is spent already is counted, and never refused.
NEVER_REACHED = 2**62

NO_GRANTS: Mapping[str, Grant] = {}


class Reservations:
    def __init__(
        self, *, budgets: BudgetStore, clock: Clock, costs: CostOfRun | None, toolbox: Toolbox, answer: Answer
    ) -> None:
        self._budgets, self._clock, self._costs = budgets, clock, costs
        self._toolbox, self._answer = toolbox, answer

    def budget_writes(self, live: LiveRun, effects: Sequence[Effect], at: int) -> tuple[Reservation | Settlement, ...]:
        """The writes to shared budgets. The limits of a single call or run are not stored there."""
        if not any(isinstance(effect, Reserve | Settle | ReserveAgain) for effect in effects):
            return ()
        writes: list[Reservation | Settlement] = []
        for effect in effects:
            if isinstance(effect, Reserve):
                writes.append(self._reservation(live, effect, at))
            elif isinstance(effect, Settle):
                writes.append(_settlement(live, effect, at))
            elif isinstance(effect, ReserveAgain):
                writes.append(_next_reservation(live, effect, at))
        return tuple(write for write in writes if live.run.budgets[write.agent].of_windows)

    def answer_reservation(self, live: LiveRun, effect: Reserve, grant: Grant | None) -> None:
        order = self._reservation(live, effect, self._clock.now_ms())
        if grant is not None or not order.limits:
            self._answer(live, _reservation_event(effect, order, grant or Grant()))
        else:  # the answer was lost with the process that asked
            live.start_task(effect.key, self._reserve_again(live, effect, order))

    async def _reserve_again(self, live: LiveRun, effect: Reserve, order: Reservation) -> None:
        try:
            (grant,) = await retry_while_store_away(self._clock, lambda: self._budgets.spend(live.row, (order,)))
        except (RunError, StoreFailed) as error:  # another process owns the run by now, or nothing can be stored
            live.fail(error)
        else:
            self._answer(live, _reservation_event(effect, order, grant))

    def events_of_lost_calls(self, live: LiveRun) -> list[ModelCallLost]:
        """The calls that the last process had reserved and may have begun; each is to be made again."""
        calls = [effect for effect in live.run.outstanding_effects() if isinstance(effect, CallModel)]
        return [event for call in calls if (event := self._event_of_lost_call(live, call)) is not None]

    def _event_of_lost_call(self, live: LiveRun, call: CallModel) -> ModelCallLost | None:
        turn = next(turn for turn in turns_by(live.run.state, call.agent) if turn.call == call.key)
        if not turn.reserved:
            return None
        agent = live.run.budgets[call.agent].agent
        asked = msgspec.structs.replace(agent, primary=agent.model(backup=turn.backup))
        costs = cost_of if self._costs is None else self._costs(live.id)
        usage = with_cost(asked, Usage(input_tokens=turn.held_tokens, cost_micros=turn.held_micros), costs)
        return ModelCallLost(call=call.key, agent=call.agent, usage=usage, model=call.model)

    def _reservation(self, live: LiveRun, effect: Reserve, at: int) -> Reservation:
        state, turn = live.run.state, ordering_turn(live.run.state, effect)
        budget = live.run.budgets[effect.agent]
        model = budget.agent.model(backup=turn.backup)
        asked = msgspec.structs.replace(budget.agent, primary=model) if turn.backup else budget.agent
        tokens = live.conversation.estimate(state.history, turn, state.scales.get(effect.agent, UNSCALED))
        tokens += tokens_of_tools(tool_schemas(live, budget.agent, turn, self._toolbox))
        costs = cost_of if self._costs is None else self._costs(live.id)
        return Reservation(
            key=live.key(effect.key),
            crew=live.crew.name,
            agent=effect.agent,
            at=at,
            tokens=tokens,
            cost_micros=most_of_prompt(asked, tokens, costs),
            limits=budget.of_windows,
            provider=model.server if model is not None else "",
        )


def grants_by_key(writes: Sequence[Reservation | Settlement], grants: Sequence[Grant]) -> Mapping[str, Grant]:
    """The grants of the store by the keys of their reservations."""
    keys = [write.key for write in writes if isinstance(write, Reservation)]
    return dict(zip(keys, grants, strict=True))


def _next_reservation(live: LiveRun, effect: ReserveAgain, at: int) -> Reservation:
    """The reservation of a call that is made again: it was granted already, so it is not refused and gives no alert."""
    return Reservation(
        key=live.key(effect.key),
        crew=live.crew.name,
        agent=effect.agent,
        at=at,
        tokens=effect.tokens,
        cost_micros=effect.cost_micros,
        limits=tuple(_without_end(limit) for limit in live.run.budgets[effect.agent].of_windows if limit.window),
    )


def _without_end(limit: WindowLimit) -> WindowLimit:
    return msgspec.structs.replace(limit, most=NEVER_REACHED, alert=None, then=WARN)


def _reservation_event(effect: Reserve, order: Reservation, grant: Grant) -> Reserved:
    return Reserved(
        call=effect.key,
        agent=effect.agent,
        tokens=order.tokens,
        cost_micros=order.cost_micros,
        refused=grant.refused,
        what=grant.what,
        then=grant.then,
        wait_ms=grant.wait_ms,
        alerts=grant.alerts,
        above=grant.above,
        most=grant.most,
        used=grant.used,
        exceeded=grant.exceeded,
    )


def _settlement(live: LiveRun, effect: Settle, at: int) -> Settlement:
    return Settlement(
        key=live.key(effect.key),
        crew=live.crew.name,
        agent=effect.agent,
        at=at,
        usage=effect.usage,
        failed=effect.failed,
        provider=effect.provider,
        crews_above=live.run.crews_above,
    )
