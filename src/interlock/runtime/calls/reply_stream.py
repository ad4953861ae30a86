"""Reads the reply of a model: to its end, or to the first line of signals. Then it is closed.

Rule 1: a reply is cut at the same place whether it came in pieces or whole.
Rule 2: watchers see the text up to the cut, and nothing after it.
Rule 3: hosts bring their own models. A reply of the wrong type is refused here, before the journal sees it.
Rule 4: reasoning between tags is split off here, for every model. From here on the text is without it.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from interlock.engine.events import NO_USAGE, ReasoningBlock, ToolRequest, Usage
from interlock.errors import ModelRefused, ModelUnavailable
from interlock.limits import USAGE_MAX
from interlock.ports import Delta, ModelReply, ReasoningDelta
from interlock.runtime.calls.split_pieces import CutPieces, Listen, SplitPieces, Tell, TellReasoning
from interlock.signals.reasoning_tags import TAG_BEGIN, split_reasoning

Pieces = AsyncIterator[Delta | ReasoningDelta | ModelReply]


class StreamedReply(msgspec.Struct, frozen=True, gc=False):
    """A reply, and whether it was cut: then its cost is known only if it came whole.

    `is_unopened`: it had a closing tag of reasoning without the opening one.
    """

    reply: ModelReply
    cut: bool = False
    is_unopened: bool = False


async def read_reply(
    pieces: Pieces, tell: Tell, tell_reasoning: TellReasoning, listen: Listen | None, *, holds_text: bool = False
) -> StreamedReply:
    """Reads to the end; with `listen`, to the first line that holds only signals.

    With `holds_text` the pieces are shown as reasoning until a tag of reasoning comes.
    """
    try:
        if listen is not None:
            return await read_reply_until_signal(pieces, CutPieces(listen, tell, tell_reasoning, holds_text=holds_text))
        before: list[str] = []
        split = SplitPieces(tell, tell_reasoning, holds_text=True) if holds_text else None
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                if split is not None:
                    split.end()
                said: object = piece.text
                return _without_tags(piece) if isinstance(said, str) and TAG_BEGIN in said else StreamedReply(piece)
            if isinstance(piece, ReasoningDelta):
                tell_reasoning(piece.text)
            elif split is not None or TAG_BEGIN in piece.text:
                split = split or SplitPieces(tell, tell_reasoning, before="".join(before))
                split.feed(piece.text)
            else:
                before.append(piece.text)
                tell(piece.text)
        raise _incomplete_reply_error()
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:  # left open, the loop would close a generator in a task without an owner
            await close()


async def read_reply_until_signal(pieces: Pieces, cut: CutPieces) -> StreamedReply:
    """Reads up to the end of the first line that holds only signals; the caller closes the pieces."""
    async for piece in pieces:
        if isinstance(piece, ModelReply):
            return _cut_at_signal(piece, cut)
        if isinstance(piece, ReasoningDelta):
            cut.add_reasoning(piece.text)
        elif cut.feed(piece.text):
            return StreamedReply(ModelReply(text=cut.text, reasoning=_blocks_of(cut.reasoning_text)), cut=True)
    raise _incomplete_reply_error()


def _cut_at_signal(reply: ModelReply, pieces: CutPieces) -> StreamedReply:
    """A reply that calls tools does not route, and is kept whole."""
    cut = pieces.for_whole_reply()
    if reply.tool_calls or not cut.feed(reply.text):
        pieces.end()
        return _without_tags(reply) if TAG_BEGIN in reply.text else StreamedReply(reply)
    reasoning = (*reply.reasoning, *_blocks_of(cut.reasoning_text))
    return StreamedReply(msgspec.structs.replace(reply, text=cut.text, reasoning=reasoning), cut=True)


def _without_tags(reply: ModelReply) -> StreamedReply:
    """The reply with its reasoning between tags in blocks."""
    text, reasoning, is_unopened = split_reasoning(reply.text)
    blocks = (*reply.reasoning, *_blocks_of(reasoning))
    return StreamedReply(msgspec.structs.replace(reply, text=text, reasoning=blocks), is_unopened=is_unopened)


def _blocks_of(reasoning: str) -> tuple[ReasoningBlock, ...]:
    """Reasoning that no provider wants back."""
    return (ReasoningBlock(text=reasoning),) if reasoning else ()


def require_sound(reply: ModelReply) -> None:
    """`ModelRefused` for a reply with wrong types: a host's model is not type-checked."""
    if not isinstance(reply.text, str):
        raise ModelRefused(f"the model's reply has a {type(reply.text).__name__} for its text; it must be a str")
    if not isinstance(reply.usage, Usage):
        raise ModelRefused(f"the model's reply has a {type(reply.usage).__name__} for its usage; it must be a Usage")
    if reply.usage is not NO_USAGE:
        _require_counts(reply.usage)
    calls: Sequence[object] = reply.tool_calls
    for call in calls or ():
        if not isinstance(call, ToolRequest) or not all(
            isinstance(part, str) for part in msgspec.structs.astuple(call)
        ):
            raise ModelRefused(f"the model calls a tool by {call!r}; it must be a ToolRequest of three texts")
    blocks: Sequence[object] = reply.reasoning
    for block in blocks or ():
        if not isinstance(block, ReasoningBlock) or not all(
            isinstance(part, str) for part in msgspec.structs.astuple(block)
        ):
            raise ModelRefused(f"the model reasons by {block!r}; it must be a ReasoningBlock of four texts")


def _require_counts(usage: Usage) -> None:
    for name, count in msgspec.structs.asdict(usage).items():
        if type(count) is not int or not 0 <= count <= USAGE_MAX:
            raise ModelRefused(
                f"the model reports a usage with {name} {count!r}; it must be a whole number from 0 to {USAGE_MAX:,}"
            )


def _incomplete_reply_error() -> ModelUnavailable:
    return ModelUnavailable("the reply broke off before its end")
