"""The settings of an agent as those of the library's clients.

Rule 1: what a provider does not take is refused before the call, in words. The library would drop it, or warn.
Rule 2: for Anthropic and Google the facts about models are ours (`model_facts`), for others the library's.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_ai.messages import CachePoint
from pydantic_ai.models import Model

from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.adapters.models.openai.openai_models import HIGH, LOW, MEDIUM, OFF
from interlock.adapters.models.pydantic_ai.model_facts import BY_LEVEL, OtherModelFacts, facts_of
from interlock.adapters.models.pydantic_ai.model_faults import BUDGET_MIN, TIERS, faults_of_model, sampling_of
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.errors import ModelRefused
from interlock.ports import ModelRequest

# Tokens for a level, of models that take no level. They leave room for the reply.
ANTHROPIC_BUDGETS = {LOW: 2_048, MEDIUM: 8_192, HIGH: 16_384}
GEMINI_BUDGETS = {LOW: 2_048, MEDIUM: 8_192, HIGH: 24_576}

# The library's names of settings, where they are not those of agents.
_KEYS = {"stop_sequences": "stop", "extra_body": "extra"}

Wire = dict[str, Any]


def call_settings(client: Model, model: ModelRef, request: ModelRequest, limits: CallLimits) -> Wire:
    """The settings of one call; raises `ModelRefused` for one that this model does not take."""
    settings = request.settings
    sampling = sampling_of(request)
    for fault in faults_of_model(model, settings, sampling):
        raise ModelRefused(f"{fault.message}; {fault.fix}")
    asked = {**sampling, **_plain(settings)}
    for name in asked:
        if name in client.unsupported_settings:
            raise ModelRefused(f"{model.name} takes no {_KEYS.get(name, name)}; remove it from the agent")
    return {**_limits(client, limits), **asked, **_service_tier(model, settings), **_own(client, model, settings)}


def _limits(client: Model, limits: CallLimits) -> Wire:
    retries = {} if "max_retries" in client.unsupported_settings else {"max_retries": 0}
    return {"request_timeout": limits.total_seconds, "first_event_timeout": limits.first_byte_seconds, **retries}


def _plain(settings: ModelSettings) -> Wire:
    """The settings that every client of the library knows by name."""
    written: Wire = {}
    if settings.max_tokens is not None:
        written["max_tokens"] = settings.max_tokens
    if settings.seed is not None:
        written["seed"] = settings.seed
    if settings.stop:
        written["stop_sequences"] = list(settings.stop)
    if settings.parallel_tool_calls is not None:
        written["parallel_tool_calls"] = settings.parallel_tool_calls
    if settings.extra:
        written["extra_body"] = dict(settings.extra)
    return written


def _service_tier(model: ModelRef, settings: ModelSettings) -> Wire:
    tier = settings.service_tier
    if not tier:
        return {}
    if model.provider not in TIERS:
        raise ModelRefused(f"{model.name} takes no service_tier; remove it from the agent")
    name = "anthropic_service_tier" if model.provider == "anthropic" else "service_tier"
    return {name: TIERS[model.provider][tier]}


def _own(client: Model, model: ModelRef, settings: ModelSettings) -> Wire:
    """What each provider is asked for in its own way: reasoning, and to cache."""
    facts, asked = facts_of(model), settings.reasoning
    cache = _anthropic_cache(settings.cache) if model.provider == "anthropic" else {}
    if asked is None:
        return cache
    if facts is None:
        return {**cache, **_by_library(model, client.profile, asked)}
    if model.provider == "anthropic":
        return {**cache, **_anthropic_reasoning(facts, asked, settings.max_tokens)}
    return {"google_thinking_config": _gemini_reasoning(facts, asked)} if facts.ways else {}


def mark_of(model: ModelRef, settings: ModelSettings) -> CachePoint | None:
    """The fourth mark, at the end of the prompt of the call before; None where nothing is marked."""
    if model.provider != "anthropic" or settings.cache == "off":
        return None
    return CachePoint(ttl="1h" if settings.cache == "1h" else "5m")


def _anthropic_cache(cache: str) -> Wire:
    """Marks at the ends of the tools, the instructions and the conversation: three of the four that there may be."""
    if cache == "off":
        return {}
    kept = "1h" if cache == "1h" else "5m"
    return {
        "anthropic_cache_tool_definitions": kept,
        "anthropic_cache_instructions": kept,
        "anthropic_cache_messages": kept,
    }


def _anthropic_reasoning(facts: OtherModelFacts, asked: str | int, max_tokens: int | None) -> Wire:
    if asked == OFF:
        return {"anthropic_thinking": {"type": facts.off}} if facts.off else {}
    if isinstance(asked, int):
        return {"anthropic_thinking": {"type": "enabled", "budget_tokens": asked}}
    if facts.ways[0] == BY_LEVEL:
        shown = {"display": "summarized"} if facts.hides_thoughts else {}
        return {"anthropic_thinking": {"type": "adaptive", **shown}, "anthropic_effort": asked}
    budget = ANTHROPIC_BUDGETS[asked]
    if max_tokens is not None:
        budget = min(budget, max(max_tokens // 2, BUDGET_MIN))
    return {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}}


def _gemini_reasoning(facts: OtherModelFacts, asked: str | int) -> Wire:
    if asked == OFF:
        return {"thinking_budget": 0}
    if isinstance(asked, int):
        return {"include_thoughts": True, "thinking_budget": asked}
    if facts.ways[0] == BY_LEVEL:
        return {"include_thoughts": True, "thinking_level": asked.upper()}
    return {"include_thoughts": True, "thinking_budget": GEMINI_BUDGETS[asked]}


def _by_library(model: ModelRef, profile: Mapping[str, Any], asked: str | int) -> Wire:
    if not profile.get("supports_thinking", False):
        raise ModelRefused(f"{model.name} does not reason; remove reasoning from the agent")
    if asked == OFF and profile.get("thinking_always_enabled", False):
        raise ModelRefused(f"{model.name} cannot stop reasoning; use low")
    if isinstance(asked, int):
        raise ModelRefused(f"{model.name} takes no number of tokens as reasoning; use low, medium or high")
    return {"thinking": False if asked == OFF else asked}
