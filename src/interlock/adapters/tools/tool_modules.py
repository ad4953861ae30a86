"""Tools in the modules that interlock.toml names.

Rule 1: a module's tools are the top-level functions of its source, `def` or `async def`, whose names do not begin with
an underscore. Classes, imported or assigned names, and functions under an `if` or `try` are not tools; `__all__` is
ignored.
Rule 2: finding them executes nothing; only a process that drives runs imports them (tool_imports).
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from interlock.crew.host import UncallableTool
from interlock.errors import UsageError

Function = ast.FunctionDef | ast.AsyncFunctionDef


class ToolModule(msgspec.Struct, frozen=True):
    """The source of a module, and the host's file that names it. `tools` are its functions by the names of tools."""

    file: Path
    name: str
    source: Path
    tools: dict[str, str]
    uncallable: tuple[UncallableTool, ...] = ()


def read_tool_modules(file: Path, names: Sequence[str]) -> tuple[ToolModule, ...]:
    """The modules that `file` names, without executing them; raises `UsageError` with the fault of one."""
    modules = tuple(_read(file, name) for name in dict.fromkeys(names))
    home: dict[str, str] = {}
    for module in modules:
        for tool in module.tools:
            if tool in home:
                raise UsageError(f"{file}: modules '{home[tool]}' and '{module.name}' both have a tool '{tool}'")
            home[tool] = module.name
    return modules


def _read(file: Path, name: str) -> ToolModule:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{file}: {name!r} is not a module name; write it as in an import, such as 'desk.tools'")
    source = _source_of(name, file.parent)
    if source is None:
        where = "beside it or on the import path"
        raise UsageError(f"{file}: there is no module '{name}' {where}; correct the name under [tools]")
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except OSError as error:
        raise UsageError(f"{file}: module '{name}' cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested without end
        raise UsageError(f"{file}: module '{name}' is not Python: {error}") from error
    functions = {function.name: function for function in _public_functions(tree)}
    tools = {_tool_name(function): function for function in functions.values()}
    uncallable = (_uncallable(tool, function, source) for tool, function in tools.items())
    names = {tool: function.name for tool, function in tools.items()}
    return ToolModule(file, name, source, names, tuple(each for each in uncallable if each is not None))


def _public_functions(tree: ast.Module) -> Iterator[Function]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not statement.name.startswith("_"):
            yield statement


def _tool_name(function: Function) -> str:
    """The name in `@tool(name="...")`, or that of the function; the import compares it with the declared one."""
    calls = [each for each in function.decorator_list if isinstance(each, ast.Call) and _is_tool_decorator(each)]
    given = [each.value for call in calls for each in call.keywords if each.arg == "name"]
    names = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return names[0] if names and names[0] else function.name


def _uncallable(tool: str, function: Function, source: Path) -> UncallableTool | None:
    """The parameter that no model can fill, since a model names each argument. Decorators are applied at import."""
    given = function.args
    nameless = [
        *(each.arg for each in given.posonlyargs),
        *([f"*{given.vararg.arg}"] if given.vararg else []),
        *([f"**{given.kwarg.arg}"] if given.kwarg else []),
    ]
    if not nameless or not all(_is_tool_decorator(each) for each in function.decorator_list):
        return None
    return UncallableTool(name=tool, file=str(source), line=function.lineno, parameter=nameless[0])


def _is_tool_decorator(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) == "tool"


def _source_of(name: str, folder: Path) -> Path | None:
    """The possible files of a module in Python's order: a package before a file of the same name."""
    parts = name.split(".")
    for root in (folder, *map(Path, sys.path)):
        for file in (root.joinpath(*parts, "__init__.py"), root.joinpath(*parts).with_suffix(".py")):
            if file.is_file():
                return file
    return None
