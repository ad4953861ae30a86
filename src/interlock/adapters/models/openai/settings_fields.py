"""An agent's model settings as fields of a request.

Rule 1: a field goes out only if it was asked for.
Rule 2: whether a provider takes a setting is checked before a run, in `model_features`. Here is only its form.
"""

from collections.abc import Callable, Mapping
from typing import Any

from interlock.adapters.models.openai.openai_models import OFF, openai_model_facts
from interlock.crew.definition import NO_MODEL_SETTINGS, ModelSettings
from interlock.errors import ModelRefused
from interlock.ports import ModelRequest

Fields = dict[str, Any]

# OpenAI's word for no reasoning.
NO_EFFORT = "none"


def chat_fields(provider: str, model: str, request: ModelRequest) -> Fields:
    """The fields of a chat completion."""
    settings, fields = request.settings, _sampling_fields(request)
    if settings is NO_MODEL_SETTINGS:
        return fields
    if settings.max_tokens is not None:
        # OpenAI's reasoning models refuse the older name, and other servers may not know the newer one.
        fields["max_completion_tokens" if provider == "openai" else "max_tokens"] = settings.max_tokens
    if settings.reasoning is not None:
        fields |= _REASONING.get(provider, _effort)(model, settings.reasoning)
    if settings.seed is not None:
        fields["seed"] = settings.seed
    if settings.stop:
        fields["stop"] = list(settings.stop)
    return fields | _call_fields(request)


def responses_fields(model: str, request: ModelRequest) -> Fields:
    """The fields of a request to the Responses API, which has neither seed nor stop."""
    settings, fields = request.settings, _sampling_fields(request)
    if settings.max_tokens is not None:
        fields["max_output_tokens"] = settings.max_tokens
    if settings.reasoning is not None and (effort := _effort(model, settings.reasoning)):
        fields["reasoning"] = {"effort": effort["reasoning_effort"]}
    return fields | _call_fields(request)


def with_extra(body: Fields, settings: ModelSettings) -> Fields:
    """The body with the agent's own fields; a field that is there already is refused, its parts may be added to."""
    for name, value in settings.extra.items():
        there = body.get(name)
        if isinstance(there, dict) and isinstance(value, Mapping) and not there.keys() & value.keys():
            body[name] = {**there, **value}
        elif name in body:
            raise ModelRefused(f"extra has '{name}', which Interlock sets itself; remove it from the agent's extra")
        else:
            body[name] = value
    return body


def _sampling_fields(request: ModelRequest) -> Fields:
    fields: Fields = {}
    if request.temperature is not None:
        fields["temperature"] = request.temperature
    if request.top_p is not None:
        fields["top_p"] = request.top_p
    if request.top_k is not None:  # not every server supports it; one that does not reports an error
        fields["top_k"] = request.top_k
    return fields


def _call_fields(request: ModelRequest) -> Fields:
    settings, fields = request.settings, Fields()
    if settings.parallel_tool_calls is not None and request.tools:  # without tools servers refuse it
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    if settings.service_tier:
        fields["service_tier"] = settings.service_tier
    return fields


def _effort(model: str, asked: str | int) -> Fields:
    """OpenAI's form. A model that does not reason anyway refuses the field, also with "none"."""
    if asked == OFF and not openai_model_facts(model).can_reason:
        return {}
    return {"reasoning_effort": NO_EFFORT if asked == OFF else asked}


def _openrouter_reasoning(model: str, asked: str | int) -> Fields:
    if asked == OFF:
        return {"reasoning": {"enabled": False}}
    return {"reasoning": {"max_tokens": asked} if isinstance(asked, int) else {"effort": asked}}


def _deepseek_reasoning(model: str, asked: str | int) -> Fields:
    if asked == OFF:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": asked}


def _together_reasoning(model: str, asked: str | int) -> Fields:
    return {"reasoning": {"enabled": False}} if asked == OFF else {"reasoning_effort": asked}


_REASONING: dict[str, Callable[[str, str | int], Fields]] = {
    "deepseek": _deepseek_reasoning,
    "openrouter": _openrouter_reasoning,
    "together": _together_reasoning,
}
