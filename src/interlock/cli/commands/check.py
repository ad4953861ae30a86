"""`interlock check`: print every problem of a crew, with its place and a fix."""

import sys
from collections import Counter
from dataclasses import replace

import click
import msgspec

from interlock.adapters.crews.crew_files import LoadedCrew
from interlock.cli.crew_argument import crew_argument, read_named_crew, safe_line, show_problems, signal_errors
from interlock.compose.approval_rules import rule_problems
from interlock.compose.crews import host_settings
from interlock.crew.definition import CrewDefinition
from interlock.crew.nodes import SourceLocation
from interlock.crew.problem import Problems, Severity
from interlock.errors import BadCrewModule
from interlock.limits import PROBLEMS_MAX


@click.command()
@crew_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: ok, problems.")
def check(crew: str, config: str | None, as_json: bool) -> None:
    """Check CREW, and list every problem with file, line, code and a fix.

    CREW is a folder with crew.yaml, a crew file, or a crew in Python: file.py:name or package.module:name.
    """
    loaded = _read_crew(crew, config, as_json)
    if as_json:
        body = {"ok": loaded.is_sound, "problems": loaded.problems}
        click.echo(msgspec.json.encode(body).decode())
    else:
        show_problems(loaded.problems[:PROBLEMS_MAX])
        click.echo(_summary(crew, loaded))
    if loaded.crew is not None:
        for line in signal_errors(loaded.crew):
            click.echo(line, err=True)
    sys.exit(_exit_code(loaded))


def _read_crew(crew: str, config: str | None, as_json: bool) -> LoadedCrew:
    try:
        named = read_named_crew(crew, config)
        loaded = named.loaded
        if loaded.crew is None:
            return loaded
        also = rule_problems(host_settings(config), loaded.crew, tuple(named.functions))
        return replace(loaded, problems=(*loaded.problems, *also))
    except BadCrewModule as error:
        if not as_json:
            raise
        fix = "make the module importable, and name a crew of it"
        place = SourceLocation(error.file, max(1, error.line), 1)
        problems = Problems()
        problems.add("unreadable", str(error), place=place, fix=fix)
        return LoadedCrew(None, tuple(problems.found), readable=False)


def _exit_code(loaded: LoadedCrew) -> int:
    if not loaded.readable:
        return 2
    return 0 if loaded.is_sound else 1


def _summary(path: str, loaded: LoadedCrew) -> str:
    counts = Counter(problem.severity for problem in loaded.problems)
    found = ", ".join(f"{counts[s]} {s}{'s' if counts[s] != 1 else ''}" for s in Severity if counts[s])
    hidden = len(loaded.problems) - PROBLEMS_MAX
    if hidden > 0:
        found += f" ({hidden} not shown)"
    if not loaded.is_sound or loaded.crew is None:
        return click.style(f"{path} has problems: {found}", fg="red", bold=True)
    verdict = f"{safe_line(loaded.crew.name)} is sound: {_size(loaded.crew)}" + (f"; {found}" if found else "")
    return click.style(verdict, fg="green", bold=True)


def _size(crew: CrewDefinition) -> str:
    counts = {
        "agent": len(crew.agents),
        "route": sum(len(routes) for routes in crew.routes.values()),
        "group": len(crew.groups),
        "sub-crew": len(crew.sub_crews),
    }
    return ", ".join(f"{count} {noun}{'s' if count != 1 else ''}" for noun, count in counts.items() if count)
