"""Budgets of model calls: per call and run, counted here, and per minute, hour and day, counted by the store.

Rule 1: a call is reserved before it is made: it counts with its estimate while in progress, then with its cost.
Rule 2: the estimate covers the prompt at its full price, as if nothing of it could be read from a cache; the length of
the reply is unknown, so replies in progress may exceed a budget.
A budget smaller than one estimate allows calls while anything is left of it.
Rule 3: money is counted in millionths of a dollar, rounded up.
"""

from collections.abc import Callable

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition, CrewSettings, Prices
from interlock.engine.budgets.inherited_limits import STOP, UNBOUNDED, WAIT, WARN, InheritedLimits, WindowLimit
from interlock.engine.events import Usage
from interlock.limits import USAGE_MAX

MICROS = 1_000_000

WINDOWS_MS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


def limits_of(crew: CrewDefinition, agent: AgentDefinition) -> tuple[WindowLimit, ...]:
    """The window limits for a call of this agent, the crew's first."""
    return (*_crew_limits(crew), *_agent_limits(agent))


def _crew_limits(crew: CrewDefinition) -> list[WindowLimit]:
    settings = crew.settings
    then = STOP if settings.block_on_quota_exceed else WAIT
    limits = []
    for what in ("calls", "tokens", "cost", "errors"):
        for window in WINDOWS_MS:
            name = f"max_{what}_per_{window}"
            most = getattr(settings, name, None)
            if most is not None:
                share = settings.cost_alert_threshold if what == "cost" else None
                limits.append(_window_limit(name, what, window, most, share, then=then))
    if settings.max_consecutive_errors is not None:
        limits.append(_window_limit("max_consecutive_errors", "errors", "", settings.max_consecutive_errors, then=then))
    return limits


def _agent_limits(agent: AgentDefinition) -> list[WindowLimit]:
    limits, cost, errors = [], agent.cost_limits, agent.error_limits
    if cost is not None:
        then = STOP if cost.block_on_cost_exceed else WARN
        for name, what in (("max_tokens_per_day", "tokens"), ("max_cost_per_day_usd", "cost")):
            most = getattr(cost, name)
            if most is not None:
                limits.append(_window_limit(name, what, "day", most, cost.alert_threshold, scope=agent.id, then=then))
    if errors is not None:
        then = STOP if errors.block_on_error_exceed else WARN
        for name, window in (("max_per_day", "day"), ("max_consecutive", "")):
            most = getattr(errors, name)
            if most is not None:
                limits.append(_window_limit(name, "errors", window, most, scope=agent.id, then=then))
    return limits


def _window_limit(
    name: str, what: str, window: str, most: float, share: float | None = None, *, scope: str = "", then: str
) -> WindowLimit:
    whole = micros(most) if what == "cost" else int(most)
    alert = int(whole * share) if share is not None else whole if then == WARN else None
    return WindowLimit(name=name, what=what, window=window, most=whole, scope=scope, alert=alert, then=then)


# The cost of these tokens with the agent's model, in millionths of a dollar; None if unknown.
CostOf = Callable[[AgentDefinition, Usage], int | None]


def micros(dollars: float) -> int:
    return round(dollars * MICROS)


def has_room(most: int, spent: int, estimate: int) -> bool:
    """Whether a call of this estimate may be made; `spent` includes what is reserved."""
    return spent < most and (estimate > most or spent + estimate <= most)


def with_cost(agent: AgentDefinition, usage: Usage, cost_of: CostOf) -> Usage:
    """The usage with its cost: as the provider reported it, else by known prices, else marked as unknown."""
    if usage.cost_micros:
        return usage
    cost = cost_of(agent, usage)
    if cost is None:
        return msgspec.structs.replace(usage, unpriced_calls=1)
    return msgspec.structs.replace(usage, cost_micros=cost) if cost else usage


def cost_without_cache(agent: AgentDefinition, usage: Usage, cost_of: CostOf) -> int:
    """The cost of a call if nothing of its prompt had been cached, by the prices that give its cost.

    0 if the price is unknown, also where the provider reported the cost: its prices are not known here.
    """
    if usage.cost_micros:
        return 0
    return cost_of(agent, msgspec.structs.replace(usage, cache_read_tokens=0, cache_write_tokens=0)) or 0


