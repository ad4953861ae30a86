"""Reasoning of models: read from a reply as blocks, and put back into the conversation unaltered.

Rule 1: a block keeps its place between the pieces of text and the tool calls of its reply. Providers refuse a reply
whose blocks stand elsewhere.
Rule 2: a block goes only to the provider that gave it.
Rule 3: a signature belongs to the text that it was made for. A block whose text had to be redacted is shown, and not
sent back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from pydantic_ai import messages as wire

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.engine.events import ReasoningBlock

# The kinds of blocks. A signature alone belongs to a piece of text, or to a tool call.
THINKING, REDACTED = "thinking", "redacted_thinking"
TEXT_SIGNATURE, CALL_SIGNATURE = "text_signature", "call_signature"

# The library's name for a signature that a provider put on a piece of text or on a call.
_SIGNATURE = "thought_signature"


class _Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The opaque part of a block: what the provider needs, and the place of the block in its reply."""

    signature: str = ""
    id: str = ""
    details: dict[str, Any] = {}
    chars: int = 0  # of the text that stands before it; a piece of text with a signature ends there
    calls: int = 0  # the calls that stand before it; a call with a signature has this number


def blocks_of(response: wire.ModelResponse, server: str, keys: KnownSecrets) -> tuple[ReasoningBlock, ...]:
    """The reasoning of a reply, in its order."""
    return tuple(_blocks(response.parts, server, keys))


def _blocks(parts: Sequence[wire.ModelResponsePart], server: str, keys: KnownSecrets) -> Iterator[ReasoningBlock]:
    chars = calls = 0
    for part in parts:
        if isinstance(part, wire.ThinkingPart):
            data = _Data(
                signature=part.signature or "",
                id=part.id or "",
                details=part.provider_details or {},
                chars=chars,
                calls=calls,
            )
            yield _block(server, REDACTED if part.id == REDACTED else THINKING, part.content, data, keys)
        elif isinstance(part, wire.TextPart):
            chars += len(part.content)
            if signature := _signature_of(part):
                yield _block(server, TEXT_SIGNATURE, "", _Data(signature=signature, chars=chars, calls=calls), keys)
        elif isinstance(part, wire.ToolCallPart):
            if signature := _signature_of(part):
                yield _block(server, CALL_SIGNATURE, "", _Data(signature=signature, calls=calls), keys)
            calls += 1


def _signature_of(part: wire.TextPart | wire.ToolCallPart) -> str:
    return str((part.provider_details or {}).get(_SIGNATURE, ""))


def _block(server: str, kind: str, text: str, data: _Data, keys: KnownSecrets) -> ReasoningBlock:
    shown = keys.redact(text)
    if shown != text:
        return ReasoningBlock(kind=kind, text=shown)
    return ReasoningBlock(provider=server, kind=kind, text=text, data=msgspec.json.encode(data).decode())


def parts_with_reasoning(
    text: str, calls: Sequence[wire.ToolCallPart], blocks: Sequence[ReasoningBlock], server: str, system: str
) -> list[wire.ModelResponsePart]:
    """A reply with its reasoning, as the provider gave it. `system` is the library's name of the provider."""
    reply = _Reply(text, calls, system)
    for block in blocks:
        if block.provider == server and block.data:
            reply.add(block)
    return reply.all_parts()


class _Reply:
    """A reply that is written in order: up to a block, then the block."""

    def __init__(self, text: str, calls: Sequence[wire.ToolCallPart], system: str) -> None:
        self._text, self._calls, self._system = text, list(calls), system
        self._chars = self._written = 0
        self._parts: list[wire.ModelResponsePart] = []

    def add(self, block: ReasoningBlock) -> None:
        data = msgspec.json.decode(block.data, type=_Data)
        if block.kind == CALL_SIGNATURE:
            self._sign_call(data)
            return
        self._write_text(data.chars if not data.calls else len(self._text), data.signature, block.kind)
        self._write_calls(data.calls)
        if block.kind != TEXT_SIGNATURE:
            self._parts.append(
                wire.ThinkingPart(
                    block.text,
                    id=data.id or None,
                    signature=data.signature or None,
                    provider_name=self._system,
                    provider_details=data.details or None,
                )
            )

    def all_parts(self) -> list[wire.ModelResponsePart]:
        self._write_text(len(self._text))
        self._write_calls(len(self._calls))
        return self._parts

    def _write_text(self, until: int, signature: str = "", kind: str = "") -> None:
        piece, self._chars = self._text[self._chars : until], max(self._chars, until)
        if kind == TEXT_SIGNATURE:
            self._parts.append(
                wire.TextPart(piece, provider_name=self._system, provider_details={_SIGNATURE: signature})
            )
        elif piece.strip():  # providers refuse text of blanks only
            self._parts.append(wire.TextPart(piece))

    def _write_calls(self, until: int) -> None:
        self._parts += self._calls[self._written : until]
        self._written = max(self._written, until)

    def _sign_call(self, data: _Data) -> None:
        """The output tool of a typed reply is not among the calls: then the signature goes to the call in its place."""
        if self._calls:
            call = self._calls[min(data.calls, len(self._calls) - 1)]
            call.provider_name, call.provider_details = self._system, {_SIGNATURE: data.signature}
