"""Watchers of runs: they get events after their record is stored; pieces of replies and progress as they arrive.

Rule 1: the first piece of a reply is sent at once. Those that follow are sent together, once in each frame: the cost of
a watcher grows with time, not with pieces.
Rule 2: a frame of a reply ends early with the reply, and with what else its run sends: the order stays.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from interlock.engine.budgets.inherited_limits import UNBOUNDED
from interlock.engine.effects import CallModel, RunTool
from interlock.engine.events import (
    NO_CONTEXT,
    NO_NEEDS,
    ApprovalNeeded,
    BroadcastEmitted,
    Event,
    HooksDecided,
    InputGiven,
    ModelReplied,
    Nudged,
    ReasoningBlock,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from interlock.engine.to_plain import to_plain
from interlock.ids import parent_of
from interlock.ports import Deltas, Record, RunDelta
from interlock.runtime.live_run import LiveRun
from interlock.runtime.timers import Timers

# A watcher that lags this far behind misses events, and reads them in the journal.
QUEUE_MAX = 10_000

# Pieces within this time are sent together; a person sees no difference. One timer serves all replies.
FRAME_MS = 30
FRAME_TIMER = "frames of replies"

# The kinds of pieces.
TEXT, REASONING = "model.delta", "reasoning.delta"

PublicEvent = dict[str, Any]


def public_events(run: str, record: Record) -> Iterator[PublicEvent]:
    """The events of a record in their public form."""
    for n, event in enumerate(record.events):
        yield {"run": run, "seq": record.seq + n, "at": record.at, **_as_public(event, record.at)}


_OMITTED_DEFAULTS = {
    "context": NO_CONTEXT, "bounds": UNBOUNDED, "calls": {}, "entry": "", "heard": None, "delivery": 0, "hops": 0,
    "way": [], "messages": (), "by": "", "user": "", "needs": NO_NEEDS,
    "checks_output": False, "verdict": None,
}  # fmt: skip


# Most events of these types have nothing there.
_LEFT_OUT_IF_EMPTY: dict[type, tuple[str, ...]] = {
    RunResumed: ("by", "may_hold"),
    InputGiven: ("by",),
    ModelReplied: ("output", "verdict", "original", "uncached_micros", "reasoning"),
    ToolReturned: ("memory", "verdict", "held_memory"),
    ApprovalNeeded: ("terms",),
    Nudged: ("fault",),
    HooksDecided: ("output",),
}


def _as_public(event: Event, at: int) -> PublicEvent:
    body = to_plain(event)
    body.pop("worked_ms", None)
    body.pop("mail", None)
    if isinstance(event, ModelReplied) and event.reasoning:  # a reader has no use for what is opaque
        body["reasoning"] = text_of_reasoning(event.reasoning)
    elif isinstance(event, ToolCalled):
        body["arguments"] = json_or_text(event.arguments)
    elif isinstance(event, BroadcastEmitted):
        body["signal"]["createdAt"] = at
    for name in _LEFT_OUT_IF_EMPTY.get(type(event), ()):
        if not getattr(event, name):
            del body[name]
    if isinstance(event, RunStarted):  # most runs have nothing but their input
        body = {name: value for name, value in body.items() if getattr(event, name) != _OMITTED_DEFAULTS.get(name, ...)}
    return {"type": event.__struct_config__.tag, **body}


def text_of_reasoning(blocks: Sequence[ReasoningBlock]) -> str:
    """What a model reasoned, as far as it can be read."""
    return "\n\n".join(block.text for block in blocks if block.text)


def json_or_text(text: str) -> Any:
    """The decoded JSON, or the text itself where it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # a model may nest without end
        return text


class OpenReply(NamedTuple):
    """A reply that a model is giving: all of its pieces so far, for watchers that come late or are slow."""

    call: str
    pieces: list[str]


class _Frame:
    """The pieces of one kind that are not sent yet, and the seq of the run when the last of them was said."""

    def __init__(self, live: LiveRun, call: CallModel, kind: str, reply: OpenReply | None) -> None:
        self.live, self.call, self.kind, self.reply = live, call, kind, reply
        self.texts: list[str] = []
        self.seq = 0

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.seq = self.live.run.state.seq


_NO_FRAMES: dict[str, _Frame] = {}


class SequencedEvent(NamedTuple):
    """An event with its seq; or a piece, or a line of progress, with the seq of its run at that moment.

    A piece comes with its reply.
    """

    event: PublicEvent
    seq: int
    reply: OpenReply | None = None


