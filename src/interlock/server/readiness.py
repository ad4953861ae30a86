"""Whether a process can use its store now, for `/readyz`."""

import asyncio

from interlock.compose.interlock import Interlock
from interlock.errors import LeaseLost, StoreFailed

READY = "ready"

# A store that answers later counts as away.
ANSWER_S = 2.0


async def readiness_of_store(box: Interlock) -> str:
    """`READY`, or the code of the error with which a run would fail now. Runs of others need no lease."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await box.store.newest_position()
    except TimeoutError:
        return StoreFailed.code
    except StoreFailed as error:
        return error.code
    return READY if box.store.has_lease() or not box.runner.work.drives else LeaseLost.code
