"""Gives runs to other processes between two of their calls, so that no call is lost or repeated.

Rule 1: a tree of runs is handed over whole: the process that claims its root drives all of it.
Rule 2: a run with a call in progress, or with an outcome that is not stored yet, is kept until that is done.
Rule 3: so is a run whose driver has not begun: a task that is cancelled before its first step releases nothing.
"""

import asyncio

from interlock.ids import is_below, parent_of
from interlock.runtime.live_run import LiveRun
from interlock.runtime.runner import Runner

# How often a process that stops looks for runs that can be handed over.
LOOK_AGAIN_MS = 20


def is_between_calls(live: LiveRun) -> bool:
    """Whether nothing is in progress that would have to be paid for again."""
    is_at_work = live.begun or live.inbox or live.pump is not None or live.has_unbegun_driver()
    return not is_at_work and live.lock.free > 0


async def hand_over(runner: Runner, root: str) -> bool:
    """Releases a tree of runs for other processes; False if a call of it is in progress."""
    async with runner.live_runs.run_lock(root):
        tree = [live for run, live in runner.live.items() if run == root or is_below(run, root)]
        if not tree or not all(map(is_between_calls, tree)):
            return False
        drivers = [live.driver for live in tree if live.driver is not None]
        for driver in drivers:
            driver.cancel()
        await asyncio.gather(*drivers, return_exceptions=True)
    return True


async def hand_over_all(runner: Runner) -> None:
    """Hands every run over as soon as its calls are done; the caller limits how long. No new call begins."""
    holding = asyncio.create_task(runner.effect_runner.model_calls.hold_calls())
    try:
        while roots := [run for run in runner.live if not parent_of(run)]:
            for root in roots:
                await hand_over(runner, root)
            if runner.live:
                await runner.clock.sleep_until(runner.clock.monotonic_ms() + LOOK_AGAIN_MS)
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
