"""`interlock graph`: draw a crew."""

import sys

import click

from interlock.cli.crew_argument import crew_argument, open_crew, show_problems
from interlock.crew.problem import Severity
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.mermaid import as_mermaid
from interlock.diagrams.svg import as_svg
from interlock.diagrams.text import as_text
from interlock.limits import CREW_DEPTH_MAX

_FORMS = {"text": as_text, "mermaid": as_mermaid, "svg": as_svg}


@click.command()
@crew_argument
@click.option(
    "--format", "form", type=click.Choice(list(_FORMS)), default="text", show_default=True, help="Output format."
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=CREW_DEPTH_MAX,
    show_default=True,
    metavar="N",
    help="Levels of sub-crews to draw; deeper ones are closed boxes.",
)
def graph(crew: str, config: str | None, form: str, depth: int) -> None:
    """Draw CREW: agents, signals, groups, ends, and sub-crews as boxes.

    A sub-crew that is used twice is drawn once. A crew with errors is drawn as far as it can be read, with exit code 1.
    """
    loaded = open_crew(crew, config)
    errors = [problem for problem in loaded.problems if problem.severity is Severity.ERROR]
    show_problems(errors, err=True)
    if loaded.crew is not None:
        click.echo(_FORMS[form](diagram_of(loaded.crew, depth)).rstrip())
    sys.exit(1 if errors else 0)
