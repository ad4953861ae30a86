"""`Questions` in SQLite."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.tail import read_run_head
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.tables import question_rows
from interlock.errors import DamagedRun, RunNotFound
from interlock.ports import OpenQuestion, RunQuestions


class QuestionTables(Database):
    """`Questions`, as a part of a store."""

    _met_damaged_question = False

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        work = partial(question_rows.open_questions, limit=limit, before=before, run=run)
        page, has_damage = await self.read("list questions", work)
        self._met_damaged_question |= has_damage
        return page

    async def overdue_questions(self, at: int, limit: int) -> Sequence[OpenQuestion]:
        work = partial(question_rows.overdue_questions, at=at, limit=limit)
        return await self.read("list overdue questions", work)

    async def runs_without_question_list(self) -> Sequence[str]:
        work = partial(question_rows.runs_without_question_list, is_doubted=self._met_damaged_question)
        return await self.read("list runs with unknown questions", work)

    async def store_questions(self, asking: RunQuestions, seq: int) -> None:
        is_doubted = self._met_damaged_question

        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            if is_doubted:
                question_rows.reset_if_damaged(connection)
            with suppress(RunNotFound, DamagedRun):
                if read_run_head(connection, asking.run).seq == seq:
                    question_rows.store_questions(connection, asking)

        await self.write(f"list the questions of run '{asking.run}'", work)
        if is_doubted:
            self._met_damaged_question = False
