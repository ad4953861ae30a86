"""Crews that a command names as `file.py:name` or `package.module:name`.

Rule 1: naming one imports its module. Only an argument that the operator types comes here: never a path in a crew file,
a request, an MCP argument, a schedule or a journal.
Rule 2: the folder of the file, or the working folder, comes first on the import path; the module prints to stderr.
Rule 3: whatever the module does, the command ends with one sentence that has file and line, also if it hangs.
"""

import faulthandler
import importlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

from interlock.authoring.agent import Agent
from interlock.authoring.crew import Crew
from interlock.crew.unsound import UnsoundCrew
from interlock.errors import BadCrewModule, nearest

# Of an import. A module that needs longer is waiting for something, such as a server that is down.
IMPORT_SECONDS_MAX = 30.0
# After that, for a watchdog that C code keeps from running.
LAST_SECONDS = 1.0

_PYTHON_FILE = re.compile(r"(?P<module>.*\.py)(?::(?P<name>.*))?", re.DOTALL)
_PYTHON_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_LISTED_MAX = 10
_TEXT_MAX = 300


class PythonName(NamedTuple):
    """A crew by its module, a file or a dotted name, and its name there."""

    module: str
    name: str

    @property
    def file(self) -> Path | None:
        return Path(self.module) if self.module.endswith(".py") else None

    @property
    def folder(self) -> Path:
        """The folder that comes first on the import path."""
        return self.file.parent if self.file is not None else Path()


def python_name_of(argument: str) -> PythonName | None:
    """The Python crew that an argument names; None if it is the path of files. Nothing is imported."""
    found = _PYTHON_FILE.fullmatch(argument) or _PYTHON_MODULE.fullmatch(argument)
    if found is None or os.path.isdir(argument):  # noqa: PTH112 - never raises
        return None
    if found.re is _PYTHON_MODULE and os.path.exists(argument):  # noqa: PTH110 - never raises
        return None
    return PythonName(found["module"], found["name"] or "")


def import_crew(named: PythonName) -> Crew:
    """Imports the module and gives its crew.

    Raises `UnsoundCrew` if a crew of the module has problems, and `BadCrewModule` for everything else.
    """
    if not named.name.isidentifier():
        raise BadCrewModule(named.module, 0, f"names no crew; write {named.module}:NAME")
    _require_file(named)
    with _prints_to_stderr(), _Watchdog(named):
        module = _import_module(named)
        return _crew_in(module, named)


def _require_file(named: PythonName) -> None:
    if named.file is None:
        return
    if not os.path.isfile(named.file):  # noqa: PTH113 - never raises
        raise BadCrewModule(named.module, 0, "does not exist; name a Python file or module, then : and the crew")
    if "." in named.file.stem:
        raise BadCrewModule(named.module, 0, "cannot be imported: its name has a dot before .py; rename it")


def _import_module(named: PythonName) -> ModuleType:
    folder = os.path.realpath(named.folder)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(named.file.stem if named.file is not None else named.module)
    except (KeyboardInterrupt, UnsoundCrew):
        raise
    except BaseException as error:  # code of the user may fail in any way
        raise _import_error(named, error) from error
    if named.file is not None and os.path.realpath(module.__file__ or "") != os.path.realpath(named.file):
        other = module.__file__ or "part of Python"
        raise BadCrewModule(
            named.module, 0, f"has the name of another module that is loaded already ({other}); rename the file"
        )
    return module


def _crew_in(module: ModuleType, named: PythonName) -> Crew:
    """The crew of that name; an agent is a crew of one."""
    found = vars(module).get(named.name)
    if isinstance(found, Crew | Agent):
        return found.as_crew()
    crews = [name for name, value in vars(module).items() if isinstance(value, Crew | Agent)]
    listed = f"crews and agents there: {', '.join(crews[:_LISTED_MAX])}" if crews else "it has no crew and no agent"
    file = module.__file__ or named.module
    if named.name not in vars(module):
        fault = f"has no '{named.name}'; {nearest(named.name, crews, listed)}"
        raise BadCrewModule(file, 0, fault if listed in fault else f"{fault} ({listed})")
    kind = type(found).__name__
    line = _line_of(module, named.name)
    raise BadCrewModule(file, line, f"'{named.name}' is neither a Crew nor an Agent but of type {kind}; {listed}")


def _line_of(module: ModuleType, name: str) -> int:
    """The line that gives the name its value, as far as the text tells; 0 if it does not."""
    try:
        lines = Path(module.__file__ or "").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return 0
    pattern = re.compile(rf"(?:(?:async )?def |class )?{re.escape(name)}\b")
    return next((number for number, line in reversed([*enumerate(lines, 1)]) if pattern.match(line)), 0)


def _import_error(named: PythonName, error: BaseException) -> BadCrewModule:
    if isinstance(error, SyntaxError) and error.filename:
        return BadCrewModule(error.filename, error.lineno or 0, f"cannot be imported: {error.msg}; mend the line")
    if isinstance(error, ModuleNotFoundError) and named.file is None and _is_part_of(error.name, named.module):
        return BadCrewModule(named.module, 0, f"is not a module that Python can find from {Path.cwd()}; check its name")
    places = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    file, line = _place_in_module(named, places)
    if isinstance(error, SystemExit):
        code = f" with {error.code!r}" if error.code else ""
        return BadCrewModule(file, line, f"ends the process{code} when it is imported; put that under 'if __name__ …'")
    return BadCrewModule(file, line, f"cannot be imported: {type(error).__name__}: {_text_of(error)}")


def _is_part_of(missing: str | None, module: str) -> bool:
    return missing is not None and (module == missing or module.startswith(f"{missing}."))


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_TEXT_MAX]
    except Exception:  # an error of the user's own class
        return "(its text cannot be shown)"


def _place_in_module(named: PythonName, places: list[tuple[str, int]]) -> tuple[str, int]:
    """The innermost of these places that is in the file, else in other code of the user."""
    if named.file is not None:
        real = os.path.realpath(named.file)
        own = [(named.module, line) for file, line in places if os.path.realpath(file) == real]
        if own:
            return own[-1]
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - as text
    ours = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - as text
    user = [each for each in places if not each[0].startswith(("<", library, ours))]
    return user[-1] if user else (named.module, 0)


@contextmanager
def _prints_to_stderr() -> Iterator[None]:
    """Sends what is written to standard output to standard error, also by C code and child processes."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed by the caller
        kept = -1
    try:
        if kept >= 0:
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


class _Watchdog:
    """Ends the process, with one sentence and exit code 2, if the import takes too long.

    C code that does not let other threads run is ended a moment later by `faulthandler`, which prints the place itself.
    """

    def __init__(self, named: PythonName) -> None:
        self._named, self._importing = named, threading.get_ident()
        self._timer = threading.Timer(IMPORT_SECONDS_MAX, self._end_process)
        self._timer.daemon = True

    def __enter__(self) -> None:
        faulthandler.dump_traceback_later(IMPORT_SECONDS_MAX + LAST_SECONDS, exit=True, file=sys.__stderr__ or 2)
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        faulthandler.cancel_dump_traceback_later()

    def _end_process(self) -> None:
        places = list(_places_of(sys._current_frames().get(self._importing)))
        file, line = _place_in_module(self._named, places[::-1])
        error = BadCrewModule(file, line, f"is not imported after {IMPORT_SECONDS_MAX:g} seconds; it waits here")
        os.write(2, f"interlock: {error}\n".encode(errors="replace"))
        os._exit(2)


def _places_of(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """The places of a frame and its callers, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