class Watcher:
    """Follows a run and all below it. The queue is in order; `missed` is set when it was full."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[SequencedEvent | None] = asyncio.Queue()
        self.missed = False

    def send_event(self, event: PublicEvent) -> None:
        if self.queue.qsize() < QUEUE_MAX:
            self.queue.put_nowait(SequencedEvent(event, event["seq"]))
        else:
            self.missed = True

    def on_delta_elsewhere(self, delta: RunDelta) -> None:
        """Queues a piece that another process has sent."""
        self.send_delta(delta.event, delta.seq, None)

    def send_delta(self, piece: PublicEvent, seq: int, reply: OpenReply | None) -> None:
        """Queues a piece, or drops it if the queue is full: the whole reply follows."""
        if self.queue.qsize() < QUEUE_MAX:
            self.queue.put_nowait(SequencedEvent(piece, seq, reply))


class Watchers:
    """The watchers of the runs of this process."""

    def __init__(self, timers: Timers, deltas: Deltas) -> None:
        """`deltas` gets each piece of a reply and each line of progress, of every run, while there is a subscriber."""
        self.timers, self.deltas = timers, deltas
        self.by_run: dict[str, list[Watcher]] = {}
        # By run and call.
        self._open_replies: dict[tuple[str, str], OpenReply] = {}
        # By run, then by call.
        self._frames: dict[str, dict[str, _Frame]] = {}

    def of(self, run: str) -> list[Watcher]:
        """The watchers of the run and of the runs above it."""
        found: list[Watcher] = []
        while self.by_run and run:
            found += self.by_run.get(run, ())
            run = parent_of(run)
        return found

    def on_run_settled(self, run: str) -> None:
        """Ends the queues of its watchers: the run is over or paused."""
        for watcher in self.by_run.get(run, ()):
            watcher.queue.put_nowait(None)

    def on_delta(self, live: LiveRun, call: CallModel, text: str) -> None:
        """A model has said a piece of its reply."""
        reply = self._open_replies.get((live.id, call.key))
        if reply is None:
            reply = self._open_replies[live.id, call.key] = OpenReply(call.key, [])
        reply.pieces.append(text)
        frame = self._frames.get(live.id, _NO_FRAMES).get(call.key)
        if frame is not None and frame.kind == TEXT:
            frame.add(text)
        elif self.by_run or self.deltas.wanted:
            self._begin_frame(_Frame(live, call, TEXT, reply), text)

    def on_reasoning(self, live: LiveRun, call: CallModel, text: str, takes_back: bool) -> None:
        """A model has reasoned a piece; with `takes_back`, all text of its reply so far was reasoning too."""
        frame = self._frames.get(live.id, _NO_FRAMES).get(call.key)
        if takes_back:
            self._end_frame(live, call)
            piece = {"run": live.id, "type": REASONING, "agent": call.agent, "text": text, "takes_back": True}
            self._send_piece(live, piece, live.run.state.seq, self._open_replies.pop((live.id, call.key), None))
        elif frame is not None and frame.kind == REASONING:
            frame.add(text)
        elif self.by_run or self.deltas.wanted:
            self._begin_frame(_Frame(live, call, REASONING, None), text)

    def _begin_frame(self, frame: _Frame, text: str) -> None:
        """Begins a frame with a piece that is sent at once. A frame of the other kind ends."""
        self._end_frame(frame.live, frame.call)
        if not self._frames:
            self.timers.set(FRAME_TIMER, FRAME_MS, self._on_frames_over)
        self._frames.setdefault(frame.live.id, {})[frame.call.key] = frame
        frame.add(text)
        self._send_frame(frame)

    def _end_frame(self, live: LiveRun, call: CallModel) -> None:
        frame = self._frames.get(live.id, {}).pop(call.key, None)
        if frame is not None and frame.texts:
            self._send_frame(frame)

    def _on_frames_over(self) -> None:
        """Sends what was said since the last frame; a reply that said nothing begins its next frame itself."""
        open_frames = [frame for frames in self._frames.values() for frame in frames.values() if frame.texts]
        self._frames = {}
        for frame in open_frames:
            self._frames.setdefault(frame.live.id, {})[frame.call.key] = frame
            self._send_frame(frame)
        if self._frames:
            self.timers.set(FRAME_TIMER, FRAME_MS, self._on_frames_over)

    def _send_frame(self, frame: _Frame) -> None:
        text, live = "".join(frame.texts), frame.live
        frame.texts.clear()
        piece = {"run": live.id, "type": frame.kind, "agent": frame.call.agent, "text": text}
        self._send_piece(live, piece, frame.seq, frame.reply)

    def flush_frames_of(self, run: str) -> None:
        """Sends what the models of a run have said: something else of it follows."""
        for frame in self._frames.get(run, {}).values():
            if frame.texts:
                self._send_frame(frame)

    def on_tool_progress(self, live: LiveRun, tool: RunTool, text: str) -> None:
        """A tool says how far it is."""
        piece = {"run": live.id, "type": "tool.progress", "agent": tool.agent, "call": tool.key, "text": text}
        self.flush_frames_of(live.id)
        self._send_piece(live, piece, live.run.state.seq)

    def _send_piece(self, live: LiveRun, piece: PublicEvent, seq: int, reply: OpenReply | None = None) -> None:
        for watcher in self.of(live.id):
            watcher.send_delta(piece, seq, reply)
        if self.deltas.wanted:
            self.deltas.publish(RunDelta(piece, seq))

    def on_reply_over(self, live: LiveRun, call: CallModel) -> None:
        """A model says no more: its reply is complete, or broke off."""
        self._end_frame(live, call)
        self._open_replies.pop((live.id, call.key), None)

    def open_reply(self, run: str, call: str) -> OpenReply | None:
        """The reply that a model is giving to a call of a run that this process drives."""
        return self._open_replies.get((run, call))

    @contextmanager
    def open_watcher(self, run: str) -> Iterator[Watcher]:
        """A watcher of all new events; None in its queue means that the run has settled."""
        watcher = Watcher()
        self.by_run.setdefault(run, []).append(watcher)
        try:
            yield watcher
        finally:
            self.by_run[run].remove(watcher)
            if not self.by_run[run]:
                del self.by_run[run]
