"""Tables of the server: idempotent requests, closed sessions, and deliveries of webhooks."""

from collections.abc import Sequence
from typing import Any

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.runs.owners import require_leader
from interlock.adapters.postgres.runs.transitions import clean
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.limits import DEAD_LETTERS_MAX
from interlock.ports import IdempotentRequest, Leadership, WebhookDelivery

_REQUEST = "caller, key, fingerprint, planned, at, status, body"
_LETTERS = "select number, hook, key, body, attempts, due_at, dead, error from webhook_letters where"


class PostgresServerTables(PostgresDatabase):
    """`IdempotencyStore`, closed sessions and `WebhookOutbox`, as a part of a store."""

    async def register_request(self, request: IdempotentRequest, *, forget_before: int) -> IdempotentRequest:
        def work(connection: PostgresConnection) -> IdempotentRequest:
            connection.execute("delete from requests where at < %s", (forget_before,))
            connection.execute(
                f"insert into requests ({_REQUEST}) values (%s, %s, %b, %s, %s, 0, ''::bytea)"  # noqa: S608 - constants
                " on conflict (caller, key) do nothing".encode(),
                (request.caller, request.key, request.fingerprint, request.planned, request.at),
            )
            query = f"select {_REQUEST} from requests where caller = %s and key = %s"  # noqa: S608 - constants
            found = connection.execute(query.encode(), (request.caller, request.key), binary=True).fetchone()
            assert found is not None, "it is there, or it was just now"
            return _request_from_row(*found)

        return await self.write("store a request", work)

    async def store_response(self, request: IdempotentRequest) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute(
                "update requests set status = %s, body = %b where caller = %s and key = %s",
                (request.status, request.body, request.caller, request.key),
            )

        await self.write("store the response of a request", work, len(request.body))

    async def close_session(self, session: str, until: int, now: int) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute("delete from closed_sessions where until <= %s", (now,))
            query = "insert into closed_sessions (session, until) values (%s, %s) on conflict do nothing"
            connection.execute(query, (session, until))
            connection.execute("select notify_others(%s)", (self.session.id,))

        await self.write("close a session", work)

    async def list_closed_sessions(self, now: int) -> Sequence[str]:
        def work(connection: PostgresConnection) -> list[str]:
            query = "select session from closed_sessions where until > %s order by session"
            return [session for (session,) in connection.execute(query, (now,)).fetchall()]

        return await self.read("list closed sessions", work)

    async def position_of_hook(self, hook: str) -> int | None:
        def work(connection: PostgresConnection) -> int | None:
            found = connection.execute("select position from webhook_cursors where hook = %s", (hook,)).fetchone()
            return None if found is None else int(found[0])

        return await self.read("read the position of a webhook", work)

    async def start_hook(self, hook: str, position: int) -> None:
        def work(connection: PostgresConnection) -> None:
            query = "insert into webhook_cursors (hook, position) values (%s, %s) on conflict do nothing"
            connection.execute(query, (hook, position))

        await self.write("store the first position of a webhook", work)

    async def enqueue_deliveries(
        self, hook: str, position: int, deliveries: Sequence[WebhookDelivery], leader: Leadership
    ) -> None:
        def work(connection: PostgresConnection) -> None:
            require_leader(connection, leader)
            connection.cursor().executemany(
                "insert into webhook_letters (hook, key, body, attempts, due_at, dead, error)"
                " values (%s, %s, %b, 0, %s, false, '') on conflict (hook, key) do nothing",
                [(delivery.hook, delivery.key, delivery.body, delivery.due_at) for delivery in deliveries],
            )
            connection.execute(
                "insert into webhook_cursors (hook, position) values (%s, %s)"
                " on conflict (hook) do update set position = excluded.position",
                (hook, position),
            )

        await self.write("store deliveries of a webhook", work, sum(len(delivery.body) for delivery in deliveries))

    async def hooks_due(self, now: int) -> Sequence[str]:
        def work(connection: PostgresConnection) -> list[str]:
            query = "select distinct hook from webhook_letters where not dead and due_at <= %s order by hook"
            return [hook for (hook,) in connection.execute(query, (now,)).fetchall()]

        return await self.read("list webhooks with deliveries", work)

    async def due_deliveries(self, hook: str, now: int, limit: int) -> Sequence[WebhookDelivery]:
        def work(connection: PostgresConnection) -> list[WebhookDelivery]:
            query = f"{_LETTERS} not dead and due_at <= %s and hook = %s order by due_at, number limit %s"
            found = connection.execute(query.encode(), (now, hook, limit), binary=True).fetchall()
            return [_delivery_from_row(*each) for each in found]

        return await self.read("read deliveries of webhooks", work)

    async def ack_delivery(self, delivery: WebhookDelivery) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute("delete from webhook_letters where number = %s", (delivery.number,))

        await self.write("acknowledge a delivery of a webhook", work)

    async def reschedule_delivery(self, delivery: WebhookDelivery) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute(
                "update webhook_letters set attempts = %s, due_at = %s, dead = %s, error = %s where number = %s",
                (delivery.attempts, delivery.due_at, delivery.dead, clean(delivery.error), delivery.number),
            )
            if delivery.dead:
                connection.execute(
                    "delete from webhook_letters where number in"
                    " (select number from webhook_letters where dead order by number desc offset %s)",
                    (DEAD_LETTERS_MAX,),
                )

        await self.write("postpone a delivery of a webhook", work)

    async def dead_letter(self, number: int) -> WebhookDelivery | None:
        return await self.read("read a dead letter", lambda connection: _dead_letter(connection, number))

    async def dead_letters(self, limit: int, before: int | None = None) -> Sequence[WebhookDelivery]:
        def work(connection: PostgresConnection) -> list[WebhookDelivery]:
            query = f"{_LETTERS} dead and (%s::bigint is null or number < %s) order by number desc limit %s"
            found = connection.execute(query.encode(), (before, before, limit), binary=True).fetchall()
            return list(first_page([_delivery_from_row(*row) for row in found], lambda delivery: len(delivery.body)))

        return await self.read("read dead letters", work)

    async def retry_dead_letter(self, number: int, at: int) -> WebhookDelivery | None:
        def work(connection: PostgresConnection) -> WebhookDelivery | None:
            found = _dead_letter(connection, number)
            query = "update webhook_letters set attempts = 0, due_at = %s, dead = false where number = %s and dead"
            connection.execute(query, (at, number))
            return found

        return await self.write("send a dead letter again", work)

    async def discard_dead_letter(self, number: int) -> bool:
        def work(connection: PostgresConnection) -> bool:
            return connection.execute("delete from webhook_letters where dead and number = %s", (number,)).rowcount > 0

        return await self.write("discard a dead letter", work)


def _dead_letter(connection: PostgresConnection, number: int) -> WebhookDelivery | None:
    found = connection.execute(f"{_LETTERS} dead and number = %s".encode(), (number,), binary=True).fetchone()
    return None if found is None else _delivery_from_row(*found)


def _request_from_row(
    caller: str, key: str, fingerprint: bytes, planned: str, at: int, status: int, body: bytes
) -> IdempotentRequest:
    return IdempotentRequest(
        caller=caller, key=key, fingerprint=fingerprint, planned=planned, at=at, status=status, body=body
    )


def _delivery_from_row(number: int, hook: str, key: str, body: bytes, *rest: Any) -> WebhookDelivery:
    attempts, due_at, dead, error = rest
    return WebhookDelivery(
        number=number, hook=hook, key=key, body=body, attempts=attempts, due_at=due_at, dead=dead, error=error
    )
