"""Going on with every run whose owner is gone.

Rule 1: a run that cannot go on here is set aside with the reason, and keeps no other from going on. Where its journal
can be written it is `paused`, `set_aside` from then on, so that every process sees it; recovery tries it again.
Rule 2: a run that another process works on, or that is deleted meanwhile, is none of our business.
Rule 3: what a store that is away hinders is tried again later, and not set aside.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from interlock.errors import InterlockError, OwnedElsewhere, RunNotFound, StoreFailed
from interlock.ports import Journal, RunRow

# Runs taken up at once: enough for their claims to share commits, few enough for their journals to fit into memory.
RECOVERIES_MAX = 200


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was found running, and why it does not go on here."""

    run: str
    reason: str


async def recover_all(
    journal: Journal,
    go_on: Callable[[RunRow], Awaitable[None]],
    try_later: Callable[[RunRow], None],
    *,
    status: str = "running",
    reason: str | None = None,
) -> tuple[SetAside, ...]:
    """Asks every running run to go on, and with it its children; gives those that cannot, the newest first.

    Also those of another status and reason, where that is asked for. `try_later` is told of those that a store that
    is away keeps from being asked.
    """
    aside: list[SetAside] = []
    async for page in pages(journal, RECOVERIES_MAX, status=status, nested=False):
        wanted = [row for row in page if reason in (None, row.reason)]
        outcomes = await asyncio.gather(*(_outcome(row, go_on, try_later) for row in wanted))
        aside += [outcome for outcome in outcomes if outcome is not None]
    return tuple(aside)


async def _outcome(
    row: RunRow, go_on: Callable[[RunRow], Awaitable[None]], try_later: Callable[[RunRow], None]
) -> SetAside | None:
    try:
        return await outcome_of(row, go_on)
    except StoreFailed:
        try_later(row)
        return None


async def outcome_of(row: RunRow, go_on: Callable[[RunRow], Awaitable[None]]) -> SetAside | None:
    """Asks one run to go on; why it cannot. Raises the failure of a store that may be back later."""
    try:
        await go_on(row)
    except (OwnedElsewhere, RunNotFound):
        return None
    except InterlockError as error:
        if isinstance(error, StoreFailed) and error.passes:
            raise
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
