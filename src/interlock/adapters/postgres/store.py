"""The journal and the owners of runs, in a PostgreSQL database."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.archive import PostgresArchive
from interlock.adapters.postgres.bus.budget_ledger import spend_in_transaction
from interlock.adapters.postgres.checks import find_problems
from interlock.adapters.postgres.connection import Connect, PostgresConnection, connect
from interlock.adapters.postgres.runs import run_queries
from interlock.adapters.postgres.runs.owners import PostgresOwners
from interlock.adapters.postgres.runs.processes import PostgresProcesses
from interlock.adapters.postgres.runs.run_appends import KnownLinks
from interlock.adapters.postgres.runs.run_head import read_stored_run
from interlock.adapters.postgres.runs.run_queries import PlacedRecord, read_stretch
from interlock.adapters.postgres.session import connect_session
from interlock.adapters.postgres.storage import PostgresStorage
from interlock.adapters.postgres.tables import questions
from interlock.adapters.postgres.tables.approvals import PostgresApprovals
from interlock.adapters.postgres.tables.counts import store_counts
from interlock.adapters.postgres.tables.outbox import PostgresOutbox
from interlock.adapters.postgres.tables.provider_holds import PostgresProviderHolds
from interlock.adapters.postgres.tables.questions import PostgresQuestions
from interlock.adapters.postgres.tables.schedules import PostgresSchedules
from interlock.adapters.postgres.tables.server_tables import PostgresServerTables
from interlock.adapters.postgres.tables.set_asides import PostgresSetAsides
from interlock.adapters.postgres.tables.usage_totals import PostgresUsage
from interlock.adapters.store_rules import record_format
from interlock.errors import NotOwner
from interlock.ports import (
    NEWEST_FORMAT,
    FolderCounts,
    Grant,
    Record,
    Reservation,
    RunFormat,
    RunRow,
    RunSnapshot,
    Settlement,
    StoredRecord,
    Topic,
)


class PostgresStore(
    PostgresOwners,
    PostgresSetAsides,
    PostgresProcesses,
    PostgresArchive,
    PostgresServerTables,
    PostgresOutbox,
    PostgresQuestions,
    PostgresUsage,
    PostgresSchedules,
    PostgresApprovals,
    PostgresProviderHolds,
    PostgresStorage,
):
    """All ports of the kept data in a PostgreSQL database. An acknowledged record is as durable as its commits."""

    def __init__(
        self,
        address: PostgresAddress | str,
        *,
        connect: Connect = connect,
        connect_session: Connect = connect_session,
        knows: RunFormat = NEWEST_FORMAT,
    ) -> None:
        self.links = KnownLinks()
        super().__init__(address, connect=connect, connect_session=connect_session, knows=knows)

    def version(self) -> int | None:
        """A number that changes when another process has written to the bus; None while it is unknown."""
        return None if self._closed else self.session.version()

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        """Calls back when another process has written. Returns a function that stops it."""
        return self.session.watch(changed, about)

    async def identity(self) -> str:
        """What tells this store from all others: positions of one mean nothing in another."""

        def work(connection: PostgresConnection) -> str:
            found = connection.execute("select identity from store_identity").fetchone()
            return str(found[0]) if found is not None else ""

        return await self.read_statement("read the identity of the store", work)

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        def work(connection: PostgresConnection) -> tuple[Grant, ...]:
            connection.execute("select lock_store()")
            if read_stored_run(connection, row.run).epoch != row.epoch:
                raise NotOwner(row.run)
            return spend_in_transaction(connection, orders)

        return await self.write("reserve in a budget", work)

    async def put_crew(self, sha: str, body: bytes) -> None:
        record_format.require_sha(sha, body)

        def work(connection: PostgresConnection) -> None:
            connection.execute("insert into crews (sha, body) values (%s, %b) on conflict do nothing", (sha, body))

        await self.write("store a crew", work, len(body))

    async def crew(self, sha: str) -> bytes:
        return await self.read_statement("read a crew", partial(run_queries.read_crew_body, sha=sha))

    async def row(self, run: str) -> RunRow:
        return await self.read_statement(f"read run '{run}'", partial(run_queries.read_row, run=run))

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        """Leaves out runs whose row is damaged, which reading them and `problems` report."""
        assert limit > 0, "callers bound their pages"
        work = partial(run_queries.read_rows, status=status, crew=crew, limit=limit, before=before, nested=nested)
        return await self.read("list runs", work)

    async def rows_below(self, run: str) -> Sequence[RunRow]:
        return await self.read(f"list the children of run '{run}'", partial(run_queries.rows_below, run=run))

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        if not after and limit is None:
            return (await self.row_with_records(run))[1]
        work = partial(read_stretch, run=run, after=after, limit=limit)
        return record_format.unseal_chain(run, *await self.read(f"read the journal of run '{run}'", work))

    async def row_with_records(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        work = partial(run_queries.read_journal, run=run)
        row, found = await self.read_statement(f"read the journal of run '{run}'", work)
        return row, record_format.unseal_chain(run, *found)

    async def run_snapshot(self, run: str, limit: int) -> RunSnapshot:
        def work(connection: PostgresConnection) -> tuple[RunRow, run_queries.RecordStretch, bool]:
            row, found = run_queries.read_row(connection, run=run), read_stretch(connection, run=run, limit=limit)
            return row, found, questions.asks_nothing(connection, run=run)

        row, found, asks_nothing = await self.read(f"read run '{run}'", work)
        return RunSnapshot(row=row, records=record_format.unseal_chain(run, *found), asks_nothing=asks_nothing)

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        work = partial(run_queries.tree_records, run=run, after=after, position=position)
        found = await self.read(f"read the journals of run '{run}' and its children", work)
        return [
            StoredRecord(position=position, run=of, record=record_format.unseal_record(of, stored))
            for position, of, stored in found
        ]

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """Leaves out damaged records, which reading their run reports."""
        assert limit > 0, "callers bound their pages"
        return await self._first_sound_page(position, partial(run_queries.records_after, limit=limit), "read records")

    async def of_run(self, run: str, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """Leaves out damaged records, as `since`."""
        work = partial(run_queries.records_of_run, run=run, limit=limit)
        return await self._first_sound_page(position, work, f"read records of run '{run}'")

    async def _first_sound_page(
        self, position: int, work: Callable[..., list[PlacedRecord]], doing: str
    ) -> Sequence[StoredRecord]:
        """The first page that is not all damaged: an empty page would mean that there are no more."""
        while found := await self.read(doing, partial(work, position=position)):
            opened = ((at, of, record_format.unseal_or_none(of, stored)) for at, of, stored in found)
            if kept := [StoredRecord(position=at, run=of, record=it) for at, of, it in opened if it is not None]:
                return kept
            position = found[-1][0]
        return []

    async def newest_position(self) -> int:
        return await self.read_statement("read the newest position", run_queries.newest_position)

    async def folder_counts(self) -> FolderCounts:
        return await self.read("count the rows of the store", store_counts)

    async def problems(self) -> Sequence[str]:
        """The problems of the whole store; reads every row, however long it takes, by a connection of its own."""
        self._require_usable()
        return await asyncio.to_thread(find_problems, self.address)
