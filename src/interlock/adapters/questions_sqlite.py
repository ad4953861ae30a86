"""What people are asked in all runs, in tables: SQL on a given connection.

Rule 1: the journals are the truth. While one row is damaged it is not known what every run asks that is not over, so
all of those count as unlisted, until they are listed from their journals.
Rule 2: every row is checked when a folder is opened and by the doctor. Reading a page checks the rows of that page, and
all of them only after it has met a damaged one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.pages import paged
from interlock.adapters.sealed_tables import has_damage, whole
from interlock.ids import CHILD_MARK
from interlock.ports import Asking, OpenQuestion

_LIVE = "select run from runs where status in ('running', 'paused')"
_BELOW = (CHILD_MARK, chr(ord(CHILD_MARK) + 1))  # between these lie the ids of all runs below one

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenQuestion).decode


def keep(connection: sqlite3.Connection, asking: Asking) -> None:
    forget(connection, asking.run)
    bodies = [(question, _encode(question)) for question in asking.questions]
    connection.executemany(
        "insert into questions (token, run, since, body, crc) values (?, ?, ?, ?, ?)",
        [(question.token, question.run, question.since, body, crc32(body)) for question, body in bodies],
    )


def forget(connection: sqlite3.Connection, run: str) -> None:
    connection.execute("delete from questions where run = ?", (run,))
    connection.execute("delete from unlisted where run = ?", (run,))


def unlist(connection: sqlite3.Connection, run: str, status: str) -> None:
    """A run that came in whole: what it asks is found out later."""
    if status in ("running", "paused"):
        connection.execute("insert or ignore into unlisted (run) values (?)", (run,))


def unlisted(connection: sqlite3.Connection, *, is_doubted: bool) -> list[str]:
    """The runs whose journals say what they ask. All rows are checked only if a damaged question was met before."""
    is_unsure = is_damaged(connection) if is_doubted else has_damage(connection, "unlisted")
    query = f"{_LIVE} order by run" if is_unsure else "select run from unlisted order by run"
    return [run for (run,) in connection.execute(query).fetchall()]


def unlist_damaged(connection: sqlite3.Connection) -> bool:
    """Lets go of damaged rows, and makes whoever opens the folder list all live runs again; whether there were any."""
    if not is_damaged(connection):
        return False
    for table in ("questions", "unlisted"):
        connection.execute(f"delete from {table} where {_not_whole(table)}")  # noqa: S608 - constants
    connection.execute(f"insert or ignore into unlisted (run) {_LIVE}")
    return True


def is_damaged(connection: sqlite3.Connection) -> bool:
    tables = ("questions", "unlisted")
    queries = [f"select 1 from {table} where {_not_whole(table)}" for table in tables]  # noqa: S608 - constants
    return any(connection.execute(query).fetchone() for query in queries)


def _not_whole(table: str) -> str:
    """The crc of a question's body counts too."""
    body = " or questions.crc <> interlock_seal(questions.body)" if table == "questions" else ""
    return f"(not ({whole(table)}){body})"


def open_questions(
    connection: sqlite3.Connection, *, limit: int, before: tuple[int, str] | None, run: str | None
) -> tuple[list[OpenQuestion], bool]:
    """A page, and whether it has left out a damaged row."""
    conditions, values = ["true"], list[Any]()
    if before is not None:
        conditions.append("(since, token) < (?, ?)")
        values += before
    if run is not None:
        conditions.append("(run = ? or (run > ? and run < ?))")
        values += (run, *(f"{run}{mark}" for mark in _BELOW))
    query = (
        f"select body, {_not_whole('questions')} from questions where {' and '.join(conditions)}"  # noqa: S608 - constants
        " order by since desc, token desc"
    )
    left_out = 0

    def whole_ones(rows: sqlite3.Cursor) -> Iterator[bytes]:
        nonlocal left_out
        for body, is_not_whole in rows:
            if is_not_whole:
                left_out += 1
            else:
                yield body

    with closing(connection.execute(query, values)) as found:
        page = [_decode(body) for body in paged(islice(whole_ones(found), limit), len)]
    return page, left_out > 0
