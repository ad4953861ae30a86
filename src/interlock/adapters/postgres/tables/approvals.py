"""Standing approvals, as a part of a store.

Rule: a revoked approval is moved to a table of its own, which no decision reads, in one transaction.
"""

from collections.abc import Sequence

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.approvals.standing import RevokedApproval, StandingApproval, as_revoked
from interlock.limits import REVOKED_APPROVALS_MAX

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StandingApproval).decode
_decode_revoked = msgspec.json.Decoder(RevokedApproval).decode


class PostgresApprovals(PostgresDatabase):
    """`StandingApprovals`, as a part of a store."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        def work(connection: PostgresConnection) -> list[StandingApproval]:
            query = "select body from approvals where (%s::text is null or tool = %s) order by at desc, id"
            return [_decode(body) for (body,) in connection.execute(query, (tool, tool), binary=True).fetchall()]

        return await self.read("read approvals", work)

    async def revoke_approval(self, approval: str, by: str, at: int) -> bool:
        def work(connection: PostgresConnection) -> bool:
            return _move_to_revoked(connection, approval, by, at)

        return await self.write(f"revoke approval '{approval}'", work)

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        def work(connection: PostgresConnection) -> list[RevokedApproval]:
            query = "select body from revoked_approvals order by at desc, id"
            return [_decode_revoked(body) for (body,) in connection.execute(query, binary=True).fetchall()]

        return await self.read("read revoked approvals", work)


def _move_to_revoked(connection: PostgresConnection, approval: str, by: str, at: int) -> bool:
    query = "delete from approvals where id = %s returning body"
    found = connection.execute(query, (approval,), binary=True).fetchone()
    if found is None:
        return False
    ended = as_revoked(_decode(found[0]), by, at)
    connection.execute(
        "insert into revoked_approvals (id, run, at, body) values (%s, %s, %s, %b)"
        " on conflict (id) do update set run = excluded.run, at = excluded.at, body = excluded.body",
        (ended.id, ended.run, at, _encode(ended)),
    )
    connection.execute(
        "delete from revoked_approvals where id in (select id from revoked_approvals order by at desc, id offset %s)",
        (REVOKED_APPROVALS_MAX,),
    )
    return True
