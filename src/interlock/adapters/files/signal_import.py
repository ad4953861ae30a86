"""Reads files of the original program, `events.jsonl` and `delayed.json`, and names every mistake by its place.

Rule 1: entries that cannot be read are reported and left out; the rest is imported. The files are not changed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from interlock.broadcast.delayed import DelayedBroadcast, require_repeat_key, require_time
from interlock.broadcast.record import (
    UNSET,
    Broadcast,
    Source,
    require_broadcast_data,
    require_broadcast_type,
    require_source_id,
    source_label,
)
from interlock.broadcast.schedules import Schedule, require_schedule
from interlock.errors import BadBroadcast, UsageError

# The end of the year 9999: no later time can be written.
MOMENT_MS_MAX = 253_402_300_799_999


class SignalImport(msgspec.Struct, kw_only=True):
    """The content of a folder or file; `problems` names each mistake with its place."""

    broadcasts: list[Broadcast] = []
    delayed: list[DelayedBroadcast] = []
    problems: list[str] = []


class _Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    type: str
    source: Source
    created_at: int
    data: Any = UNSET


class _Entry(_Event, frozen=True, kw_only=True, rename="camel"):
    deliver_at: int
    updated_at: int = 0
    repeat_key: str | None = None
    schedule: Schedule | None = None


class _Queue(msgspec.Struct, frozen=True):
    version: int
    events: list[msgspec.Raw]


def read_signals(path: Path, now: int) -> SignalImport:
    """Reads a folder with one or both files, or one of them by its name."""
    files = [path / "events.jsonl", path / "delayed.json"] if path.is_dir() else [path]
    there = [file for file in files if file.exists()]
    if not there:
        raise UsageError(f"there is no events.jsonl or delayed.json at '{path}'")
    found = SignalImport()
    for file in there:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UsageError(f"'{file}' cannot be read: {error.strerror}") from error
        (_read_queue if file.suffix == ".json" else _read_events)(data, file, now, found)
    return found


def _read_events(data: bytes, file: Path, now: int, found: SignalImport) -> None:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.broadcasts.append(_broadcast(msgspec.json.decode(line, type=_Event)))
        except (ValueError, RecursionError, BadBroadcast) as error:
            found.problems.append(f"{file}:{number}: {error}")


def _broadcast(event: _Event) -> Broadcast:
    return Broadcast(
        id=_require_id(event.id),
        type=require_broadcast_type(event.type),
        source=_require_source(event.source),
        data=require_broadcast_data(event.data),
        created_at=_require_moment(event.created_at),
    )


def _read_queue(data: bytes, file: Path, now: int, found: SignalImport) -> None:
    try:
        queue = msgspec.json.decode(data, type=_Queue)
    except (ValueError, RecursionError) as error:
        found.problems.append(f"{file}: {error}")
        return
    if queue.version != 1:
        found.problems.append(f"{file}: version {queue.version} is unknown; this one reads 1")
        return
    found.delayed += _entries(queue.events, file, now, found.problems)


def _entries(raw: list[msgspec.Raw], file: Path, now: int, problems: list[str]) -> Iterator[DelayedBroadcast]:
    for number, body in enumerate(raw, 1):
        try:
            entry = msgspec.json.decode(body, type=_Entry)
            yield DelayedBroadcast(
                id=_require_id(entry.id),
                type=require_broadcast_type(entry.type),
                source=_require_source(entry.source),
                deliver_at=require_time(entry.deliver_at, now),
                created_at=_require_moment(entry.created_at),
                updated_at=_require_moment(entry.updated_at or entry.created_at),
                data=require_broadcast_data(entry.data),
                repeat_key=require_repeat_key(entry.repeat_key),
                schedule=require_schedule(entry.schedule) if entry.schedule is not None else None,
            )
        except (ValueError, RecursionError, BadBroadcast) as error:
            problems.append(f"{file}, event {number}: {error}")


def _require_source(source: Source) -> Source:
    if (source.type == "agent") != bool(source.id) and source.type in ("agent", "system"):
        raise BadBroadcast("source", source_label(source), "is none: agents have an id, and the system has none")
    require_source_id(source.id)
    return source


def _require_moment(at: int) -> int:
    if not 0 <= at <= MOMENT_MS_MAX:
        raise BadBroadcast("createdAt", str(at)[:80], "is not in milliseconds from 1970 to 9999")
    return at


def _require_id(name: str) -> str:
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise BadBroadcast("id", name[:80], "is not a text of 1 to 100 characters that can be printed")
    return name
