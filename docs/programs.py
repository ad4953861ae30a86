"""The Python of the README, the guide and the examples, and the types of results, for type checkers.

All are in one folder, each a module.

Rule 1: a block keeps the lines that it has in its page, so that an error names them.
Rule 2: a block with a file name is a module of this name. A name is there once, over all pages and examples.

Usage: python -m docs.programs    runs mypy and pyright over them, both strict
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from docs.outputs import PAGES, ROOT

# States what type checkers know of the results of crews.
RESULT_TYPES = ROOT / "tests" / "authoring" / "test_result_types.py"

_PYTHON = re.compile(r"^```python(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def programs_of(page: Path) -> Iterator[tuple[str, str]]:
    """The Python blocks of a page, each with the name of its file, at the lines where the page has them."""
    text = page.read_text("utf-8")
    stem = page.stem.lower().replace("-", "_")
    for n, block in enumerate(_PYTHON.finditer(text), 1):
        lines_before = text.count("\n", 0, block.start(2))
        yield block[1] or f"{stem}_program_{n}.py", "\n" * lines_before + block[2]


def write_programs(folder: Path) -> list[Path]:
    """Writes the blocks of all pages and copies the other files; returns the files."""
    files: list[Path] = []
    for page in PAGES:
        for name, program in programs_of(page):
            files.append(_new_file(folder, name))
            files[-1].write_text(program, "utf-8")
    for example in (*sorted((ROOT / "examples").rglob("*.py")), RESULT_TYPES):
        files.append(_new_file(folder, example.name))
        shutil.copy(example, files[-1])
    return files


def _new_file(folder: Path, name: str) -> Path:
    if (folder / name).exists():
        raise ValueError(f"{name} is there twice: give one of the two another name")
    return folder / name


def main() -> None:
    with TemporaryDirectory(prefix="interlock-programs-") as name:
        folder = Path(name)
        files = [str(file) for file in write_programs(folder)]
        settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
        mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
        outcomes = [subprocess.run(mypy, check=False, env={**os.environ, "MYPYPATH": name})]  # noqa: S603 - our own
        if shutil.which("node") is None:
            print("there is no Node: pyright is skipped")  # noqa: T201 - a command
        else:
            pyright = [sys.executable, "-m", "pyright", "--project", name, "--pythonpath", sys.executable]
            outcomes.append(subprocess.run(pyright, check=False))  # noqa: S603 - our own
    sys.exit(max(done.returncode for done in outcomes))


if __name__ == "__main__":
    main()
