"""Tools that agents call."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, Any]


class Toolbox(Protocol):
    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]: ...

    def is_idempotent(self, name: str) -> bool: ...

    def needs_approval(self, name: str) -> bool:
        """Whether a person must approve every call before it runs."""
        ...

    def has_approval_function(self, name: str) -> bool:
        """Whether a function of its code decides which calls a person must approve."""
        ...

    async def call_approval_function(self, name: str, arguments: str, *, key: str) -> Any:
        """The result of that function. It may raise anything."""
        ...

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        """The tool's output as text; raises `ToolFailed` with the text for the model."""
        ...
