"""Assembles a streamed chat completion piece by piece.

Rule 1: a reply is complete only if the provider gave a finish_reason and the stream ended properly.
Rule 2: a payload that cannot be read is a failed call, never a guess. Arguments of a tool are passed on unchanged, and
the toolbox tells the model if they are wrong.
Rule 3: text is counted as it arrives, including reasoning and arguments, and too much of it ends the call.
Rule 4: reasoning is kept by the name of its field, and goes back to the same server in the same field.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.endpoint import Endpoint
from interlock.adapters.models.openai.provider_failures import failure_of
from interlock.adapters.models.openai.reply_assembly import TOOL_CALLS_MAX, ReplyAssembly, count_of, part_of
from interlock.engine.budgets.limits import MICROS
from interlock.engine.events import ReasoningBlock, Usage
from interlock.errors import ModelRefused, ModelUnavailable, ReplyCutShort
from interlock.ports import ModelReply

# Fields of reasoning: DeepSeek, Kimi, GLM and others have the first, OpenRouter and vLLM the second.
REASONING_FIELDS = ("reasoning_content", "reasoning")
# OpenRouter's list of what its providers gave, with their signatures.
REASONING_DETAILS = "reasoning_details"
# Fields of its entries that come in pieces.
DETAIL_TEXTS = ("text", "summary", "data")

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
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None


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


class ChatStream(ReplyAssembly):
    """The stream of a chat completion."""

    def __init__(self, endpoint: Endpoint, keys: KnownSecrets, *, key: str, tools: Mapping[str, str]) -> None:
        super().__init__(endpoint, keys, key=key, tools=tools)
        self._calls: list[_Call] = []
        self._fields: dict[str, list[str]] = {}  # of reasoning, by their names
        self._details: list[dict[str, Any]] = []
        self.finish_reason = ""

    def on_stream_done(self) -> None:
        self.is_done = True

    def _plain_text_of(self, chunk: _Chunk) -> str | None:
        if chunk.error is not None or chunk.usage is not None or not chunk.choices or len(chunk.choices) != 1:
            return None
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is None or choice.index != 0 or choice.finish_reason is not None:
            return None
        if delta.refusal is not None or delta.tool_calls is not None or delta.reasoning_content is not None:
            return None
        return delta.content if delta.reasoning is None and delta.reasoning_details is None else None

    def _apply(self, chunk: _Chunk) -> str:
        if chunk.error is not None:
            raise failure_of(self._server, self._keys, None, chunk.error)
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        if not chunk.choices:
            return ""
        return "".join(self._apply_choice(choice) for choice in chunk.choices if choice.index == 0)

    def reply(self, *, is_framed: bool) -> ModelReply:
        text = "".join(self._texts)
        if not self.finish_reason or not (self.is_done or is_framed):
            raise ModelUnavailable(f"the reply of {self._server.name} broke off before its end")
        why = self.finish_reason.lower()
        if why in CUT_SHORT:
            raise ReplyCutShort(self._server.name, text, self.usage.output_tokens)
        if why in HELD_BACK:
            raise ModelRefused(f"{self._server.name} held its reply back (finish_reason {why})")
        if why in FAILED:
            raise ModelUnavailable(f"{self._server.name} failed while it replied (finish_reason {why})")
        if self._refusal and not text:
            raise ModelRefused(f"{self._server.name} refused: {self._keys.safe_line(''.join(self._refusal))}")
        calls = tuple(self._requests((call.id, "".join(call.name), "".join(call.arguments)) for call in self._calls))
        blocks = tuple(self._blocks(has_calls=bool(calls))) if self._fields or self._details else ()
        return ModelReply(
            text=text, usage=self.usage, tool_calls=calls, uncounted=not self.usage.tokens, reasoning=blocks
        )

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
        delta = choice.delta
        if delta is None:
            return ""
        for piece in delta.tool_calls or ():
            self._add_tool_piece(piece)
        if delta.reasoning_content is not None or delta.reasoning is not None or delta.reasoning_details:
            self._add_reasoning_of(delta)
        if delta.refusal:
            self._refusal.append(self._count_text(delta.refusal))
        if not delta.content:
            return ""
        return self._add_text(delta.content)

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

    def _add_reasoning_of(self, delta: _Delta) -> None:
        """Adds each field as it came, and shows one of them: some servers say the same twice."""
        shown = False
        for name in REASONING_FIELDS:
            text = getattr(delta, name)
            if isinstance(text, str):
                whole = self._count_text(text)
                self._fields.setdefault(name, []).append(whole)
                if whole and not shown:
                    self._show_reasoning(whole)
                    shown = True
        if isinstance(delta.reasoning_details, list):
            for piece in delta.reasoning_details:
                if isinstance(piece, dict):
                    self._count_text(msgspec.json.encode(piece).decode())
                    _add_detail(self._details, piece)

    def _blocks(self, *, has_calls: bool) -> Iterator[ReasoningBlock]:
        """The reasoning, a block a field. An empty one belongs to the tool loop too, but says nothing without it."""
        for name, pieces in self._fields.items():
            text = self._keys.redact("".join(pieces))
            if text or has_calls:
                yield self._reasoning_block(name, text)
        if self._details:
            data = self._keys.redact_json(msgspec.json.encode(self._details).decode())
            yield self._reasoning_block(REASONING_DETAILS, data=data)


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Adds a piece of OpenRouter's `reasoning_details`: pieces of one entry come one after the other."""
    last = details[-1] if details else {}
    if not last or any(last.get(name) != piece.get(name) for name in ("type", "index")):
        details.append(dict(piece))
        return
    for name, value in piece.items():
        before = last.get(name)
        if name in DETAIL_TEXTS and isinstance(before, str) and isinstance(value, str):
            last[name] = before + value
        elif value is not None:
            last[name] = value


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
    prompt, output = count_of(said.get("prompt_tokens")), count_of(said.get("completion_tokens"))
    reasoning = part_of(said, "completion_tokens_details", "reasoning_tokens")
    if reasoning and count_of(said.get("total_tokens")) == prompt + output + reasoning:
        output += reasoning  # some servers count the reasoning beside the reply
    read = part_of(said, "prompt_tokens_details", "cached_tokens")
    read = read or count_of(said.get("prompt_cache_hit_tokens")) or count_of(said.get("cached_tokens"))
    read = min(read, prompt)
    return Usage(
        input_tokens=prompt,
        cache_read_tokens=read,
        cache_write_tokens=min(part_of(said, "prompt_tokens_details", "cache_write_tokens"), prompt - read),
        output_tokens=output,
        reasoning_tokens=min(reasoning, output),
        cost_micros=count_of(said.get("cost"), MICROS),
    )
