"""What commands that take a crew have in common: finding it, and telling what is wrong with it."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click

from interlock.adapters.crew_files import LoadedCrew, read_crew
from interlock.adapters.log_lines import one_line
from interlock.compose.crews import HOST_FILE, find_host_file, load_host
from interlock.crew.definition import Crew
from interlock.crew.problem import Problem, Severity
from interlock.signals.definition import SignalBehavior
from interlock.signals.report import unknown_target_line

config_option = click.option(
    "--config", metavar="FILE", help="The host's file; else interlock.toml in this folder, else in the crew's."
)
# What files and models say is shown on one safe line, on the terminal as in the log.
shown = one_line

COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_TARGETED = (SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.PAUSE)


def crew_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """CREW and --config, for every command that reads a crew; the host's file is looked for."""

    @wraps(command)
    def with_host_file(crew: str, config: str | None, **options: Any) -> Any:
        return command(crew=crew, config=choose_config(config, crew), **options)

    return click.argument("crew")(config_option(with_host_file))


def choose_config(config: str | None, *crews: str) -> str | None:
    """The host's file for these crews; says so where it is not the one that people would think of."""
    found = find_host_file(config, crews)
    for other in found.passed_over:
        click.echo(
            f"interlock: {found.path} of this folder counts, and {shown(str(other))} does not; --config names another",
            err=True,
        )
    if config is None and found.path is not None and found.path != Path(HOST_FILE):
        click.echo(f"interlock: settings from {shown(str(found.path))}", err=True)
    return str(found.path) if found.path is not None else None


def open_crew(path: str, config: str | None) -> LoadedCrew:
    """The crew with its problems; where nothing can be read, says so and exits 2."""
    loaded = read_crew(path, load_host(config, path))
    if not loaded.readable:
        show_problems(loaded.problems, err=True)
        sys.exit(2)
    return loaded


def open_sound_crew(path: str, config: str | None) -> Crew:
    """The crew, if it is sound; else its errors, and exit 1."""
    loaded = open_crew(path, config)
    if loaded.crew is None or not loaded.is_sound:
        show_problems((p for p in loaded.problems if p.severity is Severity.ERROR), err=True)
        click.echo(f"{path} has errors; run 'interlock check {path}' for all of them", err=True)
        sys.exit(1)
    return loaded.crew


def show_problems(problems: Iterable[Problem], *, err: bool = False) -> None:
    for problem in problems:
        severity = click.style(problem.severity, fg=COLORS[problem.severity], bold=True)
        click.echo(f"{shown(problem.file)}:{problem.line}:{problem.column}: {severity}: {problem.code}", err=err)
        click.echo(f"    {shown(problem.message)}", err=err)
        if problem.path:
            click.echo(click.style(f"    at  {shown(problem.path)}", dim=True), err=err)
        click.echo(f"    fix {shown(problem.fix)}", err=err)


def signal_errors(crew: Crew) -> Iterator[str]:
    """The log's lines for routes that lead to nobody; a sound crew has none, so they are never written by a run."""
    for member in _crews(crew):
        for agent, routes in member.routes.items():
            for route in routes:
                if route.behavior in _TARGETED and route.target and not _exists(member, route.target):
                    yield shown(unknown_target_line(agent, route.signal, route.target))


def _crews(crew: Crew) -> Iterator[Crew]:
    """A crew and all below it, each once: crews that share sub-crews have far more ways down than crews."""
    seen: set[int] = set()
    ahead = [crew]
    while ahead:
        member = ahead.pop(0)
        if id(member) not in seen:
            seen.add(id(member))
            yield member
            ahead += [child.crew for child in member.sub_crews.values() if child.crew is not None]


def _exists(crew: Crew, target: str) -> bool:
    return target in crew.groups or target in crew.agent_ids
