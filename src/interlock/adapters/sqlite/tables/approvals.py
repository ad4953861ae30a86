"""Standing approvals, as a part of a store.

Rule 1: a damaged row is never returned: it approves nothing, and the doctor reports it.
Rule 2: a revoked approval is moved to a table of its own, which no decision reads, in one transaction.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.approvals.standing import RevokedApproval, StandingApproval, as_revoked
from interlock.limits import REVOKED_APPROVALS_MAX

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StandingApproval).decode
_decode_revoked = msgspec.json.Decoder(RevokedApproval).decode


class ApprovalTables(Database):
    """`StandingApprovals`, as a part of a store."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        return await self.read("read approvals", partial(read_approvals, tool=tool))

    async def revoke_approval(self, approval: str, by: str, at: int) -> bool:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> bool:
            return move_to_revoked(connection, approval, by, at)

        return await self.write(f"revoke approval '{approval}'", work)

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        return await self.read("read revoked approvals", read_revoked_approvals)


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


def move_to_revoked(connection: sqlite3.Connection, approval: str, by: str, at: int) -> bool:
    """Moves an approval to the revoked ones. A damaged one is only deleted: what it said is not known."""
    query = f"select body from approvals where id = ? and {intact_condition('approvals')}"  # noqa: S608 - constants
    found = connection.execute(query, (approval,)).fetchone()
    if found is not None:
        ended = as_revoked(_decode(found[0]), by, at)
        connection.execute(
            "insert or replace into revoked_approvals (id, run, at, body) values (?, ?, ?, ?)",
            (ended.id, ended.run, at, _encode(ended)),
        )
        connection.execute(
            "delete from revoked_approvals where id in"
            " (select id from revoked_approvals order by at desc, id limit -1 offset ?)",
            (REVOKED_APPROVALS_MAX,),
        )
    return connection.execute("delete from approvals where id = ?", (approval,)).rowcount == 1


def read_revoked_approvals(connection: sqlite3.Connection) -> list[RevokedApproval]:
    query = f"select body from revoked_approvals where {intact_condition('revoked_approvals')} order by at desc, id"  # noqa: S608 - constants
    return [_decode_revoked(body) for (body,) in connection.execute(query).fetchall()]
