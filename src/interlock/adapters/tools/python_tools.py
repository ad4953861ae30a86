"""Tools that are Python functions.

Rule 1: the model gets every error of a tool; nothing that a tool does ends the run or the process.
Rule 2: a plain function runs in a thread, an `async` one in the loop; only the latter can be stopped.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgspec

from interlock.adapters.tools.approval_functions import (
    ApprovalFunction,
    call_approval_function,
    require_approval_setting,
)
from interlock.adapters.tools.tool_signatures import arguments_of, read_signature
from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.errors import ToolFailed, UsageError, WrongArguments
from interlock.ports import ToolSchema


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to a tool that has a parameter of this type. `key` is the same if the call is repeated."""

    key: str


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function as a tool. `known_as` is its name if that is not the function's own."""

    function: Callable[..., Any]
    idempotent: bool = False
    needs_approval: bool | ApprovalFunction = False
    known_as: str = ""

    def __post_init__(self) -> None:
        require_approval_setting(self.needs_approval, self.name)

    @property
    def name(self) -> str:
        return self.known_as or getattr(self.function, "__name__", "")


Declare = Callable[[Callable[..., Any]], PythonTool]


@overload
def tool(
    function: Callable[..., Any], *, idempotent: bool = ..., needs_approval: bool | ApprovalFunction = ...
) -> PythonTool: ...
@overload
def tool(*, idempotent: bool = ..., needs_approval: bool | ApprovalFunction = ...) -> Declare: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    idempotent: bool = False,
    needs_approval: bool | ApprovalFunction = False,
) -> PythonTool | Declare:
    """Declares a function as a tool: `idempotent` ones may run again after a crash without asking.

    `needs_approval` is True if a person must approve every call, or a function of the arguments and the `ToolContext`
    that says it for one call. The call runs without a person only if the function returns False.
    """

    def declare(inner: Callable[..., Any]) -> PythonTool:
        return PythonTool(inner, idempotent, needs_approval)

    return declare if function is None else declare(function)


class PythonToolbox:
    """The tools of a host, by name."""

    def __init__(self, tools: Iterable[PythonTool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, _PreparedTool] = {}
        self._threads = ToolThreads()
        for entry in tools:
            declared = entry if isinstance(entry, PythonTool) else PythonTool(entry)
            if not declared.name.isidentifier():
                raise UsageError(f"{declared.function!r} has no name to call it by; a tool is a function with a name")
            if declared.name in self._tools:
                raise UsageError(f"two tools are called '{declared.name}'; rename one of them")
            self._tools[declared.name] = _PreparedTool(declared)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return tuple(self._tools[name].schema for name in names if name in self._tools)

    def is_idempotent(self, name: str) -> bool:
        return name in self._tools and self._tools[name].declared.idempotent

    def needs_approval(self, name: str) -> bool:
        return name in self._tools and self._tools[name].declared.needs_approval is True

    def has_approval_function(self, name: str) -> bool:
        return name in self._tools and callable(self._tools[name].declared.needs_approval)

    async def call_approval_function(self, name: str, arguments: str, *, key: str) -> Any:
        function = self._tools[name].declared.needs_approval
        assert callable(function), "has_approval_function was asked before"
        return await call_approval_function(function, arguments, ToolContext(key), self._threads)

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        if name not in self._tools:
            raise ToolFailed(f"there is no tool '{name}' on this machine")
        return await self._tools[name].call(arguments, ToolContext(key), self._threads)


class _PreparedTool:
    """A tool with its signature read once."""

    def __init__(self, declared: PythonTool) -> None:
        self.declared = declared
        self._signature = read_signature(declared.name, declared.function, ToolContext)
        self.schema = ToolSchema(
            name=declared.name,
            description=inspect.getdoc(declared.function) or "",
            parameters=self._signature.parameters,
        )

    async def call(self, arguments: str, context: ToolContext, threads: ToolThreads) -> str:
        try:
            values = arguments_of(msgspec.json.decode(arguments or "{}", type=self._signature.arguments))
        except (ValueError, RecursionError) as error:
            raise WrongArguments(f"wrong arguments for '{self.declared.name}': {error}") from error
        if self._signature.context is not None:
            values[self._signature.context] = context
        return self._as_text(await self._call_function(values, threads))

    async def _call_function(self, values: dict[str, Any], threads: ToolThreads) -> Any:
        if inspect.iscoroutinefunction(self.declared.function):
            return await _await_in_task(self.declared.function(**values))
        value = await threads.call(lambda: self._call_in_thread(values))
        return await _await_in_task(value) if inspect.isawaitable(value) else value

    def _call_in_thread(self, values: dict[str, Any]) -> Any:
        try:
            return self.declared.function(**values)
        except BaseException as error:  # in this thread an exit or an interrupt is an ordinary failure
            raise _as_tool_failure(error) from error

    def _as_text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        try:
            return msgspec.json.encode(value).decode()
        except Exception as error:  # values of the host may fail in any way when they are encoded
            raise ToolFailed(
                f"tool '{self.declared.name}' returned a {type(value).__name__} that cannot be shown: {error}"
            ) from error


async def _await_in_task(work: Any) -> Any:
    """Awaits the work in its own task: a tool that cancels its task ends only itself."""
    own = asyncio.create_task(_await_guarded(work))
    try:
        return await own
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ToolFailed("CancelledError: the tool gave itself up") from error


async def _await_guarded(work: Any) -> Any:
    try:
        return await work
    except (GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException as error:  # an exit or an interrupt that a tool raises must not reach the loop
        raise _as_tool_failure(error) from error


def _as_tool_failure(error: BaseException) -> ToolFailed:
    if isinstance(error, ToolFailed):
        return error
    try:
        return ToolFailed(f"{type(error).__name__}: {error}")
    except Exception:  # an error without a usable text still has a name
        return ToolFailed(type(error).__name__)
