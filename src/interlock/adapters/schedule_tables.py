"""Schedules that start runs, as a part of a store."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from interlock.adapters.sealed_tables import whole
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.sqlite_writer import Work
from interlock.broadcast.run_schedules import RunSchedule
from interlock.errors import UsageError
from interlock.limits import RUN_SCHEDULES_MAX

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunSchedule).decode


class _Database(Protocol):
    """The store that has this table in its database."""

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T: ...

    async def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T: ...


class ScheduleTables:
    """`RunSchedules`, as a part of a store."""

    async def add_schedule(self: _Database, schedule: RunSchedule) -> None:
        body = _encode(schedule)

        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            if connection.execute("select count(*) from run_schedules").fetchone()[0] >= RUN_SCHEDULES_MAX:
                raise UsageError(f"there are {RUN_SCHEDULES_MAX} schedules already; delete one first")
            connection.execute("insert or replace into run_schedules (id, body) values (?, ?)", (schedule.id, body))

        await self._write("store a schedule", work, len(body))

    async def replace_schedule(self: _Database, old: RunSchedule, new: RunSchedule) -> bool:
        before, after = _encode(old), _encode(new)

        def work(connection: sqlite3.Connection, _tips: Tips) -> bool:
            query = "update run_schedules set body = ? where id = ? and body = ?"
            return connection.execute(query, (after, old.id, before)).rowcount == 1

        return await self._write(f"change schedule '{old.id}'", work, len(after))

    async def remove_schedule(self: _Database, schedule_id: str) -> bool:
        def work(connection: sqlite3.Connection, _tips: Tips) -> bool:
            return connection.execute("delete from run_schedules where id = ?", (schedule_id,)).rowcount == 1

        return await self._write(f"delete schedule '{schedule_id}'", work)

    async def run_schedules(self: _Database) -> Sequence[RunSchedule]:
        """Without damaged rows, which `problems` reports."""
        return await self._read("list schedules", read_schedules)


def read_schedules(connection: sqlite3.Connection) -> list[RunSchedule]:
    """The next one first; without damaged rows."""
    query = f"select body from run_schedules where {whole('run_schedules')}"  # noqa: S608 - constants
    schedules = [_decode(body) for (body,) in connection.execute(query).fetchall()]
    return sorted(schedules, key=lambda each: (each.due_at, each.id))
