"""`Questions` in PostgreSQL.

Rule: the journals are authoritative. A damaged row is deleted when it is met, and the questions of all unfinished runs
count as unlisted until they are listed again from their journals.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
from psycopg.types.json import Jsonb

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.runs.run_queries import ids_below
from interlock.adapters.postgres.runs.transitions import question_columns
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.ports import OpenQuestion, RunQuestions

_decode = msgspec.json.Decoder(OpenQuestion).decode

_OF_TREE = "(run = %s or (run > %s and run < %s))"


class PostgresQuestions(PostgresDatabase):
    """`Questions`, as a part of a store."""

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        tests, values = ["true"], list[Any]()
        if before is not None:
            tests.append("(since, token) < (%s, %s)")
            values += before
        if run is not None:
            tests.append(_OF_TREE)
            values += (run, *ids_below(run))
        order = "order by since desc, token desc"
        return await self._sound_questions(" and ".join(tests), values, order, limit)

    async def overdue_questions(self, at: int, limit: int) -> Sequence[OpenQuestion]:
        query = "select 1 from questions where until > 0 and until <= %s limit 1"
        found = await self.read_statement("read open questions", lambda each: each.execute(query, (at,)).fetchone())
        if found is None:  # as mostly; it is asked every second
            return ()
        return await self._sound_questions("until > 0 and until <= %s", [at], "order by until, token", limit)

    async def _sound_questions(self, test: str, values: list[Any], order: str, limit: int) -> Sequence[OpenQuestion]:
        work = partial(_read_page, test=test, values=values, order=order, limit=limit)
        found, is_damaged = await self.read("read open questions", work)
        if is_damaged:
            await self.write("delete damaged questions", _reset_damaged)
        return found

    async def runs_without_question_list(self) -> Sequence[str]:
        return await self.read_statement("list runs without questions", runs_to_list)

    async def store_questions(self, asking: RunQuestions, seq: int) -> None:
        def work(connection: PostgresConnection) -> None:
            query = "select 1 from runs where run = %s and seq = %s for update"
            if connection.execute(query, (asking.run, seq)).fetchone() is not None:
                values = (asking.run, Jsonb(question_columns(asking.questions)))
                connection.execute("select store_questions(%s, %s)", values)

        await self.write(f"list the questions of run '{asking.run}'", work)


def runs_to_list(connection: PostgresConnection) -> list[str]:
    return [run for (run,) in connection.execute("select run from unlisted order by run").fetchall()]


def asks_nothing(connection: PostgresConnection, *, run: str) -> bool:
    """True if there is no question of the run or the runs below it, and the questions of all runs are known."""
    query = f"select 1 from questions where {_OF_TREE} union all select 1 from unlisted limit 1"  # noqa: S608 - constants
    return connection.execute(query.encode(), (run, *ids_below(run))).fetchone() is None


def _read_page(
    connection: PostgresConnection, *, test: str, values: list[Any], order: str, limit: int
) -> tuple[list[OpenQuestion], bool]:
    """A page, and whether it left out a damaged row."""
    query = f"select token, octet_length(body) from questions where {test} {order} limit %s"  # noqa: S608 - constants
    sizes = connection.execute(query.encode(), [*values, limit]).fetchall()
    tokens = [token for token, _ in first_page(sizes, lambda each: int(each[1]))]
    query = f"select body, crc from questions where token = any (%s) {order}"  # noqa: S608 - constants
    found = connection.execute(query.encode(), (tokens,), binary=True).fetchall()
    sound = [body for body, crc in found if crc32(body) == crc]
    return [_decode(body) for body in sound], len(sound) < len(found)


def _reset_damaged(connection: PostgresConnection) -> None:
    found = connection.execute("select token, body, crc from questions", binary=True).fetchall()
    damaged = [token for token, body, crc in found if crc32(body) != crc]
    connection.execute("delete from questions where token = any (%s)", (damaged,))
    connection.execute(
        "insert into unlisted (run) select run from runs where status in ('running', 'paused') on conflict do nothing"
    )