def most_of_prompt(agent: AgentDefinition, tokens: int, cost_of: CostOf) -> int:
    """The most that a prompt of so many tokens can cost: nothing is read from a cache, and all may be written to one.

    0 if the price is unknown.
    """
    plain = cost_of(agent, Usage(input_tokens=tokens)) or 0
    if agent.cache_setting == "off":
        return plain
    return max(plain, cost_of(agent, Usage(input_tokens=tokens, cache_write_tokens=tokens)) or 0)


def cost_of(agent: AgentDefinition, usage: Usage) -> int:
    """The cost by the prices in the agent's file; 0 without prices."""
    prices = agent.cost_limits.prices if agent.cost_limits is not None else None
    return cost_at(prices, usage) if prices is not None else 0


def cost_at(prices: Prices, usage: Usage) -> int:
    """The cost at these prices. A prompt is at least as long as the parts of it that were cached."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    buckets = (
        (max(0, usage.input_tokens - read - written), prices.input),
        (read, prices.input if prices.cache_read is None else prices.cache_read),
        (written, prices.input if prices.cache_write is None else prices.cache_write),
        (usage.output_tokens, prices.output),
    )
    # Dollars per million tokens are millionths of a dollar per token.
    return min(-(-sum(tokens * micros(price) for tokens, price in buckets) // MICROS), USAGE_MAX)


class CallBound(msgspec.Struct, frozen=True):
    """A limit on one call. `scope` is an agent, or empty for the crew."""

    name: str
    what: str
    most: int
    scope: str = ""
    then: str = STOP


class AgentBudget(msgspec.Struct, frozen=True):
    """All limits on the calls of one agent."""

    agent: AgentDefinition
    of_call: tuple[CallBound, ...]
    of_windows: tuple[WindowLimit, ...]
    needs_estimate: bool  # a call must be reserved before it is made
    counts_calls: bool  # the calls of the run have a limit

    @property
    def cost_limit(self) -> str:
        """The name of the first limit in dollars per call or window; empty if there is none."""
        by_call = [bound.name for bound in self.of_call if bound.what == "cost"]
        return next(iter([*by_call, *(limit.name for limit in self.of_windows if limit.what == "cost")]), "")


class CrewBudgets(dict[str, AgentBudget]):
    """A crew's budgets under the settings of a run, by agent. Each is computed when it is asked for first."""

    def __init__(self, crew: CrewDefinition, settings: CrewSettings, bounds: InheritedLimits = UNBOUNDED) -> None:
        super().__init__()
        self._crew, self._settings, self._bounds = crew, settings, bounds
        self._agents = {agent.id: agent for agent in crew.agents}

    def __missing__(self, agent_id: str) -> AgentBudget:
        agent = self._agents[agent_id]
        settings, of_call = self._settings, _bounds_of_call(self._crew, agent)
        of_windows = (*limits_of(self._crew, agent), *self._bounds.limits)
        of_run = settings.max_tokens_per_run is not None or settings.max_cost_per_run is not None
        is_given = any(given.what != "calls" for given in self._bounds.given)
        needs_estimate = of_run or is_given or bool(of_call) or bool(of_windows)
        counts_calls = settings.max_calls_per_run is not None or bool(self._bounds.given)
        budget = self[agent_id] = AgentBudget(agent, of_call, of_windows, needs_estimate, counts_calls)
        return budget

    def for_children(self) -> tuple[WindowLimit, ...]:
        """The window limits of this crew and those above it, as a child of this run inherits them."""
        own = [limit for limit in _crew_limits(self._crew) if limit.what != "errors"]
        named = [msgspec.structs.replace(limit, crew=self._crew.name) for limit in own]
        return tuple(msgspec.structs.replace(limit, above=limit.above + 1) for limit in (*named, *self._bounds.limits))


def _bounds_of_call(crew: CrewDefinition, agent: AgentDefinition) -> tuple[CallBound, ...]:
    settings, own = crew.settings, agent.cost_limits
    bounds = []
    if settings.max_tokens_per_call is not None:
        bounds.append(CallBound("max_tokens_per_call", "tokens", settings.max_tokens_per_call))
    if settings.max_cost_per_call is not None:
        bounds.append(CallBound("max_cost_per_call", "cost", micros(settings.max_cost_per_call)))
    if own is not None and own.max_tokens_per_call is not None:
        then = STOP if own.block_on_cost_exceed else WARN
        bounds.append(CallBound("max_tokens_per_call", "tokens", own.max_tokens_per_call, agent.id, then))
    return tuple(bounds)
