"""Delete, prune, export and import whole runs."""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from interlock.adapters.files import tree_files
from interlock.adapters.files.tree_files import TreeFile
from interlock.compose.interlock import Interlock
from interlock.compose.preflight import require_run_id
from interlock.compose.questions import store_missing_questions
from interlock.compose.upkeep.retention import PAGE, moment_ago, prune_bus, prune_trees
from interlock.compose.working.recovery import run_pages
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import ChildStarted
from interlock.errors import DamagedRun, InterlockError, UsageError
from interlock.ids import parent_of, root_of
from interlock.limits import CREW_DEPTH_MAX
from interlock.ports import Record, RunRow, Tombstone
from interlock.runtime.commit import row_of
from interlock.runtime.replay import is_over, replay_run


def require_outermost(run: str, doing: str, command: str) -> None:
    """Refuses a child where only a whole tree of runs is allowed."""
    if parent_of(run):
        root = root_of(run)
        raise UsageError(f"run '{run}' is part of run '{root}' and cannot be {doing} by itself: {command} {root}")


async def delete_run(box: Interlock, run: str) -> Sequence[Tombstone]:
    """Deletes a run and all runs below it. Its own tombstone comes first."""
    require_outermost(run, "deleted", "interlock runs delete")
    row = await box.journal.row(run)
    if row.status == "running":
        raise UsageError(f"run '{run}' is running; end it first: interlock runs cancel {run}")
    return await box.archive.delete_tree(run, box.clock.now_ms())


async def prune_runs(box: Interlock, older_than_days: float) -> list[str]:
    """Deletes finished runs, with all below them, that did not change for that long.

    Paused ones may still be answered. Children are not named.
    """
    return await prune_trees(box.archive, older_than_days, box.clock.now_ms())


async def count_runs_due(box: Interlock, older_than_days: float) -> int:
    """The number of runs that pruning would delete."""
    before, count, after = moment_ago(older_than_days, box.clock.now_ms()), 0, ""
    while page := await box.archive.runs_finished_before(before, after, PAGE):
        count, after = count + len(page), page[-1]
    return count


async def prune_broadcasts(box: Interlock, older_than_days: float) -> int:
    """Deletes broadcasts older than that, except those that wait for an agent, and the newest."""
    return await prune_bus(box.signals.bus, older_than_days, box.clock.now_ms())


async def has_broadcasts_due(box: Interlock, older_than_days: float) -> bool:
    """Whether the oldest broadcast is old enough to be pruned; it may still wait for a subscriber."""
    oldest = await box.signals.bus.since(0, 2)
    return len(oldest) > 1 and oldest[0][1].created_at < moment_ago(older_than_days, box.clock.now_ms())


async def each_row(box: Interlock, *, nested: bool | None = None) -> AsyncIterator[RunRow]:
    """The rows, the newest first, page by page; `nested` selects children, or all others."""
    async for page in run_pages(box.journal, PAGE, nested=nested):
        for row in page:
            yield row


async def export_run(box: Interlock, run: str) -> bytes:
    """Exports a run and all below it, as a file for another data folder."""
    require_outermost(run, "exported", "interlock runs export")
    tree = await box.archive.export_tree(run)
    crews: dict[str, bytes] = {}
    ahead = [row.crew_sha for row in tree.rows]
    while ahead:
        sha = ahead.pop(0)
        if sha not in crews:
            crews[sha] = await box.journal.crew(sha)
            subs = _crew(crews[sha], run).sub_crews.values()
            ahead += [entry.crew_sha for entry in subs if entry.crew is None]  # an inline crew needs no file
    return tree_files.encode_tree_file(TreeFile(tree=tree, crews=crews))


async def import_run(box: Interlock, data: bytes, name: str) -> RunRow:
    """Imports a run from such a file. All of it is replayed first: a file that does not match is refused.

    A run that has not ended would be driven here, so its crew is checked as for a new run.
    """
    found = tree_files.decode_tree_file(data, name)
    rows = found.tree.rows
    require_outermost(rows[0].run, "imported", "interlock runs export")
    require_run_id(rows[0].run)
    crew_of = whole_crews(found)
    for sha in found.crews:
        crew_of(sha)
    journals = tree_files.unseal_records(found)
    _require_called(rows, journals)
    for row, records in zip(rows, journals, strict=True):
        _require_true_row(row, crew_of(row.crew_sha), records)
    if not is_over(rows[0].status):
        box.runner.crews.require_proven(crew_of(rows[0].crew_sha), rows[0].crew_sha)
    for sha, body in found.crews.items():
        await box.journal.put_crew(sha, body)
    unowned = tuple(msgspec.structs.replace(row, epoch=0) for row in rows)
    await box.archive.add_tree(msgspec.structs.replace(found.tree, rows=unowned))
    await store_missing_questions(box.store, box.crew_of)
    return unowned[0]


def _require_called(rows: Sequence[RunRow], journals: Sequence[Sequence[Record]]) -> None:
    """Requires that each run but the outermost was started by another run in the file."""
    called = {
        event.child
        for records in journals
        for record in records
        for event in record.events
        if isinstance(event, ChildStarted)
    }
    for row in rows[1:]:
        if row.run not in called:
            raise DamagedRun(row.run, f"run '{parent_of(row.run)}' did not call it")


def whole_crews(file: TreeFile) -> Callable[[str], CrewDefinition]:
    """Crews by their sha256, with their sub-crews, from the file; each is decoded once."""
    run, read = file.tree.rows[0].run, dict[str, CrewDefinition]()

    def crew(sha: str, depth: int = 0) -> CrewDefinition:
        if sha not in file.crews:
            raise DamagedRun(run, f"a crew that it calls, {sha}, is not in the file")
        if depth > CREW_DEPTH_MAX:
            raise DamagedRun(run, f"its crews call each other more than {CREW_DEPTH_MAX} deep")
        if sha not in read:
            plain = _crew(file.crews[sha], run)
            subs = {
                name: msgspec.structs.replace(entry, crew=entry.crew or crew(entry.crew_sha, depth + 1))
                for name, entry in plain.sub_crews.items()
            }
            read[sha] = msgspec.structs.replace(plain, sub_crews=subs) if subs else plain
        return read[sha]

    return crew


def _crew(body: bytes, run: str) -> CrewDefinition:
    try:
        return msgspec.json.decode(body, type=CrewDefinition)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"its crew cannot be read: {error}") from error


def _require_true_row(row: RunRow, crew: CrewDefinition, records: Sequence[Record]) -> None:
    try:
        run = replay_run(crew, row.run, records)
    except InterlockError:
        raise
    except Exception as error:  # no engine writes such a journal
        raise DamagedRun(row.run, f"it cannot be replayed: {type(error).__name__}: {error}") from error
    if row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "its row does not match its journal")
