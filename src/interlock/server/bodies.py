"""Bodies of requests: how large, how slow, how deep they may be, and that they are JSON."""

import asyncio

import msgspec
from starlette.types import Receive

from interlock.errors import RequestRefused
from interlock.messages.reading import depth_of, repeated_key

JSON_DEPTH_MAX = 64


async def read_body(receive: Receive, bytes_max: int, timeout_s: float) -> bytes:
    """The whole body; refuses one that is too large as soon as that is known, and one that does not come."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRefused("body-too-slow", "the client left before its body was there")
                piece = message.get("body", b"")
                size += len(piece)
                require_size(size, bytes_max)
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise RequestRefused("body-too-slow", f"the body was not there after {timeout_s:g} s; send it faster") from None


def require_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise RequestRefused(
            "body-too-large",
            f"the body is larger than {bytes_max:,} bytes; send less; a run's may be settings.max_request_body_size_kb",
        )


def require_json(body: bytes) -> None:
    """Refuses what is not JSON, nests without end or names a key twice; numbers are finite, texts whole characters."""
    try:
        msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused("bad-json", f"the body is not JSON: {error}") from None
    text = body.decode()
    if depth_of(text) > JSON_DEPTH_MAX:
        raise _too_deep()
    if (key := repeated_key(text)) is not None:
        raise RequestRefused("bad-json", f"the body names the key {key[:80]!r} twice in one object; keep one")


def _too_deep() -> RequestRefused:
    return RequestRefused("too-deep", f"the body nests deeper than {JSON_DEPTH_MAX} levels; flatten it")
