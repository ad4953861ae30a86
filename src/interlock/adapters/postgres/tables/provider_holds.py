"""`ProviderHolds` in PostgreSQL, as a part of a store."""

from collections.abc import Sequence

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.adapters.postgres.runs.transitions import clean
from interlock.ports import ProviderHold

# One statement: others are told only if the hold is longer than the last one.
_HOLD = """
with over as (delete from provider_holds where until <= %(at)s and server <> %(server)s),
put as (
    insert into provider_holds (server, until) values (%(server)s, %(until)s)
    on conflict (server) do update set until = excluded.until where provider_holds.until < excluded.until
    returning server
)
select notify_others(%(owner)s, 'providers') from put
"""


class PostgresProviderHolds(PostgresDatabase):
    """`ProviderHolds`, as a part of a store."""

    async def hold_provider(self, hold: ProviderHold, at: int) -> None:
        values = {"server": clean(hold.server), "until": hold.until, "at": at, "owner": self.session.id}

        def work(connection: PostgresConnection) -> None:
            connection.execute(_HOLD, values)

        await self.write_statement(f"hold back calls to {hold.server}", work)

    async def provider_holds(self, at: int) -> Sequence[ProviderHold]:
        def work(connection: PostgresConnection) -> list[ProviderHold]:
            query = "select server, until from provider_holds where until > %s order by server"
            return [ProviderHold(server=server, until=until) for server, until in connection.execute(query, (at,))]

        return await self.read_statement("read which providers are to be waited for", work)
