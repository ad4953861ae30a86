"""Stopping without losing what was paid for: calls under way come back and are stored, no new ones begin."""

from interlock.runtime.live import LiveRun
from interlock.runtime.runner import Runner

# How often it is looked whether the last answers are stored.
LOOK_AGAIN_MS = 20


async def drained(runner: Runner) -> None:
    """Returns when nothing is under way whose answer would be lost; whoever asks bounds how long that may take.

    Runs that are about to call a model wait from now on, until they are parked.
    """
    await runner.performer.hold_calls()
    while runner.performer.tools_under_way or not all(_is_quiet(live) for live in runner.live.values()):
        await runner.clock.sleep_until(runner.clock.monotonic_ms() + LOOK_AGAIN_MS)


def _is_quiet(live: LiveRun) -> bool:
    """Whether all that came back is stored."""
    return live.inbox.empty() and live.pump is None and not live.lock.locked()
