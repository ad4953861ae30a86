"""Long lists as one streamed document: only one page is in memory.

Rule 1: refusals come before the first byte: the first page is read before the answer starts.
Rule 2: a piece is sent when the client has received the one before; `protocol` disconnects clients that do not read.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

# Bytes of an answer per write.
CHUNK_BYTES = 64 * 1024

Redact = Callable[[bytes], bytes]


async def list_response(
    name: str, pages: AsyncIterator[Sequence[Any]], redact: Redact, before: dict[str, Any] | None = None
) -> Response:
    """`{name: [...]}`, after the fields of `before`."""
    nothing: Sequence[Any] = []  # not a tuple: `anext` would use it as the arguments of an exception
    first = await anext(pages, nothing)
    head = msgspec.json.encode({**(before or {}), name: []}).removesuffix(b"]}")
    return StreamingResponse(_chunks(_list_json(head, first, pages, redact)), media_type="application/json")


async def _list_json(
    head: bytes, first: Sequence[Any], pages: AsyncIterator[Sequence[Any]], redact: Redact
) -> AsyncIterator[bytes]:
    yield head
    comma = b""
    async for page in _chain_pages(first, pages):
        for item in page:
            yield comma + redact(msgspec.json.encode(item))
            comma = b","
    yield b"]}"


async def _chain_pages(first: Sequence[Any], pages: AsyncIterator[Sequence[Any]]) -> AsyncIterator[Sequence[Any]]:
    yield first
    async for page in pages:
        yield page


async def _chunks(texts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Joins small pieces into larger ones."""
    waiting = bytearray()
    async for text in texts:
        waiting += text
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    yield bytes(waiting)
