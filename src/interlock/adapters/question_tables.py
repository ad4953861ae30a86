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

    _met_damaged_question: bool

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T: ...

    async def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T: ...


class QuestionTables:
    """`Questions`, as a part of a store."""

    _met_damaged_question = False

    async def open_questions(
        self: _Database, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        work = partial(questions_sqlite.open_questions, limit=limit, before=before, run=run)
        page, has_damage = await self._read("list questions", work)
        self._met_damaged_question |= has_damage
        return page

    async def unlisted(self: _Database) -> Sequence[str]:
        work = partial(questions_sqlite.unlisted, is_doubted=self._met_damaged_question)
        return await self._read("list runs whose questions are not known", work)

    async def list_questions(self: _Database, asking: Asking, seq: int) -> None:
        is_doubted = self._met_damaged_question

        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            query = "select 1 from runs where run = ? and seq = ?"
            if is_doubted:
                questions_sqlite.unlist_damaged(connection)
            if connection.execute(query, (asking.run, seq)).fetchone() is not None:
                questions_sqlite.keep(connection, asking)

        await self._write(f"list the questions of run '{asking.run}'", work)
        if is_doubted:
            self._met_damaged_question = False
