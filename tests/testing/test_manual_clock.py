"""The clock that moves when it is told to."""

import asyncio

from interlock.testing import ManualClock


def test_who_waits_for_a_sleeper_wakes_it_however_late_it_falls_asleep() -> None:
    async def story() -> list[str]:
        clock, told = ManualClock(), list[str]()

        async def sleeper() -> None:
            for _ in range(50):
                await asyncio.sleep(0)
            await clock.sleep_until(500)
            told.append("woken")

        others = [asyncio.create_task(clock.sleep_until(60_000)), asyncio.create_task(sleeper())]
        await clock.somebody_sleeps(500)
        clock.advance(500)
        await others[1]
        others[0].cancel()
        return told

    assert asyncio.run(story()) == ["woken"]
