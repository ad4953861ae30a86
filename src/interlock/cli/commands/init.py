"""`interlock init`: create a crew from a template."""

import os
import shlex
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from interlock.errors import UsageError

TEMPLATES = {
    "hello": "a writer and an editor in one file",
    "support": "a support desk: agent files, a group, a person in the loop",
}


@click.command(epilog="Templates: " + "; ".join(f"{name}: {what}" for name, what in TEMPLATES.items()))
@click.argument("folder", metavar="[DIR]", default=".")
@click.option("--template", type=click.Choice(list(TEMPLATES)), default="hello", show_default=True, help="See below.")
def init(folder: str, template: str) -> None:
    """Create a crew in DIR from a template. Existing files are not overwritten."""
    files = dict(_files(template_folder(template), Path(folder)))
    taken = [path for path in files if os.path.lexists(path)]
    if taken:
        raise UsageError(f"{taken[0]} already exists; choose another folder")
    for path, source in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.read_bytes())
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        click.echo(f"wrote {path}")
    click.echo(f"next: interlock check {shlex.quote(str(folder))}")


def template_folder(name: str) -> Traversable:
    return resources.files("interlock") / "templates" / name


def _files(source: Traversable, target: Path) -> list[tuple[Path, Traversable]]:
    found = []
    for entry in sorted(source.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            found += _files(entry, target / entry.name)
        else:
            found.append((target / entry.name, entry))
    return found
