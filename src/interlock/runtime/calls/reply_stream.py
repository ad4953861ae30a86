"""Reads the reply of a model: to its end, or to the first line of signals. Then it is closed.

Rule 1: a reply is cut at the same place whether it came in pieces or whole.
Rule 2: watchers see the text up to the cut, and nothing after it.
Rule 3: hosts bring their own models. A reply of the wrong type is refused here, before the journal sees it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import msgspec

from interlock.engine.events import ToolRequest, Usage
from interlock.engine.routing.stream import ReplyScanner
from interlock.errors import ModelRefused, ModelUnavailable
from interlock.limits import USAGE_MAX
from interlock.ports import Delta, ModelReply

Pieces = AsyncIterator[Delta | ModelReply]
Tell = Callable[[str], None]


class StreamedReply(msgspec.Struct, frozen=True):
    """A reply, and whether it was cut: then its cost is known only if it came whole."""

    reply: ModelReply
    cut: bool = False


async def read_reply(pieces: Pieces, tell: Tell, listen: Callable[[], ReplyScanner] | None) -> StreamedReply:
    """Reads to the end; with `listen`, to the first line that holds only signals."""
    try:
        if listen is not None:
            return await read_reply_until_signal(pieces, tell, listen)
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                return StreamedReply(piece)
            tell(piece.text)
        raise _incomplete_reply_error()
    finally:
        if isinstance(pieces, AsyncGenerator):  # left open, the loop would close it in a task without an owner
            await pieces.aclose()


async def read_reply_until_signal(pieces: Pieces, tell: Tell, listen: Callable[[], ReplyScanner]) -> StreamedReply:
    """Reads up to the end of the first line that holds only signals; the caller closes the pieces."""
    listener, length = listen(), 0
    async for piece in pieces:
        if isinstance(piece, ModelReply):
            return _cut_at_signal(piece, listen())
        if listener.feed(piece.text):
            if kept := listener.text[length:]:
                tell(kept)
            return StreamedReply(ModelReply(text=listener.text), cut=True)
        tell(piece.text)
        length += len(piece.text)
    raise _incomplete_reply_error()


def _cut_at_signal(reply: ModelReply, listener: ReplyScanner) -> StreamedReply:
    """A reply that calls tools does not route, and is kept whole."""
    if reply.tool_calls or not listener.feed(reply.text):
        return StreamedReply(reply)
    return StreamedReply(msgspec.structs.replace(reply, text=listener.text), cut=True)


def require_sound(reply: ModelReply) -> None:
    """`ModelRefused` for a reply with wrong types: a host's model is not type-checked."""
    if not isinstance(reply.text, str):
        raise ModelRefused(f"the model's reply has a {type(reply.text).__name__} for its text; it must be a str")
    if not isinstance(reply.usage, Usage):
        raise ModelRefused(f"the model's reply has a {type(reply.usage).__name__} for its usage; it must be a Usage")
    for name in Usage.__struct_fields__:
        count = getattr(reply.usage, name)
        if type(count) is not int or not 0 <= count <= USAGE_MAX:
            raise ModelRefused(
                f"the model reports a usage with {name} {count!r}; it must be a whole number from 0 to {USAGE_MAX:,}"
            )
    calls: Sequence[object] = reply.tool_calls
    for call in calls or ():
        if not isinstance(call, ToolRequest) or not all(
            isinstance(part, str) for part in msgspec.structs.astuple(call)
        ):
            raise ModelRefused(f"the model calls a tool by {call!r}; it must be a ToolRequest of three texts")


def _incomplete_reply_error() -> ModelUnavailable:
    return ModelUnavailable("the reply broke off before its end")
