"""The messages of a run and of the crews below it, for people: as a transcript, and as a sequence diagram."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from interlock.cli.crews import shown
from interlock.compose.questions import Waiting
from interlock.engine.events import MessageSent, MessageSettled, RunStarted
from interlock.ids import RESERVED_IDS, placed
from interlock.messages.wire import HOST, AnyMessage, HostNote, from_journal
from interlock.ports import StoredRecord

# Of a message in a diagram; all of it stands in the transcript.
LABEL_CHARS_MAX = 60

_ARROWS = {
    "DELEGATE": "->>",
    "QUERY": "->>",
    "REQUEST_USER_INPUT": "->>",
    "REPORT": "-->>",
    "ANSWER": "-->>",
    "USER_RESPONSE": "-->>",
}


def said(message: AnyMessage) -> str:
    wire = message.to_wire()
    if isinstance(message, HostNote):
        return msgspec.json.encode(message.body).decode()
    return str(next(wire[key] for key in ("task", "result", "question", "answer") if key in wire))


class Letter(NamedTuple):
    """A message as it was sent in one of the runs of a tree; names of agents have the way to their crew before them."""

    at: int
    message: AnyMessage
    attempt: int
    way: tuple[str, ...]
    fate: MessageSettled | None

    @property
    def sender(self) -> str:
        return self._placed(self.message.sender)

    @property
    def addressee(self) -> str:
        return self._placed(self.message.addressee)

    def _placed(self, name: str) -> str:
        return name if name in (*RESERVED_IDS, HOST) else placed(self.way, name)


def letters(tree: Sequence[StoredRecord]) -> list[Letter]:
    """Of a run and all below it, in the order in which the store took them in."""
    fates = {
        event.message_id: event
        for stored in tree
        for event in stored.record.events
        if isinstance(event, MessageSettled)
    }
    ways = ways_of(tree)
    return [
        Letter(stored.record.at, from_journal(sent.message), sent.attempt, ways[stored.run], fates.get(_id(sent)))
        for stored in tree
        for sent in stored.record.events
        if isinstance(sent, MessageSent)
    ]


def _id(sent: MessageSent) -> str:
    return str(sent.message["message_id"])


def ways_of(tree: Sequence[StoredRecord]) -> dict[str, tuple[str, ...]]:
    """The crews from the first run of a tree down to each of its runs."""
    started = {each.run: each.record.events[0] for each in tree if isinstance(each.record.events[0], RunStarted)}
    above = len(started[tree[0].run].path)
    return {run: event.path[above:] for run, event in started.items()}


def transcript(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """One message after the other: when, who to whom, what became of it, and its words."""
    for letter in letters(tree):
        yield from _told(letter)


def _told(letter: Letter) -> Iterator[str]:
    message, fate = letter.message, letter.fate
    short = message.message_id.rpartition(":")[2]
    outcome = fate.outcome if fate is not None else "open"
    about = f" to {message.answers.rpartition(':')[2]}" if message.answers else ""
    again = ", sent again" if letter.attempt else ""
    status = f" ({message.to_wire()['status']})" if message.type == "REPORT" else ""
    way = f"{letter.sender} -> {letter.addressee}"
    yield shown(f"{moment(letter.at)}  {short:<8} {message.type}{status} {way}{about}: {outcome}{again}")
    yield from (f"    {shown(line)}" for line in said(message).splitlines())
    if fate is not None and fate.because:
        yield shown(f"    ({fate.code}: {fate.because})" if fate.code else f"    ({fate.because})")


def wires(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """Each message once, as it travels."""
    for stored in tree:
        for event in stored.record.events:
            if isinstance(event, MessageSent) and not event.attempt:
                yield msgspec.json.encode(event.message).decode()


def mermaid(tree: Sequence[StoredRecord]) -> Iterator[str]:
    """A sequence diagram; names and words cannot break out of their place."""
    sent = letters(tree)
    names = dict.fromkeys(name for letter in sent for name in (letter.sender, letter.addressee))
    ids = {name: f"p{n}" for n, name in enumerate(names)}
    yield "sequenceDiagram"
    yield from (f"  participant {id_} as {_label(name)}" for name, id_ in ids.items())
    for letter in sent:
        refused = letter.fate is not None and letter.fate.outcome == "refused"
        arrow = "-x" if refused else _ARROWS.get(letter.message.type, "->>")
        words = f"{letter.message.type} {_label(said(letter.message))}"
        yield f"  {ids[letter.sender]}{arrow}{ids[letter.addressee]}: {words}"


def _label(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= LABEL_CHARS_MAX else f"{line[:LABEL_CHARS_MAX]}…"
    return re.sub(r"[^\w .,:?!'()/+-]", lambda found: f"#{ord(found[0])};", shown(short)).replace(":", "#58;")


def waiting(wait: Waiting, way: tuple[str, ...] = ()) -> str:
    """Who waits for whom, with what, since when, until when."""
    until = "no deadline"
    if wait.until:
        until = f"until {moment(wait.until)}"
    elif wait.left_ms is not None:
        until = f"for {-(-wait.left_ms // 1000)} s of work at most"
    short = wait.id.rpartition(":")[2]
    of = wait.of if wait.of in RESERVED_IDS else placed(way, wait.of)
    return f"{placed(way, wait.agent)} waits for {of} ({wait.what} {short}) since {moment(wait.since)}, {until}"


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
