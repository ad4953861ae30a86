"""Imports the modules with a host's tools, in processes that drive runs.

Rule: the functions found in a module's source are the tools. It is an error if a name is something else after the
import, or if the import gives another module of that name.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.tools.tool_modules import ToolModule, read_tool_modules
from interlock.errors import UsageError


def import_tools(settings: HostSettings) -> list[PythonTool]:
    """Imports the modules of the host's file; raises `UsageError` if one fails or a tool is no longer a function."""
    if settings.file is None:
        return []
    modules = read_tool_modules(settings.file, settings.modules)
    return [tool for module in modules for tool in _tools_of(module)]


def _tools_of(module: ToolModule) -> Iterator[PythonTool]:
    found = _import_module(module)
    for name, function in module.tools.items():
        value = getattr(found, function, None)
        if isinstance(value, PythonTool):
            _require_readable_name(module, name, value)
            yield replace(value, known_as=name)
        elif callable(value) and not isinstance(value, type):
            yield PythonTool(value, known_as=name)
        else:
            kind = "gone" if value is None else f"a {type(value).__name__}"
            raise UsageError(
                f"{module.file}: '{function}' of module '{module.name}' is {kind} once the module is imported; "
                "keep it a function, or begin its name with _ if it is not a tool"
            )


def _require_readable_name(module: ToolModule, name: str, declared: PythonTool) -> None:
    """Refuses a name that the source does not say: checks of crews read it there."""
    if declared.known_as and declared.known_as != name:
        raise UsageError(
            f"{module.file}: '{name}' of module '{module.name}' declares the name '{declared.known_as}' in a way that "
            "cannot be read in the source; write @tool(name=...) above the function, with a plain text"
        )


def _import_module(module: ToolModule) -> ModuleType:
    folder = str(module.file.parent.resolve())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module.name)
    except (Exception, SystemExit) as error:  # code of the host may fail in any way
        raise UsageError(
            f"{module.file}: module '{module.name}' cannot be imported: {type(error).__name__}: "
            f"{error}{_location_of(error)}"
        ) from error
    if found.__file__ is None or Path(found.__file__).resolve() != module.source.resolve():
        raise UsageError(
            f"{module.file}: module '{module.name}' is {module.source}, but another one of that name is loaded "
            f"already ({found.__file__}); rename it"
        )
    return found


def _location_of(error: BaseException) -> str:
    """The place of the error, unless it is in the import machinery itself."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        ""
        if last.filename.startswith("<") or last.filename == importlib.__file__
        else f" ({last.filename}:{last.lineno})"
    )
