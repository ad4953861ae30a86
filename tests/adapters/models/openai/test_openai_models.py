"""What is known about OpenAI's models: by their names, with and without a date."""

import pytest

from interlock.adapters.models.openai.openai_models import LEVELS, OFF, UNKNOWN_MODEL, openai_model_facts


@pytest.mark.parametrize(
    ("name", "reasoning", "responses_only"),
    [
        ("gpt-4o", (), False),
        ("gpt-4o-2024-08-06", (), False),
        ("gpt-4.1-mini", (), False),
        ("gpt-3.5-turbo", (), False),
        ("chatgpt-4o-latest", (), False),
        ("gpt-5-chat-latest", (), False),
        ("o3", LEVELS, False),
        ("o4-mini-2025-04-16", LEVELS, False),
        ("o1-pro", LEVELS, True),
        ("o3-pro-2025-06-10", LEVELS, True),
        ("o3-deep-research", ("medium",), True),
        ("gpt-5", LEVELS, False),
        ("gpt-5-mini-2025-08-07", LEVELS, False),
        ("gpt-5-pro", ("high",), True),
        ("gpt-5-pro-2025-10-06", ("high",), True),
        ("gpt-5.4-pro", ("medium", "high"), True),
        ("gpt-5-codex", LEVELS, True),
        ("gpt-5.1-codex-max", LEVELS, True),
        ("gpt-5.1", (OFF, *LEVELS), False),
        ("gpt-5.5-2026-04-23", (OFF, *LEVELS), False),
        ("gpt-5.6-terra", (OFF, *LEVELS), False),
    ],
)
def test_a_model_is_known_by_its_name(name: str, reasoning: tuple[str, ...], responses_only: bool) -> None:
    facts = openai_model_facts(name)
    assert (facts.reasoning, facts.responses_only) == (reasoning, responses_only)


@pytest.mark.parametrize("name", ["gpt-7", "llama-3", "o10", "my-gpt-4", ""])
def test_of_another_model_nothing_is_known_and_it_is_called_as_asked(name: str) -> None:
    assert openai_model_facts(name) == UNKNOWN_MODEL


@pytest.mark.parametrize(
    ("name", "without_tools", "unasked"),
    [("gpt-5", False, True), ("gpt-5.1", False, False), ("gpt-5.4-mini", True, False), ("gpt-5.6-sol", True, True)],
)
def test_newer_models_take_no_tools_while_they_reason(name: str, without_tools: bool, unasked: bool) -> None:
    facts = openai_model_facts(name)
    assert (facts.reasons_without_tools, facts.reasons_unasked) == (without_tools, unasked)
