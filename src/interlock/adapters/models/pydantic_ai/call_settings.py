"""The settings of an agent as those of the library's clients.

Rule 1: what a provider does not take is refused before the call, in words. The library would drop it, or warn.
Rule 2: the facts about models (which of them reason, how they are asked to, and what they refuse) are the library's.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai.models import Model

from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.crew.definition import ModelRef, ModelSettings
from interlock.errors import ModelRefused
from interlock.ports import ModelRequest

OFF, LOW, MEDIUM, HIGH = "off", "low", "medium", "high"

# The smallest budget that Anthropic takes.
BUDGET_MIN = 1_024

# Tokens for models that take a number and no level. They leave room for the reply.
ANTHROPIC_BUDGETS = {LOW: 2_048, MEDIUM: 8_192, HIGH: 16_384}
GEMINI_BUDGETS = {LOW: 2_048, MEDIUM: 8_192, HIGH: 24_576}

_SAMPLING = ("temperature", "top_p", "top_k")

Wire = dict[str, Any]
Profile = Mapping[str, Any]


def call_settings(client: Model, model: ModelRef, request: ModelRequest, limits: CallLimits) -> Wire:
    """The settings of one call; raises `ModelRefused` for one that this model does not take."""
    written: Wire = {"request_timeout": limits.total_seconds, "first_event_timeout": limits.first_byte_seconds}
    if "max_retries" not in client.unsupported_settings:
        written["max_retries"] = 0
    asked = {**_sampling(client, model, request), **_plain(request.settings)}
    for name in asked:
        if name in client.unsupported_settings:
            raise ModelRefused(f"{model.name} takes no {_KEYS.get(name, name)}; remove it from the agent")
    written |= asked
    written |= _service_tier(model, request.settings.service_tier)
    if request.settings.reasoning is not None:
        reasoning = _REASONING.get(client.system, _by_level)
        written |= reasoning(model, client.profile, request.settings)
    if client.system == "anthropic":
        written |= _anthropic_cache(request.settings.cache)
    return written


# The library's names of settings, where they are not those of agents.
_KEYS = {"stop_sequences": "stop", "extra_body": "extra"}


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


def _sampling(client: Model, model: ModelRef, request: ModelRequest) -> Wire:
    """What the agent has of temperature, top_p and top_k; 0 is a value."""
    asked = {name: value for name in _SAMPLING if (value := getattr(request, name)) is not None}
    if asked and client.profile.get("anthropic_disallows_sampling_settings", False):
        raise ModelRefused(f"{model.name} takes no {' or '.join(asked)}; remove it from the agent")
    return asked


# The words of each provider, and how the library says them.
_TIERS = {
    "anthropic": ("anthropic_service_tier", {"auto": "auto", "standard_only": "standard_only"}),
    "gemini": ("service_tier", {"standard": "default", "flex": "flex", "priority": "priority"}),
    "google": ("service_tier", {"standard": "default", "flex": "flex", "priority": "priority"}),
}


def _service_tier(model: ModelRef, tier: str) -> Wire:
    if not tier:
        return {}
    name, words = _TIERS.get(model.provider, ("", {}))
    if tier not in words:
        known = f"; it takes {', '.join(words)}" if words else "; remove it from the agent"
        raise ModelRefused(f"{model.name} takes no service_tier {tier!r}{known}")
    return {name: words[tier]}


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


def _anthropic_reasoning(model: ModelRef, profile: Profile, settings: ModelSettings) -> Wire:
    asked = settings.reasoning
    if asked == OFF:
        return {"thinking": _off(model, profile)}
    takes_budget = not profile.get("anthropic_disallows_budget_thinking", False)
    if isinstance(asked, int):
        if not takes_budget:
            raise ModelRefused(f"{model.name} takes no number of tokens as reasoning; use low, medium or high")
        return {"anthropic_thinking": _budget(model, asked, settings.max_tokens)}
    if profile.get("anthropic_supports_adaptive_thinking", False):
        # Models that take no budget leave their thoughts out unless they are asked for them.
        shown = {} if takes_budget else {"display": "summarized"}
        return {"anthropic_thinking": {"type": "adaptive", **shown}, "anthropic_effort": asked}
    budget = ANTHROPIC_BUDGETS[str(asked)]
    if settings.max_tokens is not None:
        budget = min(budget, max(settings.max_tokens // 2, BUDGET_MIN))
    return {"anthropic_thinking": _budget(model, budget, settings.max_tokens)}


def _budget(model: ModelRef, tokens: int, max_tokens: int | None) -> Wire:
    if tokens < BUDGET_MIN:
        raise ModelRefused(f"{model.name} reasons with at least {BUDGET_MIN} tokens, not {tokens}; raise reasoning")
    if max_tokens is not None and tokens >= max_tokens:
        raise ModelRefused(f"{model.name} cannot reason with {tokens} of {max_tokens} max_tokens; raise max_tokens")
    return {"type": "enabled", "budget_tokens": tokens}


def _gemini_reasoning(model: ModelRef, profile: Profile, settings: ModelSettings) -> Wire:
    _require_reasoning(model, profile)
    asked, by_level = settings.reasoning, profile.get("google_supports_thinking_level", True)
    if asked == OFF:
        if by_level:
            raise ModelRefused(f"{model.name} cannot stop reasoning; use low")
        _off(model, profile)
        return {"google_thinking_config": {"thinking_budget": 0}}
    if isinstance(asked, int):
        if by_level:
            raise ModelRefused(f"{model.name} takes no number of tokens as reasoning; use low, medium or high")
        return {"google_thinking_config": {"include_thoughts": True, "thinking_budget": asked}}
    if not by_level:
        return {"google_thinking_config": {"include_thoughts": True, "thinking_budget": GEMINI_BUDGETS[str(asked)]}}
    levels = profile.get("google_thinking_levels")
    level = str(asked).upper()
    if levels is not None and level not in levels:
        known = " or ".join(each for each in (LOW, MEDIUM, HIGH) if each.upper() in levels)
        raise ModelRefused(f"{model.name} takes no reasoning {asked!r}; use {known}")
    return {"google_thinking_config": {"include_thoughts": True, "thinking_level": level}}


def _by_level(model: ModelRef, profile: Profile, settings: ModelSettings) -> Wire:
    """For other providers the library says it, from a level."""
    _require_reasoning(model, profile)
    if settings.reasoning == OFF:
        return {"thinking": _off(model, profile)}
    if isinstance(settings.reasoning, int):
        raise ModelRefused(f"{model.name} takes no number of tokens as reasoning; use low, medium or high")
    return {"thinking": settings.reasoning}


def _require_reasoning(model: ModelRef, profile: Profile) -> None:
    if not profile.get("supports_thinking", False):
        raise ModelRefused(f"{model.name} does not reason; remove reasoning from the agent")


def _off(model: ModelRef, profile: Profile) -> bool:
    if profile.get("thinking_always_enabled", False):
        raise ModelRefused(f"{model.name} cannot stop reasoning; use low")
    return False


_REASONING: dict[str, Callable[[ModelRef, Profile, ModelSettings], Wire]] = {
    "anthropic": _anthropic_reasoning,
    "google": _gemini_reasoning,
}
