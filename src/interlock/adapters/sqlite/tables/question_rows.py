"""SQL on open questions.

Rule 1: the journals are authoritative. While one row is damaged, the questions of all unfinished runs are
uncertain: they count as unlisted until they are listed again from their journals.
Rule 2: every row is checked when a folder is opened and by the doctor. Reading a page checks the rows of that page, and
all rows only after it has met a damaged one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.sealed_tables import has_damage, intact_condition
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.ids import CHILD_MARK
from interlock.ports import OpenQuestion, RunQuestions

_LIVE = "select run from runs where status in ('running', 'paused')"
_BELOW = (CHILD_MARK, chr(ord(CHILD_MARK) + 1))  # bounds of the ids of all runs below one

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenQuestion).decode


def store_questions(connection: sqlite3.Connection, asking: RunQuestions) -> None:
    delete_questions(connection, asking.run)
    bodies = [(question, _encode(question)) for question in asking.questions]
    connection.executemany(
        "insert into questions (token, run, since, until, body, crc) values (?, ?, ?, ?, ?, ?)",
        [(each.token, each.run, each.since, each.until, body, crc32(body)) for each, body in bodies],
    )


def delete_questions(connection: sqlite3.Connection, run: str) -> None:
    connection.execute("delete from questions where run = ?", (run,))
    connection.execute("delete from unlisted where run = ?", (run,))


def mark_unlisted(connection: sqlite3.Connection, run: str, status: str) -> None:
    """Marks an imported run whose questions are listed later."""
    if status in ("running", "paused"):
        connection.execute("insert or ignore into unlisted (run) values (?)", (run,))


def runs_without_question_list(connection: sqlite3.Connection, *, is_doubted: bool) -> list[str]:
    """The runs to list from their journals. All rows are checked only after a damaged question was met."""
    is_unsure = has_damaged_rows(connection) if is_doubted else has_damage(connection, "unlisted")
    query = f"{_LIVE} order by run" if is_unsure else "select run from unlisted order by run"
    return [run for (run,) in connection.execute(query).fetchall()]


def asks_nothing(connection: sqlite3.Connection, *, run: str) -> bool:
    """True if there is no row of the run or the runs below it, sound or damaged, and the questions of all are known."""
    query = "select 1 from questions where run = ? or (run > ? and run < ?) limit 1"
    if connection.execute(query, (run, *(f"{run}{mark}" for mark in _BELOW))).fetchone() is not None:
        return False
    return not runs_without_question_list(connection, is_doubted=False)


def reset_if_damaged(connection: sqlite3.Connection) -> bool:
    """Deletes all rows if one is damaged, and marks all live runs as unlisted. Returns whether one was damaged."""
    if not has_damaged_rows(connection):
        return False
    for table in ("questions", "unlisted"):
        connection.execute(f"delete from {table} where {_damage_condition(table)}")  # noqa: S608 - constants
    connection.execute(f"insert or ignore into unlisted (run) {_LIVE}")
    return True


def has_damaged_rows(connection: sqlite3.Connection) -> bool:
    tables = ("questions", "unlisted")
    queries = [f"select 1 from {table} where {_damage_condition(table)}" for table in tables]  # noqa: S608 - constants
    return any(connection.execute(query).fetchone() for query in queries)


def _damage_condition(table: str) -> str:
    """The crc of a question's body is checked too."""
    body = " or questions.crc <> interlock_seal(questions.body)" if table == "questions" else ""
    return f"(not ({intact_condition(table)}){body})"


def open_questions(
    connection: sqlite3.Connection, *, limit: int, before: tuple[int, str] | None, run: str | None
) -> tuple[list[OpenQuestion], bool]:
    """A page, and whether it left out a damaged row."""
    conditions, values = ["true"], list[Any]()
    if before is not None:
        conditions.append("(since, token) < (?, ?)")
        values += before
    if run is not None:
        conditions.append("(run = ? or (run > ? and run < ?))")
        values += (run, *(f"{run}{mark}" for mark in _BELOW))
    query = (
        f"select body, {_damage_condition('questions')} from questions where {' and '.join(conditions)}"  # noqa: S608 - constants
        " order by since desc, token desc"
    )
    left_out = 0

    def intact_bodies(rows: sqlite3.Cursor) -> Iterator[bytes]:
        nonlocal left_out
        for body, is_not_whole in rows:
            if is_not_whole:
                left_out += 1
            else:
                yield body

    with closing(connection.execute(query, values)) as found:
        page = [_decode(body) for body in first_page(islice(intact_bodies(found), limit), len)]
    return page, left_out > 0


def overdue_questions(connection: sqlite3.Connection, *, at: int, limit: int) -> list[OpenQuestion]:
    query = (
        f"select body from questions where until > 0 and until <= ? and not {_damage_condition('questions')}"  # noqa: S608 - constants
        " order by until, token limit ?"
    )
    return [_decode(body) for (body,) in connection.execute(query, (at, limit)).fetchall()]
