"""`Outbox` in PostgreSQL."""

from collections.abc import Collection, Sequence
from typing import Any

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.ports import PUT_OFF_MAX_MS, OutgoingSignal

_SIGNALS = "select key, run, body, attempts from outbox"
# One that is put off for longer than any is was put off by a clock that was set back since.
_DUE = (
    "(due_at <= %(at)s or due_at > %(at)s + %(put_off_max)s) and (%(run)s::text is null or run = %(run)s)"
    " and (owner is null or owner = %(me)s and key <> all (%(sending)s::text[]) or owner <> %(me)s and "
)
_HAS_DUE = f"select 1 from outbox where {_DUE} seems_gone(owner)) limit 1"  # noqa: S608 - constants
_CLAIM = (
    f"update outbox set owner = %(me)s where key in (select key from outbox where {_DUE} is_gone(owner, %(me)s))"  # noqa: S608 - constants
    " order by number limit %(limit)s for update skip locked) returning number, key, run, body, attempts"
)


class PostgresOutbox(PostgresDatabase):
    """`Outbox`, as a part of a store."""

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        def work(connection: PostgresConnection) -> list[OutgoingSignal]:
            query = f"{_SIGNALS} where (%s::text is null or run = %s) order by number"
            found = connection.execute(query.encode(), (run, run), binary=True).fetchall()
            return [_from_row(*each) for each in found]

        return await self.read("read the outbox", work)

    async def claim_signals(
        self, at: int, limit: int, run: str | None = None, sending: Collection[str] | None = None
    ) -> Sequence[OutgoingSignal]:
        given = {"me": self.session.id, "at": at, "run": run, "limit": limit, "put_off_max": PUT_OFF_MAX_MS}

        def values() -> dict[str, Any]:  # one that is sent since this was asked must not be claimed again
            return {**given, "sending": None if sending is None else list(sending)}

        def has_due(connection: PostgresConnection) -> bool:
            return connection.execute(_HAS_DUE.encode(), values()).fetchone() is not None

        def work(connection: PostgresConnection) -> list[OutgoingSignal]:
            found = connection.execute(_CLAIM.encode(), values(), binary=True).fetchall()
            return [_from_row(*each) for _, *each in sorted(found)]

        if not await self.read_statement("look for signals to send", has_due):  # mostly, and others can write meanwhile
            return []
        return await self.write_statement("claim signals to send", work)

    async def put_off(self, key: str, attempts: int, due_at: int) -> None:
        def work(connection: PostgresConnection) -> None:
            query = "update outbox set owner = null, attempts = %s, due_at = %s where key = %s and owner = %s"
            connection.execute(query, (attempts, due_at, key, self.session.id))

        await self.write_statement("put off an outgoing signal", work)

    async def ack_outgoing(self, key: str) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute("delete from outbox where key = %s", (key,))

        await self.write_statement("acknowledge an outgoing signal", work)


def _from_row(key: str, run: str, body: bytes, attempts: int) -> OutgoingSignal:
    return OutgoingSignal(key=key, run=run, body=body, attempts=attempts)
