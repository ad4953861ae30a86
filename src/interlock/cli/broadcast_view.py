"""`interlock broadcast tail -f` on a terminal: the newest broadcasts, how many of each type, and what comes next."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.broadcast.delayed import Delayed
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import UNSET, Broadcast, said
from interlock.broadcast.schedules import said_time
from interlock.cli.crews import shown
from interlock.compose.box import Interlock

# Rows for the newest, and for the types that come most often.
NEWEST, TYPES = 20, 6
# Signals for later that are counted, and how often.
QUEUED_MAX, LOOK_S = 1_000, 1.0


class Board:
    """What is on the screen."""

    def __init__(self, pattern: str | None, newest: Sequence[Broadcast]) -> None:
        self.pattern = pattern
        self.newest: deque[Broadcast] = deque(newest, maxlen=NEWEST)
        self.counts: Counter[str] = Counter()

    def add(self, each: Broadcast) -> None:
        self.newest.append(each)
        self.counts[each.type] += 1

    def drawn(self, queued: Sequence[Delayed]) -> Group:
        total = sum(self.counts.values())
        title = Text(f"broadcasts of {shown(self.pattern) if self.pattern else 'every type'}", style="bold")
        title.append(f"   {total} since we listen   Ctrl-C ends it", style="dim")
        often = "   ".join(f"{shown(kind)} {count}" for kind, count in self.counts.most_common(TYPES))
        return Group(title, Text(often, style="cyan"), Text(_later(queued), style="dim"), self._rows())

    def _rows(self) -> Table:
        table = Table(box=None, expand=True, pad_edge=False)
        for name, ratio in (("time", 1), ("type", 3), ("source", 2), ("data", 4)):
            table.add_column(name, ratio=ratio, no_wrap=True, overflow="ellipsis", header_style="dim")
        for each in self.newest:
            when = datetime.fromtimestamp(each.created_at / 1000, UTC)
            data = "" if each.data is UNSET else msgspec.json.encode(each.data).decode()
            cells = (f"{when:%H:%M:%S}", each.type, said(each.source), data)
            table.add_row(*(Text(shown(cell)) for cell in cells))
        return table


def _later(queued: Sequence[Delayed]) -> str:
    if not queued:
        return "nothing is scheduled"
    number = f"{len(queued)}" if len(queued) < QUEUED_MAX else f"{QUEUED_MAX} or more"
    first = queued[0]
    return f"{number} for later, first {shown(first.type)} at {said_time(first.deliver_at)}"


async def followed_live(box: Interlock, pattern: str | None, newest: Sequence[Broadcast], position: int) -> None:
    board = Board(pattern, newest)
    with Live(auto_refresh=False, screen=True) as live:

        async def redraw() -> None:
            live.update(board.drawn(await box.signals.delayed(QUEUED_MAX)), refresh=True)

        async def hear() -> None:
            async for _, each in box.signals.stream(position):
                if pattern is None or matches(pattern, each.type):
                    board.add(each)
                    await redraw()

        async def look() -> None:
            """What is queued changes without a broadcast, too."""
            while True:
                await redraw()
                await asyncio.sleep(LOOK_S)

        tasks = [asyncio.create_task(hear()), asyncio.create_task(look())]
        try:
            await asyncio.gather(*tasks)  # both go on for ever, so the first that ends has failed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
