"""A model of the host's own or a script, with the secrets of the host hidden in what it says and in how it fails."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

from interlock.adapters.models.known_keys import HiddenStream, KnownKeys
from interlock.engine.events import ToolRequest
from interlock.ports import Delta, Model, ModelReply, ModelRequest


class HidingModel:
    def __init__(self, model: Model, keys: KnownKeys) -> None:
        self._model, self._keys = model, keys

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """All in one generator: one inside it would be left open, and closed by a task of its own, with each call."""
        pieces, stream = self._model.reply(request), HiddenStream(self._keys)
        try:
            async for piece in pieces:
                if isinstance(piece, Delta):
                    if text := stream.add(piece.text):
                        yield Delta(text)
                else:
                    if rest := stream.rest():
                        yield Delta(rest)
                    yield self._hidden_reply(piece)
        except Exception as error:
            # The kind of an error says what becomes of the call, so that it stays the same one.
            error.args = tuple(self._keys.hidden(word) if isinstance(word, str) else word for word in error.args)
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    def _hidden_reply(self, reply: ModelReply) -> ModelReply:
        """What is no text is left as it is: the caller refuses such a reply with a sentence."""
        text, calls = reply.text, reply.tool_calls
        if isinstance(text, str):
            text = self._keys.hidden(text)
        if isinstance(calls, tuple):
            calls = tuple(self._hidden_call(call) for call in calls)
        return msgspec.structs.replace(reply, text=text, tool_calls=calls)

    def _hidden_call(self, call: Any) -> Any:
        if not (isinstance(call, ToolRequest) and all(isinstance(part, str) for part in msgspec.structs.astuple(call))):
            return call
        return ToolRequest(
            id=self._keys.hidden(call.id),
            name=self._keys.hidden(call.name),
            arguments=self._keys.hidden_json(call.arguments),
        )
