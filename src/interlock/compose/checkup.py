"""The health of a data folder: the database, the chain of every run, and whether every run replays as it was."""

import os
from pathlib import Path

import msgspec

from interlock.adapters.host_file import HostSettings
from interlock.adapters.host_secrets import too_short
from interlock.adapters.store_readonly import is_read_only
from interlock.adapters.store_sqlite import DATABASE, OWNERS, SqliteStore, is_alive
from interlock.compose.box import Interlock
from interlock.compose.inspection import Inspection
from interlock.compose.keeping import each_row, has_broadcasts_due, runs_due
from interlock.compose.questions import listed_questions
from interlock.engine.state import RunState
from interlock.errors import DamagedRun, InterlockError, RecordsMissing, RunNotFound, UsageError
from interlock.ids import child_id, parent_of
from interlock.ports import Asking, RunRow
from interlock.runtime.asking import Asked
from interlock.runtime.runner import replayed, row_of


class Checkup(msgspec.Struct, kw_only=True):
    """What was looked at. Notes are worth knowing; only problems are wrong."""

    read_only: bool = False
    runs: int = 0
    events: int = 0
    deleted: int = 0
    problems: list[str] = []
    notes: list[str] = []


async def check_up(data: Path, host: HostSettings | None = None, *, accept_loss: bool = False) -> Checkup:
    """Looks at everything, and runs nothing; of the host's file what counts are durability and retention.

    With `accept_loss` a folder that lacks what it was known to hold can be written again.
    """
    if not (data / DATABASE).exists():
        raise UsageError(f"there is no {DATABASE} in '{data}'; name the data folder with --data")
    found, settings = Checkup(read_only=is_read_only(data)), host or HostSettings()
    is_cut_off = False
    found.notes += too_short(settings, os.environ)
    strays = [] if found.read_only else _stray_owner_files(data)
    try:
        if accept_loss:
            await _accept_loss(data, settings.durability, found)
        async with Inspection(data, durability=settings.durability) as box:
            found.notes += box.log_notes()
            is_cut_off = bool(losses := box.losses())
            found.problems += losses
            found.problems += await box.store.problems()
            await _check_runs(box, found)
            found.deleted = len(await box.keeping.tombstones())
            await _tell_due(box, settings, found)
    except InterlockError as error:
        found.problems.append(str(error))
    if (
        not found.read_only and not is_cut_off
    ):  # whose files they are is not to be found out there, and they cannot be removed
        _tell_strays(data, strays, found)
    return found


async def _accept_loss(data: Path, durability: str, found: Checkup) -> None:
    try:
        await SqliteStore(data).close()
    except RecordsMissing as lost:
        await SqliteStore(data, durability=durability, accepts_loss=True).close()
        found.notes.append(
            f"given up: {lost.records} records and {lost.changes} other changes; the folder is open again"
        )
    else:
        found.notes.append("nothing is missing, so there was no loss to accept")


async def _check_runs(box: Inspection, found: Checkup) -> None:
    async for row in each_row(box):
        found.runs += 1
        found.events += row.seq
        try:
            await _check_run(box, row, found)
        except RunNotFound:
            continue  # deleted meanwhile
        except InterlockError as error:
            found.problems.append(str(error))
        except Exception as error:  # a journal that the engine cannot take must not hide the runs after it
            found.problems.append(f"run '{row.run}' cannot be replayed: {type(error).__name__}: {error}")


async def _check_run(box: Inspection, row: RunRow, found: Checkup) -> None:
    records = await box.journal.records(row.run)
    run = replayed(await box.crew_of(row), row.run, records)
    now = await box.journal.row(row.run)
    if now.seq == row.seq and row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "what is said of the run is not what its journal tells")
    await _check_links(box, row, run.state)
    await _check_questions(box, Asking(run=row.run, questions=Asked(records).open(run.state, row.crew)), row.seq, found)


async def _check_questions(box: Inspection, asking: Asking, seq: int, found: Checkup) -> None:
    """What a run asks is listed beside its journal; a list that is wrong is written anew where that is possible."""
    listed = {each.token: each for each in await listed_questions(box.store, asking.run) if each.run == asking.run}
    is_right = listed == {each.token: each for each in asking.questions}
    if is_right or (await box.journal.row(asking.run)).seq != seq:
        return
    what = f"run '{asking.run}' asks what was not listed, or was listed with what it does not ask"
    if box.is_read_only:
        found.problems.append(f"{what}; check the folder where it can be written")
    else:
        await box.store.list_questions(asking, seq)
        found.notes.append(f"{what}; its questions were listed anew, as its journal tells them")


async def _check_links(box: Interlock, row: RunRow, state: RunState) -> None:
    """Whether whoever called a run is there, and those that it waits for.

    A child that was to be started and is not there yet is nothing wrong: whoever goes on with the run starts it.
    """
    waits_for = {child_id(row.run, wait.child) for wait in state.waits if wait.child}
    for child in sorted(waits_for):
        await _require_there(box, child, f"run '{row.run}' waits for run '{child}'")
    if caller := parent_of(row.run):
        await _require_there(box, caller, f"run '{row.run}' was called by run '{caller}'")


async def _require_there(box: Interlock, run: str, why: str) -> None:
    try:
        await box.journal.row(run)
    except RunNotFound as error:
        raise UsageError(f"{why}, which is not there") from error


async def _tell_due(box: Interlock, settings: HostSettings, found: Checkup) -> None:
    days, broadcast_days = settings.retention_days, settings.broadcast_days
    due = 0 if days is None else await runs_due(box, days)
    if due:
        runs = "finished run is" if due == 1 else "finished runs are"
        found.notes.append(f"{due} {runs} older than the {days:g} days of [retention]; 'interlock runs prune' deletes")
    if broadcast_days is not None and await has_broadcasts_due(box, broadcast_days):
        found.notes.append(
            f"there are broadcasts older than the {broadcast_days:g} days of [retention]; 'interlock broadcast prune'"
            " forgets them, but for those that somebody is still to hear"
        )


def _stray_owner_files(data: Path) -> list[str]:
    """Files of processes that ended without a word; opening the folder removes them."""
    return [file.name for file in sorted((data / OWNERS).glob("*.lock")) if not is_alive(data, file.stem)]


def _tell_strays(data: Path, strays: list[str], found: Checkup) -> None:
    for name in strays:
        if (data / OWNERS / name).exists():
            found.problems.append(f"the owner file '{name}' belongs to no process and could not be removed")
        else:
            found.notes.append(f"removed the owner file '{name}' of a process that is gone")
    others = [file.name for file in sorted((data / OWNERS).glob("*")) if file.suffix != ".lock"]
    found.problems += [f"'{name}' in '{data / OWNERS}' is no owner file; move it away" for name in others]
