"""Gives runs to workers that have fewer.

Rule 1: a worker with more than 1.5 times the mean hands over its newest runs, at most 5 % of them in a second.
Rule 2: if no other process takes them, it claims them again and waits longer before it tries once more.
Rule 3: private runs stay: no other process would claim them.
"""

import logging
from collections.abc import Sequence
from math import ceil

from interlock.errors import StoreBroken, StoreFailed
from interlock.ids import parent_of
from interlock.ports import Processes
from interlock.runtime.claiming.claim_loop import ClaimLoop
from interlock.runtime.claiming.handover import hand_over
from interlock.runtime.runner import Runner

STEP_MS = 1_000

# The longest time between two tries, while no other process takes what is handed over.
STEP_MS_MAX = 60_000

# With fewer runs there is nothing to hand over.
RUNS_MIN = 2

MORE_THAN_MEAN = 1.5
SHARE_PER_STEP = 0.05

_log = logging.getLogger("interlock")


def surplus_of(mine: int, all_workers: Sequence[int]) -> int:
    """How many runs a worker hands over now; `all_workers` are the runs of each, its own among them."""
    mean = sum(all_workers) / max(1, len(all_workers))
    if len(all_workers) < 2 or mine <= MORE_THAN_MEAN * mean:
        return 0
    return max(0, min(mine - ceil(mean), max(1, int(SHARE_PER_STEP * mine))))


class Rebalance:
    """Looks every second whether other workers have fewer runs. `owner` is the name of this process."""

    def __init__(self, runner: Runner, claims: ClaimLoop, processes: Processes, owner: str) -> None:
        self._runner, self._claims, self._processes, self._owner = runner, claims, processes, owner
        self._handed_over: list[str] = []
        self._step_ms = STEP_MS

    async def run(self) -> None:
        """Runs until it is cancelled."""
        clock = self._runner.clock
        while True:
            await clock.sleep_until(clock.monotonic_ms() + self._step_ms)
            try:
                await self.step()
            except StoreBroken:
                return
            except StoreFailed as error:
                _log.warning("the load of other workers cannot be read now: %s", error)

    async def step(self) -> None:
        came_back = any(run in self._runner.live for run in self._handed_over)
        self._step_ms = min(2 * self._step_ms, STEP_MS_MAX) if came_back else STEP_MS
        if self._claims.load.runs < RUNS_MIN:  # a worker without work does not ask
            self._handed_over = []
            return
        workers = [each for each in (await self._processes.overview()).processes if each.is_worker]
        mine = next((each.runs for each in workers if each.owner == self._owner), 0)
        surplus = surplus_of(mine, [each.runs for each in workers])
        self._handed_over = await self._hand_over_newest(surplus) if surplus else []

    async def _hand_over_newest(self, count: int) -> list[str]:
        roots = [live for run, live in self._runner.live.items() if not parent_of(run) and not live.row.private]
        self._claims.pause(STEP_MS)  # else it would take them back at once
        done: list[str] = []
        for live in sorted(roots, key=lambda each: (each.row.created_at, each.id), reverse=True):
            if len(done) < count and await hand_over(self._runner, live.id):
                done.append(live.id)
        return done
