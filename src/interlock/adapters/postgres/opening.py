"""Opens a PostgreSQL store with all that comes with it."""

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.adapters.postgres.clock import ServerClock
from interlock.adapters.postgres.runs.owners import PostgresLeaders
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.postgres.tables.orders import PostgresOrders
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.ports import Clock, OpenedStore


def open_postgres(address: PostgresAddress, clock: Clock) -> OpenedStore:
    """`clock` gives monotonic time; wall-clock time is the server's."""
    store = PostgresStore(address)
    return OpenedStore(
        store=store,
        orders=PostgresOrders(store),
        bus=PostgresBus(store),
        leaders=PostgresLeaders(store),
        clock=ServerClock(store.session, clock),
        deltas=ProcessDeltas(),
    )
