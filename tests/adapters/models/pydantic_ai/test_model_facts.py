"""The facts about models are those of the library."""

import pytest
from pydantic_ai.profiles.anthropic import AnthropicModelProfile, anthropic_model_profile
from pydantic_ai.profiles.google import GoogleModelProfile, google_model_profile

from interlock.adapters.models.pydantic_ai.model_facts import BY_LEVEL, BY_TOKENS, facts_of
from interlock.crew.definition import ModelRef

CLAUDES = [
    "claude-3-7-sonnet-latest", "claude-opus-4-1", "claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6",
    "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-fable-5", "claude-fable-5-1", "claude-mythos-5",
    "claude-mythos-preview", "claude-opus-5", "claude-opus-5-5", "claude-sonnet-5", "claude-sonnet-5-5",
    "claude-haiku-5-5", "claude-next",
]  # fmt: skip
GEMINIS = [
    "gemini-pro", "gemini-1.5-pro", "gemini-2.0-flash", "gemma-3", "gemini-2.5-flash", "gemini-2.5-flash-lite",
    "gemini-2.5-pro", "gemini-2.5-flash-image", "gemini-3-flash-preview", "gemini-3-pro-preview",
    "gemini-3.1-pro-preview", "gemini-3.1-flash-lite-image", "gemini-3.8-flash", "gemini-4-argon",
    "gemini-flash-latest",
]  # fmt: skip


@pytest.mark.parametrize("name", CLAUDES)
def test_what_claude_takes_is_what_the_library_knows(name: str) -> None:
    facts = facts_of(ModelRef(provider="anthropic", model=name))
    profile = AnthropicModelProfile(**(anthropic_model_profile(name) or {}))  # type: ignore[typeddict-item]
    assert facts is not None
    assert (BY_LEVEL in facts.ways) == profile["anthropic_supports_adaptive_thinking"]
    assert (BY_TOKENS in facts.ways) != profile["anthropic_disallows_budget_thinking"]
    assert facts.can_stop != profile.get("thinking_always_enabled", False)
    assert facts.takes_sampling != profile["anthropic_disallows_sampling_settings"]
    assert facts.takes_schema == facts.takes_schema_with_tools == profile["supports_json_schema_output"]
    by_itself = profile.get("thinking_enabled_by_default", False) and facts.can_stop
    between = profile["anthropic_disables_thinking_with_between_tools"]
    assert not facts.can_stop or facts.off == ("between_tools" if between else "disabled" if by_itself else "")


@pytest.mark.parametrize("provider", ["gemini", "google"])
@pytest.mark.parametrize("name", GEMINIS)
def test_what_gemini_takes_is_what_the_library_knows(provider: str, name: str) -> None:
    facts = facts_of(ModelRef(provider=provider, model=name))
    profile = GoogleModelProfile(**(google_model_profile(name) or {}))  # type: ignore[typeddict-item]
    assert facts is not None
    assert bool(facts.ways) == profile.get("supports_thinking")
    assert facts.takes_schema == profile.get("supports_json_schema_output")
    assert facts.takes_schema_with_tools == profile.get("google_supports_tool_combination")
    if facts.ways:
        assert (facts.ways == (BY_LEVEL,)) == profile["google_supports_thinking_level"]
        levels = profile.get("google_thinking_levels")
        assert levels is None or {level.upper() for level in facts.levels} == levels - {"MINIMAL"}
    if facts.ways == (BY_TOKENS,):
        assert facts.can_stop != profile.get("thinking_always_enabled", False)


def test_of_other_providers_nothing_is_known_here() -> None:
    assert facts_of(ModelRef(provider="groq", model="m")) is None
