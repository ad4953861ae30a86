"""What a tool may do in its run while it works: use the shared memory, and show progress.

Rule 1: writes are kept here until the tool returns. They are stored with its result, in one record: a call that fails,
is too late, or dies with its process has written nothing.
Rule 2: it is used from the threads and loops of tools, so it changes nothing of the run.
"""

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any

import msgspec

from interlock.engine.effects import RunTool
from interlock.engine.prompt.phrases import truncate
from interlock.engine.shared_memory import value_fault
from interlock.errors import ToolFailed
from interlock.limits import MEMORY_KEY_CHARS_MAX, MEMORY_KEYS_MAX, TOOL_PROGRESS_CHARS_MAX
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.live_run import LiveRun

OnProgress = Callable[[LiveRun, RunTool, str], None]


class CallAccess:
    """The access of one call, until the call is over."""

    def __init__(self, live: LiveRun, effect: RunTool, on_progress: OnProgress) -> None:
        self._live, self._effect, self._on_progress = live, effect, on_progress
        self._loop = asyncio.get_running_loop()
        self._lock, self._writes, self._is_over = Lock(), dict[str, Any](), False

    def memory_keys(self) -> list[str]:
        with self._lock:
            return sorted({*list(self._live.run.state.memory), *self._writes})

    def read_memory(self, key: str) -> Any:
        with self._lock:
            value = self._writes[key] if key in self._writes else self._live.run.state.memory[key]
            return msgspec.to_builtins(value)

    def write_memory(self, key: str, value: Any) -> None:
        plain = _as_json(key, value)
        if fault := value_fault(plain):
            raise ToolFailed(f"the value of '{key[:80]}' in the shared memory {fault}; keep less")
        with self._lock:
            if self._is_over:
                raise ToolFailed(f"'{key[:80]}' is not kept in the shared memory: the call is over")
            known = {*list(self._live.run.state.memory), *self._writes}
            if key not in known and len(known) >= MEMORY_KEYS_MAX:
                raise ToolFailed(f"the shared memory has {MEMORY_KEYS_MAX} keys already; write over one of them")
            self._writes[key] = plain

    def show_progress(self, text: str) -> None:
        shown = truncate(as_storable(text), TOOL_PROGRESS_CHARS_MAX)
        try:
            self._loop.call_soon_threadsafe(self._tell_followers, shown)
        except RuntimeError:  # the loop is closed, so there are no followers
            return

    def _tell_followers(self, text: str) -> None:
        if self._live.is_awaiting(self._effect):
            self._on_progress(self._live, self._effect, text)

    def end_call(self) -> dict[str, Any]:
        """Accepts no further writes, and gives those there are."""
        with self._lock:
            self._is_over = True
            return self._writes


def _as_json(key: Any, value: Any) -> Any:
    """The value as the journal stores it: a copy that the tool cannot change later."""
    if not isinstance(key, str) or not 0 < len(key) <= MEMORY_KEY_CHARS_MAX:
        raise ToolFailed(
            f"{str(key)[:80]!r} is not a key of the shared memory; use a text of 1 to {MEMORY_KEY_CHARS_MAX} characters"
        )
    try:
        msgspec.json.encode(key)
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception as error:  # values of the host may fail in any way when they are encoded
        raise ToolFailed(
            f"the value of '{key[:80]}' cannot be kept in the shared memory: it is not JSON ({error})"
        ) from error
