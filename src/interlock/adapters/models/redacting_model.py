"""Redacts the host's secrets in the replies and errors of a model."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets, RedactingStream
from interlock.engine.events import ReasoningBlock, ToolRequest
from interlock.engine.events.values import redact_reasoning
from interlock.ports import Delta, Model, ModelReply, ModelRequest, ReasoningDelta


class RedactingModel:
    def __init__(self, model: Model, keys: KnownSecrets) -> None:
        self._model, self._keys = model, keys

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        """Redacts a reply in one generator: a nested one would stay open and need a task to close it, in each call."""
        pieces, stream = self._model.reply(request), RedactingStream(self._keys)
        reasoning: RedactingStream | None = None
        try:
            async for piece in pieces:
                if isinstance(piece, Delta):
                    if text := stream.add(piece.text):
                        yield Delta(text)
                elif isinstance(piece, ReasoningDelta):
                    reasoning = reasoning or RedactingStream(self._keys)
                    if text := reasoning.add(piece.text):
                        yield ReasoningDelta(text)
                else:
                    if reasoning is not None and (rest := reasoning.flush()):
                        yield ReasoningDelta(rest)
                    if rest := stream.flush():
                        yield Delta(rest)
                    yield self._redact_reply(piece)
        except Exception as error:
            # The class of an error decides what happens to the call, so it must not change.
            error.args = tuple(self._keys.redact(word) if isinstance(word, str) else word for word in error.args)
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    def _redact_reply(self, reply: ModelReply) -> ModelReply:
        """Redacts a text; other values stay as they are, and the caller refuses such a reply."""
        text, calls, blocks = reply.text, reply.tool_calls, reply.reasoning
        if isinstance(text, str):
            text = self._keys.redact(text)
        if isinstance(calls, tuple):
            calls = tuple(self._redact_call(call) for call in calls)
        if blocks and all(map(_is_sound_block, blocks)):
            blocks = redact_reasoning(blocks, self._keys.redact)
        return msgspec.structs.replace(reply, text=text, tool_calls=calls, reasoning=blocks)

    def _redact_call(self, call: Any) -> Any:
        if not (isinstance(call, ToolRequest) and all(isinstance(part, str) for part in msgspec.structs.astuple(call))):
            return call
        return ToolRequest(
            id=self._keys.redact(call.id),
            name=self._keys.redact(call.name),
            arguments=self._keys.redact_json(call.arguments),
        )


def _is_sound_block(block: object) -> bool:
    """Whether a model of the host gave a block of texts; else the caller refuses the reply."""
    return isinstance(block, ReasoningBlock) and all(isinstance(part, str) for part in msgspec.structs.astuple(block))
