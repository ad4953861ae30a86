"""`interlock broadcast tail -f` on a terminal: the newest broadcasts, how many of each type, and what comes next."""

from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.broadcast.pattern import matches
from interlock.broadcast.record import UNSET, Broadcast, said
from interlock.cli.crews import shown
from interlock.compose.box import Interlock

# Rows for the newest, and for the types that come most often.
NEWEST, TYPES = 20, 6


class Board:
    """What is on the screen."""

    def __init__(self, pattern: str | None, newest: Sequence[Broadcast]) -> None:
        self.pattern = pattern
        self.newest: deque[Broadcast] = deque(newest, maxlen=NEWEST)
        self.counts: Counter[str] = Counter()

    def add(self, each: Broadcast) -> None:
        self.newest.append(each)
        self.counts[each.type] += 1

    def drawn(self, queued: int) -> Group:
        total = sum(self.counts.values())
        title = Text(f"broadcasts of {shown(self.pattern) if self.pattern else 'every type'}", style="bold")
        title.append(f"   {total} since we listen   {queued} for later   Ctrl-C ends it", style="dim")
        often = "   ".join(f"{shown(kind)} {count}" for kind, count in self.counts.most_common(TYPES))
        return Group(title, Text(often, style="cyan"), self._rows())

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


async def followed_live(box: Interlock, pattern: str | None, newest: Sequence[Broadcast], position: int) -> None:
    board = Board(pattern, newest)
    with Live(board.drawn(len(await box.signals.delayed())), auto_refresh=False, screen=True) as live:
        async for _, each in box.signals.stream(position):
            if pattern is None or matches(pattern, each.type):
                board.add(each)
                live.update(board.drawn(len(await box.signals.delayed())), refresh=True)
