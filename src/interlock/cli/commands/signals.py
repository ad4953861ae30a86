"""`interlock signals`: list known signals."""

import click

from interlock.cli.crew_argument import choose_config, config_option, open_sound_crew
from interlock.crew.registry import registry_of
from interlock.signals.builtin import load_default_signals
from interlock.signals.report import registry_report


@click.group()
def signals() -> None:
    """List known signals."""


@signals.command()
@click.argument("crew", required=False)
@config_option
def report(crew: str | None, config: str | None) -> None:
    """Print the signal registry: the built-in signals, or those of CREW."""
    if crew:
        config = choose_config(config, crew)
    registry = registry_of(open_sound_crew(crew, config)) if crew else load_default_signals()
    click.echo(registry_report(registry))
