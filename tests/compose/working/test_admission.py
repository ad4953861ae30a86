import pytest

from interlock.compose.working.admission import Admission
from interlock.errors import TooManyQueued
from interlock.testing import MemoryStore
from tests.contracts.test_owners import add_unowned


async def test_runs_are_refused_while_those_of_their_organization_wait() -> None:
    store = MemoryStore()
    await add_unowned(store, "r1", "r2", organization="us")
    admission = Admission(store, 2)
    with pytest.raises(TooManyQueued, match="2 runs of organization 'us' wait for a worker already; try again later"):
        await admission.require_room("us")
    await admission.require_room("them")
    await store.claim("r1")
    await admission.require_room("us")


async def test_without_a_limit_nothing_is_counted() -> None:
    store = MemoryStore()
    await add_unowned(store, "r1")
    await Admission(store, None).require_room("")
    with pytest.raises(TooManyQueued, match="1 runs wait for a worker already"):
        await Admission(store, 1).require_room("")
