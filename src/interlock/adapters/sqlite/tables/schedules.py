"""Schedules that start runs, as a part of a store."""

import sqlite3
from collections.abc import Sequence

import msgspec

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.broadcast.run_schedules import RunSchedule
from interlock.errors import UsageError
from interlock.limits import RUN_SCHEDULES_MAX

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunSchedule).decode


class ScheduleTables(Database):
    """`RunSchedules`, as a part of a store."""

    async def add_schedule(self, schedule: RunSchedule) -> None:
        body = _encode(schedule)

        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            if connection.execute("select count(*) from run_schedules").fetchone()[0] >= RUN_SCHEDULES_MAX:
                raise UsageError(f"there are {RUN_SCHEDULES_MAX} schedules already; delete one first")
            connection.execute("insert or replace into run_schedules (id, body) values (?, ?)", (schedule.id, body))

        await self.write("store a schedule", work, len(body))

    async def replace_schedule(self, old: RunSchedule, new: RunSchedule) -> bool:
        before, after = _encode(old), _encode(new)

        def work(connection: sqlite3.Connection, _cache: WriterCache) -> bool:
            query = "update run_schedules set body = ? where id = ? and body = ?"
            return connection.execute(query, (after, old.id, before)).rowcount == 1

        return await self.write(f"change schedule '{old.id}'", work, len(after))

    async def remove_schedule(self, schedule_id: str) -> bool:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> bool:
            return connection.execute("delete from run_schedules where id = ?", (schedule_id,)).rowcount == 1

        return await self.write(f"delete schedule '{schedule_id}'", work)

    async def run_schedules(self) -> Sequence[RunSchedule]:
        """Leaves out damaged rows, which `problems` reports."""
        return await self.read("list schedules", read_schedules)


def read_schedules(connection: sqlite3.Connection) -> list[RunSchedule]:
    """The next one first; without damaged rows."""
    query = f"select body from run_schedules where {intact_condition('run_schedules')}"  # noqa: S608 - constants
    schedules = [_decode(body) for (body,) in connection.execute(query).fetchall()]
    return sorted(schedules, key=lambda each: (each.due_at, each.id))
