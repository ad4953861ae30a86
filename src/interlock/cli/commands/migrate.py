"""`interlock migrate`: convert crew files from version 1.0 to 2.0."""

import sys
from collections.abc import Iterator
from difflib import unified_diff

import click

from interlock.adapters.crews.crew_migration import NEW, migration_of
from interlock.adapters.files.atomic_write import replace_files
from interlock.authoring.python_names import python_name_of
from interlock.cli.crew_argument import crew_argument, crew_name, open_crew, safe_line, show_problems
from interlock.compose.crews import load_host
from interlock.crew.problem import Severity
from interlock.errors import UsageError


@click.command()
@crew_argument
@click.option("--write", is_flag=True, help="Change the files; by default the changes are only shown.")
def migrate(crew: str, config: str | None, write: bool) -> None:
    """Show or write the changes that make CREW and its sub-crews equivalent files of version 2.0.

    Comments, order and layout stay. Defaults of 1.0 are written out under settings. A crew with errors is not changed,
    and neither is one that 2.0 would refuse: then the exit code is 1.
    """
    if python_name_of(crew) is not None:
        raise UsageError(f"'{crew}' is a crew in Python, which has no version to migrate; name a crew file")
    loaded = open_crew(crew, config)
    if not loaded.is_sound:
        show_problems((p for p in loaded.problems if p.severity is Severity.ERROR), err=True)
        click.echo(f"{safe_line(crew_name(loaded, crew))} has errors; fix them first, nothing was changed", err=True)
        sys.exit(1)
    migration = migration_of(crew, loaded, load_host(config, crew))
    if migration.errors:
        show_problems(migration.errors, err=True)
        click.echo(f"{NEW} would refuse {safe_line(crew)}; fix this first, nothing was changed", err=True)
        sys.exit(1)
    if not migration.files:
        click.echo(f"{safe_line(crew)} is already of version {NEW}", err=True)
    elif write:
        replace_files((file.real, file.data, data) for file, data in migration.files)
        for file, _ in migration.files:
            click.echo(f"wrote {safe_line(str(file.path))}")
    else:
        for file, data in migration.files:
            click.echo("".join(_diff(str(file.path), file.data, data)).encode(), nl=False)
        click.echo("nothing was written; use --write to write it", err=True)


def _diff(name: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (data.decode("utf-8").split("\n") for data in (before, after))
    for line in unified_diff(_lines_with_ends(old), _lines_with_ends(new), safe_line(name), safe_line(name)):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines_with_ends(parts: list[str]) -> list[str]:
    """Lines with their ends; only a line feed ends a line, as programs that apply diffs expect."""
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
