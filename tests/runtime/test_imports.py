"""Modules of the runtime import each other without a cycle, also for types."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import interlock.runtime

FOLDER = Path(interlock.runtime.__file__).parent


def imported_by(source: str) -> set[str]:
    """All modules of the runtime that a source imports, under `if TYPE_CHECKING` too."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in nodes if node.module and node.module.startswith("interlock.runtime.")}


def require_no_cycle(sources: dict[str, str]) -> None:
    TopologicalSorter({name: imported_by(source) for name, source in sources.items()}).prepare()


def test_the_runtime_has_no_cycle_of_types() -> None:
    files = {file: ".".join(file.relative_to(FOLDER).with_suffix("").parts) for file in FOLDER.rglob("*.py")}
    sources = {f"interlock.runtime.{name}": file.read_text("utf-8") for file, name in files.items()}
    assert "interlock.runtime.live_runs" in sources
    require_no_cycle(sources)


def test_a_cycle_of_types_is_found() -> None:
    one = "if TYPE_CHECKING:\n    from interlock.runtime.two import Two"
    two = "from interlock.runtime.one import One"
    with pytest.raises(CycleError):
        require_no_cycle({"interlock.runtime.one": one, "interlock.runtime.two": two})
