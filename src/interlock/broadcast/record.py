"""The broadcast: its fields, its source and its limits.

Rule 1: Interlock sets the source of a broadcast. A caller that names another source than its own is refused.
Rule 2: the fields are those of the protocol: `id`, `type`, `source`, `data` if there is any, `createdAt`.
Rule 3: data that cannot be stored whole is refused first: too long, too deep, not JSON.
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
    """The source of a broadcast. Agents always have an id, the system never has one."""

    type: SourceType
    id: str = ""


SYSTEM = Source(type="system")
PROCESS = Source(type="process")


class Broadcast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An announcement, as it is stored and shown."""

    id: str
    type: str
    source: Source
    data: Any = UNSET
    created_at: int = msgspec.field(name="createdAt")


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast on its way into the store: the agent that sent it, if any, and how many broadcasts led to it.

    `told` are agents of that crew that are notified in another way.
    """

    broadcast: Broadcast
    crew: str = ""
    agent: str = ""
    hops: int = 0
    told: tuple[str, ...] = ()


class ReceivedBroadcast(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast as a subscriber gets it; broadcasts that it causes have one hop more."""

    broadcast: Broadcast
    hops: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Broadcast)


def encode_broadcast(broadcast: Broadcast) -> bytes:
    """One compact line of JSON, without its end."""
    return _encoder.encode(broadcast)


def decode_broadcast(body: bytes) -> Broadcast:
    """Reads a broadcast; `ValueError` if the body is not one."""
    try:
        return _decoder.decode(body)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def type_fault(kind: str) -> str | None:
    """The reason why a broadcast type is invalid, or None."""
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
    """The reason why broadcast data is invalid, or None."""
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


def require_broadcast_type(kind: object) -> str:
    """Returns the trimmed type; raises `BadBroadcast` if it is invalid."""
    if not isinstance(kind, str):
        raise BadBroadcast("type", str(kind)[:80], "is no text")
    if fault := type_fault(kind):
        raise BadBroadcast("type", kind[:80], fault)
    return kind.strip()


def require_broadcast_data(data: Any) -> Any:
    if fault := data_fault(data):
        raise BadBroadcast("data", "", fault)
    return data


def require_own_source(claimed: Any, own: Source) -> Source:
    """Returns the caller's own source; a source that the caller names must be the same."""
    if claimed is None or claimed is UNSET:
        return own
    try:
        source = claimed if isinstance(claimed, Source) else msgspec.convert(claimed, Source)
    except msgspec.ValidationError as error:
        raise BadBroadcast("source", str(claimed)[:80], f"is none: {error}") from error
    if source.type != own.type or source.id not in ("", own.id):
        raise BadBroadcast(
            "source", source_label(source), f"is not yours; leave it out, it is set to {source_label(own)}"
        )
    return own


def require_source_id(name: str) -> str:
    """Returns the id of a process or webhook; raises `BadBroadcast` if it is invalid."""
    if len(name) > ID_CHARS_MAX or not name.isprintable():
        raise BadBroadcast("source", name[:80], f"is longer than {ID_CHARS_MAX} characters, or cannot be printed")
    return name


def source_label(source: Source) -> str:
    """The source in words: `agent writer`, `system`."""
    return f"{source.type} {source.id}" if source.id else source.type
