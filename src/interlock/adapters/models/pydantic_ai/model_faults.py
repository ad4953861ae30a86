"""What a model of Anthropic or Google does not take of what its agent asks for. `check` and each call read it.

Rule: a limit that the provider would tell in the middle of a run is told before it.
"""

from collections.abc import Iterator, Mapping

from interlock.adapters.models.openai.openai_models import OFF
from interlock.adapters.models.pydantic_ai.model_facts import BY_TOKENS, OtherModelFacts, facts_of
from interlock.crew.definition import AgentDefinition, ModelRef, ModelSettings
from interlock.crew.host import SettingFault
from interlock.ports import ModelRequest

# The smallest number of tokens that Anthropic takes.
BUDGET_MIN = 1_024

# The words of each provider, and how the library says them.
TIERS = {
    "anthropic": {"auto": "auto", "standard_only": "standard_only"},
    "gemini": {"standard": "default", "flex": "flex", "priority": "priority"},
    "google": {"standard": "default", "flex": "flex", "priority": "priority"},
}
GEMINI_STOPS_MAX = 5

_SAMPLING = ("temperature", "top_p", "top_k")

# Fields of a request to Anthropic that Interlock sets, with the key of the agent for it, if there is one.
_ANTHROPIC_FIELDS = {
    **dict.fromkeys(("model", "messages", "stream", "tools", "system"), ""),
    **{name: name for name in ("temperature", "top_p", "top_k", "max_tokens", "service_tier")},
    "cache_control": "cache",
    "output_config": "reasoning",
    "stop_sequences": "stop",
    "thinking": "reasoning",
    "tool_choice": "parallel_tool_calls",
}


def sampling_of(asked: AgentDefinition | ModelRequest) -> dict[str, float]:
    """What an agent, or a call for it, has of temperature, top_p and top_k; 0 is a value."""
    return {name: value for name in _SAMPLING if (value := getattr(asked, name)) is not None}


def faults_of_model(model: ModelRef, settings: ModelSettings, sampling: Mapping[str, float]) -> Iterator[SettingFault]:
    facts = facts_of(model)
    if facts is None:
        return
    yield from _faults_in_reasoning(model, settings, facts)
    yield from _faults_in_sampling(model, settings, sampling, facts)
    for name in settings.extra if model.provider == "anthropic" else ():
        if name in _ANTHROPIC_FIELDS:
            key = _ANTHROPIC_FIELDS[name]
            message, fix = (
                f"extra has {name}, which Interlock sets itself",
                f"use the key '{key}'" if key else "remove it",
            )
            yield SettingFault(path=("extra", name), message=message, fix=fix)
    tiers = TIERS[model.provider]
    if settings.service_tier and settings.service_tier not in tiers:
        message = f"{model.provider} has no service_tier {settings.service_tier!r}"
        yield SettingFault(path=("service_tier",), message=message, fix=f"write {' or '.join(tiers)}")
    if model.provider != "anthropic" and len(settings.stop) > GEMINI_STOPS_MAX:
        message = f"{model.provider} takes at most {GEMINI_STOPS_MAX} texts as stop"
        yield SettingFault(path=("stop",), message=message, fix=f"remove {len(settings.stop) - GEMINI_STOPS_MAX}")


def _faults_in_reasoning(model: ModelRef, settings: ModelSettings, facts: OtherModelFacts) -> Iterator[SettingFault]:
    asked = settings.reasoning
    if asked is None or (asked == OFF and not facts.ways):
        return
    words = " or ".join(facts.levels)
    if not facts.ways:
        yield _fault(f"{model.name} does not reason", "remove it")
    elif asked == OFF:
        if not facts.can_stop:
            yield _fault(f"{model.name} cannot stop reasoning", f"write {words}")
    elif isinstance(asked, int):
        yield from _faults_in_tokens(model, asked, settings.max_tokens, facts)
    elif asked not in facts.levels:
        yield _fault(f"{model.name} has no reasoning {asked!r}", f"write {words}")
    elif facts.ways[0] == BY_TOKENS and model.provider == "anthropic":
        yield from _faults_in_room(model, BUDGET_MIN, settings.max_tokens)


def _faults_in_tokens(
    model: ModelRef, tokens: int, max_tokens: int | None, facts: OtherModelFacts
) -> Iterator[SettingFault]:
    if BY_TOKENS not in facts.ways:
        message = f"{model.name} takes no number of tokens as reasoning"
        yield _fault(message, f"write {' or '.join(facts.levels)}")
    elif model.provider == "anthropic" and tokens < BUDGET_MIN:
        yield _fault(f"{model.name} reasons with at least {BUDGET_MIN} tokens, not {tokens}", "raise it")
    elif model.provider == "anthropic":
        yield from _faults_in_room(model, tokens, max_tokens)


def _faults_in_room(model: ModelRef, tokens: int, max_tokens: int | None) -> Iterator[SettingFault]:
    """Reasoning is a part of the reply, so max_tokens must be larger."""
    if max_tokens is not None and tokens >= max_tokens:
        message = f"{model.name} cannot reason with {tokens} tokens where a reply has at most {max_tokens}"
        yield SettingFault(path=("max_tokens",), message=message, fix="raise max_tokens, or write reasoning: off")


def _faults_in_sampling(
    model: ModelRef, settings: ModelSettings, sampling: Mapping[str, float], facts: OtherModelFacts
) -> Iterator[SettingFault]:
    if model.provider != "anthropic":
        return
    is_reasoning = settings.reasoning is not None and settings.reasoning != OFF
    for name, value in sampling.items():
        if not facts.takes_sampling:
            yield SettingFault(path=(name,), message=f"{model.name} does not take {name}", fix="remove it")
        elif is_reasoning and not _is_usual(name, value):
            message = f"{model.name} does not take {name} {value:g} while it reasons"
            yield SettingFault(path=(name,), message=message, fix="remove it, or write reasoning: off")


def _is_usual(name: str, value: float) -> bool:
    """True if Anthropic takes it beside reasoning."""
    return (name == "temperature" and value == 1) or (name == "top_p" and value >= 0.95)


def _fault(message: str, fix: str) -> SettingFault:
    return SettingFault(path=("reasoning",), message=message, fix=fix)
