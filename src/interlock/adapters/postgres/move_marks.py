"""The mark of a move in a PostgreSQL store: the row of the table `store_move`."""

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.ports.moving import MoveMark


def read_move_row(connection: PostgresConnection) -> MoveMark | None:
    found = connection.execute("select move, state, other from store_move").fetchone()
    return None if found is None else MoveMark(*found)


def write_move_row(connection: PostgresConnection, mark: MoveMark | None) -> None:
    """Replaces the mark, in one transaction."""
    with connection.transaction():
        connection.execute("delete from store_move")
        if mark is not None:
            values = (mark.move, mark.state, mark.other)
            connection.execute("insert into store_move (move, state, other) values (%s, %s, %s)", values)
