"""The conversation as an agent sees it: its own words as its own, all others in frames, marks made harmless.

Rule 1: text that is not the agent's own cannot carry a signal: known marks in it are shown as ⟦END⟧. It stands in a
frame that names who said it; the output of a tool has its own role, and cannot imitate a frame.
Rule 2: a view grows by what is new, and what is shown of it is not copied.
Rule 3: what is shown fits the window by an upper estimate: a token for every three bytes and eight for every message,
times what the provider reported beyond that. Over the window the oldest entries go until the stated share is left;
an entry too long by itself loses its middle.
Rule 5: the beginning stays. What is new is added at the end, and what goes does so in steps, each of which makes room
for many calls: a provider reads the beginning that it knows from its cache.
Rule 4: a view depends on the entries alone, not on when it was built: after a crash it is the same again.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import overload

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.crew.tokens import BYTES_PER_TOKEN, text_tokens
from interlock.engine.events import Entry
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.state import Turn, TurnMessage
from interlock.messages.frames import Frame, escape, in_frame, with_frames, within_frames, words_in_frames
from interlock.signals.matching import neutralizer, normal_form

# Tokens that role and frame add to a message.
TOKENS_PER_MESSAGE = 8

# Scales are in thousandths: 1,000 leaves the estimate unchanged.
UNSCALED = 1_000

# After a provider refuses a prompt as too long, the next try uses this share of the window.
TRIMMED_SHARE = (3, 4)

# The kinds of frames for authors that are not agents.
_KINDS = {"user": "input", "external": "answer", "system": "notice"}

LEFT_OUT = {"en": "[{count} earlier entries are left out here]", "vi": "[{count} mục trước đó được lược bỏ ở đây]"}
CUT_OUT = {"en": "[{count} characters are left out here]", "vi": "[{count} ký tự được lược bỏ ở đây]"}
MARKER_TOKENS = TOKENS_PER_MESSAGE + max(map(len, (*LEFT_OUT.values(), *CUT_OUT.values()))) // BYTES_PER_TOKEN + 8


class MessageWindow(Sequence[TurnMessage]):
    """Messages to show: a fixed beginning, a slice of a growing list, and what the turn added."""

    def __init__(
        self, head: tuple[TurnMessage, ...], body: "_View", start: int, tail: "_View", tail_start: int
    ) -> None:
        self._head = head
        self._body, self._start, self._end = body, start, len(body.messages)
        self._tail, self._tail_start, self._tail_end = tail, tail_start, len(tail.messages)

    @property
    def tokens(self) -> int:
        """The tokens of all messages."""
        shown = self._body.tokens_between(self._start, self._end)
        shown += self._tail.tokens_between(self._tail_start, self._tail_end)
        return sum(map(tokens_of, self._head)) + shown

    def __len__(self) -> int:
        return len(self._head) + self._end - self._start + self._tail_end - self._tail_start

    def __iter__(self) -> Iterator[TurnMessage]:
        body, tail = (
            self._body.messages[self._start : self._end],
            self._tail.messages[self._tail_start : self._tail_end],
        )
        return chain(self._head, body, tail)

    @overload
    def __getitem__(self, at: int) -> TurnMessage: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[TurnMessage, ...]: ...
    def __getitem__(self, at: int | slice) -> TurnMessage | tuple[TurnMessage, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # compared by content, never used as a key


class _View:
    """The messages an agent sees, with running totals of their tokens, so that none is counted twice."""

    def __init__(self, window: int = 0) -> None:
        self.window = window  # the tokens that there is room for
        self.messages: list[TurnMessage] = []
        self.tokens: list[int] = []
        self.start = 0  # entries before this, except the first, are omitted
        self.total = 0
        self.shown = 0  # the tokens of the first message, the marker and the newest messages

    def add(self, message: TurnMessage) -> None:
        cost = tokens_of(message)
        self.total += cost
        self.shown += cost
        self.messages.append(message)
        self.tokens.append(self.total)

    def tokens_from(self, start: int) -> int:
        return self.total - (self.tokens[start - 1] if start else 0)

    def tokens_between(self, start: int, end: int) -> int:
        before = self.tokens[start - 1] if start else 0
        return self.tokens[end - 1] - before if end else 0

    def leave_out(self, tokens: int) -> None:
        """Shows as many of the newest messages as fit, with the first one and the marker."""
        self.start = self.start_for(tokens)
        self.shown = self.tokens[0] + MARKER_TOKENS + self.total - self.tokens[self.start - 1]

    def start_for(self, tokens: int) -> int:
        """The start of the newest messages that fit with the first one and the marker; at least one."""
        fits = bisect_left(self.tokens, self.total + self.tokens[0] + MARKER_TOKENS - tokens) + 1
        return max(self.start, min(fits, len(self.messages) - 1), 1)


_NOTHING = _View()  # of a turn that has only begun


class _Cut(msgspec.Struct, frozen=True):
    """What is left of a turn that does not fit, up to one of its messages. It stays until the window is full again."""

    made_for: tuple[int, int, int, int]  # the turn, the history before it, scale and window
    messages: tuple[TurnMessage, ...]
    tokens: int
    said: int  # messages of the turn that it covers


class Conversation:
    """The views of one run's agents; each is extended as history grows. `texts` are shared by all runs of the crew."""

    def __init__(self, crew: CrewDefinition, table: RoutingTable, texts: PromptTexts | None = None) -> None:
        self.crew, self.table, self._texts = crew, table, texts or PromptTexts(crew, table)
        self.agents = self._texts.agents
        # The text with every known mark made harmless.
        self.neutralize_marks = neutralizer(table.is_known_mark)
        self.instructions, self.ending = self._texts.instructions, self._texts.ending
        self.typed_reply = self._texts.typed_reply
        self._views: dict[tuple[str, int], _View] = {}
        # Of each agent's newest turn and newest advisory call, with its number.
        self._turns: dict[tuple[str, bool], tuple[int, _View]] = {}
        self._cuts: dict[tuple[str, bool], _Cut] = {}

    def messages(self, history: Sequence[Entry], turn: Turn, scale: int = UNSCALED) -> Sequence[TurnMessage]:
        """The messages for the turn's agent: shared history up to the start of its turn, then the turn itself."""
        said, begun = self._turn_view(turn) if turn.said else _NOTHING, 0
        if turn.kind:  # it sees only its own task
            view, begun = self._empty_view(turn.agent, scale), 1
            view.add(said.messages[0])
        else:
            view = self._view(turn.agent, history, turn.history, scale)
        window = view.window
        total = view.shown + said.tokens_from(begun) if said is not _NOTHING else view.shown
        if turn.trimmed:
            window = min(window, total) * TRIMMED_SHARE[0] // TRIMMED_SHARE[1]
        if total > window:
            cut = self._cut(turn, scale, view, said, begun, window)
            return MessageWindow(cut.messages, _NOTHING, 0, said, cut.said)
        head = self._head(view, view.start) if view.start else ()
        return MessageWindow(head, view, view.start, said, begun)

    def estimate(self, history: Sequence[Entry], turn: Turn, scale: int = UNSCALED) -> int:
        """An upper estimate of the tokens of a call, instructions included."""
        return self.estimate_of(turn.agent, self.messages(history, turn, scale), scale)

    def estimate_of(self, agent: str, shown: Sequence[TurnMessage], scale: int = UNSCALED) -> int:
        tokens = shown.tokens if isinstance(shown, MessageWindow) else sum(map(tokens_of, shown))
        return (tokens + self._own_tokens(agent)) * scale // UNSCALED

    def _view(self, agent: str, history: Sequence[Entry], length: int, scale: int) -> _View:
        """Adds entries one by one, so that the same ones are omitted whenever the view is built."""
        view = self._views.get((agent, scale))
        if view is None or len(view.messages) > length:
            view = self._views[agent, scale] = self._empty_view(agent, scale)
        for entry in history[len(view.messages) : length]:
            view.add(self._message_of_entry(agent, entry))
            if view.shown > view.window:
                view.leave_out(int(view.window * (1 - self.crew.settings.context_trim_percent / 100)))
        return view

    def _empty_view(self, agent: str, scale: int) -> _View:
        """A view with the tokens left for messages, as estimated here."""
        whole = self.crew.settings.max_context_window * UNSCALED // scale
        return _View(window=max(0, whole - self._own_tokens(agent)))

    def _own_tokens(self, agent: str) -> int:
        """The tokens of the agent's instructions, as the message that they are."""
        return self._texts.longest(agent) + TOKENS_PER_MESSAGE

    def _message_of_entry(self, agent: str, entry: Entry) -> TurnMessage:
        if entry.author == agent:
            return TurnMessage(role="assistant", text=entry.text)
        if entry.frames:
            text = self._with_frames(entry.text, entry.frames)
        else:
            speaker = self.agents.get(entry.author)  # or a sub-crew, or an agent of another crew
            name = speaker.name if speaker else entry.author
            kind = _KINDS.get(entry.author) or ("result" if entry.author in self.crew.sub_crews else "reply")
            text = in_frame(name, kind, entry.text, self.neutralize_marks)
        return TurnMessage(role="user", text=text, author=entry.author)

    def _with_frames(self, text: str, frames: Sequence[Frame]) -> str:
        """Makes members' names at the start of lines harmless, so that no member can write as another one."""
        names = {normal_form(frame.author) for frame in frames}

        hide_names = neutralizer(lambda inner: normal_form(inner) in names)
        return with_frames(text, frames, lambda words: hide_names(self.neutralize_marks(words)), self.neutralize_marks)

    def _head(self, view: _View, start: int) -> tuple[TurnMessage, ...]:
        """The first entry, and a marker for the entries omitted after it."""
        first = view.messages[0]
        return (first, self._marker(LEFT_OUT, start - 1)) if start > 1 else (first,)

    def _marker(self, words: dict[str, str], count: int) -> TurnMessage:
        return TurnMessage(role="user", text=words[self.crew.settings.language].format(count=count))

    def _turn_view(self, turn: Turn) -> _View:
        """The messages of the turn itself."""
        place = turn.agent, bool(turn.about)
        number, view = self._turns.get(place, (0, _NOTHING))
        if number != turn.number:
            view = _View()
            self._turns[place] = turn.number, view
        for message in turn.said[len(view.messages) :]:
            view.add(self._message_by_others(message) if message.role == "tool" or message.author else message)
        return view

    def _message_by_others(self, message: TurnMessage) -> TurnMessage:
        """A tool output, a message of another agent, or a text of Interlock."""
        text = message.text
        if message.role == "tool":
            text = escape(self.neutralize_marks(text))
        elif message.author == "system":
            text = self.neutralize_marks(text)
        elif message.frames:
            text = self._with_frames(text, message.frames)
        else:  # from older rules without frames
            text = in_frame(message.author, "message", text, self.neutralize_marks)
        return msgspec.structs.replace(message, text=text, frames=())

    def _cut(self, turn: Turn, scale: int, view: _View, said: _View, begun: int, window: int) -> _Cut:
        """The newest cut of a turn that does not fit. Its rounds are added one by one, as they were first shown."""
        place, length = (turn.agent, bool(turn.about)), len(said.messages)
        made_for = (turn.number, turn.history, scale, window)
        cut = self._cuts.get(place)
        if cut is not None and cut.made_for != made_for:
            cut = None
        left = window
        if not turn.trimmed:  # a prompt that the provider refused has had its step
            left = int(window * (1 - self.crew.settings.context_trim_percent / 100))
        for n in range(begun if cut is None else cut.said + 1, length + 1):
            if n < length and said.messages[n].role == "tool":  # the round is not complete
                continue
            if cut is None:
                shown = view.shown + said.tokens_between(begun, n)
            else:
                shown = cut.tokens + said.tokens_between(cut.said, n)
            if shown > window:
                # What was said before the turn has its own steps.
                kept = self._fit_to_window(view, said.messages[:n], begun, window, left if n > begun else window)
                cut = _Cut(made_for, kept, sum(map(tokens_of, kept)), n)
        assert cut is not None, "all of it is more than the window"
        self._cuts[place] = cut
        return cut

    def _fit_to_window(
        self, view: _View, said: Sequence[TurnMessage], begun: int, window: int, left: int
    ) -> tuple[TurnMessage, ...]:
        """Shortens the messages to `left` tokens: the oldest are dropped, and one that is too long loses its middle.

        The first message is cut by the window alone, so that it stays as it is in the next step.
        """
        whole, is_alone = window - MARKER_TOKENS, len(view.messages) == 1 and len(said) == begun
        first = self._clip_message(view.messages[0], whole if is_alone else whole // 4)
        left -= MARKER_TOKENS + tokens_of(first)
        share = 2 if len(view.messages) > 1 else 1
        rest, dropped = self._newest_rounds(said, begun, left // share)
        if not rest and len(said) > begun:  # a step that leaves nothing of the turn is too large
            left = whole - tokens_of(first)
            rest, dropped = self._newest_rounds(said, begun, left // share)
        left -= sum(map(tokens_of, rest))
        newest: list[TurnMessage] = []
        start = len(view.messages)
        if start > 1:  # the text the agent is asked to answer
            newest.append(self._clip_message(view.messages[-1], left))
            start, left = start - 1, left - tokens_of(newest[0])
        while start > 1 and (cost := tokens_of(view.messages[start - 1])) <= left:
            newest.insert(0, view.messages[start - 1])
            start, left = start - 1, left - cost
        missing = start - 1 + dropped
        marker = (self._marker(LEFT_OUT, missing),) if missing else ()
        return (first, *marker, *newest, *rest)

    def _newest_rounds(self, said: Sequence[TurnMessage], begun: int, tokens: int) -> tuple[list[TurnMessage], int]:
        """The whole rounds that fit, so that no output is without its call, and the number of omitted messages."""
        newest: deque[TurnMessage] = deque()
        left, start = tokens, len(said)
        while start > begun:
            message = self._clip_message(said[start - 1], tokens // 4)
            left -= tokens_of(message)
            if left < 0:
                break
            newest.appendleft(message)
            start -= 1
        while newest and newest[0].role == "tool":
            newest.popleft()
            start += 1
        return list(newest), start - begun

    def _clip_message(self, message: TurnMessage, tokens: int) -> TurnMessage:
        if tokens_of(message) <= tokens:
            return message
        framed_ones = words_in_frames(message.text) if message.role == "user" else []
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


def tokens_of(message: TurnMessage) -> int:
    """An upper estimate of a message's tokens."""
    tokens = text_tokens(message.text) + TOKENS_PER_MESSAGE
    if message.tool_calls:
        calls = message.tool_calls
        tokens += sum(text_tokens(call.name) + text_tokens(call.arguments) + TOKENS_PER_MESSAGE for call in calls)
        tokens += sum(text_tokens(block.text) + text_tokens(block.data) for block in message.reasoning)
    return tokens
