"""Checks the health of a data folder: the database, the chain of every run, and its replay."""

import os
from pathlib import Path

import msgspec

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.host_secrets import short_secret_warnings
from interlock.adapters.sqlite.read_only import is_read_only
from interlock.adapters.sqlite.store import DATABASE, OWNERS, SqliteStore, is_alive
from interlock.compose.interlock import Interlock
from interlock.compose.questions import list_open_questions
from interlock.compose.upkeep.archive import count_runs_due, each_row, has_broadcasts_due
from interlock.compose.upkeep.read_only import Inspection
from interlock.engine.state import RunState
from interlock.errors import DamagedRun, InterlockError, RecordsMissing, RunNotFound, UsageError
from interlock.ids import child_id, parent_of
from interlock.ports import RunQuestions, RunRow
from interlock.runtime.calls.question_log import QuestionLog
from interlock.runtime.runner import replay_run, row_of


class Checkup(msgspec.Struct, kw_only=True):
    """The result of a check. Only problems are faults; notes are for information."""

    read_only: bool = False
    runs: int = 0
    events: int = 0
    deleted: int = 0
    problems: list[str] = []
    notes: list[str] = []


async def check_folder(data: Path, host: HostSettings | None = None, *, accept_loss: bool = False) -> Checkup:
    """Checks everything and runs nothing; of the host's file it uses durability and retention.

    With `accept_loss` a folder that has lost records can be written again.
    """
    if not (data / DATABASE).exists():
        raise UsageError(f"there is no {DATABASE} in '{data}'; name the data folder with --data")
    found, settings = Checkup(read_only=is_read_only(data)), host or HostSettings()
    is_cut_off = False
    found.notes += short_secret_warnings(settings, os.environ)
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
            found.deleted = len(await box.archive.tombstones())
            await _note_due(box, settings, found)
    except InterlockError as error:
        found.problems.append(str(error))
    if (
        not found.read_only and not is_cut_off
    ):  # there the owner of a file cannot be determined, and files cannot be removed
        _note_stray_files(data, strays, found)
    return found


async def _accept_loss(data: Path, durability: str, found: Checkup) -> None:
    try:
        await SqliteStore(data).close()
    except RecordsMissing as lost:
        await SqliteStore(data, durability=durability, accepts_loss=True).close()
        found.notes.append(
            f"accepted the loss of {lost.records} records and {lost.changes} other changes; the folder is usable again"
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
        except Exception as error:  # a journal that the engine cannot replay must not hide the runs after it
            found.problems.append(f"run '{row.run}' cannot be replayed: {type(error).__name__}: {error}")


async def _check_run(box: Inspection, row: RunRow, found: Checkup) -> None:
    records = await box.journal.records(row.run)
    run = replay_run(await box.crew_of(row), row.run, records)
    now = await box.journal.row(row.run)
    if now.seq == row.seq and row_of(run, row, row.updated_at) != row:
        raise DamagedRun(row.run, "its row does not match its journal")
    await _check_links(box, row, run.state)
    await _check_questions(
        box,
        RunQuestions(run=row.run, questions=QuestionLog(records).open_questions(run.state, row.crew)),
        row.seq,
        found,
    )


async def _check_questions(box: Inspection, asking: RunQuestions, seq: int, found: Checkup) -> None:
    """Compares the listed questions of a run with its journal, and lists them again if the folder is writable."""
    listed = {each.token: each for each in await list_open_questions(box.store, asking.run) if each.run == asking.run}
    is_right = listed == {each.token: each for each in asking.questions}
    if is_right or (await box.journal.row(asking.run)).seq != seq:
        return
    what = f"run '{asking.run}' has questions that differ from its list"
    if box.is_read_only:
        found.problems.append(f"{what}; check the folder with write access")
    else:
        await box.store.store_questions(asking, seq)
        found.notes.append(f"{what}; its questions were listed again from its journal")


async def _check_links(box: Interlock, row: RunRow, state: RunState) -> None:
    """Requires the caller of a run, and the children that it waits for.

    A child that is not started yet is not a problem: resuming the run starts it.
    """
    waits_for = {child_id(row.run, wait.child) for wait in state.waits if wait.child}
    for child in sorted(waits_for):
        await _require_run(box, child, f"run '{row.run}' waits for run '{child}'")
    if caller := parent_of(row.run):
        await _require_run(box, caller, f"run '{row.run}' was called by run '{caller}'")


async def _require_run(box: Interlock, run: str, why: str) -> None:
    try:
        await box.journal.row(run)
    except RunNotFound as error:
        raise UsageError(f"{why}, which does not exist") from error


async def _note_due(box: Interlock, settings: HostSettings, found: Checkup) -> None:
    days, broadcast_days = settings.retention_days, settings.broadcast_days
    due = 0 if days is None else await count_runs_due(box, days)
    if due:
        runs = "finished run is" if due == 1 else "finished runs are"
        found.notes.append(f"{due} {runs} older than the {days:g} days of [retention]; 'interlock runs prune' deletes")
    if broadcast_days is not None and await has_broadcasts_due(box, broadcast_days):
        found.notes.append(
            f"there are broadcasts older than the {broadcast_days:g} days of [retention]; 'interlock broadcast prune'"
            " deletes them, except those that wait for a subscriber"
        )


def _stray_owner_files(data: Path) -> list[str]:
    """Files of processes that ended without cleanup; opening the folder removes them."""
    return [file.name for file in sorted((data / OWNERS).glob("*.lock")) if not is_alive(data, file.stem)]


def _note_stray_files(data: Path, strays: list[str], found: Checkup) -> None:
    for name in strays:
        if (data / OWNERS / name).exists():
            found.problems.append(f"the owner file '{name}' belongs to no process and could not be removed")
        else:
            found.notes.append(f"removed the owner file '{name}' of a process that is gone")
    others = [file.name for file in sorted((data / OWNERS).glob("*")) if file.suffix != ".lock"]
    found.problems += [f"'{name}' in '{data / OWNERS}' is not an owner file; move it away" for name in others]
