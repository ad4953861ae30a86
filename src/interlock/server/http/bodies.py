"""Request bodies: limits of size, time and depth, and the check that they are JSON."""

import asyncio

import msgspec
from starlette.types import Receive

from interlock.errors import RequestRefused
from interlock.messages.reading import depth_of, duplicate_key

JSON_DEPTH_MAX = 64


async def read_body(receive: Receive, bytes_max: int, timeout_s: float) -> bytes:
    """Reads the whole body; refuses one that is too large, as soon as that is known, or too slow."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestRefused("body-too-slow", "the client disconnected before its body arrived")
                piece = message.get("body", b"")
                size += len(piece)
                require_size(size, bytes_max)
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise RequestRefused(
            "body-too-slow", f"the body did not arrive within {timeout_s:g} s; send it faster"
        ) from None


def require_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise RequestRefused(
            "body-too-large",
            f"the body is larger than {bytes_max:,} bytes; send less; a crew sets settings.max_request_body_size_kb",
        )


def require_json(body: bytes) -> None:
    """Refuses a body that is not JSON, nests too deep, repeats a key, or has infinite numbers or broken characters."""
    try:
        msgspec.json.decode(body)
    except RecursionError:
        raise _too_deep_error() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused("bad-json", f"the body is not JSON: {error}") from None
    text = body.decode()
    if text.count("[") + text.count("{") > JSON_DEPTH_MAX and depth_of(text) > JSON_DEPTH_MAX:
        raise _too_deep_error()
    if (key := duplicate_key(text)) is not None:
        raise RequestRefused("bad-json", f"the body has the key {key[:80]!r} twice in one object; keep one")


def _too_deep_error() -> RequestRefused:
    return RequestRefused("too-deep", f"the body nests deeper than {JSON_DEPTH_MAX} levels; flatten it")
