"""`Processes`, as a part of a PostgreSQL store."""

from collections.abc import Sequence

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.migrate import schema_version
from interlock.adapters.store_rules.run_formats import newer_of, older_processes
from interlock.ports import LeaderEntry, ProcessLoad, RunFormat, StoreOverview
from interlock.ports.processes.overview import PRIVATE_LISTED_MAX

_PROCESSES = (
    "select id::text, (select count(*) from runs where owner = owners.id and status = 'running' and root = run),"
    " worker, host, pid, version, rules, format, clock_behind_ms from owners"
    " where not gone and not seems_gone(id) order by id"
)
_PUT_RUN_FORMAT = (
    "insert into run_format values (1, %s, %s)"
    " on conflict (only_one) do update set rules = excluded.rules, format = excluded.format"
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

    async def run_format(self) -> RunFormat | None:
        """As of the last sign of life: a format that was raised since is newer, so runs of this one are still known."""
        if (known := self.session.run_format) is not None:
            return known
        return await self.read_statement("read the run format of the store", _read_run_format)

    async def raise_run_format(self, to: RunFormat) -> Sequence[ProcessLoad]:
        def work(connection: PostgresConnection) -> Sequence[ProcessLoad]:
            connection.execute("select lock_store()")
            older = older_processes(_read_processes(connection), to)
            if not older:
                new = newer_of(_read_run_format(connection), to)
                connection.execute(_PUT_RUN_FORMAT, (new.rules, new.format))
            return older

        return await self.write("raise the run format of the store", work)

    async def overview(self) -> StoreOverview:
        return await self.read("look at the processes of the store", _read_overview)

    async def count_waiting(self, organization: str, limit: int) -> int:
        def work(connection: PostgresConnection) -> int:
            found = connection.execute(COUNT_WAITING.encode(), (organization, limit)).fetchone()
            assert found is not None, "an aggregate has a row"
            return int(found[0])

        return await self.read_statement("count the runs that wait", work)


def _read_overview(connection: PostgresConnection) -> StoreOverview:
    leaders = connection.execute(
        "select name, case when owner is null or seems_gone(owner) then '' else owner::text end, epoch"
        " from leaders order by name"
    ).fetchall()
    query = f"select count(*), coalesce(min(updated_at), 0) {_WAITING} and not private"
    waiting = connection.execute(query.encode()).fetchone()
    query = f"select run {_WAITING} and private order by run limit {PRIVATE_LISTED_MAX}"
    private = connection.execute(query.encode()).fetchall()
    assert waiting is not None, "an aggregate has a row"
    return StoreOverview(
        version=schema_version(connection),
        run_format=_read_run_format(connection),
        processes=tuple(_read_processes(connection)),
        leaders=tuple(LeaderEntry(name=name, owner=owner, epoch=epoch) for name, owner, epoch in leaders),
        waiting=int(waiting[0]),
        oldest_waiting_at=int(waiting[1]),
        private_undriven=tuple(run for (run,) in private),
    )


def _read_processes(connection: PostgresConnection) -> list[ProcessLoad]:
    return [
        ProcessLoad(
            owner=owner,
            runs=runs,
            is_worker=is_worker,
            host=host,
            pid=pid,
            version=version,
            knows=RunFormat(rules, format_),
            clock_behind_ms=behind_ms,
        )
        for owner, runs, is_worker, host, pid, version, rules, format_, behind_ms in connection.execute(_PROCESSES)
    ]


def _read_run_format(connection: PostgresConnection) -> RunFormat | None:
    found = connection.execute("select rules, format from run_format").fetchone()
    return None if found is None else RunFormat(*found)
