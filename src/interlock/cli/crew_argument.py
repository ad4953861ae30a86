"""The argument CREW: find the crew, load it, and print its problems."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.adapters.log.log_lines import one_line
from interlock.adapters.tools.python_tools import PythonTool
from interlock.authoring.python_names import import_crew, python_name_of
from interlock.compose.crews import HOST_FILE, chosen_host_file, find_host_file, load_host
from interlock.crew.definition import CrewDefinition
from interlock.crew.problem import Problem, Severity
from interlock.crew.unsound import UnsoundCrew
from interlock.errors import UsageError
from interlock.signals.definition import SignalBehavior
from interlock.signals.report import unknown_target_line

config_option = click.option(
    "--config", metavar="FILE", help="Settings file; default: interlock.toml in this folder, else in the crew's folder."
)
python_crew_option = click.option(
    "--crew", metavar="CREW", help="The crew in Python that the run was begun with: its functions are tools."
)
# Text from files and models is printed as one safe line, as in the log.
safe_line = one_line

COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_TARGETED = (SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.PAUSE)


def crew_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add CREW and --config to a command, and find the settings file."""

    @wraps(command)
    def with_host_file(crew: str, config: str | None, **options: Any) -> Any:
        return command(crew=crew, config=choose_config(config, crew), **options)

    return click.argument("crew")(config_option(with_host_file))


def choose_config(config: str | None, *crews: str) -> str | None:
    """The settings file for these crews. Prints which one, where it is not the obvious one."""
    found = find_host_file(config, crews)
    for other in found.passed_over:
        click.echo(
            f"interlock: using {found.path} of this folder and not {safe_line(str(other))}; "
            "choose another with --config",
            err=True,
        )
    if config is None and found.path is not None and found.path != Path(HOST_FILE):
        click.echo(f"interlock: settings from {safe_line(str(found.path))}", err=True)
    return str(found.path) if found.path is not None else None


class OpenedCrew(NamedTuple):
    """A sound crew that a command was given, and the functions that came with it as tools."""

    definition: CrewDefinition
    functions: Mapping[str, PythonTool]

    @property
    def tools(self) -> tuple[PythonTool, ...]:
        return tuple(self.functions.values())


class NamedCrew(NamedTuple):
    """A crew that a command was given, with its problems, and the functions that came with it as tools."""

    loaded: LoadedCrew
    functions: Mapping[str, PythonTool]


def read_named_crew(path: str, config: str | None) -> NamedCrew:
    """Read a crew from its files, or import it: this is the only place that imports a crew."""
    named = python_name_of(path)
    if named is None:
        return NamedCrew(read_crew(path, load_host(config, path)), {})
    chosen = chosen_host_file.set(config)
    try:
        crew = import_crew(named)
    except UnsoundCrew as error:
        return NamedCrew(LoadedCrew(None, tuple(error.problems), readable=True), {})
    finally:
        chosen_host_file.reset(chosen)
    return NamedCrew(LoadedCrew(crew.definition, crew.warnings, readable=True), crew.functions)


def open_named_crew(path: str, config: str | None) -> NamedCrew:
    """Read or import a crew with its problems; if it cannot be read, print why and exit with 2."""
    named = read_named_crew(path, config)
    if not named.loaded.readable:
        show_problems(named.loaded.problems, err=True)
        sys.exit(2)
    return named


def open_crew(path: str, config: str | None) -> LoadedCrew:
    """Load a crew with its problems; if it cannot be read, print why and exit with 2."""
    return open_named_crew(path, config).loaded


def crew_name(loaded: LoadedCrew, path: str) -> str:
    """The crew's own name; the name of its folder if the file is too broken to have one."""
    return loaded.crew.name if loaded.crew is not None else Path(path).resolve().name


def open_sound_crew(path: str, config: str | None) -> CrewDefinition:
    """Load a sound crew; otherwise print its errors and exit with 1."""
    return open_runnable_crew(path, config).definition


def open_runnable_crew(path: str, config: str | None) -> OpenedCrew:
    """Load a sound crew with its functions; otherwise print its errors and exit with 1."""
    loaded, functions = open_named_crew(path, config)
    if loaded.crew is None or not loaded.is_sound:
        show_problems((p for p in loaded.problems if p.severity is Severity.ERROR), err=True)
        name, quoted = safe_line(crew_name(loaded, path)), safe_line(shlex.quote(path))
        click.echo(f"{name} has errors; run 'interlock check {quoted}' for all of them", err=True)
        sys.exit(1)
    return OpenedCrew(loaded.crew, functions)


def tools_of_python_crew(crew: str | None, config: str | None) -> tuple[PythonTool, ...]:
    """The functions of the crew that --crew names, if it is given."""
    return () if crew is None else open_runnable_crew(crew, config).tools


def tools_of(functions: Iterable[Mapping[str, PythonTool]]) -> tuple[PythonTool, ...]:
    """The functions of several crews; refused if two crews give different ones for one tool."""
    found: dict[str, PythonTool] = {}
    for name, function in (item for each in functions for item in each.items()):
        if found.setdefault(name, function) != function:
            raise UsageError(
                f"two crews have different functions for the tool '{name}'; rename one, or serve them apart"
            )
    return tuple(found.values())


def folder_of(path: str) -> Path:
    """The folder or file of a crew; of one in Python, the folder that its module is imported from."""
    named = python_name_of(path)
    return Path(path) if named is None else named.folder


def show_problems(problems: Iterable[Problem], *, err: bool = False) -> None:
    for problem in problems:
        severity = click.style(problem.severity, fg=COLORS[problem.severity], bold=True)
        click.echo(f"{safe_line(problem.file)}:{problem.line}:{problem.column}: {severity}: {problem.code}", err=err)
        click.echo(f"    {safe_line(problem.message)}", err=err)
        if problem.path:
            click.echo(click.style(f"    at  {safe_line(problem.path)}", dim=True), err=err)
        click.echo(f"    fix {safe_line(problem.fix)}", err=err)


def signal_errors(crew: CrewDefinition) -> Iterator[str]:
    """Log lines for routes to unknown targets. A sound crew has none, so no run ever logs them."""
    for member in _crew_and_below(crew):
        for agent, routes in member.routes.items():
            for route in routes:
                if route.behavior in _TARGETED and route.target and not _has_target(member, route.target):
                    yield safe_line(unknown_target_line(agent, route.signal, route.target))


def _crew_and_below(crew: CrewDefinition) -> Iterator[CrewDefinition]:
    """A crew and all its sub-crews, each once: shared sub-crews have many more paths than crews."""
    seen: set[int] = set()
    ahead = [crew]
    while ahead:
        member = ahead.pop(0)
        if id(member) not in seen:
            seen.add(id(member))
            yield member
            ahead += [child.crew for child in member.sub_crews.values() if child.crew is not None]


def _has_target(crew: CrewDefinition, target: str) -> bool:
    return target in crew.groups or target in crew.agent_ids
