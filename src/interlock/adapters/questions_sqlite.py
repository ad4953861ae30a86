"""What people are asked in all runs, in tables: SQL on a given connection."""

import sqlite3
from contextlib import closing
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.pages import paged
from interlock.ids import CHILD_MARK
from interlock.ports import Asking, OpenQuestion

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


def unlisted(connection: sqlite3.Connection) -> list[str]:
    return [run for (run,) in connection.execute("select run from unlisted order by run").fetchall()]


def open_questions(
    connection: sqlite3.Connection, *, limit: int, before: tuple[int, str] | None, run: str | None
) -> list[OpenQuestion]:
    conditions, values = ["1"], list[Any]()
    if before is not None:
        conditions.append("(since, token) < (?, ?)")
        values += before
    if run is not None:
        conditions.append("(run = ? or (run > ? and run < ?))")
        values += (run, *(f"{run}{mark}" for mark in _BELOW))
    query = (
        f"select body, crc from questions where {' and '.join(conditions)}"  # noqa: S608 - constants
        " order by since desc, token desc"
    )
    with closing(connection.execute(query, values)) as found:
        whole = (_decode(body) for body, crc in found if crc32(body) == crc)
        return list(islice(paged(whole, lambda question: len(question.question)), limit))
