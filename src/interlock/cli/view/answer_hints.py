"""Accepted answers for each kind of wait, and the command that sends one."""

import msgspec

from interlock.engine.turns.approvals import APPROVAL, NOT_UNDERSTOOD
from interlock.messages.reading import duplicate_key, read_json

# The tool may or may not have run.
UNKNOWN_OUTCOME = "tool_unknown_outcome"


def answer_hint(reason: str, agent: str, expects: str = "") -> str:
    """The accepted answers to a wait, in words."""
    kind, _, name = reason.partition(":")
    if reason == APPROVAL:
        return "yes, no, 'no: REASON', for this run, always, or a JSON object with other arguments"
    if reason == UNKNOWN_OUTCOME:
        return "retry, fail, or the text to use as the tool's output"
    if kind == "held":
        return f"yes follows {name}; any other text goes to {agent} instead"
    if kind == "external":
        return f"the answer of {name}: text or JSON, shown to {agent}"
    return expects or f"any text; {agent} reads it"


def answer_lines(command: str, reason: str, agent: str, expects: str = "") -> list[str]:
    """Lines that explain how to answer a wait; the answer is appended to `command`."""
    if reason == APPROVAL:
        longer = f"for longer: {command} 'for this run' (or always)"
        other = f"other arguments: {command} JSON"
        return [f"approve: {command} yes", f"reject:  {command} no", longer, other]
    return [f"accepted: {answer_hint(reason, agent, expects)}", f"answer with: {command} TEXT"]


def approval_text(question: str) -> str:
    """`agent → tool(name=value)` for the question of an approval; other questions are returned unchanged.

    Values are as the model wrote them. A name that is not an identifier could imitate another argument; of a
    duplicate name only one value would be seen.
    """
    who, is_approval, rest = question.partition(" wants to use ")
    tool, _, call = rest.partition(" with ")
    arguments, _, why = call.rpartition("\n(") if call.endswith(")") else (call, "", "")
    written = arguments or call
    if not is_approval or " " in who + tool:
        return question
    try:
        named = read_json(written, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError):
        return question
    if duplicate_key(written) is not None or not all(name.isidentifier() for name in named):
        return question
    values = ", ".join(f"{name}={bytes(raw).decode()}" for name, raw in named.items())
    reason = why.removesuffix(")").replace(NOT_UNDERSTOOD, "please answer yes, no, or JSON arguments")
    return f"{who} → {tool}({values})" + (f"\n({reason})" if why else "")
