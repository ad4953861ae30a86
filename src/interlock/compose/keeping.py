"""Runs as things to keep: delete them, let them go by age, take them out and bring them in."""

from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from interlock.adapters import run_files
from interlock.adapters.run_files import RunFile
from interlock.compose.box import Interlock
from interlock.compose.recovery import pages
from interlock.crew.definition import Crew
from interlock.errors import DamagedRun, OwnedElsewhere, RunNotFound, UsageError
from interlock.ports import RunRow, Tombstone
from interlock.runtime.runner import is_over, replayed, row_of

DAY_MS = 24 * 60 * 60 * 1000

# Rows read in one go; a thousand are no burden, a million would be.
PAGE = 1_000


async def delete_run(box: Interlock, run: str) -> Tombstone:
    row = await box.journal.row(run)
    if row.status == "running":
        raise UsageError(f"run '{run}' is running; end it first: interlock runs cancel {run}")
    return await box.keeping.delete(run, box.clock.now_ms())


async def prune_runs(box: Interlock, older_than_days: float) -> list[str]:
    """Deletes finished runs in which nothing has happened for so long; paused ones may still be answered."""
    old = [run async for run in runs_due(box, older_than_days)]
    gone = []
    for run in old:
        with suppress(OwnedElsewhere, RunNotFound):  # another process has it in hand, or was faster
            gone.append((await box.keeping.delete(run, box.clock.now_ms())).run)
    return gone


async def runs_due(box: Interlock, older_than_days: float) -> AsyncIterator[str]:
    """The runs that pruning would delete."""
    since = box.clock.now_ms() - older_than_days * DAY_MS
    async for row in each_row(box):
        if is_over(row.status) and row.updated_at < since:
            yield row.run


async def each_row(box: Interlock) -> AsyncIterator[RunRow]:
    """The newest first, page by page."""
    async for page in pages(box.journal, PAGE):
        for row in page:
            yield row


async def export_run(box: Interlock, run: str) -> bytes:
    """The run as it is now, as a file for another data folder."""
    records = await box.keeping.sealed(run)
    row = await box.journal.row(run)
    return run_files.written(RunFile(row=row, crew=await box.journal.crew(row.crew_sha), records=tuple(records)))


async def import_run(box: Interlock, data: bytes, name: str) -> RunRow:
    """A run from such a file. It is replayed first: what cannot be trusted is not taken in."""
    found = run_files.read(data, name)
    _require_true_row(found)
    await box.journal.put_crew(found.row.crew_sha, found.crew)
    row = msgspec.structs.replace(found.row, epoch=0)
    await box.keeping.add(row, found.records)
    return row


def _crew(found: RunFile) -> Crew:
    try:
        return msgspec.json.decode(found.crew, type=Crew)
    except ValueError as error:
        raise DamagedRun(found.row.run, f"its crew cannot be read: {error}") from error


def _require_true_row(found: RunFile) -> None:
    row = found.row
    run = replayed(_crew(found), row.run, run_files.opened(found))
    if row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "what is said of the run is not what its journal tells")
