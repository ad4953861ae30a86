"""`interlock graph`: a crew as a picture."""

import sys

import click

from interlock.cli.crews import crew_argument, open_crew, show_problems
from interlock.crew.diagram import diagram_of
from interlock.crew.diagram_text import as_text
from interlock.crew.drawing import as_svg
from interlock.crew.mermaid import as_mermaid
from interlock.crew.problem import Severity
from interlock.limits import CREW_DEPTH_MAX

_FORMS = {"text": as_text, "mermaid": as_mermaid, "svg": as_svg}


@click.command()
@crew_argument
@click.option("--format", "form", type=click.Choice(list(_FORMS)), default="text", show_default=True)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=CREW_DEPTH_MAX,
    show_default=True,
    metavar="N",
    help="How many levels of crews inside crews are drawn; deeper ones are closed boxes.",
)
def graph(crew: str, config: str | None, form: str, depth: int) -> None:
    """Draw CREW: its agents, the marks they use, groups, endings, and the crews inside it as boxes.

    A crew that is used more than once is drawn where it comes first. A crew with problems is drawn as far as it can
    be read, and the exit code is 1.
    """
    loaded = open_crew(crew, config)
    errors = [problem for problem in loaded.problems if problem.severity is Severity.ERROR]
    show_problems(errors, err=True)
    if loaded.crew is not None:
        click.echo(_FORMS[form](diagram_of(loaded.crew, depth)).rstrip())
    sys.exit(1 if errors else 0)
