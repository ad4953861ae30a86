"""Any toolbox, with the secrets of the host hidden in what its tools say: their outputs are journalled and shown."""

from collections.abc import Sequence

from interlock.adapters.models.known_keys import KnownKeys
from interlock.errors import ToolFailed, WrongArguments
from interlock.ports import Toolbox, ToolSchema


class HidingToolbox:
    def __init__(self, toolbox: Toolbox, keys: KnownKeys) -> None:
        self._toolbox, self._keys = toolbox, keys

    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return self._toolbox.schemas(names)

    def is_idempotent(self, name: str) -> bool:
        return self._toolbox.is_idempotent(name)

    def needs_approval(self, name: str) -> bool:
        return self._toolbox.needs_approval(name)

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        try:
            return self._keys.hidden(await self._toolbox.run(name, arguments, key=key))
        except ToolFailed as failure:
            kind = WrongArguments if isinstance(failure, WrongArguments) else ToolFailed
            raise kind(self._keys.hidden(str(failure))) from failure
