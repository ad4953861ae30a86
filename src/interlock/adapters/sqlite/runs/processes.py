"""`Processes` in SQLite: living processes are those whose owner file is locked."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

import msgspec

from interlock.adapters.files.owner_files import live_owners
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.run_format import intact_run_format, put_run_format, read_run_format
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.run_formats import newer_of, older_processes
from interlock.ids import CHILD_MARK
from interlock.ports import LeaderEntry, ProcessLoad, RunFormat, StoreOverview
from interlock.ports.processes.overview import PRIVATE_LISTED_MAX

_ROOTS = "from runs where status = 'running' and instr(run, ?) = 0"


class ProcessTables(Database):
    """`Processes`, as a part of a store."""

    async def announce_worker(self) -> None:
        self._owner.announce_worker()

    async def run_format(self) -> RunFormat | None:
        return await self.read("read the run format of the folder", read_run_format)

    async def raise_run_format(self, to: RunFormat) -> Sequence[ProcessLoad]:
        return await self.write("raise the run format of the folder", partial(self._raise_run_format, to=to))

    def _raise_run_format(
        self, connection: sqlite3.Connection, _cache: WriterCache, *, to: RunFormat
    ) -> Sequence[ProcessLoad]:
        older = older_processes([each for _, each in sorted(live_owners(self.folder).items())], to)
        if not older:
            put_run_format(connection, newer_of(intact_run_format(connection), to))
        return older

    async def overview(self) -> StoreOverview:
        return await self.read("look at the processes of the folder", self._read_overview)

    async def count_waiting(self, organization: str, limit: int) -> int:
        work = partial(self._count_waiting, organization=organization, limit=limit)
        return await self.read("count the runs that wait", work)

    def _read_overview(self, connection: sqlite3.Connection) -> StoreOverview:
        alive = live_owners(self.folder)
        query = f"select owner, count(*), min(updated_at), private {_ROOTS} group by owner, private"
        by_owner = connection.execute(query, (CHILD_MARK,)).fetchall()
        runs = Counter[str]()
        for owner, count, *_ in by_owner:
            runs[owner] += count
        waiting = [(count, old) for owner, count, old, private in by_owner if owner not in alive and not private]
        query = f"select run, owner {_ROOTS} and private = 1 order by run"
        undriven = (run for run, owner in connection.execute(query, (CHILD_MARK,)) if owner not in alive)
        names = f"select name, owner, epoch from leaders where {intact_condition('leaders')} order by name"  # noqa: S608 - constants
        return StoreOverview(
            version=migrations.version_of(connection),
            run_format=intact_run_format(connection),
            processes=tuple(msgspec.structs.replace(each, runs=runs[owner]) for owner, each in sorted(alive.items())),
            leaders=tuple(
                LeaderEntry(name=name, owner=owner if owner in alive else "", epoch=epoch)
                for name, owner, epoch in connection.execute(names)
            ),
            waiting=sum(count for count, _ in waiting),
            oldest_waiting_at=min((oldest for _, oldest in waiting), default=0),
            private_undriven=tuple(islice(undriven, PRIVATE_LISTED_MAX)),
        )

    def _count_waiting(self, connection: sqlite3.Connection, *, organization: str, limit: int) -> int:
        alive = live_owners(self.folder)
        query = f"select owner {_ROOTS} and organization = ? and private = 0"
        count = 0
        for (owner,) in connection.execute(query, (CHILD_MARK, organization)):
            count += owner not in alive
            if count >= limit:
                break
        return count
