"""What a server keeps in the store: requests that were answered, sessions that were closed, and letters of webhooks."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol, TypeVar

from interlock.adapters.pages import paged
from interlock.adapters.sealed_tables import whole
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.sqlite_writer import Work
from interlock.errors import DamagedRow
from interlock.limits import DEAD_LETTERS_MAX
from interlock.ports import Asked, Letter

T = TypeVar("T")

_log = logging.getLogger("interlock")

_REQUEST = "caller, key, fingerprint, planned, at, status, body"
_LETTER = "number, hook, key, body, attempts, due_at, dead, error"
_LETTERS = f"select {_LETTER} from webhook_letters where {whole('webhook_letters')}"  # noqa: S608 - constants


class _Database(Protocol):
    """Whoever has these tables in a database."""

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T: ...

    async def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T: ...


class ServerTables:
    """`Requests`, `Sessions` and `Letters`, as a part of a store."""

    async def remember(self: _Database, asked: Asked, *, forget_before: int) -> Asked:
        def work(connection: sqlite3.Connection, _tips: Tips) -> Asked:
            connection.execute("delete from requests where at < ?", (forget_before,))
            connection.execute(
                f"insert or ignore into requests ({_REQUEST}) values (?, ?, ?, ?, ?, 0, x'')",  # noqa: S608 - constants
                (asked.caller, asked.key, asked.fingerprint, asked.planned, asked.at),
            )
            query = f"select {_REQUEST} from requests where caller = ? and key = ? and {whole('requests')}"  # noqa: S608 - constants
            found = connection.execute(query, (asked.caller, asked.key)).fetchone()
            if found is None:
                raise DamagedRow(
                    "what was asked under this Idempotency-Key", "see what came of it, then ask under another key"
                )
            return _as_asked(*found)

        return await self._write("remember a request", work)

    async def answered(self: _Database, asked: Asked) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            connection.execute(
                "update requests set status = ?, body = ? where caller = ? and key = ?",
                (asked.status, asked.body, asked.caller, asked.key),
            )

        await self._write("keep the answer of a request", work, len(asked.body))

    async def close_session(self: _Database, session: str, until: int, now: int) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            connection.execute("delete from closed_sessions where until <= ?", (now,))
            connection.execute("insert or ignore into closed_sessions (session, until) values (?, ?)", (session, until))

        await self._write("close a session", work)

    async def closed_sessions(self: _Database, now: int) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            test = whole("closed_sessions")
            if connection.execute(f"select 1 from closed_sessions where not ({test})").fetchone():  # noqa: S608 - constants
                _log.warning("a session that was closed is damaged and may open again; delete server.key to end all")
            query = f"select session from closed_sessions where until > ? and {test} order by session"  # noqa: S608 - constants
            return [session for (session,) in connection.execute(query, (now,)).fetchall()]

        return await self._read("read which sessions are closed", work)

    async def read_up_to(self: _Database, hook: str) -> int | None:
        def work(connection: sqlite3.Connection) -> int | None:
            query = f"select position, {whole('webhook_cursors')} from webhook_cursors where hook = ?"  # noqa: S608 - constants
            found = connection.execute(query, (hook,)).fetchone()
            if found is not None and not found[1]:
                raise DamagedRow(
                    f"how far webhook '{hook}' has read", "restore it from a backup, or give the webhook another id"
                )
            return None if found is None else int(found[0])

        return await self._read("read how far a webhook has read", work)

    async def post(self: _Database, hook: str, position: int, letters: Sequence[Letter]) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            connection.executemany(
                "insert or ignore into webhook_letters (hook, key, body, attempts, due_at, dead, error)"
                " values (?, ?, ?, 0, ?, 0, '')",
                [(letter.hook, letter.key, letter.body, letter.due_at) for letter in letters],
            )
            connection.execute(
                "insert into webhook_cursors (hook, position) values (?, ?)"
                " on conflict (hook) do update set position = excluded.position",
                (hook, position),
            )

        await self._write("post letters of a webhook", work, sum(len(letter.body) for letter in letters))

    async def hooks_due(self: _Database, now: int) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            query = (
                f"select distinct hook from webhook_letters where {whole('webhook_letters')}"  # noqa: S608 - constants
                " and dead = 0 and due_at <= ? order by hook"
            )
            return [hook for (hook,) in connection.execute(query, (now,)).fetchall()]

        return await self._read("read which webhooks have letters", work)

    async def due(self: _Database, hook: str, now: int, limit: int) -> Sequence[Letter]:
        def work(connection: sqlite3.Connection) -> list[Letter]:
            query = f"{_LETTERS} and dead = 0 and due_at <= ? and hook = ? order by due_at, number limit ?"
            return [_as_letter(*found) for found in connection.execute(query, (now, hook, limit)).fetchall()]

        return await self._read("read letters of webhooks", work)

    async def sent(self: _Database, letter: Letter) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            connection.execute("delete from webhook_letters where number = ?", (letter.number,))

        await self._write("strike off a letter of a webhook", work)

    async def put_off(self: _Database, letter: Letter) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            connection.execute(
                "update webhook_letters set attempts = ?, due_at = ?, dead = ?, error = ? where number = ?",
                (letter.attempts, letter.due_at, letter.dead, letter.error, letter.number),
            )
            if letter.dead:
                connection.execute(
                    "delete from webhook_letters where number in"
                    " (select number from webhook_letters where dead = 1 order by number desc limit -1 offset ?)",
                    (DEAD_LETTERS_MAX,),
                )

        await self._write("put off a letter of a webhook", work)

    async def dead_letter(self: _Database, number: int) -> Letter | None:
        return await self._read("read a dead letter", partial(_dead_letter, number=number))

    async def dead_letters(self: _Database, limit: int, before: int | None = None) -> Sequence[Letter]:
        def work(connection: sqlite3.Connection) -> list[Letter]:
            query = f"{_LETTERS} and dead = 1 and (? is null or number < ?) order by number desc limit ?"
            with closing(connection.execute(query, (before, before, limit))) as rows:
                return list(paged((_as_letter(*row) for row in rows), lambda letter: len(letter.body)))

        return await self._read("read dead letters", work)

    async def send_again(self: _Database, number: int, at: int) -> Letter | None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> Letter | None:
            found = _dead_letter(connection, number=number)
            if found is not None:
                connection.execute(
                    "update webhook_letters set attempts = 0, due_at = ?, dead = 0 where number = ?", (at, number)
                )
            return found

        return await self._write("send a dead letter again", work)

    async def discard(self: _Database, number: int) -> bool:
        def work(connection: sqlite3.Connection, _tips: Tips) -> bool:
            done = connection.execute("delete from webhook_letters where dead = 1 and number = ?", (number,))
            return done.rowcount > 0

        return await self._write("discard a dead letter", work)


def _dead_letter(connection: sqlite3.Connection, *, number: int) -> Letter | None:
    found = connection.execute(f"{_LETTERS} and dead = 1 and number = ?", (number,)).fetchone()
    return None if found is None else _as_letter(*found)


def _as_asked(caller: str, key: str, fingerprint: bytes, planned: str, at: int, status: int, body: bytes) -> Asked:
    return Asked(caller=caller, key=key, fingerprint=fingerprint, planned=planned, at=at, status=status, body=body)


def _as_letter(number: int, hook: str, key: str, body: bytes, *rest: Any) -> Letter:
    attempts, due_at, dead, error = rest
    return Letter(
        number=number, hook=hook, key=key, body=body, attempts=attempts, due_at=due_at, dead=bool(dead), error=error
    )
