"""What people are asked in all runs, as a part of a store."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from interlock.adapters import questions_sqlite
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.sqlite_writer import Work
from interlock.ports import Asking, OpenQuestion

T = TypeVar("T")


class _Database(Protocol):
    """Whoever has these tables in a database."""

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T: ...

    async def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T: ...


class QuestionTables:
    """`Questions`, as a part of a store."""

    async def open_questions(
        self: _Database, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        return await self._read(
            "list questions", partial(questions_sqlite.open_questions, limit=limit, before=before, run=run)
        )

    async def unlisted(self: _Database) -> Sequence[str]:
        return await self._read("list runs whose questions are not known", questions_sqlite.unlisted)

    async def list_questions(self: _Database, asking: Asking, seq: int) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            query = "select 1 from runs where run = ? and seq = ?"
            questions_sqlite.unlist_damaged(connection)
            if connection.execute(query, (asking.run, seq)).fetchone() is not None:
                questions_sqlite.keep(connection, asking)

        await self._write(f"list the questions of run '{asking.run}'", work)
