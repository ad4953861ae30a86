"""Checks of the bus for the doctor: damaged rows, and counts against what they count."""

from collections.abc import Iterator

from interlock.adapters.postgres.bus import announcements, bus_queries
from interlock.adapters.postgres.connection import PostgresConnection

_STRAYS = {
    table: f"select count(*) from {table} where broadcast not in (select position from broadcasts)"  # noqa: S608 - constants
    for table in ("inbox", "deliveries")
}
_WRONG_COUNTS = (
    "select crew, agent from active_counts full join"
    " (select crew, agent, count(*) as found from active cross join unnest(agents) as agent group by 1, 2) as counted"
    " using (crew, agent) where coalesce(runs, 0) <> coalesce(found, 0) order by 1, 2"
)


def problems_of_bus(connection: PostgresConnection) -> Iterator[str]:
    """Damaged rows, which reading leaves out, and rows that do not agree with others."""
    yield from announcements.damage_in_broadcasts(connection)
    yield from bus_queries.damage_in_delayed(connection)
    yield from bus_queries.damage_in_dead_letters(connection)
    for table, query in _STRAYS.items():
        found = connection.execute(query.encode()).fetchone()
        if found is not None and found[0]:
            yield f"{found[0]} rows of '{table}' are about a broadcast that is not there"
    for crew, agent in connection.execute(_WRONG_COUNTS).fetchall():
        yield f"the count of runs in which agent '{agent}' of crew '{crew}' is at work is wrong"
