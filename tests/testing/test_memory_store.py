"""What only the memory store can do; all else is in tests/contracts."""

import asyncio

import pytest

from interlock.engine.events import ModelFailed, RunStarted
from interlock.errors import NotOwner, OwnedElsewhere, StoreFailed
from interlock.ports import Record, RunRow
from interlock.testing import MemoryStore

ROW = RunRow(run="r", crew="c", crew_sha="", status="running")
STARTED = Record(seq=1, at=0, events=(RunStarted(crew="c", input="go", rules=1),))
LATE = Record(seq=2, at=0, events=(ModelFailed(call="1.0", agent="a", error="late"),))


def test_a_store_that_expired_still_works_and_is_refused_by_its_epoch() -> None:
    async def told() -> None:
        slow = MemoryStore()
        quick = MemoryStore(beside=slow)
        await slow.create(ROW, STARTED)
        with pytest.raises(OwnedElsewhere):
            await quick.claim("r")
        slow.expire()
        assert (await quick.claim("r")).epoch == 1
        with pytest.raises(NotOwner):
            await slow.append(ROW, LATE)
        assert len(await slow.records("r")) == 1
        await slow.close()
        with pytest.raises(StoreFailed, match="closed"):
            await slow.records("r")

    asyncio.run(told())
