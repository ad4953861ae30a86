"""The text that Interlock itself adds to conversations, in the crew's language."""

from collections.abc import Sequence

from interlock.crew.definition import Crew
from interlock.engine.routing import Decision

_NUDGE = {
    "en": {
        "no_signal": "Your reply carries no signal. Repeat it and end it with one of: {marks}",
        "conflict": "The signals of your reply contradict each other. Repeat it and end it with one of: {marks}",
    },
    "vi": {
        "no_signal": "Câu trả lời không có tín hiệu. Hãy trả lời lại và kết thúc bằng một trong: {marks}",
        "conflict": "Các tín hiệu mâu thuẫn nhau. Hãy trả lời lại và kết thúc bằng một trong: {marks}",
    },
}


def nudge(crew: Crew, agent: str, decision: Decision) -> str:
    """Asks an agent again, naming the marks it may use."""
    routes = crew.routes.get(agent, ())
    marks = ", ".join(route.signal for route in routes if not route.is_tell and not route.acknowledges)
    return _NUDGE[crew.settings.language][decision.because].format(marks=marks)


def cut(text: str, most: int) -> str:
    """At most so many characters, and a mark where something is missing."""
    return text if len(text) <= most else f"{text[:most]}\n[cut: {len(text) - most} more characters]"


def merged(replies: Sequence[tuple[str, str]]) -> str:
    """What the members of a group said, one line each, in file order."""
    return "\n".join(f"[{name}] {reply}" for name, reply in replies)
