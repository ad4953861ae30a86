"""Tables of the server: idempotent requests, closed sessions, and deliveries of webhooks."""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.sqlite.tables.leaders import require_leader
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.errors import DamagedRow
from interlock.limits import DEAD_LETTERS_MAX
from interlock.ports import IdempotentRequest, Leadership, WebhookDelivery

_log = logging.getLogger("interlock")

_REQUEST = "caller, key, fingerprint, planned, at, status, body"
_LETTER = "number, hook, key, body, attempts, due_at, dead, error"
_LETTERS = f"select {_LETTER} from webhook_letters where {intact_condition('webhook_letters')}"  # noqa: S608 - constants


class ServerTables(Database):
    """`IdempotencyStore`, closed sessions and `WebhookOutbox`, as a part of a store."""

    async def register_request(self, request: IdempotentRequest, *, forget_before: int) -> IdempotentRequest:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> IdempotentRequest:
            connection.execute("delete from requests where at < ?", (forget_before,))
            connection.execute(
                f"insert or ignore into requests ({_REQUEST}) values (?, ?, ?, ?, ?, 0, x'')",  # noqa: S608 - constants
                (request.caller, request.key, request.fingerprint, request.planned, request.at),
            )
            query = f"select {_REQUEST} from requests where caller = ? and key = ? and {intact_condition('requests')}"  # noqa: S608 - constants
            found = connection.execute(query, (request.caller, request.key)).fetchone()
            if found is None:
                raise DamagedRow(
                    "the request with this Idempotency-Key", "check its effect, then send it with another key"
                )
            return _request_from_row(*found)

        return await self.write("store a request", work)

    async def store_response(self, request: IdempotentRequest) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute(
                "update requests set status = ?, body = ? where caller = ? and key = ?",
                (request.status, request.body, request.caller, request.key),
            )

        await self.write("store the response of a request", work, len(request.body))

    async def close_session(self, session: str, until: int, now: int) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute("delete from closed_sessions where until <= ?", (now,))
            connection.execute("insert or ignore into closed_sessions (session, until) values (?, ?)", (session, until))

        await self.write("close a session", work)

    async def list_closed_sessions(self, now: int) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            test = intact_condition("closed_sessions")
            if connection.execute(f"select 1 from closed_sessions where not ({test})").fetchone():  # noqa: S608 - constants
                _log.warning("a closed session is damaged and may work again; delete server.key to end all sessions")
            query = f"select session from closed_sessions where until > ? and {test} order by session"  # noqa: S608 - constants
            return [session for (session,) in connection.execute(query, (now,)).fetchall()]

        return await self.read("list closed sessions", work)

    async def position_of_hook(self, hook: str) -> int | None:
        def work(connection: sqlite3.Connection) -> int | None:
            query = f"select position, {intact_condition('webhook_cursors')} from webhook_cursors where hook = ?"  # noqa: S608 - constants
            found = connection.execute(query, (hook,)).fetchone()
            if found is not None and not found[1]:
                raise DamagedRow(
                    f"the position of webhook '{hook}'", "restore it from a backup, or give the webhook another id"
                )
            return None if found is None else int(found[0])

        return await self.read("read the position of a webhook", work)

    async def start_hook(self, hook: str, position: int) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            query = "insert or ignore into webhook_cursors (hook, position) values (?, ?)"
            connection.execute(query, (hook, position))

        await self.write("store the first position of a webhook", work)

    async def enqueue_deliveries(
        self, hook: str, position: int, deliveries: Sequence[WebhookDelivery], leader: Leadership
    ) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            require_leader(connection, leader)
            connection.executemany(
                "insert or ignore into webhook_letters (hook, key, body, attempts, due_at, dead, error)"
                " values (?, ?, ?, 0, ?, 0, '')",
                [(delivery.hook, delivery.key, delivery.body, delivery.due_at) for delivery in deliveries],
            )
            connection.execute(
                "insert into webhook_cursors (hook, position) values (?, ?)"
                " on conflict (hook) do update set position = excluded.position",
                (hook, position),
            )

        await self.write("store deliveries of a webhook", work, sum(len(delivery.body) for delivery in deliveries))

    async def hooks_due(self, now: int) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            query = (
                f"select distinct hook from webhook_letters where {intact_condition('webhook_letters')}"  # noqa: S608 - constants
                " and dead = 0 and due_at <= ? order by hook"
            )
            return [hook for (hook,) in connection.execute(query, (now,)).fetchall()]

        return await self.read("list webhooks with deliveries", work)

    async def due_deliveries(self, hook: str, now: int, limit: int) -> Sequence[WebhookDelivery]:
        def work(connection: sqlite3.Connection) -> list[WebhookDelivery]:
            query = f"{_LETTERS} and dead = 0 and due_at <= ? and hook = ? order by due_at, number limit ?"
            return [_delivery_from_row(*found) for found in connection.execute(query, (now, hook, limit)).fetchall()]

        return await self.read("read deliveries of webhooks", work)

    async def ack_delivery(self, delivery: WebhookDelivery) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute("delete from webhook_letters where number = ?", (delivery.number,))

        await self.write("acknowledge a delivery of a webhook", work)

    async def reschedule_delivery(self, delivery: WebhookDelivery) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute(
                "update webhook_letters set attempts = ?, due_at = ?, dead = ?, error = ? where number = ?",
                (delivery.attempts, delivery.due_at, delivery.dead, delivery.error, delivery.number),
            )
            if delivery.dead:
                connection.execute(
                    "delete from webhook_letters where number in"
                    " (select number from webhook_letters where dead = 1 order by number desc limit -1 offset ?)",
                    (DEAD_LETTERS_MAX,),
                )

        await self.write("postpone a delivery of a webhook", work)

    async def dead_letter(self, number: int) -> WebhookDelivery | None:
        return await self.read("read a dead letter", partial(_dead_letter, number=number))

    async def dead_letters(self, limit: int, before: int | None = None) -> Sequence[WebhookDelivery]:
        def work(connection: sqlite3.Connection) -> list[WebhookDelivery]:
            query = f"{_LETTERS} and dead = 1 and (? is null or number < ?) order by number desc limit ?"
            with closing(connection.execute(query, (before, before, limit))) as rows:
                return list(first_page((_delivery_from_row(*row) for row in rows), lambda delivery: len(delivery.body)))

        return await self.read("read dead letters", work)

    async def retry_dead_letter(self, number: int, at: int) -> WebhookDelivery | None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> WebhookDelivery | None:
            found = _dead_letter(connection, number=number)
            if found is not None:
                connection.execute(
                    "update webhook_letters set attempts = 0, due_at = ?, dead = 0 where number = ?", (at, number)
                )
            return found

        return await self.write("send a dead letter again", work)

    async def discard_dead_letter(self, number: int) -> bool:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> bool:
            done = connection.execute("delete from webhook_letters where dead = 1 and number = ?", (number,))
            return done.rowcount > 0

        return await self.write("discard a dead letter", work)


def _dead_letter(connection: sqlite3.Connection, *, number: int) -> WebhookDelivery | None:
    found = connection.execute(f"{_LETTERS} and dead = 1 and number = ?", (number,)).fetchone()
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
        number=number, hook=hook, key=key, body=body, attempts=attempts, due_at=due_at, dead=bool(dead), error=error
    )
