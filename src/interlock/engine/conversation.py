"""What an agent sees of a run: its own words as its own, everybody else's in frames, marks made harmless.

Rule 1: text that is not the agent's own cannot carry a signal: known marks in it are shown as ⟦END⟧. It stands in a
frame that names who said it; the output of a tool stands in a role of its own, and can only not imitate a frame.
Rule 2: a view grows by what is new, and what is shown of it is not copied.
Rule 3: what is shown fits the window by an upper estimate: a token for every three bytes and eight for every message,
times what the provider reported beyond that. Over the window the oldest entries go until the stated share is left;
an entry too long by itself loses its middle.
Rule 4: a view depends on the entries alone, not on when it was built: after a crash it is the same again.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import overload

import msgspec

from interlock.crew.definition import Agent, Crew
from interlock.crew.templates import filled_prompt
from interlock.crew.tokens import BYTES_PER_TOKEN, text_tokens
from interlock.engine.contract import contract
from interlock.engine.events import Entry
from interlock.engine.grammar import Ending, ending_of
from interlock.engine.phrases import briefing, frames_explained
from interlock.engine.routing import RoutingTable
from interlock.engine.standing import parent_of
from interlock.engine.state import Message, Turn
from interlock.engine.transition import TASK
from interlock.frames import Frame, escape, framed_words, in_frame, with_frames, within_frames
from interlock.limits import MARK_CHARS_MAX
from interlock.signals.matching import normalized

# What the roles and the frame of a message add to its text.
TOKENS_PER_MESSAGE = 8

# Scales are in thousandths: 1,000 is the estimate as it stands.
UNSCALED = 1_000

# What a provider refuses as too long is asked for once more with this share of the window.
TRIMMED_SHARE = (3, 4)

_BRACKETS = re.compile(rf"\[([^\[\]]{{1,{MARK_CHARS_MAX - 2}}})\]")

# What the words of those are who are no agents, in their frames.
_KINDS = {"user": "input", "external": "answer", "system": "notice"}

LEFT_OUT = {"en": "[{count} earlier entries are left out here]", "vi": "[{count} mục trước đó được lược bỏ ở đây]"}
CUT_OUT = {"en": "[{count} characters are left out here]", "vi": "[{count} ký tự được lược bỏ ở đây]"}
MARKER_TOKENS = TOKENS_PER_MESSAGE + max(map(len, (*LEFT_OUT.values(), *CUT_OUT.values()))) // BYTES_PER_TOKEN + 8


class Shown(Sequence[Message]):
    """Messages to show: some to begin with, a stretch of a growing list, and what the turn itself added."""

    def __init__(self, head: tuple[Message, ...], body: "_View", start: int, tail: "_View", tail_start: int) -> None:
        self._head, self._body, self._tail = head, body.messages, tail.messages
        self._stretch, self._tail_stretch = slice(start, len(body.messages)), slice(tail_start, len(tail.messages))
        self._views = body, tail

    @property
    def tokens(self) -> int:
        """Of all that is shown."""
        body, tail = self._views
        shown = body.tokens_between(self._stretch) + tail.tokens_between(self._tail_stretch)
        return sum(map(tokens_of, self._head)) + shown

    def __len__(self) -> int:
        stretches = (self._stretch, self._tail_stretch)
        return len(self._head) + sum(stretch.stop - stretch.start for stretch in stretches)

    def __iter__(self) -> Iterator[Message]:
        return chain(self._head, self._body[self._stretch], self._tail[self._tail_stretch])

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, at: int | slice) -> Message | tuple[Message, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it is compared by what it shows, and nobody keeps it


class _View(msgspec.Struct):
    """What an agent is shown, and how many tokens that is up to and with each message: never counted twice."""

    messages: list[Message] = []
    tokens: list[int] = []
    start: int = 0  # up to here, but for the first, entries are left out
    shown: int = 0  # the tokens of the first message, the marker and the newest

    def add(self, message: Message) -> None:
        cost = tokens_of(message)
        self.messages.append(message)
        self.tokens.append(cost + (self.tokens[-1] if self.tokens else 0))
        self.shown += cost

    def tokens_from(self, start: int) -> int:
        whole = self.tokens[-1] if self.tokens else 0
        return whole - (self.tokens[start - 1] if start else 0)

    def tokens_between(self, stretch: slice) -> int:
        before = self.tokens[stretch.start - 1] if stretch.start else 0
        return self.tokens[stretch.stop - 1] - before if stretch.stop else 0

    def leave_out(self, tokens: int) -> None:
        """Shows as many of the newest as fit into so many tokens beside the first and the marker."""
        self.start = self.start_for(tokens)
        self.shown = self.tokens[0] + MARKER_TOKENS + self.tokens[-1] - self.tokens[self.start - 1]

    def start_for(self, tokens: int) -> int:
        """Where as many of the newest begin as fit beside the first and the marker, but at least one."""
        fits = bisect_left(self.tokens, self.tokens[-1] + self.tokens[0] + MARKER_TOKENS - tokens) + 1
        return max(self.start, min(fits, len(self.messages) - 1), 1)


class Conversation:
    """The views of one run's agents, each built on as history grows."""

    def __init__(self, crew: Crew, table: RoutingTable) -> None:
        self.crew, self.table = crew, table
        self._agents = {agent.id: agent for agent in crew.agents}
        self._views: dict[tuple[str, int], _View] = {}
        # Of each agent's newest turn and newest errand, with its number.
        self._turns: dict[tuple[str, bool], tuple[int, _View]] = {}
        self._instructions: dict[tuple[str, str], str] = {}
        self._endings: dict[tuple[str, str], Ending | None] = {}
        self._own: dict[str, int] = {}
        self._windows: dict[tuple[str, int], int] = {}

    def agent(self, agent_id: str) -> Agent:
        return self._agents[agent_id]

    def messages(self, history: Sequence[Entry], turn: Turn, scale: int = UNSCALED) -> Sequence[Message]:
        """What the turn's agent is shown: shared history up to where its turn began, then the turn itself."""
        view = self._view(turn.agent, history, turn.history, scale) if not turn.kind else _View()
        window, said, begun = self._window(turn.agent, scale), self._said(turn), 0
        if turn.kind:  # it sees its own task alone, and that is what it begins with
            view.add(said.messages[0])
            begun = 1
        total = view.shown + said.tokens_from(begun)
        if turn.trimmed:
            window = min(window, total) * TRIMMED_SHARE[0] // TRIMMED_SHARE[1]
        if total > window:
            return self._squeezed(view, said.messages, begun, window)
        return Shown(self._head(view, view.start), view, view.start, said, begun)

    def estimate(self, history: Sequence[Entry], turn: Turn, scale: int = UNSCALED) -> int:
        """An upper estimate of the tokens that a call would show, instructions included."""
        return self.estimate_of(turn.agent, self.messages(history, turn, scale), scale)

    def estimate_of(self, agent: str, shown: Sequence[Message], scale: int = UNSCALED) -> int:
        tokens = shown.tokens if isinstance(shown, Shown) else sum(map(tokens_of, shown))
        return (tokens + self._own_tokens(agent)) * scale // UNSCALED

    def instructions(self, agent_id: str, group: str = "") -> str:
        """The agent's prompt with its fields filled, in one pass: values are never looked at again. Then its contract.

        A member of a group at work has another contract than the agent with the floor.
        """
        if (agent_id, group) not in self._instructions:
            agent = self._agents[agent_id]
            filled = filled_prompt(agent.system_prompt, agent)
            parts = (filled.rstrip(), frames_explained(self.crew), contract(self.table, agent, group))
            self._instructions[agent_id, group] = "\n\n".join(part for part in parts if part)
        return self._instructions[agent_id, group]

    def instructions_of(self, turn: Turn, group: str = "") -> str:
        """Of a turn: who works on a task or an errand has another contract than who has the floor."""
        if not turn.kind:
            return self.instructions(turn.agent, group)
        agent = self._agents[turn.agent]
        rules = briefing(self.crew, turn.kind, parent_of(self.crew, turn.agent))
        if turn.kind != TASK:
            return rules
        filled = filled_prompt(agent.system_prompt, agent)
        return "\n\n".join((filled.rstrip(), frames_explained(self.crew), rules)).strip()

    def ending_of(self, turn: Turn, group: str = "") -> Ending | None:
        return self.ending(turn.agent, group) if not turn.kind else None

    def ending(self, agent_id: str, group: str = "") -> Ending | None:
        """How a reply must end, where the crew constrains replies."""
        if (agent_id, group) not in self._endings:
            self._endings[agent_id, group] = ending_of(self.crew, agent_id, group)
        return self._endings[agent_id, group]

    def harmless(self, text: str) -> str:
        """The text with every mark the crew knows shown so that an echo of it steers nothing."""
        return _BRACKETS.sub(lambda mark: f"⟦{mark[1]}⟧" if self.table.knows(mark[1]) else mark[0], text)

    def _view(self, agent: str, history: Sequence[Entry], length: int, scale: int) -> _View:
        """Entry by entry, so that what is left out is the same whenever the view is made."""
        view = self._views.get((agent, scale))
        if view is None or len(view.messages) > length:
            view = self._views[agent, scale] = _View()
        if len(view.messages) < length:
            window = self._window(agent, scale)
            for entry in history[len(view.messages) : length]:
                view.add(self._seen(agent, entry))
                if view.shown > window:
                    view.leave_out(int(window * (1 - self.crew.settings.context_trim_percent / 100)))
        return view

    def _window(self, agent: str, scale: int) -> int:
        """What is left for messages, in tokens as they are estimated here."""
        window = self._windows.get((agent, scale))
        if window is None:
            whole = self.crew.settings.max_context_window * UNSCALED // scale
            window = self._windows[agent, scale] = max(0, whole - self._own_tokens(agent))
        return window

    def _own_tokens(self, agent: str) -> int:
        """Of the longest of its instructions, with the floor or as a member."""
        if agent not in self._own:
            groups = [group.name for group in self.crew.groups.values() if agent in group.agents]
            longest = max(text_tokens(self.instructions(agent, group)) for group in ("", *groups))
            if self.crew.delegation is not None:
                longest += text_tokens(briefing(self.crew, TASK, parent_of(self.crew, agent)))
            self._own[agent] = longest + TOKENS_PER_MESSAGE
        return self._own[agent]

    def _seen(self, agent: str, entry: Entry) -> Message:
        if entry.author == agent:
            return Message(role="assistant", text=entry.text)
        if entry.frames:
            text = self._with_frames(entry.text, entry.frames)
        else:
            speaker = self._agents.get(entry.author)  # or a sub-crew, or an agent of another crew
            name = speaker.name if speaker else entry.author
            text = in_frame(name, self._kind(entry.author), self.harmless(entry.text))
        return Message(role="user", text=text, author=entry.author)

    def _kind(self, author: str) -> str:
        return _KINDS.get(author) or ("result" if author in self.crew.sub_crews else "reply")

    def _with_frames(self, text: str, frames: Sequence[Frame]) -> str:
        """No member can begin a line as another one: the names of all of them are shown as marks are."""
        names = {normalized(frame.author) for frame in frames}

        def show(words: str) -> str:
            return _BRACKETS.sub(lambda mark: f"⟦{mark[1]}⟧" if normalized(mark[1]) in names else mark[0], words)

        return with_frames(text, frames, lambda words: show(self.harmless(words)), self.harmless)

    def _head(self, view: _View, start: int) -> tuple[Message, ...]:
        """The first entry, and a word on what is missing after it."""
        if start == 0:
            return ()
        first = view.messages[0]
        return (first, self._marker(LEFT_OUT, start - 1)) if start > 1 else (first,)

    def _marker(self, words: dict[str, str], count: int) -> Message:
        return Message(role="user", text=words[self.crew.settings.language].format(count=count))

    def _said(self, turn: Turn) -> _View:
        """What happened within the turn."""
        place = turn.agent, bool(turn.about)
        number, view = self._turns.get(place, (0, _View()))
        if number != turn.number:
            view = _View()
            self._turns[place] = turn.number, view
        for message in turn.said[len(view.messages) :]:
            view.add(self._said_by_others(message) if message.role == "tool" or message.author else message)
        return view

    def _said_by_others(self, message: Message) -> Message:
        """Outputs of tools, mail, and Interlock's own words about them."""
        text = message.text
        if message.role == "tool":
            text = escape(self.harmless(text))
        elif message.author == "system":
            text = self.harmless(text)
        elif message.frames:
            text = self._with_frames(text, message.frames)
        else:  # from a snapshot of rules that kept no frames
            text = in_frame(message.author, "message", self.harmless(text))
        return msgspec.structs.replace(message, text=text, frames=())

    def _squeezed(self, view: _View, said: Sequence[Message], begun: int, window: int) -> tuple[Message, ...]:
        """For one call alone: the oldest go first, and what is too long by itself loses its middle."""
        left, is_alone = window - MARKER_TOKENS, len(view.messages) == 1 and len(said) == begun
        first = self._clipped(view.messages[0], left if is_alone else left // 4)
        left -= tokens_of(first)
        rest, dropped = self._newest_rounds(said, begun, left // 2 if len(view.messages) > 1 else left)
        left -= sum(map(tokens_of, rest))
        newest: list[Message] = []
        start = len(view.messages)
        if start > 1:  # what the agent is asked to answer
            newest.append(self._clipped(view.messages[-1], left))
            start, left = start - 1, left - tokens_of(newest[0])
        while start > 1 and (cost := tokens_of(view.messages[start - 1])) <= left:
            newest.insert(0, view.messages[start - 1])
            start, left = start - 1, left - cost
        missing = start - 1 + dropped
        marker = (self._marker(LEFT_OUT, missing),) if missing else ()
        return (first, *marker, *newest, *rest)

    def _newest_rounds(self, said: Sequence[Message], begun: int, tokens: int) -> tuple[list[Message], int]:
        """As many as fit, whole: an output never stands without its call. And how many messages that leaves out."""
        newest: deque[Message] = deque()
        left, start = tokens, len(said)
        while start > begun:
            message = self._clipped(said[start - 1], tokens // 4)
            left -= tokens_of(message)
            if left < 0:
                break
            newest.appendleft(message)
            start -= 1
        while newest and newest[0].role == "tool":
            newest.popleft()
            start += 1
        return list(newest), start - begun

    def _clipped(self, message: Message, tokens: int) -> Message:
        if tokens_of(message) <= tokens:
            return message
        framed_ones = framed_words(message.text) if message.role == "user" else []
        if framed_ones:  # the frames stay whole
            around = tokens_of(message) - sum(map(text_tokens, framed_ones))
            share = (tokens - around) // len(framed_ones)
            text = within_frames(message.text, lambda words: self._without_middle(words, share))
        else:
            text = self._without_middle(message.text, tokens)
        return msgspec.structs.replace(message, text=text)

    def _without_middle(self, words: str, tokens: int) -> str:
        if text_tokens(words) <= tokens:
            return words
        half = max(0, tokens - MARKER_TOKENS) * BYTES_PER_TOKEN // 2
        data = words.encode("utf-8", "replace")
        begin, end = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
        missing = len(words) - len(begin) - len(end)
        text = f"{begin}\n{self._marker(CUT_OUT, missing).text}\n{end}"
        return text if len(text) < len(words) else words


def tokens_of(message: Message) -> int:
    """An upper estimate."""
    tokens = text_tokens(message.text) + TOKENS_PER_MESSAGE
    if message.tool_calls:
        calls = message.tool_calls
        tokens += sum(text_tokens(call.name) + text_tokens(call.arguments) + TOKENS_PER_MESSAGE for call in calls)
    return tokens
