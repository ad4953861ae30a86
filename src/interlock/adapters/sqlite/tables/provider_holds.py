"""`ProviderHolds` in SQLite, as a part of a store."""

import sqlite3
from collections.abc import Sequence

from interlock.adapters.sqlite.database import Database
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.ports import ProviderHold

_SELECT = f"select server, until from provider_holds where until > ? and {intact_condition('provider_holds')}"  # noqa: S608 - constants


class ProviderHoldTables(Database):
    """A damaged row is left out: the provider itself says again that it takes no calls."""

    async def hold_provider(self, hold: ProviderHold, at: int) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            connection.execute("delete from provider_holds where until <= ?", (at,))
            query = f"{_SELECT} and server = ?"
            if connection.execute(query, (hold.until - 1, hold.server)).fetchone() is None:
                query = "insert or replace into provider_holds (server, until) values (?, ?)"
                connection.execute(query, (hold.server, hold.until))

        await self.write(f"hold back calls to {hold.server}", work)

    async def provider_holds(self, at: int) -> Sequence[ProviderHold]:
        def work(connection: sqlite3.Connection) -> list[ProviderHold]:
            found = connection.execute(f"{_SELECT} order by server", (at,)).fetchall()
            return [ProviderHold(server=server, until=until) for server, until in found]

        return await self.read("read which providers are to be waited for", work)
