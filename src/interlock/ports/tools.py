"""Tools that agents call."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, Any]


class CrewRef(msgspec.Struct, frozen=True):
    """The crew that asks for a tool, in the tree of the run `root`: functions given with a crew are its own tools."""

    name: str = ""
    sha: str = ""
    root: str = ""


# Asks for the tools of the host only.
NO_CREW = CrewRef()


class RunAccess(Protocol):
    """What a tool may do in its run while it works. It may be called from any thread."""

    def memory_keys(self) -> list[str]: ...

    def read_memory(self, key: str) -> Any:
        """A copy of the value, with the writes of this call; `KeyError` if there is none."""
        ...

    def write_memory(self, key: str, value: Any) -> None:
        """Keeps a JSON value; the run has it when the tool returns. `ToolFailed` if it cannot be kept."""
        ...

    def show_progress(self, text: str) -> None:
        """Shows a line to followers of the run; it is not stored."""
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool. `call` is its id in the events of `run`, `key` is unique and the same on every try.

    `epoch` grows each time that another process owns the run: a fencing token. `user` is the user of the run.
    """

    name: str
    arguments: str = ""
    key: str = ""
    run: str = ""
    root: str = ""
    agent: str = ""
    crew: str = ""
    crew_sha: str = ""
    call: str = ""
    epoch: int = 0
    user: str = ""
    access: RunAccess | None = None  # None: there is no run


class Toolbox(Protocol):
    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]: ...

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool: ...

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        """Whether a person must approve every call before it runs."""
        ...

    def has_approval_function(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        """Whether a function of its code decides which calls a person must approve."""
        ...

    async def call_approval_function(self, call: ToolCall) -> Any:
        """The result of that function. It may raise anything."""
        ...

    async def run(self, call: ToolCall) -> str:
        """The tool's output as text; raises `ToolFailed` with the text for the model."""
        ...
