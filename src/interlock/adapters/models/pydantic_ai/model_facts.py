"""What is known about the models of Anthropic and Google, by the beginnings of their names: how they reason.

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


class ReasoningFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked to reason, and what else it takes."""

    levels: tuple[str, ...] = LEVELS
    ways: tuple[str, ...] = (BY_TOKENS,)  # the first is used for a level; empty: it does not reason
    can_stop: bool = True
    off: str = ""  # how Anthropic's model is told not to reason; empty if it does not without being asked
    hides_thoughts: bool = False  # it leaves them out of its replies unless it is asked for them
    takes_sampling: bool = True  # temperature, top_p and top_k


_CLAUDE_BY_LEVEL_ONLY = ("fable-5", "mythos-5", "opus-4-7", "opus-4-8", "opus-5", "sonnet-5", "haiku-5-5")
_CLAUDE_BY_BOTH = ("opus-4-6", "sonnet-4-6", "mythos-preview")
_CLAUDE_ALWAYS = ("fable-5", "mythos-5", "mythos-preview", "opus-5-5")
_CLAUDE_UNASKED = ("opus-5", "sonnet-5", "haiku-5-5")

# The levels of models of Google that do not have all of them.
_GEMINI_LEVELS = {"gemini-3-pro-preview": (LOW, HIGH), "gemini-3.1-flash-lite-image": (HIGH,)}


def facts_of(model: ModelRef) -> ReasoningFacts | None:
    """The facts about a model of these two providers; None for others."""
    if model.provider == "anthropic":
        return _claude(model.model.removeprefix("claude-"))
    return _gemini(model.model) if model.provider in ("gemini", "google") else None


def _claude(name: str) -> ReasoningFacts:
    by_level_only = name.startswith(_CLAUDE_BY_LEVEL_ONLY)
    by_both = name.startswith(_CLAUDE_BY_BOTH)
    off = "disabled" if name.startswith(_CLAUDE_UNASKED) else ""
    return ReasoningFacts(
        ways=(BY_LEVEL,) if by_level_only else (BY_LEVEL, BY_TOKENS) if by_both else (BY_TOKENS,),
        off="between_tools" if name.startswith("sonnet-5-5") else off,
        can_stop=not name.startswith(_CLAUDE_ALWAYS),
        hides_thoughts=by_level_only,
        takes_sampling=not by_level_only,
    )


def _gemini(name: str) -> ReasoningFacts:
    generation = re.search(r"gemini-(\d+(\.\d+)?)", name)
    number = float(generation[1]) if generation else 0.0
    is_older = name == "gemini-pro" or (generation is not None and number < 2.5)
    if is_older or "gemma" in name or name.startswith("gemini-2.5-flash-image"):
        return ReasoningFacts(ways=())
    if number == 2.5:
        return ReasoningFacts(can_stop="pro" not in name)
    levels = next((levels for start, levels in _GEMINI_LEVELS.items() if name.startswith(start)), LEVELS)
    return ReasoningFacts(ways=(BY_LEVEL,), levels=levels, can_stop=False)
