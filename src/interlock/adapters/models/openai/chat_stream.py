"""Assembles a streamed chat completion piece by piece.

Rule 1: a reply is complete only if the provider gave a finish_reason and the stream ended properly.
Rule 2: a payload that cannot be read is a failed call, never a guess. Arguments of a tool are passed on unchanged, and
the toolbox tells the model if they are wrong.
Rule 3: text is counted as it arrives, including arguments, and too much of it ends the call.
"""

import json
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets, RedactingStream
from interlock.adapters.models.openai.endpoint import Server
from interlock.adapters.models.openai.provider_failures import failure_of
from interlock.engine.budgets.limits import MICROS
from interlock.engine.events import ToolRequest, Usage
from interlock.errors import ModelRefused, ModelUnavailable, ReplyCutShort, ReplyTooLarge
from interlock.limits import USAGE_MAX
from interlock.ports import ModelReply

DONE = b"[DONE]"

# A reply with more tool calls is broken.
TOOL_CALLS_MAX = 128

# Finish reasons of incomplete replies; servers differ in words and case.
CUT_SHORT = ("length", "max_tokens", "model_length")
HELD_BACK = ("content_filter", "content-filter", "safety", "recitation")
FAILED = ("error", "abort", "cancelled", "insufficient_system_resource")


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolPiece] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


class _Call(msgspec.Struct):
    """A tool call that is being assembled."""

    id: str
    index: int | None
    name: list[str] = []
    arguments: list[str] = []


_decoder = msgspec.json.Decoder(_Chunk)


class ChatStream:
    """Takes payloads and returns their text; at the end, the reply or an error."""

    def __init__(
        self, server: Server, keys: KnownSecrets, *, key: str, tools: Mapping[str, str], bytes_max: int
    ) -> None:
        self._server, self._keys, self._key, self._tools = server, keys, key, tools
        self._bytes_max, self._size = bytes_max, 0
        self._stream = RedactingStream(keys)
        self._texts: list[str] = []
        self._calls: list[_Call] = []
        self._usage = Usage()
        self._refusal: list[str] = []
        self.finish_reason = ""
        self.is_done = False

    def add_payload(self, payload: bytes) -> str:
        """Adds a payload and returns its text."""
        if payload == DONE:
            self.is_done = True
            return ""
        chunk = self._read(payload)
        if chunk.error is not None:
            raise failure_of(self._server, self._keys, None, chunk.error)
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        if not chunk.choices:
            return ""
        if len(chunk.choices) == 1 and chunk.choices[0].index == 0:  # nearly always
            return self._apply_choice(chunk.choices[0])
        return "".join(self._apply_choice(choice) for choice in chunk.choices if choice.index == 0)

    def flush_text(self) -> str:
        """Returns the text that was held back; called when there is no more."""
        return self._append_text(self._stream.flush())

    def reply(self, *, is_framed: bool) -> ModelReply:
        """The complete reply; `is_framed` tells that the end of the body was seen, so nothing is missing."""
        text = "".join(self._texts)
        if not self.finish_reason or not (self.is_done or is_framed):
            raise ModelUnavailable(f"the reply of {self._server.name} broke off before its end")
        why = self.finish_reason.lower()
        if why in CUT_SHORT:
            raise ReplyCutShort(self._server.name, text, self._usage.output_tokens)
        if why in HELD_BACK:
            raise ModelRefused(f"{self._server.name} held its reply back (finish_reason {why})")
        if why in FAILED:
            raise ModelUnavailable(f"{self._server.name} failed while it replied (finish_reason {why})")
        if self._refusal and not text:
            raise ModelRefused(f"{self._server.name} refused: {self._keys.safe_line(''.join(self._refusal))}")
        calls = tuple(self._requests())
        return ModelReply(text=text, usage=self._usage, tool_calls=calls, uncounted=not self._usage.tokens)

    def _read(self, payload: bytes) -> _Chunk:
        try:
            return _decoder.decode(payload)
        except (ValueError, RecursionError):
            return self._read_leniently(payload)

    def _read_leniently(self, payload: bytes) -> _Chunk:
        """Reads a payload with broken characters replaced, in bytes and in escapes; other faults stay."""
        try:
            values = json.loads(payload.decode("utf-8", "replace"), parse_constant=_refuse_constant)
            return msgspec.convert(values, _Chunk)
        except (ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self._server.name} sent something that is not a chat completion") from error

    def _apply_choice(self, choice: _Choice) -> str:
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
        if choice.delta is None:
            return ""
        for piece in choice.delta.tool_calls or ():
            self._add_tool_piece(piece)
        if choice.delta.refusal:
            self._refusal.append(self._count_text(choice.delta.refusal))
        if not choice.delta.content:
            return ""
        return self._append_text(self._stream.add(self._count_text(choice.delta.content)))

    def _append_text(self, text: str) -> str:
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

    def _add_tool_piece(self, piece: _ToolPiece) -> None:
        call = self._call_of(piece)
        if piece.function is None:
            return
        if piece.function.name and not call.arguments:  # some servers repeat it in every piece
            call.name.append(self._count_text(piece.function.name))
        arguments = piece.function.arguments
        if arguments:
            whole = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            call.arguments.append(self._count_text(whole))

    def _call_of(self, piece: _ToolPiece) -> _Call:
        """The call of a fragment: servers number the calls, or give each an id, or neither."""
        alike = [call for call in self._calls if call.index == piece.index]
        if alike and _is_same_call(alike[-1], piece):
            alike[-1].id = alike[-1].id or piece.id or ""
            return alike[-1]
        if len(self._calls) >= TOOL_CALLS_MAX:
            raise ModelRefused(f"{self._server.name} asked for more than {TOOL_CALLS_MAX} tools in one reply")
        call = _Call(id=self._count_text(piece.id or ""), index=piece.index)
        self._calls.append(call)
        return call

    def _requests(self) -> Iterator[ToolRequest]:
        """The tool requests. Missing and duplicate ids are replaced: every output must find its call."""
        used: set[str] = set()
        for n, call in enumerate(self._calls):
            name = "".join(call.name)
            if not name:
                raise ModelUnavailable(f"{self._server.name} asked for a tool without a name")
            own = self._keys.redact(call.id)
            id_ = own if own and own not in used else f"{self._key}/{n}"
            used.add(id_)
            arguments = self._keys.redact_json("".join(call.arguments)) or "{}"
            yield ToolRequest(id=id_, name=self._keys.redact(self._tools.get(name, name)), arguments=arguments)


def _is_same_call(call: _Call, piece: _ToolPiece) -> bool:
    """True if a fragment continues the call: without ids, a name after arguments starts another call."""
    if piece.id:
        return call.id in ("", piece.id)
    return not (call.arguments and not call.id and piece.function is not None and piece.function.name)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _usage(usage: Any) -> Usage:
    """The usage; invalid numbers count as 0, since a reply is complete whatever its usage says."""
    said = usage if isinstance(usage, dict) else {}
    return Usage(
        input_tokens=_count(said.get("prompt_tokens")),
        output_tokens=_count(said.get("completion_tokens")),
        cost_micros=_count(said.get("cost"), MICROS),
    )


def _count(value: object, unit: int = 1) -> int:
    """The number rounded up, except for rounding errors of floats."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    return ceil(round(min(max(number * unit, 0), USAGE_MAX), 3))
