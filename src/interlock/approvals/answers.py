"""What a person answers when a tool call needs approval.

`yes`, `no` (also `no: REASON`), a JSON object with other arguments, `for this run` and `always`. The last two may name
the calls that they hold for: `always: pay:amount <= 50`.

Rule 1: an answer that is none of these is not understood, and the question is asked again.
Rule 2: changed arguments hold once.
"""

from enum import StrEnum

import msgspec

from interlock.approvals.patterns import BadCallPattern, parse_pattern
from interlock.approvals.standing import is_pattern_for
from interlock.messages.reading import read_json

YES, NO = ("yes", "y", "ok"), ("no", "n")


class HoldsFor(StrEnum):
    """How long a yes holds."""

    ONCE = "once"
    RUN = "for this run"
    ALWAYS = "always"


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was understood. `arguments` are JSON, to use instead; `pattern` is as the person wrote it."""

    is_yes: bool
    reason: str = ""
    arguments: str = ""
    holds: HoldsFor = HoldsFor.ONCE
    pattern: str = ""


def read_approval_answer(text: str) -> ApprovalAnswer | None:
    """The answer, or None if it is not understood."""
    word, colon, rest = (part.strip() for part in text.strip().partition(":"))
    word = " ".join(word.lower().split())
    if word in NO:
        return ApprovalAnswer(is_yes=False, reason=rest)
    if word in YES and not rest:
        return ApprovalAnswer(is_yes=True)
    if word in (HoldsFor.RUN, HoldsFor.ALWAYS) and bool(colon) == bool(rest):
        return ApprovalAnswer(is_yes=True, holds=HoldsFor(word), pattern=rest)
    arguments = _arguments_in(text)
    return ApprovalAnswer(is_yes=True, arguments=arguments) if arguments is not None else None


def asks_to_hold(text: str) -> bool:
    """Whether an answer wants to hold for more than one call: it needs the right to approve."""
    answer = read_approval_answer(text)
    return answer is not None and answer.holds is not HoldsFor.ONCE


def fault_in_pattern(pattern: str, tool: str, arguments: str) -> str:
    """Why an answer cannot hold for the calls of a pattern; empty if it can."""
    if not pattern:
        return f"say for which calls that holds, such as 'always: {tool}:argument = value', or answer yes"
    try:
        parsed = parse_pattern(pattern)
    except BadCallPattern as error:
        return str(error)
    if parsed.tool != tool:
        return f"the pattern must begin with '{tool}', the tool of this call"
    return "" if is_pattern_for(parsed, tool, arguments) else f"the pattern '{pattern}' does not fit this call"


def _arguments_in(answer: str) -> str | None:
    try:
        given = read_json(answer)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return msgspec.json.encode(given, order="deterministic").decode() if isinstance(given, dict) else None
