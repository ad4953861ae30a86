"""Tools that are Python functions.

Rule 1: the model gets every error of a tool; nothing that a tool does ends the run or the process.
Rule 2: a plain function runs in a thread, an `async` one in a loop; only the latter can be stopped.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from interlock.adapters.tools.approval_functions import (
    ApprovalFunction,
    call_approval_function,
    require_approval_setting,
)
from interlock.adapters.tools.tool_callables import enclosing_names, own_docstring, own_name, require_tool
from interlock.adapters.tools.tool_context import ToolContext as ToolContext
from interlock.adapters.tools.tool_context import context_of
from interlock.adapters.tools.tool_docstrings import read_docstring
from interlock.adapters.tools.tool_results import as_text
from interlock.adapters.tools.tool_signatures import read_signature
from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.errors import Retry, ToolFailed, UsageError, WrongArguments
from interlock.ports import NO_CREW, CrewRef, ToolCall, ToolSchema

if TYPE_CHECKING:  # defaults, so that `PythonTool` alone is a whole type
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PythonTool(Generic[P, R]):
    """A function as a tool; called, it is the function.

    `known_as` is its name if that is not the function's own, `description` its text for the model if that is not the
    docstring. `local_names` are the names around the function when it was declared.
    """

    function: Callable[P, R]
    idempotent: bool = False
    needs_approval: bool | ApprovalFunction = False
    known_as: str = ""
    description: str = ""
    local_names: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    __wrapped__ = property(lambda self: self.function)  # its signature is that of the function

    def __post_init__(self) -> None:
        if self.local_names is None:
            object.__setattr__(self, "local_names", enclosing_names(self.function))
        require_approval_setting(self.needs_approval, self.name)

    @property
    def name(self) -> str:
        return self.known_as or own_name(self.function)

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> "PythonTool[..., Any]":
        """A tool that is declared in a class is bound to its object as methods are."""
        bind = getattr(self.function, "__get__", None)
        if instance is None or bind is None:
            return cast("PythonTool[..., Any]", self)
        return replace(cast("PythonTool[..., Any]", self), function=bind(instance, owner), known_as=self.name)


@overload
def tool(
    function: Callable[P, R],
    *,
    name: str = ...,
    description: str = ...,
    idempotent: bool = ...,
    needs_approval: bool | ApprovalFunction = ...,
) -> PythonTool[P, R]: ...
@overload
def tool(
    *, name: str = ..., description: str = ..., idempotent: bool = ..., needs_approval: bool | ApprovalFunction = ...
) -> Callable[[Callable[P, R]], PythonTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str = "",
    description: str = "",
    idempotent: bool = False,
    needs_approval: bool | ApprovalFunction = False,
) -> Any:
    """Declares a function as a tool: `idempotent` ones may run again after a crash without asking.

    `name` and `description` are for the model; without them they are those of the function and its docstring.
    `needs_approval` is True if a person must approve every call, or a function of the arguments and the `ToolContext`
    that says it for one call. The call runs without a person only if the function returns False.
    """

    def declare(inner: Callable[..., Any]) -> PythonTool[..., Any]:
        if isinstance(inner, staticmethod | classmethod):
            raise UsageError(f"write @{type(inner).__name__} above @tool at '{own_name(inner)}', not below it")
        return PythonTool(inner, idempotent, needs_approval, name, description)

    return declare if function is None else declare(function)


def as_python_tool(entry: PythonTool | Callable[..., Any]) -> PythonTool:
    """The tool that a user gave, declared or not; raises `UsageError` if it cannot be one."""
    declared = entry if isinstance(entry, PythonTool) else PythonTool(entry)
    require_tool(declared.function, declared.name)
    return declared


def schema_of_tool(declared: PythonTool) -> ToolSchema:
    """What models are told of a tool; raises `UsageError` if they cannot be told."""
    return _PreparedTool(declared).schema


def no_deps(_root: str) -> Any:
    return None


def own_loop(_root: str) -> asyncio.AbstractEventLoop | None:
    return None


class PythonToolbox:
    """Tools by name. `deps_for` gives what the host gave to a run, by the id of its root run.

    `loop_for` gives the loop in which `async` tools of that run are to work, if it is not this one.
    """

    def __init__(
        self,
        tools: Iterable[PythonTool | Callable[..., Any]] = (),
        *,
        deps_for: Callable[[str], Any] = no_deps,
        loop_for: Callable[[str], asyncio.AbstractEventLoop | None] = own_loop,
    ) -> None:
        self._tools: dict[str, _PreparedTool] = {}
        self._threads, self._deps_for, self._loop_for = ToolThreads(), deps_for, loop_for
        for entry in tools:
            declared = as_python_tool(entry)
            if declared.name in self._tools:
                raise UsageError(f"two tools are called '{declared.name}'; rename one of them")
            self._tools[declared.name] = _PreparedTool(declared)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]:
        return tuple(self._tools[name].schema for name in names if name in self._tools)

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return name in self._tools and self._tools[name].declared.idempotent

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return name in self._tools and self._tools[name].declared.needs_approval is True

    def has_approval_function(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return name in self._tools and callable(self._tools[name].declared.needs_approval)

    async def call_approval_function(self, call: ToolCall) -> Any:
        function = self._tools[call.name].declared.needs_approval
        assert callable(function), "has_approval_function was asked before"
        context, loop = context_of(call, self._deps_for(call.root)), self._loop_for(call.root)
        return await call_approval_function(function, call.arguments, context, self._threads, loop)

    async def run(self, call: ToolCall) -> str:
        if call.name not in self._tools:
            raise ToolFailed(f"there is no tool '{call.name}' on this machine")
        context = context_of(call, self._deps_for(call.root))
        return await self._tools[call.name].call(call.arguments, context, self._threads, self._loop_for(call.root))


class _PreparedTool:
    """A tool with its signature read once."""

    def __init__(self, declared: PythonTool) -> None:
        said = read_docstring(own_docstring(declared.function))
        self.declared = declared
        self._signature = read_signature(
            declared.name,
            declared.function,
            ToolContext,
            texts=said.arguments,
            local_names=declared.local_names,
        )
        self.schema = ToolSchema(
            name=declared.name,
            description=declared.description or said.description,
            parameters=self._signature.parameters,
        )

    async def call(
        self,
        arguments: str,
        context: ToolContext,
        threads: ToolThreads,
        loop: asyncio.AbstractEventLoop | None,
    ) -> str:
        name = self.declared.name
        try:
            values = self._signature.decode(arguments)
        except (ValueError, RecursionError) as error:
            raise WrongArguments(f"wrong arguments for '{name}': {error}") from error
        values |= dict.fromkeys(self._signature.contexts, context)
        try:
            value = await self._call_function(values, threads, loop)
        except Retry as again:
            raise ToolFailed(f"call '{name}' again with other arguments: {again}".removesuffix(": ")) from again
        return as_text(name, value)

    async def _call_function(
        self, values: dict[str, Any], threads: ToolThreads, loop: asyncio.AbstractEventLoop | None
    ) -> Any:
        function = self.declared.function
        if inspect.iscoroutinefunction(function):
            return await _await_in_loop(function(**values), loop)
        value = await threads.call(lambda: self._call_in_thread(values))
        return await _await_in_loop(value, loop) if inspect.isawaitable(value) else value

    def _call_in_thread(self, values: dict[str, Any]) -> Any:
        try:
            return self.declared.function(**values)
        except BaseException as error:  # in this thread an exit or an interrupt is an ordinary failure
            raise _as_tool_failure(error) from error


async def _await_in_loop(work: Any, loop: asyncio.AbstractEventLoop | None) -> Any:
    """Awaits the work in the given loop, which another thread runs, or in this one."""
    if loop is None or loop is asyncio.get_running_loop() or loop.is_closed():
        return await _await_in_task(work)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_await_in_task(work), loop))


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
    finally:
        if inspect.iscoroutine(work):  # a task that is cancelled at once never begins it
            work.close()


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
