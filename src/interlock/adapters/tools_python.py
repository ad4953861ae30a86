"""Tools that are Python functions: what a model is told of them, and calling them."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from interlock.errors import ToolFailed, UsageError
from interlock.ports import ToolSchema


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to a tool that has a parameter of this type. `key` is the same whenever the same call is made again."""

    key: str


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function, and how it may be called."""

    function: Callable[..., Any]
    idempotent: bool = False
    needs_approval: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__


def tool(function: Callable[..., Any] | None = None, *, idempotent: bool = False, needs_approval: bool = False) -> Any:
    """Declares a function as a tool: `idempotent` ones may run again after a crash without asking."""

    def declare(inner: Callable[..., Any]) -> PythonTool:
        return PythonTool(inner, idempotent, needs_approval)

    return declare if function is None else declare(function)


class PythonToolbox:
    """The tools of a host, by name."""

    def __init__(self, tools: Iterable[PythonTool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, _Ready] = {}
        for entry in tools:
            declared = entry if isinstance(entry, PythonTool) else PythonTool(entry)
            if declared.name in self._tools:
                raise UsageError(f"two tools are called '{declared.name}'; rename one of them")
            self._tools[declared.name] = _Ready(declared)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return tuple(self._tools[name].schema for name in names if name in self._tools)

    def is_idempotent(self, name: str) -> bool:
        return name in self._tools and self._tools[name].declared.idempotent

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        if name not in self._tools:
            raise ToolFailed(f"there is no tool '{name}' on this machine")
        return await self._tools[name].call(arguments, ToolContext(key))


class _Ready:
    """A tool with its signature read once."""

    def __init__(self, declared: PythonTool) -> None:
        self.declared = declared
        function = declared.function
        hints = get_type_hints(function)
        self._context: str | None = None
        fields: list[Any] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UsageError(f"tool '{declared.name}' takes *{name}; a tool's arguments must have names")
            if hints.get(name) is ToolContext:
                self._context = name
            elif parameter.default is parameter.empty:
                fields.append((name, hints.get(name, str)))
            else:
                fields.append((name, hints.get(name, str), parameter.default))
        fields.sort(key=len)  # those without a default first, as a struct wants them
        self._arguments = msgspec.defstruct(f"{declared.name}_arguments", fields, forbid_unknown_fields=True)
        self.schema = ToolSchema(
            name=declared.name,
            description=inspect.getdoc(function) or "",
            parameters=_parameters(self._arguments),
        )

    async def call(self, arguments: str, context: ToolContext) -> str:
        try:
            given = msgspec.json.decode(arguments or "{}", type=self._arguments)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise ToolFailed(f"wrong arguments for '{self.declared.name}': {error}") from error
        values = {field: getattr(given, field) for field in self._arguments.__struct_fields__}
        if self._context is not None:
            values[self._context] = context
        return _as_text(await self._called(values))

    async def _called(self, values: dict[str, Any]) -> Any:
        function = self.declared.function
        try:
            if inspect.iscoroutinefunction(function):
                return await function(**values)
            return await asyncio.to_thread(function, **values)
        except ToolFailed:
            raise
        except Exception as error:  # a tool may fail in any way; the model is told, and the run goes on
            raise ToolFailed(f"{type(error).__name__}: {error}") from error


def _parameters(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    schema = msgspec.json.schema(arguments)
    name = schema["$ref"].rpartition("/")[2]
    body: dict[str, Any] = schema["$defs"].pop(name)
    body.pop("title", None)
    return {**body, "$defs": schema["$defs"]} if schema["$defs"] else body


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
