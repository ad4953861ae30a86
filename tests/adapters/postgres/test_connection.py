"""Every wait for the server has a deadline, and one that is exceeded aborts the socket."""

import psycopg
import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.failures import DeadlineExceeded


def test_a_server_that_does_not_answer_in_time_is_left(postgres_url: str) -> None:
    with connect(PostgresAddress(postgres_url), statement_timeout="0") as connection:
        connection.deadline_s = 0.2
        with pytest.raises(DeadlineExceeded):
            connection.execute("select pg_sleep(60)")
        assert connection.closed


def test_the_server_ends_a_statement_before_the_deadline(postgres_url: str) -> None:
    with connect(PostgresAddress(postgres_url), statement_timeout="100ms") as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select pg_sleep(60)")
        assert connection.execute("select 1").fetchone() == (1,)


def test_the_settings_of_a_connection_bound_the_server(postgres_url: str) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "timezone")
    with connect(PostgresAddress(postgres_url)) as connection:
        found = [connection.execute(f"show {name}".encode()).fetchone() for name in names]
        assert found == [("5s",), ("2s",), ("1s",), ("UTC",)]
        assert connection.execute("select current_schema()").fetchone() == (PostgresAddress(postgres_url).schema,)


def test_a_statement_is_one_round_trip_and_numbers_have_one_type(postgres_url: str) -> None:
    with connect(PostgresAddress(postgres_url)) as connection:
        before = connection.round_trips
        found = connection.execute("select pg_typeof(%s)::text, pg_typeof(%b)::text", (1, 2**40)).fetchone()
        assert (found, connection.round_trips - before) == (("bigint", "bigint"), 1)


def test_aborting_ends_what_the_server_was_asked(postgres_url: str) -> None:
    connection = connect(PostgresAddress(postgres_url))
    connection.abort()
    assert connection.closed
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1")
