"""What is known about OpenAI's own models, by their names: what they reason, and which API they speak.

Rule 1: it is as of `KNOWN_ON`; a model that no row fits is called as it is asked for, and OpenAI tells if it cannot.
Rule 2: the first row that fits counts. A row fits a name with or without a date at its end.
"""

import re
from functools import cache

import msgspec

KNOWN_ON = "2026-09-08"

OFF, LOW, MEDIUM, HIGH = "off", "low", "medium", "high"
LEVELS = (LOW, MEDIUM, HIGH)


class OpenAIModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one model."""

    reasoning: tuple[str, ...] = (OFF, *LEVELS)  # what can be asked for; empty if it does not reason at all
    responses_only: bool = False
    # Chat completions refuse its tools while it reasons.
    reasons_without_tools: bool = False
    reasons_unasked: bool = True  # without `reasoning` it does reason

    takes_stop: bool = False  # reasoning models refuse `stop`

    @property
    def can_reason(self) -> bool:
        return bool(self.reasoning)


UNKNOWN_MODEL = OpenAIModelFacts(takes_stop=True)

_DATE = r"(-[0-9]{4}-[0-9]{2}-[0-9]{2})?"
_ROWS = (
    (r"o[13]-pro", OpenAIModelFacts(reasoning=LEVELS, responses_only=True)),
    (r"o[0-9]+(-mini)?-deep-research", OpenAIModelFacts(reasoning=(MEDIUM,), responses_only=True)),
    (r"computer-use-preview", OpenAIModelFacts(reasoning=LEVELS, responses_only=True)),
    (r"codex-mini-latest", OpenAIModelFacts(reasoning=LEVELS, responses_only=True)),
    (r"gpt-5-pro", OpenAIModelFacts(reasoning=(HIGH,), responses_only=True)),
    (r"gpt-5\.[0-9]+-pro", OpenAIModelFacts(reasoning=(MEDIUM, HIGH), responses_only=True)),
    (r"gpt-5(\.[0-9]+)?-codex(-[a-z]+)?", OpenAIModelFacts(reasoning=LEVELS, responses_only=True)),
    (r"gpt-5(\.[0-9]+)?-chat-latest", OpenAIModelFacts(reasoning=(), takes_stop=True)),
    (r"o[134](-mini|-preview)?", OpenAIModelFacts(reasoning=LEVELS)),
    (r"gpt-5(-mini|-nano)?", OpenAIModelFacts(reasoning=LEVELS)),
    (r"gpt-5\.[123](-[a-z]+)?", OpenAIModelFacts(reasons_unasked=False)),
    (r"gpt-5\.4(-[a-z]+)?", OpenAIModelFacts(reasons_without_tools=True, reasons_unasked=False)),
    (r"gpt-5\.[0-9]+(-[a-z]+)?", OpenAIModelFacts(reasons_without_tools=True)),
    (r"(gpt-[34]|chatgpt-).*", OpenAIModelFacts(reasoning=(), takes_stop=True)),
)


@cache
def openai_model_facts(name: str) -> OpenAIModelFacts:
    return next((facts for names, facts in _ROWS if re.fullmatch(f"{names}{_DATE}", name)), UNKNOWN_MODEL)
