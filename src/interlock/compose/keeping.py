"""Runs as things to keep: delete them, let them go by age, take them out and bring them in."""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from interlock.adapters import tree_files
from interlock.adapters.tree_files import TreeFile
from interlock.compose.box import Interlock
from interlock.compose.fitness import require_run_id
from interlock.compose.questions import list_unlisted
from interlock.compose.recovery import pages
from interlock.compose.retention import PAGE, moment_ago, prune_bus, prune_trees
from interlock.crew.definition import Crew
from interlock.engine.events import ChildStarted
from interlock.errors import DamagedRun, InterlockError, UsageError
from interlock.ids import parent_of, root_of
from interlock.limits import CREW_DEPTH_MAX
from interlock.ports import Record, RunRow, Tombstone
from interlock.runtime.runner import is_over, replayed, row_of


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
    return await prune_trees(box.trees, older_than_days, box.clock.now_ms())


async def runs_due(box: Interlock, older_than_days: float) -> int:
    """How many runs pruning would delete."""
    before, count, after = moment_ago(older_than_days, box.clock.now_ms()), 0, ""
    while page := await box.trees.finished_before(before, after, PAGE):
        count, after = count + len(page), page[-1]
    return count


async def prune_broadcasts(box: Interlock, older_than_days: float) -> int:
    """Deletes broadcasts of so long ago, but for those that an agent is still to be shown, and the newest of all."""
    return await prune_bus(box.signals.bus, older_than_days, box.clock.now_ms())


async def has_broadcasts_due(box: Interlock, older_than_days: float) -> bool:
    """Whether pruning would forget the oldest; it is the one that somebody may be still to hear."""
    oldest = await box.signals.bus.since(0, 2)
    return len(oldest) > 1 and oldest[0][1].created_at < moment_ago(older_than_days, box.clock.now_ms())


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
    """A run from such a file. All of it is replayed first: what cannot be trusted is not taken in.

    A run that has not ended would be driven here, so its crew is proven as that of a new run.
    """
    found = tree_files.read(data, name)
    rows = found.tree.rows
    require_outermost(rows[0].run, "imported", "interlock runs export")
    require_run_id(rows[0].run)
    crew_of = whole_crews(found)
    for sha in found.crews:
        crew_of(sha)
    journals = tree_files.opened(found)
    _require_called(rows, journals)
    for row, records in zip(rows, journals, strict=True):
        _require_true_row(row, crew_of(row.crew_sha), records)
    if not is_over(rows[0].status):
        box.runner.crews.require_proven(crew_of(rows[0].crew_sha), rows[0].crew_sha)
    for sha, body in found.crews.items():
        await box.journal.put_crew(sha, body)
    unowned = tuple(msgspec.structs.replace(row, epoch=0) for row in rows)
    await box.trees.add_tree(msgspec.structs.replace(found.tree, rows=unowned))
    await list_unlisted(box.store, box.crew_of)
    return unowned[0]


def _require_called(rows: Sequence[RunRow], journals: Sequence[Sequence[Record]]) -> None:
    """Whether each run but the outermost is one that another one says it called."""
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


def whole_crews(file: TreeFile) -> Callable[[str], Crew]:
    """Crews by their sum, with those that they call, as the file has them; each is read once."""
    run, read = file.tree.rows[0].run, dict[str, Crew]()

    def crew(sha: str, depth: int = 0) -> Crew:
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


def _crew(body: bytes, run: str) -> Crew:
    try:
        return msgspec.json.decode(body, type=Crew)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(run, f"its crew cannot be read: {error}") from error


def _require_true_row(row: RunRow, crew: Crew, records: Sequence[Record]) -> None:
    try:
        run = replayed(crew, row.run, records)
    except InterlockError:
        raise
    except Exception as error:  # no engine has written such a journal
        raise DamagedRun(row.run, f"it cannot be replayed: {type(error).__name__}: {error}") from error
    if row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "what is said of the run is not what its journal tells")
