"""What a tool is given besides its arguments, if it has a parameter of the type `ToolContext`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from interlock.adapters.tools.tool_results import plain_value
from interlock.ports import RunAccess, ToolCall

if TYPE_CHECKING:  # a default, so that `ToolContext` alone is a whole type
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


class ToolMemory(Mapping[str, Any]):
    """The shared memory of the run, as the tools memory_read and memory_write see it.

    What a tool writes is stored when the tool returns, with its result; a call that fails writes nothing. Without a
    run, as in tests, it keeps its own values.
    """

    def __init__(self, access: RunAccess | None = None) -> None:
        self._access = access
        self._own: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self._own[key] if self._access is None else self._access.read_memory(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if self._access is None:
            self._own[key] = plain_value(value)
        else:
            self._access.write_memory(key, plain_value(value))

    def __iter__(self) -> Iterator[str]:
        return iter(self._own if self._access is None else self._access.memory_keys())

    def __len__(self) -> int:
        return len(list(iter(self)))

    def read(self, key: str, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        return self.get(key, default)

    def write(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can represent, in place of an older one under the same key."""
        self[key] = value


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[Deps]):
    """Given to a tool that has a parameter of this type; a test of the tool makes its own.

    `key` names the call over all runs and is the same if the call is repeated. `epoch` is larger each time another
    process owns the run: a service that sees a smaller one than before can refuse it. `user` and `deps` are those that
    the run was started with.
    """

    key: str = ""
    run: str = ""
    agent: str = ""
    crew: str = ""
    call: str = ""
    epoch: int = 0
    user: str = ""
    deps: Deps = None  # type: ignore[assignment]
    memory: ToolMemory = field(default_factory=ToolMemory)
    access: RunAccess | None = field(default=None, repr=False)

    def progress(self, text: str) -> None:
        """Shows a line to followers of the run while the tool works; it is not stored."""
        if self.access is not None:
            self.access.show_progress(str(text))


def context_of(call: ToolCall, deps: Any) -> ToolContext[Any]:
    return ToolContext(
        key=call.key,
        run=call.run,
        agent=call.agent,
        crew=call.crew,
        call=call.call,
        epoch=call.epoch,
        user=call.user,
        deps=deps,
        memory=ToolMemory(call.access),
        access=call.access,
    )
