"""Play the README and the guide: write their files, run their commands and programs, compare what is printed.

Rule 1: a fence with a file name after its language is that file. `console` holds commands. `python` without a name is
a program, and the `text` right after it is its output. Other fences are not run.
Rule 2: each page is played in a folder of its own that holds the examples; standard error is not shown.
Rule 3: ids, receipts, seeds and times differ each time. A page keeps those it shows.

Usage: python -m docs.outputs [PAGE...]    writes today's output into these pages, or into all
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_ID = re.compile(r"\b0[0-9a-f]{19}\b")
_VARYING = re.compile(
    r"\b0[0-9a-f]{19}\b|\b(?=[a-z0-9]*\d)[a-z][a-z0-9]{23}\b"
    r"|\b20\d\d-\d\d-\d\d \d\d:\d\d(?::\d\d)?|receipt [0-9a-f]{8}|seed \d+"
)


def play_page(text: str, folder: Path) -> str:
    """Run a page, and return it with today's output."""
    (folder / "examples").symlink_to(ROOT / "examples")
    page, output = Page(folder), ""
    end = 0
    for fence in _FENCE.finditer(text):
        output += text[end : fence.start(3)] + page.block(*fence.groups())
        end = fence.end(3)
    return output + text[end:]


class Page:
    """A page that is being played: its folder, the output of the last program, and the ids that the page shows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        self._printed: str | None = None

    def block(self, language: str, name: str | None, body: str) -> str:
        """Run a fence, and return its body with today's output."""
        printed, self._printed = self._printed, None
        if name is not None:
            file = self._folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body, "utf-8")
        elif language == "console":
            return _STEP.sub(lambda step: f"$ {step[1]}\n{self._output(['bash', '-c', step[1]], step[2])}", body)
        elif language == "python":
            self._printed = self._run([sys.executable, "-c", body])
        elif language == "text" and printed is not None:
            return self._as_shown(printed, body)
        return body

    def _output(self, command: list[str], shown: str) -> str:
        ids = {name: real for real, name in self._names.items()}
        real = [_ID.sub(lambda found: ids.get(found[0], found[0]), word) for word in command]
        return self._as_shown(self._run(real), shown)

    def _run(self, command: list[str]) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LOGNAME": "maria"}
        done = subprocess.run(  # noqa: S603 - our own pages
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if command[0] == sys.executable and done.returncode:
            raise AssertionError(f"a program of the page fails: {done.stderr}")
        return done.stdout

    def _as_shown(self, real: str, shown: str) -> str:
        kept, given = _VARYING.findall(shown), _VARYING.findall(real)
        if len(kept) != len(given):
            kept = given
        for name, id_ in zip(kept, given, strict=True):
            if _ID.fullmatch(id_):
                self._names.setdefault(id_, name)
        words = iter(kept)
        return _VARYING.sub(lambda found: self._names.get(found[0], next(words)), real)


def main() -> None:
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        with TemporaryDirectory(prefix="interlock-page-") as folder:
            page.write_text(play_page(page.read_text("utf-8"), Path(folder)), "utf-8")


if __name__ == "__main__":
    main()
