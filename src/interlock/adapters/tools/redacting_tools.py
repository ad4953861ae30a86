"""Redacts the host's secrets in the outputs of a toolbox, which are stored and shown."""

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.errors import ToolFailed, WrongArguments
from interlock.ports import NO_CREW, CrewRef, RunAccess, Toolbox, ToolCall, ToolSchema


class RedactingToolbox:
    def __init__(self, toolbox: Toolbox, keys: KnownSecrets) -> None:
        self._toolbox, self._keys = toolbox, keys

    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]:
        return self._toolbox.schemas(names, crew)

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._toolbox.is_idempotent(name, crew)

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._toolbox.needs_approval(name, crew)

    def has_approval_function(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._toolbox.has_approval_function(name, crew)

    async def call_approval_function(self, call: ToolCall) -> Any:
        return await self._toolbox.call_approval_function(call)

    async def run(self, call: ToolCall) -> str:
        if call.access is not None:
            call = msgspec.structs.replace(call, access=_RedactingAccess(call.access, self._keys))
        try:
            return self._keys.redact(await self._toolbox.run(call))
        except ToolFailed as failure:
            kind = WrongArguments if isinstance(failure, WrongArguments) else ToolFailed
            raise kind(self._keys.redact(str(failure))) from failure


class _RedactingAccess:
    """Redacts what a tool shows and keeps while it works."""

    def __init__(self, access: RunAccess, keys: KnownSecrets) -> None:
        self._access, self._keys = access, keys

    def memory_keys(self) -> list[str]:
        return self._access.memory_keys()

    def read_memory(self, key: str) -> Any:
        return self._access.read_memory(key)

    def write_memory(self, key: str, value: Any) -> None:
        self._access.write_memory(self._keys.redact(key), value)  # the event redacts the value

    def show_progress(self, text: str) -> None:
        self._access.show_progress(self._keys.redact(text))
