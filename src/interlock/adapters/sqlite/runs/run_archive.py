"""SQL that adds and deletes whole runs and trees. Each function refuses before its first write."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.runs import tombstones
from interlock.adapters.sqlite.runs.places import delete_run_records
from interlock.adapters.sqlite.runs.run_queries import names_below
from interlock.adapters.sqlite.runs.run_rows import insert_record, insert_run, require_claimable
from interlock.adapters.sqlite.runs.tail import fill_tail, read_run_head
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.tables import question_rows
from interlock.adapters.store_rules.record_format import Tip
from interlock.ids import CHILD_MARK
from interlock.ports import RunRow, SealedRecord, SealedTree, Tombstone


def add(
    connection: sqlite3.Connection, cache: WriterCache, *, row: RunRow, records: Sequence[SealedRecord], tip: Tip
) -> None:
    tombstones.require_free(connection, row.run, tip)
    connection.execute("delete from tombstones where run = ?", (row.run,))
    cache.forget_run(row.run)
    made = insert_run(connection, row, tip, owner="")
    question_rows.mark_unlisted(connection, row.run, row.status)
    for record in records:
        insert_record(connection, cache, made.number, record.seq, record.crc, record.link, record.body)


def add_tree(connection: sqlite3.Connection, cache: WriterCache, *, tree: SealedTree, ends: Sequence[Tip]) -> None:
    """Adds the runs of a tree; their records get positions in the order of the tree."""
    for row, tip in zip(tree.rows, ends, strict=True):
        tombstones.require_free(connection, row.run, tip)
    numbers = []
    for row, tip in zip(tree.rows, ends, strict=True):
        connection.execute("delete from tombstones where run = ?", (row.run,))
        cache.forget_run(row.run)
        numbers.append(insert_run(connection, row, tip, owner="").number)
        question_rows.mark_unlisted(connection, row.run, row.status)
    for of, record in tree.records:
        insert_record(connection, cache, numbers[of], record.seq, record.crc, record.link, record.body)


def delete(
    connection: sqlite3.Connection, cache: WriterCache, *, run: str, at: int, owner: str, folder: Path
) -> Tombstone:
    found = read_run_head(connection, run)
    require_claimable(found, owner, folder)
    fill_tail(connection, cache)
    cache.forget_run(run)
    left = Tombstone(run=run, crew=found.crew, seq=found.seq, link=found.link, deleted_at=at)
    SqliteBusTables(connection, cache.bus).store_presence_of(found.crew, run, found.number)
    delete_run_records(connection, found.number)
    tombstones.replace_with_tombstone(connection, found.number, left)
    question_rows.delete_questions(connection, run)
    for table in ("spent", "outbox", "active", "orders", "approvals", "revoked_approvals", "set_asides"):
        connection.execute(f"delete from {table} where run = ?", (run,))  # noqa: S608 - constants
    return left


def delete_tree(
    connection: sqlite3.Connection, cache: WriterCache, *, run: str, at: int, owner: str, folder: Path
) -> list[Tombstone]:
    heads = [read_run_head(connection, each) for each in (run, *names_below(connection, run))]
    for found in heads:
        require_claimable(found, owner, folder)
    return [delete(connection, cache, run=found.run, at=at, owner=owner, folder=folder) for found in heads]


def runs_finished_before(connection: sqlite3.Connection, *, before: int, after: str, limit: int) -> list[str]:
    query = (
        "select run from runs where run > ? and updated_at < ? and status not in ('running', 'paused')"
        " and instr(run, ?) = 0 order by run limit ?"
    )
    return [run for (run,) in connection.execute(query, (after, before, CHILD_MARK, limit)).fetchall()]
