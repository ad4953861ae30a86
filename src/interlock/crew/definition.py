"""Crew, agent, route, group: the parts of a run. Frozen, plain data, unchanged by a round trip through JSON.

Rule 1: nothing here has a hidden meaning; an empty target in a file is a behaviour here.
Rule 2: all defaults are here.
"""

from functools import cached_property
from typing import Any

import msgspec

from interlock.signals.definition import SignalBehavior, SignalDefinition

# A JSON Schema. Unset, it is not part of the stored form, so that the sums of older crews stay the same.
OutputSchema = dict[str, Any] | msgspec.UnsetType


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    model: str
    provider_url: str = ""

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def at_address(self) -> str:
        """Its name, with the address from the crew file."""
        return f"{self.name} {self.provider_url}".strip()

    @property
    def server(self) -> str:
        """The server that answers: the provider, or the address from the crew file. Its models fail together."""
        return f"{self.provider} {self.provider_url}".strip()


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model is to be called, beside temperature, top_p and top_k. None leaves it to the provider."""

    reasoning: str | int | None = None  # off, low, medium, high, or a number of tokens
    cache: str = "on"  # on, off, 1h
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    parallel_tool_calls: bool | None = None
    service_tier: str = ""
    extra: dict[str, Any] = {}  # fields of the request that only this provider knows


NO_MODEL_SETTINGS = ModelSettings()


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens. Tokens read from a cache or written to one cost as other input without their own."""

    input: float = 0
    output: float = 0
    cache_read: float | None = None
    cache_write: float | None = None


# The keys of prices, in agents, settings and interlock.toml.
PRICE_KEYS = tuple(f"{bucket}_token_price_per_million" for bucket in Prices.__struct_fields__)


def prices_of(
    input: float | None,  # noqa: A002 - the name of the price
    output: float | None,
    cache_read: float | None,
    cache_write: float | None,
) -> Prices | None:
    """The prices that are written somewhere; None if none is. Input or output without a price is free."""
    if input is None and output is None and cache_read is None and cache_write is None:
        return None
    return Prices(input=input or 0, output=output or 0, cache_read=cache_read, cache_write=cache_write)


class CostLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_tokens_per_call: int | None = None
    max_tokens_per_day: int | None = None
    max_cost_per_day_usd: float | None = None
    alert_threshold: float | None = None
    block_on_cost_exceed: bool = True
    input_token_price_per_million: float | None = None
    output_token_price_per_million: float | None = None
    # Unset, they are not part of the stored form, so that a crew of before keeps its sha.
    cache_read_token_price_per_million: float | msgspec.UnsetType = msgspec.UNSET
    cache_write_token_price_per_million: float | msgspec.UnsetType = msgspec.UNSET

    @property
    def prices(self) -> Prices | None:
        """The prices of the agent's file; None if it has none."""
        read, write = self.cache_read_token_price_per_million, self.cache_write_token_price_per_million
        return prices_of(
            self.input_token_price_per_million,
            self.output_token_price_per_million,
            None if read is msgspec.UNSET else read,
            None if write is msgspec.UNSET else write,
        )


class ErrorLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_consecutive: int | None = None
    max_per_day: int | None = None
    block_on_error_exceed: bool = True


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    role: str = ""
    description: str = ""
    backstory: str = ""
    system_prompt: str = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    primary: ModelRef | None = None
    backup: ModelRef | None = None
    tools: tuple[str, ...] = ()
    handoff_targets: tuple[str, ...] = ()
    is_terminal: bool = False
    cost_limits: CostLimits | None = None
    error_limits: ErrorLimits | None = None
    signals: tuple[str, ...] | None = None
    output: OutputSchema = msgspec.UNSET  # of each reply that ends its turn
    # Unset, it is not part of the stored form, as with `output`.
    model_settings: ModelSettings | msgspec.UnsetType = msgspec.UNSET

    @property
    def has_prices(self) -> bool:
        return self.cost_limits is not None and self.cost_limits.prices is not None

    @property
    def cache_setting(self) -> str:
        """Whether and for how long its provider is to cache prompts: on, off or 1h."""
        return self.model_settings.cache if isinstance(self.model_settings, ModelSettings) else NO_MODEL_SETTINGS.cache

    def model(self, *, backup: bool) -> ModelRef | None:
        return self.backup if backup else self.primary


