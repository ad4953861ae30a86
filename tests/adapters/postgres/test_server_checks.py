"""Servers that may lose what they have acknowledged are refused; others are used, with warnings."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import migrate
from interlock.adapters.postgres.roles import grant_roles
from interlock.adapters.postgres.server_checks import (
    PostgresSettings,
    read_settings,
    require_safe_settings,
    warnings_of,
)
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import StoreFailed
from tests.adapters.postgres.pooler import pooler_before
from tests.postgres import shared_cluster

GOOD = PostgresSettings(
    version=150_004,
    synchronous_commit="on",
    fsync="on",
    full_page_writes="on",
    encoding="UTF8",
    checksums="on",
    standbys="one",
    is_superuser=False,
    is_pooled=False,
    ahead_ms=-900,
    is_in_the_clear=False,
)


def test_a_good_server_is_used_without_a_word() -> None:
    require_safe_settings(GOOD)
    assert warnings_of(GOOD) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 130_012}, "use 14 or newer"),
        ({"synchronous_commit": "off"}, "synchronous_commit = off"),
        ({"fsync": "off"}, "fsync = off"),
        ({"full_page_writes": "off"}, "full_page_writes = off"),
        ({"encoding": "SQL_ASCII"}, "encoding UTF8"),
        ({"ahead_ms": 31_000}, "differ by 31 s"),
        ({"ahead_ms": -31_000}, "differ by 31 s"),
        ({"is_in_the_clear": True}, "sslmode"),
        ({"is_pooled": True}, "connection pooler"),
    ],
)
def test_an_unsafe_server_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(StoreFailed, match=message):
        require_safe_settings(GOOD._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ahead_ms": 1_001}, "1001 ms"),
        ({"checksums": "off"}, "checksums"),
        ({"standbys": ""}, "standby"),
        ({"is_superuser": True}, "superuser"),
    ],
)
def test_what_could_be_better_is_said(change: dict[str, object], words: str) -> None:
    (warning,) = warnings_of(GOOD._replace(**change))  # type: ignore[arg-type]
    assert words in warning


def test_the_settings_of_a_real_server_are_read(postgres_url: str) -> None:
    address = PostgresAddress(postgres_url)
    with connect(address) as connection:
        found = read_settings(connection, address)
    require_safe_settings(found)
    assert (found.fsync, found.encoding, found.is_superuser, found.is_in_the_clear) == ("on", "UTF8", True, False)


def test_a_store_is_not_opened_where_commits_may_be_lost(postgres_url: str) -> None:
    with pytest.raises(StoreFailed, match="synchronous_commit"):
        PostgresStore(f"{postgres_url}&options=-csynchronous_commit%3Doff")


@pytest.mark.parametrize("use", [PostgresStore, migrate, grant_roles])
def test_a_pooler_is_noticed_and_refused(postgres_url: str, use: Callable[[PostgresAddress], object]) -> None:
    """It would drop the schema and the time limits of a session without a word."""
    schema = PostgresAddress(postgres_url).schema
    with (
        TemporaryDirectory() as folder,
        pooler_before(shared_cluster().folder / ".s.PGSQL.5432", Path(folder)) as socket,
        pytest.raises(StoreFailed, match="connection pooler"),
    ):
        use(PostgresAddress(f"postgres://interlock@/postgres?host={socket}&schema={schema}"))
