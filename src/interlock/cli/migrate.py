"""`interlock migrate`: crews of version 1.0 as 2.0."""

import sys
from collections.abc import Iterator
from difflib import unified_diff

import click

from interlock.adapters.crew_migration import NEW, migration_of
from interlock.adapters.replaced_files import replace_files
from interlock.cli.crews import crew_argument, open_crew, show_problems, shown
from interlock.compose.crews import load_host
from interlock.crew.problem import Severity


@click.command()
@crew_argument
@click.option("--write", is_flag=True, help="Change the files; without it the changes are only shown.")
def migrate(crew: str, config: str | None, write: bool) -> None:
    """Show what makes CREW, and the crews inside it, files of version 2.0 that mean the same; or write it.

    Comments, order and layout stay as they are. What 1.0 takes for granted is written out under settings. A crew
    with errors is not changed, and neither is one that 2.0 would refuse. Exit code 1 then, and the reasons.
    """
    loaded = open_crew(crew, config)
    if not loaded.is_sound:
        show_problems((p for p in loaded.problems if p.severity is Severity.ERROR), err=True)
        click.echo(f"{shown(crew)} is not sound; nothing was changed, mend it first", err=True)
        sys.exit(1)
    migration = migration_of(crew, loaded, load_host(config, crew))
    if migration.errors:
        show_problems(migration.errors, err=True)
        click.echo(f"{NEW} would refuse {shown(crew)}; nothing was changed, mend this first", err=True)
        sys.exit(1)
    if not migration.files:
        click.echo(f"{shown(crew)} is of version {NEW} already", err=True)
    elif write:
        replace_files((file.real, file.data, data) for file, data in migration.files)
        for file, _ in migration.files:
            click.echo(f"wrote {shown(str(file.path))}")
    else:
        for file, data in migration.files:
            click.echo("".join(_diff(str(file.path), file.data, data)).encode(), nl=False)
        click.echo("nothing was written; --write does it", err=True)


def _diff(name: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (data.decode("utf-8").split("\n") for data in (before, after))
    for line in unified_diff(_whole(old), _whole(new), shown(name), shown(name)):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _whole(parts: list[str]) -> list[str]:
    """Lines with their ends; only a line feed ends one, as for every program that takes such a diff."""
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
