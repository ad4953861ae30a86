"""`interlock broadcast tail -f` on a terminal: the newest broadcasts, counts by type, and the schedule."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import UNSET, Broadcast, source_label
from interlock.broadcast.schedules import iso_time
from interlock.cli.crew_argument import safe_line
from interlock.compose.interlock import Interlock

# Rows for the newest broadcasts, and for the most frequent types.
NEWEST, TYPES = 20, 6
# Most scheduled broadcasts to count, and how often.
QUEUED_MAX, POLL_S = 1_000, 1.0


class BroadcastScreen:
    """The content of the screen."""

    def __init__(self, pattern: str | None, newest: Sequence[Broadcast]) -> None:
        self.pattern = pattern
        self.newest: deque[Broadcast] = deque(newest, maxlen=NEWEST)
        self.counts: Counter[str] = Counter()

    def add(self, each: Broadcast) -> None:
        self.newest.append(each)
        self.counts[each.type] += 1

    def render(self, queued: Sequence[DelayedBroadcast]) -> Group:
        total = sum(self.counts.values())
        title = Text(f"broadcasts of {safe_line(self.pattern) if self.pattern else 'every type'}", style="bold")
        title.append(f"   {total} since start   Ctrl-C stops", style="dim")
        often = "   ".join(f"{safe_line(kind)} {count}" for kind, count in self.counts.most_common(TYPES))
        return Group(title, Text(often, style="cyan"), Text(_queue_line(queued), style="dim"), self._table())

    def _table(self) -> Table:
        table = Table(box=None, expand=True, pad_edge=False)
        for name, ratio in (("time", 1), ("type", 3), ("source", 2), ("data", 4)):
            table.add_column(name, ratio=ratio, no_wrap=True, overflow="ellipsis", header_style="dim")
        for each in self.newest:
            when = datetime.fromtimestamp(each.created_at / 1000, UTC)
            data = "" if each.data is UNSET else msgspec.json.encode(each.data).decode()
            cells = (f"{when:%H:%M:%S}", each.type, source_label(each.source), data)
            table.add_row(*(Text(safe_line(cell)) for cell in cells))
        return table


def _queue_line(queued: Sequence[DelayedBroadcast]) -> str:
    if not queued:
        return "nothing is scheduled"
    number = f"{len(queued)}" if len(queued) < QUEUED_MAX else f"{QUEUED_MAX} or more"
    first = queued[0]
    return f"{number} scheduled, next {safe_line(first.type)} at {iso_time(first.deliver_at)}"


async def follow_live(box: Interlock, pattern: str | None, newest: Sequence[Broadcast], position: int) -> None:
    screen = BroadcastScreen(pattern, newest)
    with Live(auto_refresh=False, screen=True) as live:

        async def redraw() -> None:
            live.update(screen.render(await box.signals.list_delayed(QUEUED_MAX)), refresh=True)

        async def follow_broadcasts() -> None:
            async for _, each in box.signals.stream(position):
                if pattern is None or matches(pattern, each.type):
                    screen.add(each)
                    await redraw()

        async def poll_queue() -> None:
            """The schedule also changes without a broadcast."""
            while True:
                await redraw()
                await asyncio.sleep(POLL_S)

        tasks = [asyncio.create_task(follow_broadcasts()), asyncio.create_task(poll_queue())]
        try:
            await asyncio.gather(*tasks)  # both run forever, so the first that ends has failed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
