"""The messages of a run and its sub-crews: as a transcript, and as a sequence diagram."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from interlock.cli.crew_argument import safe_line
from interlock.compose.questions import Waiting
from interlock.engine.events import MessageSent, MessageSettled, RunStarted
from interlock.ids import RESERVED_IDS, full_name
from interlock.messages.wire import HOST, AnyMessage, HostNote, from_journal
from interlock.ports import StoredRecord

# Per message in a diagram; the transcript has the whole text.
LABEL_CHARS_MAX = 60

_ARROWS = {
    "DELEGATE": "->>",
    "QUERY": "->>",
    "REQUEST_USER_INPUT": "->>",
    "REPORT": "-->>",
    "ANSWER": "-->>",
    "USER_RESPONSE": "-->>",
}


def text_of(message: AnyMessage) -> str:
    wire = message.to_wire()
    if isinstance(message, HostNote):
        return msgspec.json.encode(message.body).decode()
    return str(next(wire[key] for key in ("task", "result", "question", "answer") if key in wire))


class TranscriptMessage(NamedTuple):
    """A message of one of the runs of a tree; names of agents carry the path to their crew."""

    at: int
    message: AnyMessage
    attempt: int
    way: tuple[str, ...]
    settled: MessageSettled | None

    @property
    def sender(self) -> str:
        return self._name_with_path(self.message.sender)

    @property
    def addressee(self) -> str:
        return self._name_with_path(self.message.addressee)

    def _name_with_path(self, name: str) -> str:
        return name if name in (*RESERVED_IDS, HOST) else full_name(self.way, name)


def messages_of(tree: Sequence[StoredRecord]) -> list[TranscriptMessage]:
    """The messages of a run and its sub-crews, in the order of the store."""
    outcomes = {
        event.message_id: event
        for stored in tree
        for event in stored.record.events
        if isinstance(event, MessageSettled)
    }
    ways = paths_of(tree)
    return [
        TranscriptMessage(
            stored.record.at,
            from_journal(sent.message),
            sent.attempt,
            ways[stored.run],
            outcomes.get(_message_id(sent)),
        )
        for stored in tree
        for sent in stored.record.events
        if isinstance(sent, MessageSent)
    ]


def _message_id(sent: MessageSent) -> str:
    return str(sent.message["message_id"])


def paths_of(tree: Sequence[StoredRecord]) -> dict[str, tuple[str, ...]]:
    """The path from the first run of a tree to each of its runs."""
    started = {each.run: each.record.events[0] for each in tree if isinstance(each.record.events[0], RunStarted)}
    above = len(started[tree[0].run].path)
    return {run: event.path[above:] for run, event in started.items()}


def message_transcript(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """Each message: time, sender, addressee, outcome and text."""
    for sent in messages_of(tree):
        yield from _message_lines(sent)


def _message_lines(sent: TranscriptMessage) -> Iterator[str]:
    message, settled = sent.message, sent.settled
    short = message.message_id.rpartition(":")[2]
    outcome = settled.outcome if settled is not None else "open"
    about = f" to {message.answers.rpartition(':')[2]}" if message.answers else ""
    again = ", sent again" if sent.attempt else ""
    status = f" ({message.to_wire()['status']})" if message.type == "REPORT" else ""
    way = f"{sent.sender} -> {sent.addressee}"
    yield safe_line(f"{utc_text(sent.at)}  {short:<8} {message.type}{status} {way}{about}: {outcome}{again}")
    yield from (f"    {safe_line(line)}" for line in text_of(message).splitlines())
    if settled is not None and settled.because:
        yield safe_line(f"    ({settled.code}: {settled.because})" if settled.code else f"    ({settled.because})")


def wire_lines(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """Each message once, as JSON."""
    for stored in tree:
        for event in stored.record.events:
            if isinstance(event, MessageSent) and not event.attempt:
                yield msgspec.json.encode(event.message).decode()


def mermaid_lines(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """A sequence diagram; names and texts are escaped."""
    messages = messages_of(tree)
    names = dict.fromkeys(name for sent in messages for name in (sent.sender, sent.addressee))
    ids = {name: f"p{n}" for n, name in enumerate(names)}
    yield "sequenceDiagram"
    yield from (f"  participant {id_} as {_label(name)}" for name, id_ in ids.items())
    for sent in messages:
        refused = sent.settled is not None and sent.settled.outcome == "refused"
        arrow = "-x" if refused else _ARROWS.get(sent.message.type, "->>")
        words = f"{sent.message.type} {_label(text_of(sent.message))}"
        yield f"  {ids[sent.sender]}{arrow}{ids[sent.addressee]}: {words}"


def _label(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= LABEL_CHARS_MAX else f"{line[:LABEL_CHARS_MAX]}…"
    return re.sub(r"[^\w .,:?!'()/+-]", lambda found: f"#{ord(found[0])};", safe_line(short)).replace(":", "#58;")


def wait_line(wait: Waiting, way: tuple[str, ...] = ()) -> str:
    """A line for a wait: who waits for whom, since when, until when."""
    until = "no deadline"
    if wait.until:
        until = f"until {utc_text(wait.until)}"
    elif wait.left_ms is not None:
        until = f"at most {-(-wait.left_ms // 1000)} s of work"
    short = wait.id.rpartition(":")[2]
    of = wait.of if wait.of in RESERVED_IDS else full_name(way, wait.of)
    return f"{full_name(way, wait.agent)} waits for {of} ({wait.what} {short}) since {utc_text(wait.since)}, {until}"


def utc_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
