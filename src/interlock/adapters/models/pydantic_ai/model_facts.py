"""What is known about the models of Anthropic and Google, by the beginnings of their names.

Rule 1: it is as of `KNOWN_ON`, and needs no client: `check` reads it where none is installed. A test compares it with
what the library knows.
Rule 2: of a model that no row fits, the provider tells what it refuses.
"""

import re

import msgspec

from interlock.adapters.models.openai.openai_models import HIGH, LEVELS, LOW
from interlock.crew.definition import ModelRef

KNOWN_ON = "2026-11-18"

# Ways of asking: by a level, by a number of tokens, or not at all.
BY_LEVEL, BY_TOKENS = "level", "tokens"


class OtherModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked to reason, if it can be held to a JSON schema, and what else it takes."""

    levels: tuple[str, ...] = LEVELS
    ways: tuple[str, ...] = (BY_TOKENS,)  # the first is used for a level; empty: it does not reason
    can_stop: bool = True
    off: str = ""  # how Anthropic's model is told not to reason; empty if it does not without being asked
    hides_thoughts: bool = False  # it leaves them out of its replies unless it is asked for them
    takes_sampling: bool = True  # temperature, top_p and top_k
    takes_schema: bool = True  # a reply can be held to a JSON schema
    takes_schema_with_tools: bool = True


_CLAUDE_BY_LEVEL_ONLY = ("fable-5", "mythos-5", "opus-4-7", "opus-4-8", "opus-5", "sonnet-5", "haiku-5-5")
_CLAUDE_BY_BOTH = ("opus-4-6", "sonnet-4-6", "mythos-preview")
_CLAUDE_ALWAYS = ("fable-5", "mythos-5", "mythos-preview", "opus-5-5")
_CLAUDE_UNASKED = ("opus-5", "sonnet-5", "haiku-5-5")
_CLAUDE_WITH_SCHEMA = (
    *_CLAUDE_BY_LEVEL_ONLY,
    "haiku-4-5",
    "opus-4-1",
    "opus-4-5",
    "opus-4-6",
    "sonnet-4-5",
    "sonnet-4-6",
)

# The levels of models of Google that do not have all of them.
_GEMINI_LEVELS = {"gemini-3-pro-preview": (LOW, HIGH), "gemini-3.1-flash-lite-image": (HIGH,)}


def facts_of(model: ModelRef) -> OtherModelFacts | None:
    """The facts about a model of these two providers; None for others."""
    if model.provider == "anthropic":
        return _claude(model.model.removeprefix("claude-"))
    return _gemini(model.model) if model.provider in ("gemini", "google") else None


def _claude(name: str) -> OtherModelFacts:
    by_level_only = name.startswith(_CLAUDE_BY_LEVEL_ONLY)
    by_both = name.startswith(_CLAUDE_BY_BOTH)
    off = "disabled" if name.startswith(_CLAUDE_UNASKED) else ""
    return OtherModelFacts(
        ways=(BY_LEVEL,) if by_level_only else (BY_LEVEL, BY_TOKENS) if by_both else (BY_TOKENS,),
        off="between_tools" if name.startswith("sonnet-5-5") else off,
        can_stop=not name.startswith(_CLAUDE_ALWAYS),
        hides_thoughts=by_level_only,
        takes_sampling=not by_level_only,
        takes_schema=name.startswith(_CLAUDE_WITH_SCHEMA),
        takes_schema_with_tools=name.startswith(_CLAUDE_WITH_SCHEMA),
    )


def _gemini(name: str) -> OtherModelFacts:
    generation = re.search(r"gemini-(\d+(\.\d+)?)", name)
    number = float(generation[1]) if generation else 0.0
    is_older = name == "gemini-pro" or (generation is not None and number < 2.5)
    has_images = "image" in name
    if is_older or "gemma" in name or name.startswith("gemini-2.5-flash-image"):
        return OtherModelFacts(ways=(), takes_schema=not has_images, takes_schema_with_tools=False)
    if number == 2.5:
        return OtherModelFacts(can_stop="pro" not in name, takes_schema_with_tools=False)
    levels = next((levels for start, levels in _GEMINI_LEVELS.items() if name.startswith(start)), LEVELS)
    return OtherModelFacts(ways=(BY_LEVEL,), levels=levels, can_stop=False)
