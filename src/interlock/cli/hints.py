"""What a person may answer to each kind of wait, and the command that answers it."""

from interlock.engine.approving import APPROVAL

# A wait of which nobody knows whether its tool did its work.
UNKNOWN_OUTCOME = "tool_unknown_outcome"


def accepted_answer(reason: str, agent: str, expects: str = "") -> str:
    """What an answer to this wait may be, in words."""
    kind, _, name = reason.partition(":")
    if reason == APPROVAL:
        return "yes, no, 'no: REASON', or a JSON object with other arguments"
    if reason == UNKNOWN_OUTCOME:
        return "retry, fail, or the text to use as the tool's output"
    if kind == "held":
        return f"yes follows {name}; any other text is said to {agent} instead"
    if kind == "external":
        return f"the answer of {name}: text or JSON, shown to {agent}"
    return expects or f"any text; {agent} reads it"


def answer_lines(command: str, reason: str, agent: str, expects: str = "") -> list[str]:
    """How to answer a wait; `command` ends where the answer belongs."""
    if reason == APPROVAL:
        other = f"other arguments: {command} JSON"
        return [f"approve: {command} yes", f"reject:  {command} no", other]
    return [f"accepted: {accepted_answer(reason, agent, expects)}", f"answer with: {command} TEXT"]
