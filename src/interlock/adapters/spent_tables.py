"""What the calls of runs have cost, as it was added up once: a part of a store.

The journals are the truth. A sum counts for the seq that it was made of, so one of a run that went on counts no more.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from zlib import crc32

import msgspec

from interlock.adapters.sealed_tables import whole
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.sqlite_writer import Work
from interlock.engine.events import Usage
from interlock.ports import RunRow, SpentByRun

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Usage]).decode


class _Database(Protocol):
    """Whoever has this table in a database."""

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T: ...

    async def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T: ...


class SpentTables:
    """`Sums`, as a part of a store."""

    async def spent(self: _Database, rows: Sequence[RunRow]) -> Mapping[str, Mapping[str, Usage]]:
        def work(connection: sqlite3.Connection) -> dict[str, Mapping[str, Usage]]:
            marks = ", ".join("?" * len(rows))
            query = f"select run, seq, body, crc from spent where run in ({marks}) and {whole('spent')}"  # noqa: S608 - question marks
            found = connection.execute(query, [row.run for row in rows]).fetchall()
            seqs = {row.run: row.seq for row in rows}
            return {run: _decode(body) for run, seq, body, crc in found if seq == seqs[run] and crc == crc32(body)}

        return await self._read("read what runs have cost", work)

    async def keep_spent(self: _Database, found: Sequence[SpentByRun]) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            bodies = [(each, _encode(each.agents)) for each in found]
            connection.executemany(
                "insert or replace into spent (run, seq, body, crc)"
                " select ?, ?, ?, ? where exists (select 1 from runs where run = ?)",
                [(each.run, each.seq, body, crc32(body), each.run) for each, body in bodies],
            )

        await self._write("keep what runs have cost", work)
