"""The journal and the owners of runs, in the database of a data folder."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from interlock.adapters.files.data_folder import DATABASE as DATABASE
from interlock.adapters.files.data_folder import database_bytes
from interlock.adapters.files.owner_files import OWNERS as OWNERS
from interlock.adapters.files.owner_files import is_alive as is_alive
from interlock.adapters.sqlite import atomic_writes, checks
from interlock.adapters.sqlite.archive import ArchiveTables
from interlock.adapters.sqlite.backup import back_up
from interlock.adapters.sqlite.compaction import compact
from interlock.adapters.sqlite.database import CACHE_KB as CACHE_KB
from interlock.adapters.sqlite.database import DURABILITIES as DURABILITIES
from interlock.adapters.sqlite.database import LOG_BYTES_MAX as LOG_BYTES_MAX
from interlock.adapters.sqlite.database import T as T
from interlock.adapters.sqlite.database import ThisProcess
from interlock.adapters.sqlite.failures import as_store_failed
from interlock.adapters.sqlite.runs import places, run_queries, run_rows
from interlock.adapters.sqlite.runs.owners import OwnerTables
from interlock.adapters.sqlite.runs.processes import ProcessTables
from interlock.adapters.sqlite.runs.run_head import read_stored_head
from interlock.adapters.sqlite.runs.run_queries import read_range
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.tables import question_rows
from interlock.adapters.sqlite.tables.approvals import ApprovalTables
from interlock.adapters.sqlite.tables.counts import folder_counts
from interlock.adapters.sqlite.tables.outbox import OutboxTables
from interlock.adapters.sqlite.tables.provider_holds import ProviderHoldTables
from interlock.adapters.sqlite.tables.questions import QuestionTables
from interlock.adapters.sqlite.tables.schedules import ScheduleTables
from interlock.adapters.sqlite.tables.server_tables import ServerTables
from interlock.adapters.sqlite.tables.usage_totals import UsageTables
from interlock.adapters.store_rules import record_format
from interlock.errors import NotOwner
from interlock.ports import (
    NO_WRITES,
    AppendResult,
    AtomicWrites,
    FolderCounts,
    Grant,
    Record,
    Reservation,
    RunRow,
    RunSnapshot,
    SealedRecord,
    Settlement,
    StoredRecord,
)
from interlock.ports.processes.storage import StoreStorage

PlacedRecord = tuple[int, str, SealedRecord]  # a record with its position and its run


class SqliteStore(
    OwnerTables,
    ProcessTables,
    OutboxTables,
    ArchiveTables,
    ServerTables,
    QuestionTables,
    UsageTables,
    ScheduleTables,
    ApprovalTables,
    ProviderHoldTables,
):
    """`Journal` and `Owners` in a data folder, and with `ServerTables` what a server keeps there.

    With durability "full" an acknowledged record survives the loss of power. With "normal" it survives the death of
    the process, but a loss of power takes what was acknowledged since the last checkpoint: one is made every second,
    and after about 4 MB of log. Only the newest records of all runs are lost, never some in the
    middle, and the database stays valid.
    """

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        """The run belongs to this store, under `row.epoch`, unless it is to belong to none."""
        body, owner = record_format.encode_record(record), self.owner if owned else ""
        work = partial(run_rows.create, row=row, record=record, body=body, owner=owner, also=also)
        return await self.write(f"store the new run '{row.run}'", work, len(body))

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        """Uses only status, reason, agent, usage and `updated_at` of the row: the rest is fixed at creation."""
        body, doing = record_format.encode_record(record), f"append to run '{row.run}'"
        if row.status == "running" and not self._closed and ThisProcess.pid == self._pid:
            appended = self._writer.append_alone(row, record, body, also, doing)
            if appended is not None:
                return appended
        self._require_usable()
        work = partial(run_rows.append, row=row, record=record, body=body, also=also)
        return await self._writer.write(doing, work, len(body))

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> tuple[Grant, ...]:
            if read_stored_head(connection, row.run).tip.epoch != row.epoch:
                raise NotOwner(row.run)
            return atomic_writes.apply_spending(connection, orders)

        return await self.write("reserve in a budget", work)

    async def put_crew(self, sha: str, body: bytes) -> None:
        record_format.require_sha(sha, body)
        await self.write("store a crew", partial(run_rows.put_crew, sha=sha, body=body), len(body))

    async def crew(self, sha: str) -> bytes:
        return await self.read("read a crew", partial(run_queries.read_crew_body, sha=sha))

    async def limit_bytes(self, bytes_max: int) -> None:
        """Stops the database from growing further than this, until the limit is set again or the store is reopened."""
        await self.write("limit the database", partial(run_rows.limit_bytes, bytes_max=bytes_max))

    async def row(self, run: str) -> RunRow:
        return await self.read(f"read run '{run}'", partial(run_queries.read_row, run=run))

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
        def read_chain(connection: sqlite3.Connection) -> tuple[Record, ...]:
            found = read_range(connection, run=run, after=after, limit=limit)
            connection.execute("commit")  # verifying takes longer than reading, and an open reader makes the log grow
            return record_format.unseal_chain(run, *found)

        return await self.read(f"read the journal of run '{run}'", read_chain)

    async def row_with_records(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        def read_row_and_chain(connection: sqlite3.Connection) -> tuple[RunRow, Sequence[Record]]:
            row, found = run_queries.read_row(connection, run=run), read_range(connection, run=run)
            connection.execute("commit")  # as above
            return row, record_format.unseal_chain(run, *found)

        return await self.read(f"read the journal of run '{run}'", read_row_and_chain)

    async def run_snapshot(self, run: str, limit: int) -> RunSnapshot:
        """One read instead of four: a change of threads costs more than these queries."""

        is_doubted = self._met_damaged_question

        def read_all(connection: sqlite3.Connection) -> RunSnapshot:
            row, found = run_queries.read_row(connection, run=run), read_range(connection, run=run, limit=limit)
            asks_nothing = not is_doubted and question_rows.asks_nothing(connection, run=run)
            connection.execute("commit")  # as above
            return RunSnapshot(row=row, records=record_format.unseal_chain(run, *found), asks_nothing=asks_nothing)

        return await self.read(f"read run '{run}'", read_all)

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
        return await self.read("read the newest position", places.newest_position)

    async def folder_counts(self) -> FolderCounts:
        return await self.read("count the rows of the folder", folder_counts)

    async def storage(self) -> StoreStorage:
        return StoreStorage(size_bytes=database_bytes(self.folder))

    async def problems(self) -> Sequence[str]:
        """The problems of the whole database; reads every page."""
        return await self.read("check the database", checks.problems)

    async def backup(self, file: Path) -> None:
        """Writes a valid copy of the database as of one moment, while others continue to write."""
        self._require_usable()
        with as_store_failed(f"write the backup '{file}'"):
            await asyncio.to_thread(back_up, self.folder / DATABASE, self._mode, file, self._connect)

    async def compact(self) -> tuple[int, int]:
        """Frees the space of deleted rows. Returns the sizes before and after, in bytes.

        Meanwhile no process can write to the folder: live runs wait until it is done.
        """
        self._require_usable()
        with as_store_failed(f"compact the data folder '{self.folder}'"):
            return await asyncio.to_thread(compact, self.folder / DATABASE, self.owner, self._connect)
