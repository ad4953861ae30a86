"""What an agent sees of a run: its own words as its own, everybody else's with their names, marks made harmless.

Rule 1: text that is not the agent's own cannot carry a signal: known marks in it are shown as ⟦END⟧.
Rule 2: a view grows by what is new; only when it no longer fits the window is it made anew.
"""

import re
from collections.abc import Iterable, Sequence

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


class Conversation:
    """The views of one run's agents, each built on as history grows."""

    def __init__(self, crew: Crew, table: RoutingTable) -> None:
        self.crew, self.table = crew, table
        self._agents = {agent.id: agent for agent in crew.agents}
        self._views: dict[str, list[Message]] = {}

    def messages(self, history: Sequence[Entry], turn: Turn) -> tuple[Message, ...]:
        """What the turn's agent is shown: shared history up to where its turn began, then the turn itself."""
        view = self._views.setdefault(turn.agent, [])
        del view[turn.history :]
        view += [self._seen(turn.agent, entry) for entry in history[len(view) : turn.history]]
        return self._fitting([*view, *turn.said])

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

    def _fitting(self, messages: list[Message]) -> tuple[Message, ...]:
        window = self.crew.settings.max_context_window
        if _tokens(messages) <= window:
            return tuple(messages)
        left = int(window * (1 - self.crew.settings.context_trim_percent / 100))
        kept = _newest(messages[1:], left - _tokens(messages[:1]))
        count = len(messages) - 1 - len(kept)
        marker = Message(role="user", text=LEFT_OUT[self.crew.settings.language].format(count=count))
        return (messages[0], marker, *kept)


def _newest(messages: Sequence[Message], tokens: int) -> list[Message]:
    """As many of the newest as fit; a tool's output never without the call it answers."""
    start = len(messages)
    while start and (tokens := tokens - _tokens([messages[start - 1]])) >= 0:
        start -= 1
    while start < len(messages) and messages[start].role == "tool":
        start += 1
    return list(messages[start:])


def _tokens(messages: Iterable[Message]) -> int:
    """An upper estimate."""
    return sum(
        len(message.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN
        + sum(len(call.arguments) // BYTES_PER_TOKEN for call in message.tool_calls)
        + TOKENS_PER_MESSAGE
        for message in messages
    )
