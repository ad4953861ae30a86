"""Runs as things to keep: delete them, let them go by age, take them out and bring them in."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec

from interlock.adapters import tree_files
from interlock.adapters.tree_files import TreeFile
from interlock.compose.box import Interlock
from interlock.compose.questions import list_unlisted
from interlock.compose.recovery import pages
from interlock.crew.definition import Crew
from interlock.errors import DamagedRun, OwnedElsewhere, RunNotFound, UsageError
from interlock.ids import parent_of, root_of
from interlock.ports import Record, RunRow, Tombstone
from interlock.runtime.runner import is_over, replayed, row_of

DAY_MS = 24 * 60 * 60 * 1000

# Rows read in one go; a thousand are no burden, a million would be.
PAGE = 1_000


def require_outermost(run: str, doing: str, command: str) -> None:
    """Refuses what can only be done with a whole tree of runs."""
    if parent_of(run):
        root = root_of(run)
        raise UsageError(f"run '{run}' is part of run '{root}' and cannot be {doing} by itself: {command} {root}")


async def delete_run(box: Interlock, run: str) -> Sequence[Tombstone]:
    """The run and all that it called; its own tombstone comes first."""
    require_outermost(run, "deleted", "interlock runs delete")
    row = await box.journal.row(run)
    if row.status == "running":
        raise UsageError(f"run '{run}' is running; end it first: interlock runs cancel {run}")
    return await box.trees.delete_tree(run, box.clock.now_ms())


async def prune_runs(box: Interlock, older_than_days: float) -> list[str]:
    """Deletes finished runs, with all that they called, in which nothing has happened for so long.

    Paused ones may still be answered. Those that were called are not named.
    """
    old = [run async for run in runs_due(box, older_than_days)]
    gone = []
    for run in old:
        with suppress(OwnedElsewhere, RunNotFound):  # another process has it in hand, or was faster
            gone.append((await box.trees.delete_tree(run, box.clock.now_ms()))[0].run)
    return gone


async def runs_due(box: Interlock, older_than_days: float) -> AsyncIterator[str]:
    """The runs that pruning would delete."""
    since = box.clock.now_ms() - older_than_days * DAY_MS
    async for row in each_row(box, nested=False):
        if is_over(row.status) and row.updated_at < since:
            yield row.run


async def each_row(box: Interlock, *, nested: bool | None = None) -> AsyncIterator[RunRow]:
    """The newest first, page by page; `nested` are those of crews that were called, or all others."""
    async for page in pages(box.journal, PAGE, nested=nested):
        for row in page:
            yield row


async def export_run(box: Interlock, run: str) -> bytes:
    """The run as it is now, with all that it called, as a file for another data folder."""
    require_outermost(run, "exported", "interlock runs export")
    tree = await box.trees.sealed_tree(run)
    crews: dict[str, bytes] = {}
    ahead = [row.crew_sha for row in tree.rows]
    while ahead:
        sha = ahead.pop(0)
        if sha not in crews:
            crews[sha] = await box.journal.crew(sha)
            subs = _crew(crews[sha], run).sub_crews.values()
            ahead += [entry.crew_sha for entry in subs if entry.crew is None]  # one that is written out is there
    return tree_files.written(TreeFile(tree=tree, crews=crews))


async def import_run(box: Interlock, data: bytes, name: str) -> RunRow:
    """A run from such a file. All of it is replayed first: what cannot be trusted is not taken in."""
    found = tree_files.read(data, name)
    require_outermost(found.tree.rows[0].run, "imported", "interlock runs export")
    crew_of = whole_crews(found)
    for row, records in zip(found.tree.rows, tree_files.opened(found), strict=True):
        _require_true_row(row, crew_of(row.crew_sha), records)
    for sha, body in found.crews.items():
        await box.journal.put_crew(sha, body)
    rows = tuple(msgspec.structs.replace(row, epoch=0) for row in found.tree.rows)
    await box.trees.add_tree(msgspec.structs.replace(found.tree, rows=rows))
    await list_unlisted(box.store, box.crew_of)
    return rows[0]


def whole_crews(file: TreeFile) -> Callable[[str], Crew]:
    """Crews by their sum, with those that they call, as the file has them; each is read once."""
    run, read = file.tree.rows[0].run, dict[str, Crew]()

    def crew(sha: str) -> Crew:
        if sha not in file.crews:
            raise DamagedRun(run, f"a crew that it calls, {sha}, is not in the file")
        if sha not in read:
            plain = _crew(file.crews[sha], run)
            subs = {
                name: msgspec.structs.replace(entry, crew=entry.crew or crew(entry.crew_sha))
                for name, entry in plain.sub_crews.items()
            }
            read[sha] = msgspec.structs.replace(plain, sub_crews=subs) if subs else plain
        return read[sha]

    return crew


def _crew(body: bytes, run: str) -> Crew:
    try:
        return msgspec.json.decode(body, type=Crew)
    except ValueError as error:
        raise DamagedRun(run, f"its crew cannot be read: {error}") from error


def _require_true_row(row: RunRow, crew: Crew, records: Sequence[Record]) -> None:
    run = replayed(crew, row.run, records)
    if row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "what is said of the run is not what its journal tells")
