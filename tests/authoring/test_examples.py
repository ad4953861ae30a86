"""The crews of examples/, as files and in Python: one canonical crew, the same problems, each at its line of code."""

import ast
import importlib.util
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from interlock import Crew, Problem, UnsoundCrew, load_crew
from interlock.adapters.crews.crew_files import read_crew
from interlock.compose.crews import load_host
from interlock.crew.codes import CODES
from interlock.runtime.stored_crews import as_stored_form
from tests.authoring.broken_crews import BROKEN

EXAMPLES, GALLERY = Path("examples"), Path("examples/broken")
FOLDERS = sorted(file.parent for file in EXAMPLES.glob("*/crew.yaml"))
IN_PYTHON = [folder / f"{folder.name.replace('-', '_')}.py" for folder in FOLDERS]
# A fault of YAML itself: Python has no anchors.
ONLY_IN_FILES = {"bad-yaml"}


def sha(crew: Crew) -> str:
    return as_stored_form(crew.definition).sha


def crew_in(file: Path) -> Crew:
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.crew, Crew)
    return module.crew


def crew_of_files(folder: Path) -> Crew:
    return load_crew(folder, host=host_of(folder))


def host_of(folder: Path) -> Path | None:
    host = folder / "interlock.toml"
    return host if host.exists() else None


def codes(problems: tuple[Problem, ...]) -> Counter[tuple[str, str]]:
    return Counter((problem.severity, problem.code) for problem in problems)


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples import the tools beside them, as they can when Python runs them."""
    for folder in FOLDERS:
        monkeypatch.syspath_prepend(folder)


def test_there_are_examples() -> None:
    assert len(FOLDERS) >= 9


@pytest.mark.parametrize("file", IN_PYTHON, ids=lambda file: file.stem)
def test_an_example_in_python_is_the_crew_of_its_files(file: Path) -> None:
    written, read = crew_in(file), crew_of_files(file.parent)
    assert written.definition == read.definition
    assert sha(written) == sha(read)
    assert codes(written.warnings) == codes(read.warnings)


@pytest.mark.parametrize("file", IN_PYTHON, ids=lambda file: file.stem)
def test_a_saved_crew_is_the_same_crew(file: Path, tmp_path: Path) -> None:
    written, read = crew_in(file), crew_of_files(file.parent)
    for n, crew in enumerate((written, read)):
        crew.save(tmp_path / str(n))
        again = load_crew(tmp_path / str(n), host=host_of(file.parent), tools=list(written.functions.values()))
        assert sha(again) == sha(crew)


def problems_of(name: str) -> tuple[Problem, ...]:
    try:
        return BROKEN[name]().warnings
    except UnsoundCrew as unsound:
        return unsound.problems


def problems_in_file(name: str) -> tuple[Problem, ...]:
    file = GALLERY / f"{name}.yaml"
    path = file if file.exists() else GALLERY / name
    return read_crew(path, load_host(crew=path)).problems


def marked_lines(name: str) -> set[tuple[str, int]]:
    """The problems that a function's comments announce, each with its line."""
    lines, first = inspect.getsourcelines(BROKEN[name])
    announced = ((line.partition("# <- ")[2].split(), first + n) for n, line in enumerate(lines))
    return {(code, line) for found, line in announced for code in found}


def test_every_broken_example_is_there_in_python() -> None:
    gallery = {path.stem for path in GALLERY.iterdir()}
    assert BROKEN.keys() == gallery - ONLY_IN_FILES
    assert set(BROKEN) <= set(CODES)


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_crew_has_the_same_problems_in_python(name: str) -> None:
    written, read = codes(problems_of(name)), codes(problems_in_file(name))
    if name in ("crew-cycle", "too-deep"):  # files of the tree that Python has once, or once more
        assert written.keys() == read.keys()
    else:
        assert written == read


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - {"crew-cycle"}))
def test_a_problem_names_the_line_of_the_code(name: str) -> None:
    file = inspect.getsourcefile(BROKEN[name])
    found = {(problem.code, problem.line) for problem in problems_of(name) if problem.file == file}
    assert marked_lines(name)
    assert marked_lines(name) <= found
    assert {line for code, line in found if code == name} == {line for code, line in marked_lines(name) if code == name}


# What only a file says.
IN_YAML = r"in crew\.yaml|routing\.signals|(?:is_terminal|type|config_mode|signal_mode|model): "


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - {"crew-cycle"}))
def test_a_fix_says_what_to_write_in_python(name: str) -> None:
    file = inspect.getsourcefile(BROKEN[name])
    fixes = [problem.fix for problem in problems_of(name) if problem.file == file]
    assert fixes
    assert [fix for fix in fixes if re.search(IN_YAML, fix)] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-way-on", "is_terminal=True"),
        ("trap", "is_terminal=True"),
        ("unregistered-signal", 'Route(…, type="terminate")'),
        ("unknown-mark-in-prompt", "in on={…}"),
        ("required-signal", "in on={…}"),
        ("unknown-tool", "give the function itself in tools=[…]"),
        ("unknown-sub-crew", "give SubCrew the crew itself"),
        ("missing-setting", '"config_mode": "permissive"'),
        ("not-constrained", '"signal_mode": "tool"'),
        ("bad-path", "or give the crew itself"),
    ],
)
def test_a_fix_in_python_and_the_one_for_a_file_differ(name: str, words: str) -> None:
    assert any(words in problem.fix for problem in problems_of(name) if problem.code == name)
    assert not any(words in problem.fix for problem in problems_in_file(name))


def test_the_examples_use_public_names_only() -> None:
    for file in IN_PYTHON:
        tree = ast.parse(file.read_text("utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert {name for name in imported if name.startswith("interlock")} == {"interlock"}
