"""Served crews in Python whose files change.

Rule 1: a module cannot be imported twice, so new code needs a new process. A change is tried in one first: as long as
it fails there, the server keeps what it has and shows the problems.
Rule 2: when it succeeds, the server ends as on SIGTERM and starts again in its place, with the same arguments.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import interlock
from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.authoring.python_names import IMPORT_SECONDS_MAX, python_name_of
from interlock.cli.crew_argument import NamedCrew, code_of
from interlock.compose.crews import load_host
from interlock.crew.problem import Problem
from interlock.errors import UsageError

_COMMAND = "import sys; from interlock.cli.main import interlock; interlock(sys.argv[1:])"
# A fresh process that imports, checks and prints takes a little longer than the import.
_CHECK_SECONDS_MAX = IMPORT_SECONDS_MAX + 15

Contents = dict[Path, bytes | None]


class _CheckResult(msgspec.Struct, frozen=True):
    """What `interlock check --json` prints."""

    ok: bool
    problems: tuple[Problem, ...]


class CrewReader:
    """Reads served crews again: files here, modules in a fresh process. `needs_restart` once new code is sound."""

    def __init__(self, crews: Sequence[str], config: str | None, opened: Sequence[NamedCrew]) -> None:
        self._crews, self._config = crews, config
        self.loaded, self.code = [each.loaded for each in opened], code_of(opened)
        self._loaded = dict(zip(crews, self.loaded, strict=True))
        self._imported = _contents_of(files_of_user()) if any(map(python_name_of, crews)) else Contents()
        self.needs_restart = False

    def read_crews(self) -> list[LoadedCrew]:
        """The crews as they are now, in the order of the command line."""
        now = _contents_of(self._imported)
        has_changed = now != self._imported
        found = [self._read(crew, has_changed) for crew in self._crews]
        is_python = [python_name_of(crew) is not None for crew in self._crews]
        self.needs_restart = has_changed and all(
            each.is_sound for each, imported in zip(found, is_python, strict=True) if imported
        )
        return found

    def _read(self, crew: str, has_changed: bool) -> LoadedCrew:
        if python_name_of(crew) is None:
            return read_crew(crew, load_host(self._config, crew))
        loaded = replace(self._loaded[crew], read=tuple(self._imported))
        if not has_changed:
            return loaded
        result = self._check_in_fresh_process(crew)
        return loaded if result.ok else replace(loaded, crew=None, problems=result.problems)

    def _check_in_fresh_process(self, crew: str) -> _CheckResult:
        config = () if self._config is None else ("--config", self._config)
        command = [sys.executable, "-c", _COMMAND, "check", "--json", *config, "--", crew]
        try:
            done = subprocess.run(  # noqa: S603 - this Python, with the argument that the operator typed
                command, capture_output=True, timeout=_CHECK_SECONDS_MAX, check=False
            )
            return msgspec.json.decode(done.stdout, type=_CheckResult)
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            raise UsageError(f"crew '{crew}' cannot be checked in a fresh process: {error}") from error


def restart_process(*options: str) -> None:
    """Replaces this process with a fresh one of the same arguments and these options."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *options])  # noqa: S606 - itself, by its own arguments


def files_of_user() -> tuple[Path, ...]:
    """The Python files of the user that are imported: not those of Python, of packages or of Interlock."""
    others = (*map(str, sysconfig.get_paths().values()), os.path.dirname(interlock.__file__))  # noqa: PTH120 - as text
    files = {_file_of(module) for module in list(sys.modules.values())}
    return tuple(Path(file) for file in sorted(files) if file.endswith(".py") and not file.startswith(others))


def _file_of(module: Any) -> str:
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else ""


def _contents_of(files: Sequence[Path] | Contents) -> Contents:
    return {file: _bytes_of(file) for file in files}


def _bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
