"""A data folder with a broadcast that did not arrive, as it comes to be: an inbox was full."""

import asyncio
from pathlib import Path

from interlock import Interlock
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.limits import INBOX_MAX

DEAD = "news:0"


def bury(folder: Path, crew: str = "office", agent: str = "clerk") -> None:
    """Before a server begins with the folder: one more than the inbox of the agent holds."""

    async def fill() -> None:
        async with Interlock(folder / "data") as box:
            # By the bus itself: no crew is known in a folder that nothing has served yet.
            await box.signals.bus.subscribe(AgentSubscription(crew=crew, agent=agent, pattern="news:*"))
            await asyncio.gather(*(box.signals.emit(f"news:{n}") for n in range(INBOX_MAX + 1)))

    folder.mkdir(exist_ok=True)
    asyncio.run(fill())
