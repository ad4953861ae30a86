"""What the streams of all APIs share: text, reasoning and tool calls of a reply, counted and redacted on arrival."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from interlock.adapters.config.known_secrets import KnownSecrets, RedactingStream
from interlock.adapters.models.openai.endpoint import Endpoint
from interlock.engine.events import ReasoningBlock, ToolRequest, Usage
from interlock.errors import ModelUnavailable, ReplyTooLarge
from interlock.limits import USAGE_MAX
from interlock.ports import Delta, ModelReply, ReasoningDelta

# The payload that ends a stream.
DONE = b"[DONE]"

# A reply with more tool calls is broken.
TOOL_CALLS_MAX = 128


class ReplyAssembly(ABC):
    """Takes payloads and returns their text; at the end, the reply or an error."""

    def __init__(self, endpoint: Endpoint, keys: KnownSecrets, *, key: str, tools: Mapping[str, str]) -> None:
        self._endpoint, self._server = endpoint, endpoint.server
        self._keys, self._key, self._tools = keys, key, tools
        self._bytes_max, self._size = endpoint.limits.reply_bytes_max, 0
        self._stream = RedactingStream(keys)
        self._reasoning_stream: RedactingStream | None = None  # most replies have no reasoning
        self._texts: list[str] = []
        self.usage = Usage()  # as the provider counts it
        self._refusal: list[str] = []
        self._new_reasoning = ""  # what has arrived since it was last taken
        self.is_done = False

    def add_payloads(self, payloads: Iterable[bytes]) -> list[Delta | ReasoningDelta]:
        """Adds payloads, and returns what they say in its order: texts with no reasoning between them are one piece."""
        said: list[Delta | ReasoningDelta] = []
        plain: list[str] = []
        for payload in payloads:
            if payload == DONE:
                self.on_stream_done()
                continue
            event = self._read(payload)
            if (text := self._plain_text_of(event)) is not None:
                plain.append(text)
                continue
            if plain:
                self._say_text(said, self._add_text("".join(plain)))
                plain.clear()
            self._say_text(said, self._apply(event))
        if plain:
            self._say_text(said, self._add_text("".join(plain)))
        elif self._new_reasoning:
            self._say_reasoning(said)
        return said

    def _say_text(self, said: list[Delta | ReasoningDelta], text: str) -> None:
        """Adds text after the reasoning that came before it."""
        if self._new_reasoning:
            self._say_reasoning(said)
        if text:
            last = said.pop().text if said and isinstance(said[-1], Delta) else ""
            said.append(Delta(last + text))

    def _say_reasoning(self, said: list[Delta | ReasoningDelta]) -> None:
        last = said.pop().text if said and isinstance(said[-1], ReasoningDelta) else ""
        said.append(ReasoningDelta(last + self._new_reasoning))
        self._new_reasoning = ""

    @abstractmethod
    def on_stream_done(self) -> None:
        """Notes that the server has said that the stream ends."""

    @abstractmethod
    def _read(self, payload: bytes) -> Any:
        """The event of a payload."""

    @abstractmethod
    def _plain_text_of(self, event: Any) -> str | None:
        """The text of an event that says nothing else; None for any other. Nearly all have one."""

    @abstractmethod
    def _apply(self, event: Any) -> str:
        """Adds any other event, and returns its text."""

    @abstractmethod
    def reply(self, *, is_framed: bool) -> ModelReply:
        """The complete reply; `is_framed` tells that the end of the body was seen, so nothing is missing."""

    def flush(self) -> list[Delta | ReasoningDelta]:
        """Returns what was held back; called when there is no more."""
        said: list[Delta | ReasoningDelta] = []
        if self._reasoning_stream is not None and (rest := self._reasoning_stream.flush()):
            said.append(ReasoningDelta(rest))
        if rest := self._stream.flush():
            self._texts.append(rest)
            said.append(Delta(rest))
        return said

    def _show_reasoning(self, text: str) -> None:
        if self._reasoning_stream is None:
            self._reasoning_stream = RedactingStream(self._keys)
        self._new_reasoning += self._reasoning_stream.add(text)

    def _add_text(self, text: str) -> str:
        """Adds text of the reply; returns what of it can be shown."""
        text = self._stream.add(self._count_text(text))
        if text:
            self._texts.append(text)
        return text

    def _count_text(self, text: str) -> str:
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
            self._size += len(text.encode())
        else:
            self._size += len(text)
        if self._size > self._bytes_max:
            raise ReplyTooLarge(self._server.name, self._bytes_max)
        return text

    def _reasoning_block(self, kind: str, text: str = "", data: str = "") -> ReasoningBlock:
        return ReasoningBlock(provider=self._endpoint.source, kind=kind, text=text, data=data)

    def _requests(self, calls: Iterable[tuple[str, str, str]]) -> Iterator[ToolRequest]:
        """The tool requests, from id, name and arguments of each.

        Missing and duplicate ids are replaced: every output must find its call.
        """
        used: set[str] = set()
        for n, (id_, name, arguments) in enumerate(calls):
            if not name:
                raise ModelUnavailable(f"{self._server.name} asked for a tool without a name")
            own = self._keys.redact(id_)
            own = own if own and own not in used else f"{self._key}/{n}"
            used.add(own)
            found = self._keys.redact_json(arguments) or "{}"
            yield ToolRequest(id=own, name=self._keys.redact(self._tools.get(name, name)), arguments=found)


def count_of(value: object, unit: int = 1) -> int:
    """The number rounded up, except for rounding errors of floats; 0 if it is no number."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    return ceil(round(min(max(number * unit, 0), USAGE_MAX), 3))


def part_of(usage: Mapping[str, Any], details: str, *names: str) -> int:
    """The first of these counts among the details of a usage."""
    inner = usage.get(details)
    found = (count_of(inner.get(name)) for name in names) if isinstance(inner, Mapping) else ()
    return next((count for count in found if count), 0)
