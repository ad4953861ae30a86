"""`Outbox` in SQLite. Damaged rows are left out; the doctor reports them."""

import sqlite3
from collections.abc import Collection, Sequence
from functools import partial

from interlock.adapters.files.owner_files import is_alive
from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.ports import PUT_OFF_MAX_MS, OutgoingSignal

_SIGNALS = f"select key, run, body, attempts, sender from outbox where {intact_condition('outbox')}"  # noqa: S608 - constants


class OutboxTables(Database):
    """`Outbox`, as a part of a store."""

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        def work(connection: sqlite3.Connection) -> list[OutgoingSignal]:
            query = f"{_SIGNALS} and (? is null or run = ?) order by number"
            return [_from_row(*found) for found in connection.execute(query, (run, run)).fetchall()]

        return await self.read("read the outbox", work)

    async def claim_signals(
        self, at: int, limit: int, run: str | None = None, sending: Collection[str] | None = None
    ) -> Sequence[OutgoingSignal]:
        find = partial(self._find_due, at=at, limit=limit, run=run, sending=sending)
        if not await self.read("look for signals to send", find):  # mostly, and others can write meanwhile
            return []

        def work(connection: sqlite3.Connection, _cache: WriterCache) -> list[OutgoingSignal]:
            due = find(connection)
            query = "update outbox set sender = ? where key = ?"
            connection.executemany(query, [(self.owner, each.key) for each in due])
            return due

        return await self.write("claim signals to send", work)

    def _find_due(
        self, connection: sqlite3.Connection, *, at: int, limit: int, run: str | None, sending: Collection[str] | None
    ) -> list[OutgoingSignal]:
        due: list[OutgoingSignal] = []
        alive: dict[str, bool] = {"": False}
        query = f"{_SIGNALS} and (? is null or run = ?) and (due_at <= ? or due_at > ?) order by number"
        for found in connection.execute(query, (run, run, at, at + PUT_OFF_MAX_MS)):
            sender = found[-1]
            if sender not in alive:
                alive[sender] = is_alive(self.folder, sender)
            is_forgotten = sending is not None and sender == self.owner and found[0] not in sending
            if is_forgotten or not alive[sender]:
                due.append(_from_row(*found))
            if len(due) == limit:
                break
        return due

    async def put_off(self, key: str, attempts: int, due_at: int) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            query = "update outbox set sender = '', attempts = ?, due_at = ? where key = ? and sender = ?"
            connection.execute(query, (attempts, due_at, key, self.owner))

        await self.write("put off an outgoing signal", work)

    async def ack_outgoing(self, key: str) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute("delete from outbox where key = ?", (key,))

        await self.write("acknowledge an outgoing signal", work)


def _from_row(key: str, run: str, body: bytes, attempts: int, _sender: str) -> OutgoingSignal:
    return OutgoingSignal(key=key, run=run, body=body, attempts=attempts)
