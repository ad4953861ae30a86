"""`SetAsides` in PostgreSQL: runs that a process could not drive."""

from collections.abc import Sequence

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.runs.run_head import read_stored_run
from interlock.adapters.postgres.runs.transitions import clean
from interlock.adapters.store_rules.claim_rules import forgets_set_asides_before, next_set_aside
from interlock.ports import SetAside

_COLUMNS = "asides.run, asides.owner, asides.reason, asides.at, asides.tries, asides.again_at"
_WAITING = (
    f"select * from (select distinct on (run) {_COLUMNS} from asides join runs using (run)"  # noqa: S608 - constants
    " where runs.status in ('running', 'paused') and runs.updated_at <= asides.at"
    " and (runs.owner is null or seems_gone(runs.owner)) order by run, asides.at desc, asides.owner desc) as newest"
    " order by at desc, run limit %s"
)


class PostgresSetAsides(PostgresDatabase):
    """`SetAsides`, as a part of a store."""

    async def set_aside(self, run: str, reason: str, at: int) -> SetAside:
        def work(connection: PostgresConnection) -> SetAside:
            read_stored_run(connection, run, lock=True)
            query = "delete from asides where run = %s and again_at < %s"
            connection.execute(query, (run, forgets_set_asides_before(at)))
            query = f"select {_COLUMNS} from asides where run = %s and owner = %s"  # noqa: S608 - constants
            found = connection.execute(query.encode(), (run, self.session.id)).fetchone()
            last = None if found is None else _from_row(*found)
            made = next_set_aside(last, run=run, owner=str(self.session.id), reason=clean(reason), at=at)
            connection.execute(
                "insert into asides (run, owner, reason, at, tries, again_at) values (%s, %s, %s, %s, %s, %s)"
                " on conflict (run, owner) do update set reason = excluded.reason,"
                " at = excluded.at, tries = excluded.tries, again_at = excluded.again_at",
                (run, self.session.id, made.reason, at, made.tries, made.again_at),
            )
            return made

        return await self.write(f"set aside run '{run}'", work)

    async def set_asides(self, limit: int) -> Sequence[SetAside]:
        def work(connection: PostgresConnection) -> list[SetAside]:
            return [_from_row(*found) for found in connection.execute(_WAITING, (limit,)).fetchall()]

        return await self.read("list runs that were set aside", work)


def _from_row(run: str, owner: int, reason: str, at: int, tries: int, again_at: int) -> SetAside:
    return SetAside(run=run, owner=str(owner), reason=reason, at=at, tries=tries, again_at=again_at)
