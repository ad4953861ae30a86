"""Modules of tools: what is found in their source is what can be called, and what is wrong is said without a trace."""

import sys
from itertools import count
from pathlib import Path

import pytest

from interlock.adapters.config.host_file import read_host_file, read_settings
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.adapters.tools.tool_imports import import_tools
from interlock.errors import UsageError

_names = count()


@pytest.fixture(autouse=True)
def import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])


def host_file(folder: Path, source: str, name: str | None = None) -> Path:
    """A host's file that names a module with this source; the module's name is its own, so that none is loaded yet."""
    name = name or f"made_tools_{next(_names)}"
    file = folder.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, "utf-8")
    (folder / "interlock.toml").write_text(f"[tools]\nmodules = ['{name}']\n", "utf-8")
    return folder / "interlock.toml"


TRICKY = """\
from __future__ import annotations
import functools, sys
from json import dumps, loads as read_json
from typing import overload
from interlock.adapters.tools.python_tools import ToolContext, tool

__all__ = ["dumps", "_hidden", "plain"]

def plain(x: int) -> int: return x
async def waits(x: Later) -> Later: return x
Later = str

@tool
def declared(): ...

@tool(idempotent=True)
async def declared_async(context: ToolContext): ...

def _nameless(function):
    def inner(*args, **named): return function(*args, **named)
    return inner

def _described(function):
    return functools.wraps(function)(_nameless(function))

@_described
def wrapped(x: int): return x

@functools.lru_cache
def cached(x: int): return x

@overload
def many(x: int) -> int: ...
@overload
def many(x: str) -> str: ...
def many(x: int | str) -> int | str: return x

def _hidden(): ...
class Desk:
    def method(self): ...
Called = Desk()
short = lambda: 1
partly = functools.partial(plain, 1)
alias = plain

if sys.version_info > (3,):
    def conditional(): ...
try:
    def tried(): ...
finally:
    pass
for _ in range(1):
    def looped(): ...

def rebound(): ...
def rebound(y: int): return y
"""


def test_what_is_found_in_a_source_is_what_can_be_called(tmp_path: Path) -> None:
    file = host_file(tmp_path, TRICKY)
    found = read_host_file(file).tools
    toolbox = PythonToolbox(import_tools(read_settings(file)))
    assert found == ("plain", "waits", "declared", "declared_async", "wrapped", "cached", "many", "rebound")
    assert toolbox.names == found
    assert [schema.name for schema in toolbox.schemas(found)] == list(found)
    assert [name for name in found if toolbox.is_idempotent(name)] == ["declared_async"]
    assert list(toolbox.schemas(["rebound"])[0].parameters["properties"]) == ["y"]


def test_a_decorator_that_hides_the_function_is_refused_where_its_arguments_have_no_names(tmp_path: Path) -> None:
    source = "def _nameless(f):\n    return lambda *a: f(*a)\n@_nameless\ndef shown(x: int): ...\n"
    file = host_file(tmp_path, source)
    with pytest.raises(UsageError, match=r"tool 'shown': parameter '\*a'"):
        PythonToolbox(import_tools(read_settings(file)))


def test_modules_see_what_lies_beside_the_file_first(tmp_path: Path) -> None:
    (tmp_path / "made_neighbour.py").write_text("WORD = 'beside'\n", "utf-8")
    far = tmp_path / "far"
    far.mkdir()
    (far / "made_neighbour.py").write_text("WORD = 'far'\n", "utf-8")
    sys.path.insert(0, str(far))
    file = host_file(tmp_path, "from made_neighbour import WORD\ndef say() -> str: return WORD\n")
    (say,) = import_tools(read_settings(file))
    assert say.function() == "beside"


def test_a_package_comes_before_a_file_of_its_name_as_in_python(tmp_path: Path) -> None:
    file = host_file(tmp_path, "def of_file(): ...\n", "made_both")
    host_file(tmp_path, "def of_package(): ...\n", "made_both.__init__")
    file.write_text("[tools]\nmodules = ['made_both']\n", "utf-8")
    assert read_host_file(file).tools == ("of_package",)
    assert [tool.name for tool in import_tools(read_settings(file))] == ["of_package"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import made_nothing_like_this\n", "ModuleNotFoundError: No module named 'made_nothing_like_this'"),
        ("x = 1\nraise RuntimeError('no key')\n", r"RuntimeError: no key \(.*\.py:2\)"),
        ("import sys\nsys.exit('bye')\n", "SystemExit: bye"),
        ("def f(): ...\ndel f\n", "'f' of module '.*' is gone"),
        ("def f(): ...\nf = 3\n", "'f' of module '.*' is a int"),
        ("def f(): ...\nclass f: ...\n", "'f' of module '.*' is a type"),
    ],
)
def test_a_module_that_fails_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, source: str, expected: str
) -> None:
    file = host_file(tmp_path, source)
    with pytest.raises(UsageError, match=expected) as refused:
        import_tools(read_settings(file))
    assert str(refused.value).startswith(f"{file}: ")


def test_a_module_whose_name_is_taken_by_a_loaded_one_is_refused(tmp_path: Path) -> None:
    file = host_file(tmp_path, "def mine(): ...\n", "json")
    with pytest.raises(UsageError, match="another one of that name is loaded already"):
        import_tools(read_settings(file))


def test_two_modules_with_one_tool_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for name in ("made_one", "made_two"):
        file = host_file(tmp_path, "def same(): ...\n", name)
    file.write_text("[tools]\nmodules = ['made_one', 'made_two', 'made_one']\n", "utf-8")
    with pytest.raises(UsageError, match="modules 'made_one' and 'made_two' both have a tool 'same'"):
        read_host_file(file)


def test_a_tool_is_found_by_the_name_that_its_declaration_says(tmp_path: Path) -> None:
    source = 'from interlock import tool\n@tool(name="find_order", idempotent=True)\ndef find(order: str) -> str: ...\n'
    file = host_file(tmp_path, source)
    assert read_host_file(file).tools == ("find_order",)
    toolbox = PythonToolbox(import_tools(read_settings(file)))
    assert (toolbox.names, toolbox.is_idempotent("find_order")) == (("find_order",), True)


def test_a_name_that_the_source_does_not_say_is_refused_at_import(tmp_path: Path) -> None:
    source = 'from interlock import tool\nNAME = "find_order"\n@tool(name=NAME)\ndef find(order: str) -> str: ...\n'
    with pytest.raises(UsageError, match=r"declares the name 'find_order' in a way that cannot be read in the source"):
        import_tools(read_settings(host_file(tmp_path, source)))
