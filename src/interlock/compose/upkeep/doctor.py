"""Checks the health of a store: the database, the chain of every run, and its replay."""

import os
import random
from collections.abc import AsyncIterator, Sequence

import msgspec

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.host_secrets import short_secret_warnings
from interlock.compose.interlock import Interlock
from interlock.compose.questions import list_open_questions
from interlock.compose.stores.homes import StoreName, home_of
from interlock.compose.stores.store_home import StoreHome
from interlock.compose.upkeep.archive import count_runs_due, each_row, has_broadcasts_due
from interlock.compose.upkeep.read_only import Inspection
from interlock.compose.upkeep.retention import moment_ago
from interlock.compose.upkeep.store_status import clocks_of
from interlock.compose.usage import usage_of_run
from interlock.engine.state import RunState
from interlock.errors import DamagedRun, InterlockError, RunNotFound, UsageError
from interlock.ids import child_id, parent_of
from interlock.ports import Record, RunQuestions, RunRow
from interlock.runtime.calls.question_log import QuestionLog
from interlock.runtime.runner import replay_run, row_of


class RunChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that are checked: those that changed in the last days, and so many of them; None is all."""

    since_days: float | None = None
    sample: int | None = None


ALL_RUNS = RunChoice()


class Checkup(msgspec.Struct, kw_only=True):
    """The result of a check. Only problems are faults; notes are for information."""

    read_only: bool = False
    runs: int = 0
    left_out: int = 0  # runs that were not chosen
    events: int = 0
    deleted: int = 0
    problems: list[str] = []
    notes: list[str] = []


async def check_store(
    data: StoreName, host: HostSettings | None = None, *, accept_loss: bool = False, choice: RunChoice = ALL_RUNS
) -> Checkup:
    """Checks everything and runs nothing; of the host's file it uses durability and retention.

    Journals are read and replayed of the chosen runs; all else is checked as a whole.

    With `accept_loss` a store that has lost records can be written again.
    """
    home, settings, found = home_of(data), host or HostSettings(), Checkup()
    home.require_exists()
    found.read_only = home.is_read_only()
    found.notes += short_secret_warnings(settings, os.environ)
    with home.examine(settings.durability, found):
        try:
            if accept_loss:
                await _accept_loss(home, settings.durability, found)
            async with Inspection(data, durability=settings.durability) as box:
                await _check_open_store(box, settings, choice, found)
        except InterlockError as error:
            found.problems.append(str(error))
    return found


async def _check_open_store(box: Inspection, settings: HostSettings, choice: RunChoice, found: Checkup) -> None:
    found.notes += [*box.store_warnings, *box.home.open_notes(), *(await box.store.storage()).notes]
    others = [each for each in (await box.store.overview()).processes if each.owner != box.store.owner]
    found.notes += [note for note, _ in clocks_of(others)]
    found.problems += box.losses()
    found.problems += await box.store.problems()
    await _check_runs(box, choice, found)
    found.deleted = len(await box.archive.tombstones())
    await _note_due(box, settings, found)


async def _accept_loss(home: StoreHome, durability: str, found: Checkup) -> None:
    lost = await home.accept_loss(durability)
    if lost is None:
        found.notes.append("nothing is missing, so there was no loss to accept")
    else:
        found.notes.append(
            f"accepted the loss of {lost.records} records and {lost.changes} other changes; the folder is usable again"
        )


async def _rows_to_check(box: Inspection, choice: RunChoice, found: Checkup) -> AsyncIterator[RunRow]:
    """A sample is another one each time: checks that are repeated see all runs in the end."""
    since = 0 if choice.since_days is None else moment_ago(choice.since_days, box.clock.now_ms())
    sample: list[RunRow] = []
    seen = 0
    async for row in each_row(box):
        if row.updated_at < since:
            found.left_out += 1
            continue
        if choice.sample is None:
            yield row
            continue
        seen += 1
        place = len(sample) if len(sample) < choice.sample else random.randrange(seen)  # noqa: S311 - no secret
        sample[place : place + 1] = [row] if place < choice.sample else []
    found.left_out += max(0, seen - len(sample))
    for row in sample:
        yield row


async def _check_runs(box: Inspection, choice: RunChoice, found: Checkup) -> None:
    newer = 0
    async for row in _rows_to_check(box, choice, found):
        if not box.store.knows.covers(row.run_format):
            newer, found.left_out = newer + 1, found.left_out + 1
            continue
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
    if newer:
        runs = "1 run was begun" if newer == 1 else f"{newer} runs were begun"
        found.notes.append(f"{runs} by a newer Interlock and not replayed; its own doctor does that")


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
    await _check_usage(box, now, records, found)


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


async def _check_usage(box: Inspection, row: RunRow, records: Sequence[Record], found: Checkup) -> None:
    """Compares the stored cost of a run with its journal, and stores it again if the store is writable."""
    known = (await box.store.usage_by_run([row])).get(row.run)
    if known is None or known == (right := usage_of_run(row, records)):
        return
    what = f"what run '{row.run}' has cost differs from its journal"
    if box.is_read_only:
        found.problems.append(f"{what}; check the folder with write access")
    else:
        await box.store.store_usage([right])
        found.notes.append(f"{what}; it was added up again")


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
