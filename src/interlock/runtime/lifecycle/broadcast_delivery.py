"""Delivery of a broadcast that an agent is to act on: to a running run of its crew, or to a new one."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from interlock.engine.events import BroadcastHeard
from interlock.engine.kinds import RunStatus
from interlock.engine.turns.start import accepts_broadcasts
from interlock.errors import AlreadyHeard
from interlock.ports import Delivery, Journal, Owners
from interlock.runtime.commit import Committer
from interlock.runtime.live_runs import LiveRuns

# Running runs of one crew that are tried for a broadcast; older ones are orphans.
NEWEST_MAX = 100

StartFor = Callable[[Delivery], Awaitable[None]]


class BroadcastDelivery:
    """`start_for` starts a run for an agent that is to act on a broadcast."""

    def __init__(
        self,
        *,
        journal: Journal,
        owners: Owners,
        live_runs: LiveRuns,
        committer: Committer,
        start_for: StartFor | None,
    ) -> None:
        self._journal, self._owners, self._live_runs = journal, owners, live_runs
        self._committer, self._start_for = committer, start_for

    async def deliver(self, delivery: Delivery) -> bool:
        """Gives the broadcast to the newest running run of its crew, or to one that it starts; whether it could."""
        for row in await self._journal.rows(status=str(RunStatus.RUNNING), crew=delivery.crew, limit=NEWEST_MAX):
            if row.run in self._live_runs.drivers:
                if await self._offer_broadcast(row.run, delivery):
                    return True
            elif await self._owners.is_owned(row.run):
                return False
        if self._start_for is None:
            return False
        with suppress(AlreadyHeard):  # another process was quicker
            await self._start_for(delivery)
        return True

    async def _offer_broadcast(self, run_id: str, delivery: Delivery) -> bool:
        async with self._live_runs.run_lock(run_id):
            live = self._live_runs.runs.get(run_id)
            if live is None:
                return False
            async with live.lock:
                if not accepts_broadcasts(live.run.state) or delivery.agent not in live.crew.agent_ids:
                    return False
                event = BroadcastHeard(agent=delivery.agent, heard=delivery.heard, delivery=delivery.number)
                await self._committer.commit_event(live, event)
            live.enqueue_event(None)
        return True
