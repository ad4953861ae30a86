"""Standing approvals, as a part of a store.

Rule: a damaged row is never returned: it approves nothing, and the doctor reports it.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.approvals.standing import StandingApproval

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StandingApproval).decode


class ApprovalTables(Database):
    """`StandingApprovals`, as a part of a store."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        return await self.read("read approvals", partial(read_approvals, tool=tool))

    async def revoke_approval(self, approval: str) -> bool:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> bool:
            return connection.execute("delete from approvals where id = ?", (approval,)).rowcount == 1

        return await self.write(f"revoke approval '{approval}'", work)


def store_approvals(connection: sqlite3.Connection, approvals: Iterable[StandingApproval]) -> None:
    for each in approvals:
        connection.execute(
            "insert or ignore into approvals (id, tool, run, at, body) values (?, ?, ?, ?, ?)",
            (each.id, each.tool, each.run, each.at, _encode(each)),
        )


def read_approvals(connection: sqlite3.Connection, *, tool: str | None) -> list[StandingApproval]:
    query = (
        f"select body from approvals where (? is null or tool = ?) and {intact_condition('approvals')}"  # noqa: S608 - constants
        " order by at desc, id"
    )
    return [_decode(body) for (body,) in connection.execute(query, (tool, tool)).fetchall()]
