"""The size of a PostgreSQL store, its partitions and standbys, and what processes that are gone left behind."""

from collections.abc import Iterator

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.database import PostgresDatabase
from interlock.ports.processes.storage import StandbyLag, StorePartition, StoreStorage

_SIZE = (
    "select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class"
    " where relnamespace = current_schema()::regnamespace and relkind = 'r'"
)
_PARTITIONS = (
    "select relname, pg_total_relation_size(oid) from pg_inherits join pg_class on pg_class.oid = inhrelid"
    " where inhparent = 'records'::regclass order by relname"
)
# A role that may not see other sessions gets null for all but the name.
_STANDBYS = (
    "select application_name, coalesce(state, 'unknown'), case when state is not null then"
    " coalesce(extract(epoch from replay_lag) * 1000, 0)::bigint end from pg_stat_replication order by 1"
)
_LEFT_RUNS = (
    "select owner, coalesce(host, '?'), count(*) from runs left join owners on owners.id = owner"
    " where status = 'running' and root = run and owner is not null and seems_gone(owner) group by 1, 2 order by 1"
)
_LEADERLESS = "select name from leaders where owner is not null and seems_gone(owner) order by name"


class PostgresStorage(PostgresDatabase):
    """The storage of a store, as a part of it."""

    async def storage(self) -> StoreStorage:
        return await self.read("measure the store", _read_storage)


def _read_storage(connection: PostgresConnection) -> StoreStorage:
    size = connection.execute(_SIZE).fetchone()
    assert size is not None, "an aggregate has a row"
    return StoreStorage(
        size_bytes=int(size[0]),
        partitions=tuple(
            StorePartition(name=name, size_bytes=size) for name, size in connection.execute(_PARTITIONS).fetchall()
        ),
        standbys=tuple(
            StandbyLag(name=name, state=state, lag_ms=lag)
            for name, state, lag in connection.execute(_STANDBYS).fetchall()
        ),
        notes=tuple(_notes(connection)),
    )


def _notes(connection: PostgresConnection) -> Iterator[str]:
    for owner, host, count in connection.execute(_LEFT_RUNS).fetchall():
        runs = "1 run waits" if count == 1 else f"{count} runs wait"
        yield f"process {owner} on '{host}' has no session any more; {runs} for a worker to claim"
    for (name,) in connection.execute(_LEADERLESS).fetchall():
        yield f"the process that led '{name}' has no session any more; the next one that asks leads"
