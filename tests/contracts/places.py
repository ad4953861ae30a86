"""The stores that the contracts of processes are tried on, and the parts that come with each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.adapters.postgres.runs.owners import PostgresLeaders
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables.leaders import SqliteLeaders
from interlock.ports import ClaimRequest, Clock, Leaders
from interlock.testing import MemoryStore
from interlock.testing.memory_owners import MemoryLeaders
from tests.contracts.test_journal import Place, Store, place_of_kind

KINDS = ["memory", "sqlite-full", "postgres"]
NOW = 1_800_000_000_000


def leaders_of(store: Store, clock: Clock) -> Leaders:
    if isinstance(store, MemoryStore):
        return MemoryLeaders(store)
    return SqliteLeaders(store, clock) if isinstance(store, SqliteStore) else PostgresLeaders(store)


def request(limit: int = 10, at: int = NOW, **more: object) -> ClaimRequest:
    fields = {"rules": 3, "format": 1, "limit": limit, "at": at, **more}
    return ClaimRequest(**fields)  # type: ignore[arg-type]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of_kind(request.param, tmp_path / "data") as found:
        yield found
