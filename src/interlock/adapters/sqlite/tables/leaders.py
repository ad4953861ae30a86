"""`Leaders` on a data folder: a row per name.

Rule: the process whose owner file is locked is alive, and leads until it ends or gives the name up. The epoch refuses
what a former leader still writes.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from interlock.adapters.files.owner_files import is_alive
from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.errors import NotLeader, StoreFailed
from interlock.ports import Clock, Leadership

# How often a process that waits looks whether the leader is gone.
LOOK_MS = 1_000


class SqliteLeadership:
    """A `Leadership` until it is given up, or its store is closed."""

    def __init__(self, name: str, epoch: int, store: Database) -> None:
        self.name, self.epoch, self._store = name, epoch, store
        self.is_given_up = False

    def is_held(self) -> bool:
        return not (self.is_given_up or self._store.is_closed)


class SqliteLeaders:
    """`Leaders` of a process that has opened a data folder."""

    def __init__(self, store: Database, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # The epochs that this process has given up, while the row of the name may still say that it leads.
        self._given_up: dict[str, int] = {}

    @asynccontextmanager
    async def leadership(self, name: str) -> AsyncIterator[Leadership]:
        held = SqliteLeadership(name, await self._wait_to_lead(name), self._store)
        try:
            yield held
        finally:
            held.is_given_up = True
            await self._give_up(name, held.epoch)

    async def _give_up(self, name: str, epoch: int) -> None:
        """If the store takes nothing now, the others wait until this process leads again, or ends."""
        self._given_up[name] = epoch
        with suppress(StoreFailed):
            await self._store.write(f"give up '{name}'", partial(_remove_leader, name=name, epoch=epoch))

    async def _wait_to_lead(self, name: str) -> int:
        while True:
            try:
                is_led = await self._store.read(f"read who leads '{name}'", partial(self._has_leader, name=name))
                if not is_led and (epoch := await self._lead_or_give_up(name)):
                    return epoch
            except StoreFailed as error:
                if not error.passes:
                    raise
            await self._clock.sleep_until(self._clock.monotonic_ms() + LOOK_MS)

    async def _lead_or_give_up(self, name: str) -> int:
        """The new epoch; 0 if another process leads. A caller that is cancelled does not lead."""
        leading = asyncio.ensure_future(self._store.write(f"lead '{name}'", partial(self._lead, name=name)))
        try:
            return await asyncio.shield(leading)
        except asyncio.CancelledError:
            with suppress(StoreFailed):
                if epoch := await leading:
                    await self._give_up(name, epoch)
            raise

    def _has_leader(self, connection: sqlite3.Connection, *, name: str) -> bool:
        leader, epoch = _read_leader(connection, name)
        if leader == self._store.owner and epoch == self._given_up.get(name):
            return False
        return leader != "" and is_alive(self._store.folder, leader)

    def _lead(self, connection: sqlite3.Connection, _cache: WriterCache, *, name: str) -> int:
        """The new epoch; 0 if another process leads."""
        if self._has_leader(connection, name=name):
            return 0
        epoch = _read_leader(connection, name)[1] + 1
        query = "insert or replace into leaders (name, epoch, owner) values (?, ?, ?)"
        connection.execute(query, (name, epoch, self._store.owner))
        return epoch


def _remove_leader(connection: sqlite3.Connection, _cache: WriterCache, *, name: str, epoch: int) -> None:
    connection.execute("update leaders set owner = '' where name = ? and epoch = ?", (name, epoch))


def _read_leader(connection: sqlite3.Connection, name: str) -> tuple[str, int]:
    """The process that leads, and the newest epoch. A damaged row counts too: an epoch must not be used twice."""
    found = connection.execute("select owner, epoch from leaders where name = ?", (name,)).fetchone()
    return (str(found[0]), int(found[1])) if found is not None else ("", 0)


def require_leader(connection: sqlite3.Connection, leader: Leadership) -> None:
    """`NotLeader` if another process has led since."""
    if _read_leader(connection, leader.name)[1] != leader.epoch:
        raise NotLeader(leader.name)
