"""The messages of a run, for people: as a transcript, and as a sequence diagram."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from interlock.cli.crews import shown
from interlock.compose.questions import Waiting
from interlock.engine.events import MessageSent, MessageSettled
from interlock.messages.wire import AnyMessage, from_wire
from interlock.ports import Record

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
    return str(next(wire[key] for key in ("task", "result", "question", "answer") if key in wire))


def transcript(records: Sequence[Record]) -> Iterator[str]:
    """One message after the other: when, who to whom, what became of it, and its words."""
    fates = {
        event.message_id: event for record in records for event in record.events if isinstance(event, MessageSettled)
    }
    for record in records:
        for event in record.events:
            if isinstance(event, MessageSent):
                yield from _told(event, record.at, fates)


def _told(event: MessageSent, at: int, fates: dict[str, MessageSettled]) -> Iterator[str]:
    message = from_wire(event.message)
    fate, short = fates.get(message.message_id), message.message_id.rpartition(":")[2]
    outcome = fate.outcome if fate is not None else "open"
    about = f" to {message.answers.rpartition(':')[2]}" if message.answers else ""
    again = ", sent again" if event.attempt else ""
    status = f" ({message.to_wire()['status']})" if message.type == "REPORT" else ""
    way = f"{message.sender} -> {message.addressee}"
    yield shown(f"{moment(at)}  {short:<8} {message.type}{status} {way}{about}: {outcome}{again}")
    yield from (f"    {shown(line)}" for line in said(message).splitlines())
    if fate is not None and fate.because:
        yield shown(f"    ({fate.code}: {fate.because})" if fate.code else f"    ({fate.because})")


def wires(records: Sequence[Record]) -> Iterator[str]:
    """Each message once, as it travels."""
    for record in records:
        for event in record.events:
            if isinstance(event, MessageSent) and not event.attempt:
                yield msgspec.json.encode(event.message).decode()


def mermaid(records: Sequence[Record]) -> Iterator[str]:
    """A sequence diagram; names and words cannot break out of their place."""
    sent = [event for record in records for event in record.events if isinstance(event, MessageSent)]
    messages = [from_wire(event.message) for event in sent]
    names = dict.fromkeys(name for message in messages for name in (message.sender, message.addressee))
    ids = {name: f"p{n}" for n, name in enumerate(names)}
    yield "sequenceDiagram"
    yield from (f"  participant {id_} as {_label(name)}" for name, id_ in ids.items())
    fates = {e.message_id: e.outcome for r in records for e in r.events if isinstance(e, MessageSettled)}
    for message in messages:
        arrow = _ARROWS[message.type] if fates.get(message.message_id) != "refused" else "-x"
        yield f"  {ids[message.sender]}{arrow}{ids[message.addressee]}: {message.type} {_label(said(message))}"


def _label(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= LABEL_CHARS_MAX else f"{line[:LABEL_CHARS_MAX]}…"
    return re.sub(r"[^\w .,:?!'()/+-]", lambda found: f"#{ord(found[0])};", shown(short)).replace(":", "#58;")


def waiting(wait: Waiting) -> str:
    """Who waits for whom, with what, since when, until when."""
    until = "no deadline"
    if wait.until:
        until = f"until {moment(wait.until)}"
    elif wait.left_ms is not None:
        until = f"for {wait.left_ms / 1000:g} s of work at most"
    short = wait.id.rpartition(":")[2]
    return f"{wait.agent} waits for {wait.of} ({wait.what} {short}) since {moment(wait.since)}, {until}"


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
