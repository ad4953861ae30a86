"""All runs of a store in one file, each as an export: for a store of another kind, or another server.

Rule: it holds runs and their crews. Broadcasts, budgets, schedules and what a server keeps are not in it; a copy of the
whole store is that of `interlock backup` for a folder, and of the tools of PostgreSQL for a server.
"""

from pathlib import Path

import msgspec

from interlock.adapters.files.backup_files import FORMAT_BYTES_MAX, BackupFile, is_backup_file, read_backup
from interlock.compose.interlock import Interlock
from interlock.compose.upkeep.archive import each_row, export_run, import_run
from interlock.errors import RunExists, RunNotFound


class BackupCount(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were written or imported, and those that were there already."""

    done: int = 0
    there: int = 0


async def write_backup(box: Interlock, file: Path) -> BackupCount:
    """Adds every run that the file does not have yet, or that has changed since. Children go with their callers."""
    done = there = 0
    with BackupFile(file) as backup:
        async for row in each_row(box, nested=False):
            events = row.seq + sum(below.seq for below in await box.journal.rows_below(row.run))
            if backup.entries.get(row.run) == events:
                there += 1
                continue
            try:
                backup.add(row.run, events, await export_run(box, row.run))
            except RunNotFound:
                continue  # deleted meanwhile
            done += 1
    return BackupCount(done=done, there=there)


def has_many_runs(file: Path) -> bool:
    """Whether a file is one of `write_backup`, and not the export of one run."""
    with file.open("rb") as opened:
        return is_backup_file(opened.readline(FORMAT_BYTES_MAX))


async def import_backup(box: Interlock, file: Path) -> BackupCount:
    """Imports every run of such a file; those that the store has, or had, are left as they are."""
    done = there = 0
    for export in read_backup(file):
        try:
            await import_run(box, export, str(file))
        except RunExists:
            there += 1
        else:
            done += 1
    return BackupCount(done=done, there=there)
