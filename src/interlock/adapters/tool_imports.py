"""Imports the modules that hold a host's tools, for whoever drives runs.

Rule: what was found in a module's source is what can be called. If the import makes something else of a name, or
brings another module of that name, that is an error.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from interlock.adapters.host_file import HostSettings
from interlock.adapters.tool_modules import ToolModule, read_tool_modules
from interlock.adapters.tools_python import PythonTool
from interlock.errors import UsageError


def imported_tools(settings: HostSettings) -> list[PythonTool]:
    """Executes the modules that the host's file names; `UsageError` if one fails or a tool is none any more."""
    if settings.file is None:
        return []
    modules = read_tool_modules(settings.file, settings.modules)
    return [tool for module in modules for tool in _tools_of(module)]


def _tools_of(module: ToolModule) -> Iterator[PythonTool]:
    found = _imported(module)
    for name in module.tools:
        value = getattr(found, name, None)
        if isinstance(value, PythonTool):
            yield replace(value, known_as=name)
        elif callable(value) and not isinstance(value, type):
            yield PythonTool(value, known_as=name)
        else:
            kind = "gone" if value is None else f"a {type(value).__name__}"
            raise UsageError(
                f"{module.file}: '{name}' of module '{module.name}' is {kind} once the module is imported; "
                "leave it a function, or begin its name with _ if it is no tool"
            )


def _imported(module: ToolModule) -> ModuleType:
    folder = str(module.file.parent.resolve())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module.name)
    except (Exception, SystemExit) as error:  # it is code of the host, and may fail in any way
        raise UsageError(
            f"{module.file}: module '{module.name}' cannot be imported: {type(error).__name__}: {error}{_place(error)}"
        ) from error
    if found.__file__ is None or Path(found.__file__).resolve() != module.source.resolve():
        raise UsageError(
            f"{module.file}: module '{module.name}' is {module.source}, but another one of that name is loaded "
            f"already ({found.__file__}); rename it"
        )
    return found


def _place(error: BaseException) -> str:
    """Where it was raised, unless it was in the import machinery itself."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        ""
        if last.filename.startswith("<") or last.filename == importlib.__file__
        else f" ({last.filename}:{last.lineno})"
    )
