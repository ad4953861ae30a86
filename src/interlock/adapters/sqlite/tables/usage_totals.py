"""`UsageTotals` in SQLite: a cache of the cost of runs.

The journals are authoritative. A total is valid for one seq of its run, and ignored after the next record.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.ports import RunRow, RunUsage

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunUsage).decode


class UsageTables(Database):
    """`UsageTotals`, as a part of a store."""

    async def usage_by_run(self, rows: Sequence[RunRow]) -> Mapping[str, RunUsage]:
        def work(connection: sqlite3.Connection) -> dict[str, RunUsage]:
            marks = ", ".join("?" * len(rows))
            query = f"select run, seq, body, crc from spent where run in ({marks}) and {intact_condition('spent')}"  # noqa: S608 - question marks
            found = connection.execute(query, [row.run for row in rows]).fetchall()
            seqs = {row.run: row.seq for row in rows}
            return {run: _decode(body) for run, seq, body, crc in found if seq == seqs[run] and crc == crc32(body)}

        return await self.read("read the usage of runs", work)

    async def store_usage(self, found: Sequence[RunUsage]) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            bodies = [(each, _encode(each)) for each in found]
            connection.executemany(
                "insert or replace into spent (run, seq, body, crc)"
                " select ?, ?, ?, ? where exists (select 1 from runs where run = ?)",
                [(each.run, each.seq, body, crc32(body), each.run) for each, body in bodies],
            )

        await self.write("store the usage of runs", work)
