"""Errors of the driver become errors of the port; only what a retry cannot heal does not pass."""

import re

import psycopg
import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.failures import (
    DeadlineExceeded,
    is_connection_lost,
    lacks_partition,
    postgres_failure_of,
)
from interlock.errors import StorageFull, StoreBroken, StoreFailed

ADDRESS = PostgresAddress("postgres://me@/data")
ERRORS = psycopg.errors


@pytest.mark.parametrize(
    ("error", "kind", "passes"),
    [
        (ERRORS.DiskFull("no space"), StorageFull, True),
        (ERRORS.AdminShutdown("going down"), StoreFailed, True),
        (ERRORS.LockNotAvailable("waited"), StoreFailed, True),
        (ERRORS.QueryCanceled("too long"), StoreFailed, True),
        (ERRORS.DeadlockDetected("two"), StoreFailed, True),
        (psycopg.OperationalError("connection refused"), StoreFailed, True),
        (DeadlineExceeded("late"), StoreFailed, True),
        (ERRORS.UniqueViolation("twice"), StoreFailed, False),
        (ERRORS.UndefinedTable("none"), StoreFailed, False),
        (ERRORS.InsufficientPrivilege("no"), StoreFailed, False),
        (psycopg.DataError("NUL"), StoreFailed, False),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate"), StoreFailed, False),
    ],
)
def test_each_error_has_its_kind(error: Exception, kind: type[StoreFailed], passes: bool) -> None:
    failure = postgres_failure_of("append to run 'r1'", error, ADDRESS)
    assert isinstance(failure, kind)
    assert not isinstance(failure, StoreBroken)
    assert failure.passes is passes
    assert str(failure).startswith("could not append to run 'r1': ")


def test_a_lost_connection_is_told_from_a_refused_statement() -> None:
    lost = [psycopg.OperationalError("eof"), ERRORS.AdminShutdown("x"), DeadlineExceeded("x"), ConnectionResetError()]
    assert [is_connection_lost(error) for error in lost] == [True] * 4
    others = [ERRORS.QueryCanceled("x"), ERRORS.LockNotAvailable("x"), ERRORS.DiskFull("x"), ValueError("x")]
    assert [is_connection_lost(error) for error in others] == [False] * 4


def test_a_missing_partition_is_known() -> None:
    assert lacks_partition(ERRORS.CheckViolation("no partition"))
    assert not lacks_partition(ERRORS.UniqueViolation("twice"))


def test_what_a_pooler_refuses_says_what_to_do() -> None:
    refused = psycopg.OperationalError("FATAL: unsupported startup parameter: options")
    assert "name the server itself" in str(postgres_failure_of("open the store", refused, ADDRESS))


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("fe_sendauth: no password supplied", r"\?password_env=NAME, or set PGPASSFILE"),
        ("password authentication failed for user", "check the user"),
        ("connection failed: Connection refused", "check the host and port"),
        ("permission denied for database runs", "grant create on database"),
        ("permission denied for table owners", "member of interlock_app"),
    ],
)
def test_what_the_server_refuses_says_what_to_do(said: str, advice: str) -> None:
    assert re.search(advice, str(postgres_failure_of("open it", psycopg.OperationalError(said), ADDRESS)))
