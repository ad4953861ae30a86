"""What an agent sees of a run: its own words as its own, everybody else's with their names, marks made harmless.

Rule 1: text that is not the agent's own cannot carry a signal: known marks in it are shown as ⟦END⟧.
Rule 2: a view grows by what is new; only when it no longer fits the window is it made anew.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from interlock.crew.definition import Agent, Crew
from interlock.engine.events import Entry
from interlock.engine.routing import RoutingTable
from interlock.engine.state import Message, Turn
from interlock.limits import MARK_CHARS_MAX

# A token is rarely shorter than three bytes; taking it so keeps the estimate on the safe side.
BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 8

_BRACKETS = re.compile(rf"\[([^\[\]]{{1,{MARK_CHARS_MAX - 2}}})\]")
_FIELD = re.compile(r"\{\{[ \t]*\.?(name|role|description|backstory)[ \t]*\}\}")

LEFT_OUT = {"en": "[{count} earlier entries are left out here]", "vi": "[{count} mục trước đó được lược bỏ ở đây]"}


class _View(msgspec.Struct):
    """What an agent is shown, and how many tokens that is up to and with each message: never counted twice."""

    messages: list[Message] = []
    tokens: list[int] = []

    def keep(self, count: int) -> None:
        del self.messages[count:], self.tokens[count:]

    def add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.messages.append(message)
            self.tokens.append(_tokens(message) + (self.tokens[-1] if self.tokens else 0))

    def followed_by(self, messages: Sequence[Message]) -> "_View":
        if not messages:
            return self
        longer = _View(self.messages.copy(), self.tokens.copy())
        longer.add(messages)
        return longer


class Conversation:
    """The views of one run's agents, each built on as history grows."""

    def __init__(self, crew: Crew, table: RoutingTable) -> None:
        self.crew, self.table = crew, table
        self._agents = {agent.id: agent for agent in crew.agents}
        self._views: dict[str, _View] = {}

    def messages(self, history: Sequence[Entry], turn: Turn) -> tuple[Message, ...]:
        """What the turn's agent is shown: shared history up to where its turn began, then the turn itself."""
        view = self._views.setdefault(turn.agent, _View())
        view.keep(turn.history)
        view.add(self._seen(turn.agent, entry) for entry in history[len(view.messages) : turn.history])
        return self._fitting(view.followed_by(turn.said))

    def instructions(self, agent_id: str) -> str:
        """The agent's prompt with its fields filled, in one pass: values are never looked at again."""
        agent = self._agents[agent_id]
        return _FIELD.sub(lambda field: str(getattr(agent, field[1])), agent.system_prompt)

    def _seen(self, agent: str, entry: Entry) -> Message:
        if entry.author == agent:
            return Message(role="assistant", text=entry.text)
        text = self.harmless(entry.text)
        speaker: Agent | None = self._agents.get(entry.author)
        return Message(role="user", text=f"{speaker.name}:\n{text}" if speaker else text)

    def harmless(self, text: str) -> str:
        """The text with every mark the crew knows shown so that an echo of it steers nothing."""
        return _BRACKETS.sub(lambda mark: f"⟦{mark[1]}⟧" if self.table.knows(mark[1]) else mark[0], text)

    def _fitting(self, view: _View) -> tuple[Message, ...]:
        window, messages = self.crew.settings.max_context_window, view.messages
        if not messages or view.tokens[-1] <= window:
            return tuple(messages)
        left = int(window * (1 - self.crew.settings.context_trim_percent / 100))
        start = _start_of_newest(view, left - view.tokens[0])
        marker = Message(role="user", text=LEFT_OUT[self.crew.settings.language].format(count=start - 1))
        return (messages[0], marker, *messages[start:])


def _start_of_newest(view: _View, tokens: int) -> int:
    """As many of the newest as fit, the first never among them; a tool's output never without the call it answers."""
    messages = view.messages
    start = min(bisect_left(view.tokens, view.tokens[-1] - tokens) + 1, len(messages))
    while start < len(messages) and messages[start].role == "tool":
        start += 1
    return start


def _tokens(message: Message) -> int:
    """An upper estimate."""
    return (
        len(message.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN
        + sum(len(call.arguments) // BYTES_PER_TOKEN for call in message.tool_calls)
        + TOKENS_PER_MESSAGE
    )
