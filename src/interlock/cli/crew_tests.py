"""`interlock test`: a crew's own tests, and which of its routes they never took."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from interlock.adapters.crew_tests import read_crew_tests
from interlock.adapters.tool_imports import imported_tools
from interlock.cli.crews import crew_argument, open_sound_crew, shown
from interlock.compose.crew_tests import Outcome, routes_of, run_crew_test, untaken
from interlock.compose.crews import host_settings
from interlock.crew.definition import Crew


@click.command()
@crew_argument
def test(crew: str, config: str | None) -> None:
    """Run CREW's own tests: the files in its tests folder, each with input, script and what to expect.

    Agents of crews that it calls are named with the way to them, alpha/x; their routes count as well.
    'interlock runs script RUN --as-test' makes one of a run. Exit code 1 if a test fails.
    """
    definition = open_sound_crew(crew, config)
    tests = read_crew_tests(Path(crew))
    settings = host_settings(config)
    tools = imported_tools(settings)
    outcomes = []
    for each in tests:
        outcomes.append(asyncio.run(run_crew_test(definition, each, tools, settings.mcp)))
        _show(outcomes[-1])
    _show_coverage(definition, outcomes)
    failed = sum(bool(outcome.differences) for outcome in outcomes)
    click.echo(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def _show(outcome: Outcome) -> None:
    word, color = ("failed", "red") if outcome.differences else ("passed", "green")
    click.echo(f"{click.style(word, fg=color)}  {shown(outcome.name)}")
    for difference in outcome.differences:
        click.echo(f"        {shown(difference)}")


def _show_coverage(crew: Crew, outcomes: Sequence[Outcome]) -> None:
    missed, total = untaken(crew, outcomes), len(routes_of(crew))
    click.echo(f"routes taken: {total - len(missed)} of {total}")
    for agent, route in missed:
        target = route.target or route.target_crew
        leads = f" -> {target}" if target else ""
        click.echo(f"        never: {shown(f'{agent} {route.signal}{leads}')}")
