"""Schedules that start runs, as a part of a store."""

from collections.abc import Sequence

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.broadcast.run_schedules import RunSchedule
from interlock.errors import UsageError
from interlock.limits import RUN_SCHEDULES_MAX

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunSchedule).decode


class PostgresSchedules(PostgresDatabase):
    """`RunSchedules`, as a part of a store."""

    async def add_schedule(self, schedule: RunSchedule) -> None:
        body = _encode(schedule)

        def work(connection: PostgresConnection) -> None:
            found = connection.execute("select count(*) from run_schedules").fetchone()
            if found is not None and found[0] >= RUN_SCHEDULES_MAX:
                raise UsageError(f"there are {RUN_SCHEDULES_MAX} schedules already; delete one first")
            query = (
                "insert into run_schedules (id, body) values (%s, %b)"
                " on conflict (id) do update set body = excluded.body"
            )
            connection.execute(query, (schedule.id, body))
            connection.execute("select notify_others(%s, 'schedules')", (self.session.id,))

        await self.write("store a schedule", work, len(body))

    async def replace_schedule(self, old: RunSchedule, new: RunSchedule) -> bool:
        before, after = _encode(old), _encode(new)

        def work(connection: PostgresConnection) -> bool:
            query = "update run_schedules set body = %b where id = %s and body = %b"
            connection.execute("select notify_others(%s, 'schedules')", (self.session.id,))
            return connection.execute(query, (after, old.id, before)).rowcount == 1

        return await self.write(f"change schedule '{old.id}'", work, len(after))

    async def remove_schedule(self, schedule_id: str) -> bool:
        def work(connection: PostgresConnection) -> bool:
            connection.execute("select notify_others(%s, 'schedules')", (self.session.id,))
            return connection.execute("delete from run_schedules where id = %s", (schedule_id,)).rowcount == 1

        return await self.write(f"delete schedule '{schedule_id}'", work)

    async def run_schedules(self) -> Sequence[RunSchedule]:
        return await self.read_statement("list schedules", read_run_schedules)


def read_run_schedules(connection: PostgresConnection) -> list[RunSchedule]:
    """The next one first."""
    found = connection.execute("select body from run_schedules", binary=True).fetchall()
    return sorted([_decode(body) for (body,) in found], key=lambda each: (each.due_at, each.id))
