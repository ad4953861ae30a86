"""Lists as one document, written while they are read: however long, no more than a page of them is in memory.

Rule 1: what can be refused is refused before the first byte: the first page is read before the answer begins.
Rule 2: a piece is handed over when the one before it was taken; whoever takes nothing is cut off by `protocol`.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

# Of an answer that is handed to the socket at once.
PIECE_BYTES = 64 * 1024

Redact = Callable[[bytes], bytes]


async def list_answer(
    name: str, pages: AsyncIterator[Sequence[Any]], redact: Redact, before: dict[str, Any] | None = None
) -> Response:
    """`{name: [...]}`, after the fields of `before`."""
    nothing: Sequence[Any] = []  # no tuple: `anext` would take it for the arguments of an exception
    first = await anext(pages, nothing)
    head = msgspec.json.encode({**(before or {}), name: []}).removesuffix(b"]}")
    return StreamingResponse(_pieces(_texts(head, first, pages, redact)), media_type="application/json")


async def _texts(
    head: bytes, first: Sequence[Any], pages: AsyncIterator[Sequence[Any]], redact: Redact
) -> AsyncIterator[bytes]:
    yield head
    comma = b""
    async for page in _joined(first, pages):
        for item in page:
            yield comma + redact(msgspec.json.encode(item))
            comma = b","
    yield b"]}"


async def _joined(first: Sequence[Any], pages: AsyncIterator[Sequence[Any]]) -> AsyncIterator[Sequence[Any]]:
    yield first
    async for page in pages:
        yield page


async def _pieces(texts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Neither tiny nor large."""
    waiting = bytearray()
    async for text in texts:
        waiting += text
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    yield bytes(waiting)
