"""interlock.toml: what runs code or opens connections is set up by the host, never by a crew file.

Rule: reading it executes nothing. Tools are found in the source of their modules, not by importing them.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock.crew.host import Host
from interlock.errors import UsageError, nearest

# Sections of the file. Those without keys here are checked by the part of Interlock that uses them.
_SECTIONS: dict[str, tuple[str, ...] | None] = {
    "durability": None,
    "mcp": None,
    "providers": None,
    "retention": None,
    "server": None,
    "tools": ("modules",),
    "webhooks": None,
}


def read_host_file(path: Path) -> Host:
    """What the file sets up; `UsageError` says what is wrong with it."""
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    for name in data:
        if name not in _SECTIONS:
            raise UsageError(f"{path}: unknown key '{name}'; {nearest(name, list(_SECTIONS), 'remove it')}")
    return Host(
        tools=tuple(name for module in _modules(path, data) for name in _tools(path, module)),
        mcp_servers=_ids(path, data, "mcp"),
        providers=_ids(path, data, "providers"),
    )


def _modules(path: Path, data: dict[str, Any]) -> list[str]:
    tools = data.get("tools", {})
    known = _SECTIONS["tools"] or ()
    if not isinstance(tools, dict):
        raise UsageError(f"{path}: tools must be a section; write [tools]")
    for key in tools:
        if key not in known:
            raise UsageError(f"{path}: unknown key 'tools.{key}'; the keys of [tools] are {', '.join(known)}")
    modules = tools.get("modules", [])
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise UsageError(f"{path}: tools.modules must be a list of module names")
    return modules


def _ids(path: Path, data: dict[str, Any], section: str) -> tuple[str, ...]:
    entries = data.get(section, {})
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UsageError(f"{path}: write [{section}.<id>] for every entry of {section}")
    return tuple(entries)


def _tools(path: Path, module: str) -> Iterator[str]:
    """The public functions a module defines."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{path}: {module!r} is no module name; write it as in an import, such as 'desk.tools'")
    source = _source_of(module, path.parent)
    if source is None:
        raise UsageError(f"{path}: there is no module '{module}' beside it or on the import path")
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except OSError as error:
        raise UsageError(f"{path}: module '{module}' cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested without end
        raise UsageError(f"{path}: module '{module}' is not Python: {error}") from error
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not statement.name.startswith("_"):
            yield statement.name


def _source_of(module: str, folder: Path) -> Path | None:
    parts = module.split(".")
    for root in (folder, *map(Path, sys.path)):
        for file in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if file.is_file():
                return file
    return None
