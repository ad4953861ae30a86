"""Hearing a model out: until its reply is whole, or until nothing after it is wanted.

Rule 1: a reply is cut at the same place whether it came in pieces or at once.
Rule 2: watchers are told what is kept, and nothing after the cut.
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from interlock.engine.listening import Listener
from interlock.errors import ModelUnavailable
from interlock.ports import Delta, ModelReply

Pieces = AsyncIterator[Delta | ModelReply]
Tell = Callable[[str], None]


class HeardOut(NamedTuple):
    """A reply, and whether it was cut: then what it cost is known only if it came at once."""

    reply: ModelReply
    cut: bool = False


async def heard_out(pieces: Pieces, tell: Tell) -> HeardOut:
    async for piece in pieces:
        if isinstance(piece, ModelReply):
            return HeardOut(piece)
        tell(piece.text)
    raise _broken_off()


async def heard_to_the_cut(pieces: Pieces, tell: Tell, listen: Callable[[], Listener]) -> HeardOut:
    """Stops at the end of the first line of nothing but steering marks; whoever made the pieces closes them."""
    listener, length = listen(), 0
    async for piece in pieces:
        if isinstance(piece, ModelReply):
            return _cut_if_said_at_once(piece, listen())
        if listener.feed(piece.text):
            if kept := listener.text[length:]:
                tell(kept)
            return HeardOut(ModelReply(text=listener.text), cut=True)
        tell(piece.text)
        length += len(piece.text)
    raise _broken_off()


def _cut_if_said_at_once(reply: ModelReply, listener: Listener) -> HeardOut:
    """A reply that calls tools does not steer, and is kept whole."""
    if reply.tool_calls or not listener.feed(reply.text):
        return HeardOut(reply)
    return HeardOut(msgspec.structs.replace(reply, text=listener.text), cut=True)


def _broken_off() -> ModelUnavailable:
    return ModelUnavailable("the reply broke off before its end")
