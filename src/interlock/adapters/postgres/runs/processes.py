"""`Processes`, as a part of a PostgreSQL store."""

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.migrate import schema_version
from interlock.ports import LeaderEntry, ProcessLoad, StoreOverview

_PROCESSES = (
    "select id, worker, (select count(*) from runs where owner = owners.id and status = 'running' and root = run)"
    " from owners where not gone and not seems_gone(id) order by id"
)
# Who lives is asked once for each process, and not for each of its runs.
_WAITING = (
    "from runs where status = 'running' and root = run and (owner is null"
    " or owner not in (select id from owners where not gone and not seems_gone(id)))"
)
COUNT_WAITING = f"select count(*) from (select 1 {_WAITING} and organization = %s and not private limit %s) as found"  # noqa: S608 - constants


class PostgresProcesses(PostgresDatabase):
    """`Processes` by the table of owners."""

    async def announce_worker(self) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute("update owners set worker = true where id = %s", (self.session.id,))

        await self.write("announce a worker", work)

    async def overview(self) -> StoreOverview:
        return await self.read("look at the processes of the store", _read_overview)

    async def count_waiting(self, organization: str, limit: int) -> int:
        def work(connection: PostgresConnection) -> int:
            found = connection.execute(COUNT_WAITING.encode(), (organization, limit)).fetchone()
            assert found is not None, "an aggregate has a row"
            return int(found[0])

        return await self.read_statement("count the runs that wait", work)


def _read_overview(connection: PostgresConnection) -> StoreOverview:
    processes = connection.execute(_PROCESSES).fetchall()
    leaders = connection.execute(
        "select name, case when owner is null or seems_gone(owner) then '' else owner::text end, epoch"
        " from leaders order by name"
    ).fetchall()
    waiting = connection.execute(f"select count(*), coalesce(min(updated_at), 0) {_WAITING}".encode()).fetchone()
    assert waiting is not None, "an aggregate has a row"
    return StoreOverview(
        version=schema_version(connection),
        processes=tuple(
            ProcessLoad(owner=str(owner), runs=runs, is_worker=is_worker) for owner, is_worker, runs in processes
        ),
        leaders=tuple(LeaderEntry(name=name, owner=owner, epoch=epoch) for name, owner, epoch in leaders),
        waiting=int(waiting[0]),
        oldest_waiting_at=int(waiting[1]),
    )
