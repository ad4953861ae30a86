"""`Archive` in PostgreSQL: export, import and delete whole runs."""

from collections.abc import Sequence
from functools import partial

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.runs import run_archive, run_queries
from interlock.adapters.store_rules import record_format
from interlock.ports import RunRow, SealedRecord, SealedTree, Tombstone


class PostgresArchive(PostgresDatabase):
    """`Archive`, as a part of a store."""

    async def export_tree(self, run: str) -> SealedTree:
        found = await self.read(
            f"read the journals of run '{run}' and its children", partial(run_queries.read_tree_of_runs, run=run)
        )
        tree = SealedTree(rows=tuple(found.rows), records=tuple(found.records))
        for row, chain, tip in zip(found.rows, tree.chains(), found.tips, strict=True):
            record_format.unseal_chain(row.run, chain, record_format.chain_start(row.run), tip)
        return tree

    async def export_records(self, run: str) -> Sequence[SealedRecord]:
        found = await self.read(f"read the journal of run '{run}'", partial(run_queries.read_stretch, run=run))
        record_format.unseal_chain(run, *found)
        return found.stored

    async def add_tree(self, tree: SealedTree) -> None:
        """As `add_run`, in one transaction."""
        chains = list(zip(tree.rows, tree.chains(), strict=True))
        ends = [record_format.tip_of(row.run, chain) for row, chain in chains]
        rows = tuple(record_format.with_needs(row, chain) for row, chain in chains)
        work = partial(run_archive.add_tree, tree=msgspec.structs.replace(tree, rows=rows), ends=ends)
        await self.write(f"store the whole run '{tree.rows[0].run}' with its children", work)

    async def add_run(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        """Status, reason, agent and usage are the row's; seq and link are those of the records."""
        tip, row = record_format.tip_of(row.run, records), record_format.with_needs(row, records)
        await self.write(
            f"store the whole run '{row.run}'", partial(run_archive.add, row=row, records=records, tip=tip)
        )

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        work = partial(run_archive.delete_tree, run=run, at=at, owner=self.session.id)
        return await self.write(f"delete run '{run}' with its children", work)

    async def delete_run(self, run: str, at: int) -> Tombstone:
        work = partial(run_archive.delete, run=run, at=at, owner=self.session.id)
        return await self.write(f"delete run '{run}'", work)

    async def runs_finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        work = partial(run_archive.runs_finished_before, before=before, after=after, limit=limit)
        return await self.read("list finished runs", work)

    async def tombstones(self) -> Sequence[Tombstone]:
        return await self.read("read tombstones", run_archive.tombstones)

    async def expire_tombstones(self, before: int) -> int:
        """Also drops the partitions of past months that hold no run any more."""

        def work(connection: PostgresConnection) -> int:
            expired = run_archive.expire_tombstones(connection, before=before)
            connection.execute("select drop_empty_partitions()")
            return expired

        return await self.write("expire tombstones", work)
