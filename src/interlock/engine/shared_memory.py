"""Memory that the crews of one task share. Agents use two tools for it, tools of the host write to it when they return;
a host may fill it at the start.

Rule 1: each run has its own copy. A child starts with its parent's values and returns what it wrote when it completes.
Rule 2: within a run every agent sees a write at once.
Rule 3: values of several children are merged in file order, so the last one counts. Keys with different values are a
warning.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from interlock.engine.events import MemoryWritten, Warned
from interlock.engine.state import Turn
from interlock.engine.transition import ToolRefusal, Transition
from interlock.limits import MEMORY_KEY_CHARS_MAX, MEMORY_KEYS_MAX, MEMORY_VALUE_BYTES_MAX, MEMORY_VALUE_DEPTH_MAX


class MemoryReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Annotated[str, msgspec.Meta(description="Leave it out to see which keys there are.")] = ""


class MemoryWriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MEMORY_KEY_CHARS_MAX)]
    value: Annotated[Any, msgspec.Meta(description="A text, a number, a list or an object.")]


def memory_read(t: Transition, turn: Turn, given: MemoryReadArguments) -> str:
    if given.key in t.state.memory:
        return as_text(t.state.memory[given.key])
    known = ", ".join(sorted(t.state.memory)) or "none yet"  # the journal keeps no order of keys
    if not given.key:
        return f"keys: {known}"
    raise ToolRefusal(f"nothing is kept under '{given.key}'; keys: {known}")


def memory_write(t: Transition, turn: Turn, given: MemoryWriteArguments) -> str:
    if fault := value_fault(given.value):
        raise ToolRefusal(f"the value {fault}; keep less")
    if given.key not in t.state.memory and len(t.state.memory) >= MEMORY_KEYS_MAX:
        raise ToolRefusal(f"there are {MEMORY_KEYS_MAX} keys already, and no room for another; write over one of them")
    store_value(t, given.key, given.value, by=turn.agent)
    return f"kept under '{given.key}'"


def store_if_room(t: Transition, key: str, value: Any, by: str) -> None:
    """Stores a value that a tool of the host wrote; a warning if others have taken the last room meanwhile."""
    if key in t.state.memory or len(t.state.memory) < MEMORY_KEYS_MAX:
        store_value(t, key, value, by)
        return
    message = f"'{key}' is not kept: the shared memory has {MEMORY_KEYS_MAX} keys already"
    t.record(Warned(code="memory-full", message=message))


def value_fault(value: Any) -> str:
    """Why the value cannot be stored; empty if it can."""
    if _is_deep(value):
        return f"is nested deeper than {MEMORY_VALUE_DEPTH_MAX} levels"
    size = len(msgspec.json.encode(value))
    return f"has {size} bytes, and a value may have {MEMORY_VALUE_BYTES_MAX}" if size > MEMORY_VALUE_BYTES_MAX else ""


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MEMORY_VALUE_DEPTH_MAX):
        level = [inner for each in level for inner in _inner_values(each)]
        if not level:
            return False
    return True


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def store_value(t: Transition, key: str, value: Any, by: str) -> None:
    """Stores a value; `by` is an agent, or the sub-crew that returned."""
    t.state.memory[key] = value
    if key not in t.state.written:
        t.state.written.append(key)
    t.record(MemoryWritten(key=key, by=by))


def as_text(value: Any) -> str:
    """The value as text for prompts and templates."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()
