"""Shutdown without losing paid replies: calls in progress are finished and stored, no new ones begin."""

from interlock.runtime.live_run import LiveRun
from interlock.runtime.runner import Runner

# How often the shutdown checks if the last replies are stored.
LOOK_AGAIN_MS = 20


async def drain_runner(runner: Runner) -> None:
    """Waits until no reply can be lost; the caller limits how long.

    Runs that are about to call a model wait from now on, until they are parked.
    """
    await runner.effect_runner.model_calls.hold_calls()
    while runner.effect_runner.tool_calls.in_progress or not all(_is_quiet(live) for live in runner.live.values()):
        await runner.clock.sleep_until(runner.clock.monotonic_ms() + LOOK_AGAIN_MS)


def _is_quiet(live: LiveRun) -> bool:
    """True if all outcomes are stored."""
    return not live.inbox and live.pump is None and live.lock.free > 0
