"""`interlock test`: run a crew's tests, and report the coverage of its routes."""

import asyncio
import sys
from collections.abc import Sequence

import click

from interlock.adapters.crews.crew_test_files import read_crew_tests
from interlock.adapters.tools.tool_imports import import_tools
from interlock.cli.crew_argument import crew_argument, folder_of, open_runnable_crew, safe_line
from interlock.compose.crew_tests import CrewTestResult, routes_not_taken, routes_of, run_crew_test
from interlock.compose.crews import host_settings
from interlock.crew.definition import CrewDefinition


@click.command()
@crew_argument
def test(crew: str, config: str | None) -> None:
    """Run the tests in CREW's tests folder: files with an input, a script and the expected result.

    Agents of sub-crews are named with their path, alpha/x; their routes count for the coverage.
    'interlock runs script RUN --as-test' makes a test of a run. Exit code 1 if a test fails.
    """
    opened = open_runnable_crew(crew, config)
    definition = opened.definition
    tests = read_crew_tests(folder_of(crew))
    settings = host_settings(config)
    tools = [*import_tools(settings), *opened.tools]
    outcomes = []
    for each in tests:
        outcomes.append(asyncio.run(run_crew_test(opened, each, tools, settings.mcp)))
        _print_outcome(outcomes[-1])
    _print_coverage(definition, outcomes)
    failed = sum(bool(outcome.differences) for outcome in outcomes)
    click.echo(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def _print_outcome(outcome: CrewTestResult) -> None:
    word, color = ("failed", "red") if outcome.differences else ("passed", "green")
    click.echo(f"{click.style(word, fg=color)}  {safe_line(outcome.name)}")
    for difference in outcome.differences:
        click.echo(f"        {safe_line(difference)}")


def _print_coverage(crew: CrewDefinition, outcomes: Sequence[CrewTestResult]) -> None:
    missed, total = routes_not_taken(crew, outcomes), len(routes_of(crew))
    click.echo(f"route coverage {total - len(missed)}/{total}" + ("; not covered:" if missed else ""))
    for agent, route in missed:
        target = route.target or route.target_crew
        leads = f" -> {target}" if target else ""
        click.echo(f"        {safe_line(f'{agent} {route.signal}{leads}')}")
