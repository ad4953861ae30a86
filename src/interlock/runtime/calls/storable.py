"""Texts as the journal can store them."""

from interlock.engine.events import ReasoningBlock, ToolRequest


def as_storable(text: str) -> str:
    """The text with lone surrogates replaced: UTF-8, and so the journal, has no form for them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def as_storable_call(call: ToolRequest) -> ToolRequest:
    return ToolRequest(id=as_storable(call.id), name=as_storable(call.name), arguments=as_storable(call.arguments))


def as_storable_block(block: ReasoningBlock) -> ReasoningBlock:
    return ReasoningBlock(
        provider=as_storable(block.provider),
        kind=as_storable(block.kind),
        text=as_storable(block.text),
        data=as_storable(block.data),
    )
