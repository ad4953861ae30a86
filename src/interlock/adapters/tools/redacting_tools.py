"""Redacts the host's secrets in the outputs of a toolbox, which are stored and shown."""

from collections.abc import Sequence
from typing import Any

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.errors import ToolFailed, WrongArguments
from interlock.ports import Toolbox, ToolSchema


class RedactingToolbox:
    def __init__(self, toolbox: Toolbox, keys: KnownSecrets) -> None:
        self._toolbox, self._keys = toolbox, keys

    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return self._toolbox.schemas(names)

    def is_idempotent(self, name: str) -> bool:
        return self._toolbox.is_idempotent(name)

    def needs_approval(self, name: str) -> bool:
        return self._toolbox.needs_approval(name)

    def has_approval_function(self, name: str) -> bool:
        return self._toolbox.has_approval_function(name)

    async def call_approval_function(self, name: str, arguments: str, *, key: str) -> Any:
        return await self._toolbox.call_approval_function(name, arguments, key=key)

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        try:
            return self._keys.redact(await self._toolbox.run(name, arguments, key=key))
        except ToolFailed as failure:
            kind = WrongArguments if isinstance(failure, WrongArguments) else ToolFailed
            raise kind(self._keys.redact(str(failure))) from failure
