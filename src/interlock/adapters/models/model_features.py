"""Which keys of an agent each provider takes: one table, read by `check` and before a run starts.

Rule 1: a key that a provider does not take is refused, never dropped.
Rule 2: a provider of the host's own file is sent what OpenAI's chat completions take; its server tells what it refuses.
Rule 3: `extra` adds fields that only the provider knows. It cannot replace a field that Interlock sets.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.adapters.models.openai.endpoint import CHAT, RESPONSES
from interlock.adapters.models.openai.openai_models import KNOWN_ON, LEVELS, OFF, OpenAIModelFacts, openai_model_facts
from interlock.adapters.models.openai.providers import Providers, api_of, as_served, is_openai
from interlock.adapters.models.pydantic_ai.model_faults import faults_of_model, sampling_of
from interlock.crew.definition import NO_MODEL_SETTINGS, AgentDefinition, CrewDefinition, ModelRef, ModelSettings
from interlock.crew.host import SettingFault

TOKENS = "a number of tokens"


class ProviderFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider takes."""

    reasoning: tuple[str, ...] = ()  # words, and `TOKENS`
    cache: tuple[str, ...] = ("on",)  # "on" alone: it caches as it likes, or never
    keys: tuple[str, ...] = ()  # of the other settings
    reasoning_fields: tuple[str, ...] = ()  # which only this provider has, and the key `reasoning` sets


_SAMPLING = ("max_tokens", "seed", "stop")
_ALL_KEYS = (*_SAMPLING, "parallel_tool_calls", "service_tier", "extra")
_OPENAI_CHAT = ProviderFeatures(reasoning=(OFF, *LEVELS), keys=_ALL_KEYS)
_GEMINI = ProviderFeatures(reasoning=(OFF, *LEVELS, TOKENS), keys=(*_SAMPLING, "service_tier"))

FEATURES: dict[str, ProviderFeatures] = {
    "anthropic": ProviderFeatures(
        reasoning=(OFF, *LEVELS, TOKENS),
        cache=("on", "off", "1h"),
        keys=("max_tokens", "stop", "parallel_tool_calls", "service_tier", "extra"),
    ),
    "azure": ProviderFeatures(reasoning=LEVELS, keys=(*_SAMPLING, "parallel_tool_calls", "extra")),
    "bedrock": ProviderFeatures(keys=("max_tokens", "stop")),
    "cohere": ProviderFeatures(keys=_SAMPLING),
    "deepseek": ProviderFeatures(
        reasoning=(OFF, *LEVELS), keys=("max_tokens", "stop", "extra"), reasoning_fields=("thinking",)
    ),
    "fireworks": ProviderFeatures(reasoning=(OFF, *LEVELS), keys=(*_SAMPLING, "parallel_tool_calls", "extra")),
    "gemini": _GEMINI,
    "google": _GEMINI,
    "groq": ProviderFeatures(keys=(*_SAMPLING, "parallel_tool_calls")),
    "huggingface": ProviderFeatures(keys=_SAMPLING),
    "llama.cpp": ProviderFeatures(keys=(*_SAMPLING, "parallel_tool_calls", "extra")),
    "local": ProviderFeatures(keys=_SAMPLING),
    "mistral": ProviderFeatures(keys=_SAMPLING),
    "ollama": ProviderFeatures(reasoning=(OFF, *LEVELS), keys=(*_SAMPLING, "extra")),
    "openai": _OPENAI_CHAT,
    "openai-compatible": _OPENAI_CHAT,
    "openrouter": ProviderFeatures(reasoning=(OFF, *LEVELS, TOKENS), keys=(*_SAMPLING, "parallel_tool_calls", "extra")),
    "together": ProviderFeatures(reasoning=(OFF, *LEVELS), keys=(*_SAMPLING, "extra")),
    "vllm": ProviderFeatures(reasoning=LEVELS, keys=(*_SAMPLING, "parallel_tool_calls", "extra")),
    "xai": ProviderFeatures(keys=("max_tokens", "stop")),
}

# What every server that speaks Responses takes.
RESPONSES_FEATURES = ProviderFeatures(
    reasoning=(OFF, *LEVELS), keys=("max_tokens", "parallel_tool_calls", "service_tier", "extra")
)

# Fields that Interlock sets in every request of these APIs.
_OWN_FIELDS = {
    CHAT: ("model", "messages", "stream", "stream_options", "tools", "functions", "response_format", "n"),
    RESPONSES: (
        *("model", "input", "instructions", "stream", "store", "include", "tools", "previous_response_id"),
        *("conversation", "background"),
    ),
}
# Fields that a key of the agent sets.
_KEY_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "reasoning_effort": "reasoning",
    "reasoning": "reasoning",
    "seed": "seed",
    "stop": "stop",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
}
# Of these fields only some parts are set; `extra` may add others.
_OWN_PARTS = {"reasoning": ("effort", "max_tokens", "enabled"), "text": ("format",)}


