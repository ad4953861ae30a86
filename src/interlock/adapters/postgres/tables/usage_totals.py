"""`UsageTotals` in PostgreSQL: a cache of the cost of runs.

The journals are authoritative. A total is valid for one seq of its run, and ignored after the next record.
"""

from collections.abc import Mapping, Sequence
from zlib import crc32

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.ports import RunRow, RunUsage

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunUsage).decode


class PostgresUsage(PostgresDatabase):
    """`UsageTotals`, as a part of a store."""

    async def usage_by_run(self, rows: Sequence[RunRow]) -> Mapping[str, RunUsage]:
        def work(connection: PostgresConnection) -> dict[str, RunUsage]:
            query = "select run, seq, body, crc from spent where run = any (%s)"
            found = connection.execute(query, ([row.run for row in rows],), binary=True).fetchall()
            seqs = {row.run: row.seq for row in rows}
            return {run: _decode(body) for run, seq, body, crc in found if seq == seqs[run] and crc == crc32(body)}

        return await self.read("read the usage of runs", work)

    async def store_usage(self, found: Sequence[RunUsage]) -> None:
        bodies = [_encode(each) for each in found]

        def work(connection: PostgresConnection) -> None:
            connection.execute(
                "insert into spent (run, seq, body, crc) select given.* from"
                " unnest(%s::text[], %s::bigint[], %b::bytea[], %s::bigint[]) as given(run, seq, body, crc)"
                " where exists (select 1 from runs where runs.run = given.run)"
                " on conflict (run) do update set seq = excluded.seq, body = excluded.body, crc = excluded.crc",
                ([each.run for each in found], [each.seq for each in found], bodies, [crc32(each) for each in bodies]),
            )

        await self.write("store the usage of runs", work)
