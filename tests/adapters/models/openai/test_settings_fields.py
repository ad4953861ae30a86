"""The forms of settings that differ from provider to provider."""

from typing import Any

import pytest

from interlock.adapters.models.openai.settings_fields import chat_fields, responses_fields
from interlock.crew.definition import ModelSettings
from interlock.ports import ModelRequest


def asking(**settings: Any) -> ModelRequest:
    return ModelRequest(key="k", agent="a", number=1, system="", messages=(), settings=ModelSettings(**settings))


@pytest.mark.parametrize(
    ("provider", "asked", "fields"),
    [
        ("openai", "off", {"reasoning_effort": "none"}),
        ("openai", "high", {"reasoning_effort": "high"}),
        ("house", "off", {"reasoning_effort": "none"}),
        ("ollama", "low", {"reasoning_effort": "low"}),
        ("openrouter", "off", {"reasoning": {"enabled": False}}),
        ("openrouter", "medium", {"reasoning": {"effort": "medium"}}),
        ("openrouter", 2_000, {"reasoning": {"max_tokens": 2_000}}),
        ("together", "off", {"reasoning": {"enabled": False}}),
        ("together", "high", {"reasoning_effort": "high"}),
        ("fireworks", "off", {"reasoning_effort": "none"}),
        ("deepseek", "off", {"thinking": {"type": "disabled"}}),
        ("deepseek", "low", {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
    ],
)
def test_reasoning_has_the_form_of_its_provider(provider: str, asked: str | int, fields: dict[str, Any]) -> None:
    assert chat_fields(provider, "m", asking(reasoning=asked)) == fields


@pytest.mark.parametrize(("provider", "name"), [("openai", "max_completion_tokens"), ("vllm", "max_tokens")])
def test_only_openai_has_the_newer_name_of_the_limit(provider: str, name: str) -> None:
    assert chat_fields(provider, "m", asking(max_tokens=9)) == {name: 9}


def test_without_tools_nothing_is_said_about_their_calls() -> None:
    assert chat_fields("openai", "m", asking(parallel_tool_calls=False)) == {}
    assert responses_fields("gpt-5", asking(parallel_tool_calls=False)) == {}


def test_nothing_goes_out_that_was_not_asked_for() -> None:
    assert chat_fields("openai", "m", asking()) == {} == responses_fields("m", asking())