class HistoryShare(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of history that a sub-crew gets and returns: 0 is none, -1 is all."""

    history: int = 0
    return_history: int = 0


class RouteDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one signal of one agent."""

    signal: str
    behavior: SignalBehavior
    priority: int
    target: str = ""
    description: str = ""
    targets: tuple[str, ...] = ()
    pause: bool = False
    target_crew: str = ""
    return_to: str = ""
    input_template: str = ""
    on_error: str = "fail"
    context: HistoryShare = HistoryShare()
    acknowledges: bool = False  # it is recorded and has no other effect
    takes: OutputSchema = msgspec.UNSET  # what the target takes; compared with the output of the emitter

    @property
    def is_tell(self) -> bool:
        """True if the flow of control ignores the signal."""
        behavior = self.behavior
        return behavior is SignalBehavior.BROADCAST or (behavior is SignalBehavior.EXTERNAL and not self.pause)


class GroupDefinition(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    agents: tuple[str, ...]
    wait_for_all: bool = True
    timeout_seconds: float | None = None
    next_agent: str = ""
    on_error: str = "continue"
    description: str = ""
    unnamed: bool = False  # made from parallel_targets


class AgentBehavior(msgspec.Struct, frozen=True, kw_only=True):
    wait_for_signal: bool = False
    auto_route: bool = True
    is_terminal: bool = False
    description: str = ""


_NO_BEHAVIOR = AgentBehavior()


class SubCrewCaps(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a child that are tighter than its own."""

    max_handoffs: int | None = None
    timeout_seconds: float | None = None
    max_calls_per_run: int | None = None
    max_tokens_per_run: int | None = None
    max_cost_per_run: float | None = None


class SubCrewDefinition(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    config_path: str
    description: str = ""
    settings: SubCrewCaps = SubCrewCaps()
    crew: "CrewDefinition | None" = None
    crew_sha: str = ""  # of the stored crew
    output: OutputSchema = msgspec.UNSET  # what this crew expects of it


class DelegationDefinition(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    root: str
    children: dict[str, tuple[str, ...]]
    select: str = "model"
    report_check: str = "rules"
    ack_timeout_seconds: float = 30
    answer_timeout_seconds: float = 600
    min_report_chars: int = 1
    max_follow_ups: int = 2
    max_depth: int = 5

    @cached_property
    def parents(self) -> dict[str, str]:
        """The parent of each child; a child of two parents belongs to the first."""
        pairs = [(child, parent) for parent, children in self.children.items() for child in children]
        return dict(reversed(pairs))


class SubscriptionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    pattern: str
    silent: bool = True


class CrewSettings(msgspec.Struct, frozen=True, kw_only=True):
    config_mode: str = "permissive"
    signal_registration: str = "required"
    signal_position: str = "last_line"
    signal_mode: str = "text"
    cut_on_signal: bool = False
    on_no_signal: str = "nudge"
    on_conflict: str = "priority"
    language: str = "en"
    organization: str = ""
    max_handoffs: int = 30
    max_rounds: int = 10
    loop_window: int = 20
    timeout_seconds: float = 3600
    parallel_timeout_seconds: float = 300
    timeout_warning_threshold_pct: float = 80
    slow_call_threshold_seconds: float = 30
    max_context_window: int = 128_000
    context_trim_percent: float = 20
    max_input_size_kb: int = 1024
    max_request_body_size_kb: int = 1024
    sse_keep_alive_seconds: float = 15
    max_tool_output_chars: int = 20_000
    max_total_tool_output_chars: int = 60_000
    tool_execution_timeout_seconds: float = 60
    tool_result_timeout_seconds: float = 300
    retry_backoff_min_millis: int = 500
    retry_backoff_max_seconds: float = 30
    max_calls_per_minute: int | None = None
    max_calls_per_hour: int | None = None
    max_calls_per_day: int | None = None
    max_calls_per_run: int | None = None
    max_tokens_per_call: int | None = None
    max_tokens_per_minute: int | None = None
    max_tokens_per_hour: int | None = None
    max_tokens_per_day: int | None = None
    max_tokens_per_run: int | None = None
    max_cost_per_call: float | None = None
    max_cost_per_minute: float | None = None
    max_cost_per_hour: float | None = None
    max_cost_per_day: float | None = None
    max_cost_per_run: float | None = None
    cost_alert_threshold: float | None = None
    block_on_quota_exceed: bool = True
    max_errors_per_hour: int | None = None
    max_errors_per_day: int | None = None
    max_consecutive_errors: int | None = None


# Defaults of 1.0 files where they differ; the defaults above are those of 2.0.
VERSION_1_SETTINGS = {"signal_registration": "inferred", "signal_position": "anywhere"}

# The provider of models without one, by version of the file.
DEFAULT_PROVIDERS = {"1.0": "openai"}


class CrewDefinition(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    name: str
    entry_point: str
    agents: tuple[AgentDefinition, ...]
    description: str = ""
    signals: tuple[SignalDefinition, ...] = ()
    routes: dict[str, tuple[RouteDefinition, ...]] = {}
    defaults: dict[str, str] = {}
    behaviors: dict[str, AgentBehavior] = {}
    groups: dict[str, GroupDefinition] = {}
    sub_crews: dict[str, SubCrewDefinition] = {}
    delegation: DelegationDefinition | None = None
    subscriptions: tuple[SubscriptionDefinition, ...] = ()
    settings: CrewSettings = CrewSettings()
    output: OutputSchema = msgspec.UNSET  # of each reply that ends the run

    def agent(self, id: str) -> AgentDefinition | None:  # noqa: A002 - ids are called id everywhere
        return next((agent for agent in self.agents if agent.id == id), None)

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent.id for agent in self.agents)

    def whole_tree(self) -> "list[CrewDefinition]":
        """This crew and all its sub-crews, each once."""
        found, known = [self], {id(self)}
        for crew in found:
            for sub in crew.sub_crews.values():
                if sub.crew is not None and id(sub.crew) not in known:
                    known.add(id(sub.crew))
                    found.append(sub.crew)
        return found

    def behavior_of(self, agent: str) -> AgentBehavior:
        return self.behaviors.get(agent, _NO_BEHAVIOR)

    def is_terminal(self, agent: AgentDefinition) -> bool:
        return agent.is_terminal or self.behavior_of(agent.id).is_terminal

    def offers_tools(self, agent: AgentDefinition) -> bool:
        """True if calls for the agent offer tools: its own, those of delegation, or the one that emits signals."""
        delegates = self.delegation is not None and agent.id in self.delegation.children
        return bool(agent.tools) or delegates or (self.settings.signal_mode == "tool" and agent.id in self.routes)