def features_of(model: ModelRef, api: str) -> ProviderFeatures:
    return RESPONSES_FEATURES if api == RESPONSES else FEATURES.get(model.provider, _OPENAI_CHAT)


def faults_for_agent(
    crew: CrewDefinition, agent: AgentDefinition, model: ModelRef, settings: Providers
) -> Iterator[SettingFault]:
    """What this model does not take of what the agent asks for."""
    model, asked = as_served(model), agent.model_settings or NO_MODEL_SETTINGS
    api = api_of(model, settings, os.environ)
    yield from faults_in_settings(model, asked, api)
    yield from faults_of_model(model, asked, sampling_of(agent))
    if crew.offers_tools(agent) and is_openai(model, settings, os.environ):
        yield from fault_in_tools(model, asked, api)


def faults_in_settings(model: ModelRef, settings: ModelSettings, api: str) -> Iterator[SettingFault]:
    """What this model does not take, each with the key and what to do; `api` is that of the model's server."""
    if model.provider == "scripted":
        return
    takes = features_of(model, api)
    yield from _fault_in_reasoning(model, settings.reasoning, takes)
    if settings.cache not in takes.cache:
        why = f"{model.provider} decides itself what it caches" if takes.cache == ("on",) else "it cannot"
        message = f"cache is {settings.cache}, but {why}"
        yield SettingFault(path=("cache",), message=message, fix=f"write {' or '.join(takes.cache)}, or remove it")
    for key in _ALL_KEYS:
        if getattr(settings, key) not in (None, "", (), {}) and key not in takes.keys:
            way = f"{model.provider} (by its Responses API)" if api == RESPONSES else model.provider
            fix = f"remove it; {model.provider} takes {', '.join(takes.keys) or 'none of the settings'}"
            yield SettingFault(path=(key,), message=f"{way} does not take {key}", fix=fix)
    if settings.stop and "stop" in takes.keys and model.provider == "openai" and not _openai(model).takes_stop:
        message = f"{model.name} does not take stop, as no model that reasons does (known on {KNOWN_ON})"
        yield SettingFault(path=("stop",), message=message, fix="remove it")
    yield from _faults_in_extra(settings.extra, takes, api)


def _openai(model: ModelRef) -> OpenAIModelFacts:
    return openai_model_facts(model.model)


def _fault_in_reasoning(model: ModelRef, asked: str | int | None, takes: ProviderFeatures) -> Iterator[SettingFault]:
    if asked is None:
        return
    can, who, known = takes.reasoning, model.provider, ""
    if model.provider == "openai" and not isinstance(asked, int):
        facts = _openai(model)
        if asked == OFF and not facts.can_reason:
            return
        can, who, known = facts.reasoning, model.name, f" (known on {KNOWN_ON})"
    word = TOKENS if isinstance(asked, int) else asked
    if word in can:
        return
    offers = f"it takes {', '.join(can)}" if can else "it takes no such key"
    fix = f"write {' or '.join(can)}, or remove it" if can else "remove it"
    message = f"reasoning is {asked}, but {who} cannot do that: {offers}{known}"
    yield SettingFault(path=("reasoning",), message=message, fix=fix)


def _faults_in_extra(extra: Mapping[str, Any], takes: ProviderFeatures, api: str) -> Iterator[SettingFault]:
    for name, value in extra.items():
        if name in _OWN_PARTS and isinstance(value, Mapping):
            for part in _OWN_PARTS[name]:
                if part in value:
                    yield _fault_of_field(f"{name}.{part}", _KEY_FIELDS.get(name, ""), ("extra", name, part))
        elif name in takes.reasoning_fields:
            yield _fault_of_field(name, "reasoning", ("extra", name))
        elif name in _OWN_FIELDS.get(api, ()) or name in _OWN_PARTS:
            yield _fault_of_field(name, "", ("extra", name))
        elif (key := _KEY_FIELDS.get(name, "")) and (key in takes.keys or key not in _ALL_KEYS):
            yield _fault_of_field(name, key, ("extra", name))


def _fault_of_field(name: str, key: str, path: tuple[str, ...]) -> SettingFault:
    fix = f"use the key '{key}'" if key else "remove it"
    return SettingFault(path=path, message=f"extra has {name}, which Interlock sets itself", fix=fix)


def fault_in_tools(model: ModelRef, settings: ModelSettings, api: str) -> Iterator[SettingFault]:
    """What keeps this model of OpenAI from being called with tools."""
    facts = _openai(model)
    is_reasoning = settings.reasoning != OFF if settings.reasoning is not None else facts.reasons_unasked
    if api == RESPONSES or not facts.reasons_without_tools or not is_reasoning:
        return
    message = f"{model.name} takes no tools while it reasons, by chat completions (known on {KNOWN_ON})"
    fix = 'write api = "responses" under [providers.openai] in interlock.toml, or reasoning: off'
    yield SettingFault(path=("reasoning",), message=message, fix=fix)
