"""Hearing a model out: until its reply is whole, or until nothing after it is wanted.

Rule 1: a reply is cut at the same place whether it came in pieces or at once.
Rule 2: watchers are told what is kept, and nothing after the cut.
Rule 3: hosts bring models of their own. What is no reply is refused here, and not found out by the journal.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from interlock.engine.events import ToolRequest, Usage
from interlock.engine.listening import Listener
from interlock.errors import ModelRefused, ModelUnavailable
from interlock.limits import USAGE_MAX
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


def require_sound(reply: ModelReply) -> None:
    """`ModelRefused` for a reply that only looks like one; types are promises that nobody has checked yet."""
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


def _broken_off() -> ModelUnavailable:
    return ModelUnavailable("the reply broke off before its end")
