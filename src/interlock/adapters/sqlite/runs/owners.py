"""`Owners` and `SetAsides` in SQLite.

Rule: the process that holds the lock of an owner file is alive, and keeps what it has claimed until it ends.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

from interlock.adapters.files.owner_files import is_alive
from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs import claims, run_rows
from interlock.adapters.sqlite.runs.run_head import read_stored_head
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.ports import ClaimedRun, ClaimRequest, SetAside


class OwnerTables(Database):
    """`Owners` and `SetAsides`, as a part of a store."""

    async def claim(self, run: str) -> ClaimedRun:
        work = partial(run_rows.claim, run=run, owner=self.owner, folder=self.folder)
        return await self.write(f"claim run '{run}'", work)

    async def claim_some(self, request: ClaimRequest) -> Sequence[ClaimedRun]:
        find = partial(claims.find_claimable, request=request, owner=self.owner, is_alive=self.is_alive)
        if not await self.read("look for runs to claim", find):  # mostly, and others can write meanwhile
            return []

        def work(connection: sqlite3.Connection, cache: WriterCache) -> list[ClaimedRun]:
            return claims.claim_each(connection, cache, find(connection), request.limit, self.owner, self.folder)

        return await self.write("claim runs", work)

    async def release(self, run: str) -> None:
        await self.write(f"release run '{run}'", partial(run_rows.release, run=run, owner=self.owner))

    async def is_owned(self, run: str) -> bool:
        def has_live_owner(connection: sqlite3.Connection) -> bool:
            return self.is_alive(read_stored_head(connection, run).owner)

        return await self.read(f"read the owner of run '{run}'", has_live_owner)

    def has_lease(self) -> bool:
        return not self._closed

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Never calls back: the lock is held until the store is closed."""

    async def set_aside(self, run: str, reason: str, at: int) -> SetAside:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> SetAside:
            return claims.set_aside(connection, run=run, owner=self.owner, reason=reason, at=at)

        return await self.write(f"set run '{run}' aside", work)

    async def set_asides(self, limit: int) -> Sequence[SetAside]:
        work = partial(claims.set_asides, limit=limit, is_alive=self.is_alive)
        return await self.read("list the runs that are set aside", work)

    def is_alive(self, owner: str) -> bool:
        return owner != "" and is_alive(self.folder, owner)
