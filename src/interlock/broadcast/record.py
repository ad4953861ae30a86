"""What a broadcast is, who it can be from, and what it may hold.

Rule 1: Interlock says who a broadcast is from. Whoever names another source than their own is refused.
Rule 2: what goes out is what the protocol asks for: `id`, `type`, `source`, `data` if there is any, `createdAt`.
Rule 3: what cannot be kept whole is refused before it is kept: too long, too deep, no JSON.
"""

import math
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from interlock.errors import BadBroadcast
from interlock.limits import (
    BROADCAST_DATA_BYTES_MAX,
    BROADCAST_DATA_DEPTH_MAX,
    BROADCAST_SEGMENTS_MAX,
    BROADCAST_TYPE_CHARS_MAX,
    ID_CHARS_MAX,
)

SourceType = Literal["system", "agent", "webhook", "process"]

UNSET = msgspec.UNSET


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a broadcast comes from. Agents always have an id, the system never has one."""

    type: SourceType
    id: str = ""


SYSTEM = Source(type="system")
PROCESS = Source(type="process")


class Broadcast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An announcement, as it is kept and shown."""

    id: str
    type: str
    source: Source
    data: Any = UNSET
    created_at: int = msgspec.field(name="createdAt")


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast on its way into the store: whose own it is, if an agent's, and how many broadcasts led to it.

    `told` are agents of that crew who hear of it in another way.
    """

    broadcast: Broadcast
    crew: str = ""
    agent: str = ""
    hops: int = 0
    told: tuple[str, ...] = ()


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast as somebody gets it; what they announce because of it has one hop more."""

    broadcast: Broadcast
    hops: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Broadcast)


def encoded(broadcast: Broadcast) -> bytes:
    """One compact line of JSON, without its end."""
    return _encoder.encode(broadcast)


def decoded(body: bytes) -> Broadcast:
    """`ValueError` if the body is not that of a broadcast."""
    try:
        return _decoder.decode(body)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def type_fault(kind: str) -> str | None:
    """Why nothing can be announced under this type, or None if it can."""
    if not kind.strip():
        return "is empty, and nobody could hear it"
    if len(kind) > BROADCAST_TYPE_CHARS_MAX or len(kind.encode("utf-8", "surrogatepass")) > BROADCAST_TYPE_CHARS_MAX:
        return f"is longer than {BROADCAST_TYPE_CHARS_MAX} bytes"
    if kind.count(":") >= BROADCAST_SEGMENTS_MAX:
        return f"has {kind.count(':') + 1} segments, at most {BROADCAST_SEGMENTS_MAX} are allowed"
    if not kind.strip().isprintable():
        return "holds characters that cannot be printed"
    return None


def data_fault(data: Any) -> str | None:
    """Why this cannot be announced, or None if it can."""
    if data is UNSET:
        return None
    fault = _value_fault(data, BROADCAST_DATA_DEPTH_MAX)
    if fault is not None:
        return fault
    try:
        size = len(_encoder.encode(data))
    except (TypeError, ValueError, OverflowError) as error:  # a lone surrogate, an integer beyond 64 bits
        return f"cannot be written as JSON: {error}"
    if size > BROADCAST_DATA_BYTES_MAX:
        return f"has {size} bytes, at most {BROADCAST_DATA_BYTES_MAX} are allowed"
    return None


def _value_fault(value: Any, depth: int) -> str | None:
    if depth == 0:
        return f"is nested deeper than {BROADCAST_DATA_DEPTH_MAX} levels"
    if isinstance(value, float) and not math.isfinite(value):
        return "holds a number that JSON has no form for"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return "holds a number beyond 64 bits"
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            return "holds an object with a key that is no text"
        return _first_fault(value.values(), depth)
    if isinstance(value, list | tuple):
        return _first_fault(value, depth)
    if value is None or isinstance(value, str | bool | int | float):
        return None
    return f"holds a {type(value).__name__}, which JSON has no form for"


def _first_fault(values: Iterable[Any], depth: int) -> str | None:
    return next((fault for value in values if (fault := _value_fault(value, depth - 1)) is not None), None)


def checked_type(kind: object) -> str:
    """The type as it is kept, trimmed; `BadBroadcast` if it cannot be."""
    if not isinstance(kind, str):
        raise BadBroadcast("type", str(kind)[:80], "is no text")
    if fault := type_fault(kind):
        raise BadBroadcast("type", kind[:80], fault)
    return kind.strip()


def checked_data(data: Any) -> Any:
    if fault := data_fault(data):
        raise BadBroadcast("data", "", fault)
    return data


def checked_source(claimed: Any, own: Source) -> Source:
    """The caller's own source. What a caller says of it must be that, or nothing."""
    if claimed is None or claimed is UNSET:
        return own
    try:
        source = claimed if isinstance(claimed, Source) else msgspec.convert(claimed, Source)
    except msgspec.ValidationError as error:
        raise BadBroadcast("source", str(claimed)[:80], f"is none: {error}") from error
    if source.type != own.type or source.id not in ("", own.id):
        raise BadBroadcast("source", said(source), f"is not yours; leave it out, it is set to {said(own)}")
    return own


def checked_id(name: str) -> str:
    """The id of a process or webhook."""
    if len(name) > ID_CHARS_MAX or not name.isprintable():
        raise BadBroadcast("source", name[:80], f"is longer than {ID_CHARS_MAX} characters, or cannot be printed")
    return name


def said(source: Source) -> str:
    """For people: `agent writer`, `system`."""
    return f"{source.type} {source.id}" if source.id else source.type
