"""Going on with every run whose owner is gone.

Rule 1: a run that cannot go on here is set aside with the reason, stays as it was, and keeps no other from going on.
Rule 2: a run that another process works on, or that is deleted meanwhile, is none of our business.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from interlock.errors import InterlockError, OwnedElsewhere, RunNotFound
from interlock.ports import Journal, RunRow

# Runs taken up at once: enough for their claims to share commits, few enough for their journals to fit into memory.
RECOVERIES_MAX = 200


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was found running, and why it does not go on here."""

    run: str
    reason: str


async def recover_all(
    journal: Journal, go_on: Callable[[RunRow], Awaitable[None]], *, status: str = "running"
) -> tuple[SetAside, ...]:
    """Asks every running run to go on, and with it its children; gives those that cannot, the newest first.

    Also those of another status, where that is asked for.
    """
    aside: list[SetAside] = []
    async for page in pages(journal, RECOVERIES_MAX, status=status, nested=False):
        outcomes = await asyncio.gather(*(_outcome(row, go_on) for row in page))
        aside += [outcome for outcome in outcomes if outcome is not None]
    return tuple(aside)


async def _outcome(row: RunRow, go_on: Callable[[RunRow], Awaitable[None]]) -> SetAside | None:
    try:
        await go_on(row)
    except (OwnedElsewhere, RunNotFound):
        return None
    except InterlockError as error:
        return SetAside(run=row.run, reason=str(error))
    except Exception as error:  # a journal that the engine cannot take must not hold up the runs after it
        return SetAside(run=row.run, reason=f"run '{row.run}' cannot be replayed: {type(error).__name__}: {error}")
    return None


async def pages(
    journal: Journal, size: int, *, status: str | None = None, crew: str | None = None, nested: bool | None = None
) -> AsyncIterator[Sequence[RunRow]]:
    """The newest runs first."""
    page = await journal.rows(status=status, crew=crew, limit=size, nested=nested)
    while page:
        yield page
        page = await journal.rows(status=status, crew=crew, limit=size, before=page[-1].run, nested=nested)
