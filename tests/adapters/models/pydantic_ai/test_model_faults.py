"""What a model does not take is found before it is called, and the strict provider refuses it too."""

from typing import Any

import pytest

from interlock.adapters.models.pydantic_ai.model_faults import faults_of_model
from interlock.crew.definition import ModelRef, ModelSettings


def faults(model: str, **asked: Any) -> list[tuple[str, str]]:
    provider, _, name = model.partition(":")
    names: list[str] = ["temperature", "top_p", "top_k"]
    sampling: dict[str, float] = {each: asked.pop(each) for each in names if each in asked}
    found = faults_of_model(ModelRef(provider=provider, model=name), ModelSettings(**asked), sampling)
    return [(fault.path[0], f"{fault.message}; {fault.fix}") for fault in found]


@pytest.mark.parametrize(
    ("model", "asked", "key", "words"),
    [
        ("anthropic:claude-haiku-4-5", {"reasoning": 1_000}, "reasoning", "at least 1024 tokens, not 1000; raise it"),
        ("anthropic:claude-haiku-4-5", {"reasoning": 2_000, "max_tokens": 2_000}, "max_tokens", "raise max_tokens"),
        ("anthropic:claude-haiku-4-5", {"reasoning": "low", "max_tokens": 900}, "max_tokens", "raise max_tokens"),
        ("anthropic:claude-opus-5", {"reasoning": 2_000}, "reasoning", "write low or medium or high"),
        ("anthropic:claude-opus-5-5", {"reasoning": "off"}, "reasoning", "cannot stop reasoning"),
        ("anthropic:claude-sonnet-4-6", {"service_tier": "flex"}, "service_tier", "write auto or standard_only"),
        ("anthropic:claude-opus-4-8", {"temperature": 0.2}, "temperature", "does not take temperature; remove it"),
        ("anthropic:claude-sonnet-4-6", {"reasoning": "low", "temperature": 0.2}, "temperature", "while it reasons"),
        ("anthropic:claude-sonnet-4-6", {"reasoning": "low", "top_k": 5}, "top_k", "while it reasons"),
        ("anthropic:claude-sonnet-4-6", {"reasoning": "low", "top_p": 0.5}, "top_p", "while it reasons"),
        ("anthropic:claude-sonnet-4-6", {"extra": {"thinking": {}}}, "extra", "use the key 'reasoning'"),
        ("anthropic:claude-sonnet-4-6", {"extra": {"system": "x"}}, "extra", "which Interlock sets itself; remove it"),
        ("google:gemini-3-flash", {"reasoning": 2_000}, "reasoning", "takes no number of tokens"),
        ("google:gemini-3-flash", {"reasoning": "off"}, "reasoning", "cannot stop reasoning"),
        ("gemini:gemini-2.5-pro", {"reasoning": "off"}, "reasoning", "cannot stop reasoning"),
        ("google:gemini-3-pro-preview", {"reasoning": "medium"}, "reasoning", "write low or high"),
        ("google:gemini-2.0-flash", {"reasoning": "low"}, "reasoning", "does not reason; remove it"),
        ("google:gemini-3-flash", {"service_tier": "auto"}, "service_tier", "write standard or flex or priority"),
        ("google:gemini-3-flash", {"stop": tuple("abcdef")}, "stop", "at most 5 texts as stop; remove 1"),
    ],
)
def test_what_is_not_taken_has_a_fault(model: str, asked: dict[str, Any], key: str, words: str) -> None:
    ((path, message),) = faults(model, **asked)
    assert path == key and words in message


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("anthropic:claude-sonnet-4-6", {"reasoning": "low", "temperature": 1, "top_p": 0.97}),
        ("anthropic:claude-sonnet-4-6", {"reasoning": "off", "temperature": 0.2, "top_k": 3}),
        ("anthropic:claude-sonnet-4-6", {"reasoning": "high", "max_tokens": 100}),  # by level: it has no budget
        ("anthropic:claude-haiku-4-5", {"reasoning": 1_024, "max_tokens": 1_025}),
        ("google:gemini-2.0-flash", {"reasoning": "off"}),
        ("google:gemini-2.5-flash", {"reasoning": 100, "temperature": 0.2}),
        ("groq:m", {"reasoning": 100, "temperature": 0.2, "service_tier": "x"}),
    ],
)
def test_what_is_taken_has_none(model: str, asked: dict[str, Any]) -> None:
    assert faults(model, **asked) == []
