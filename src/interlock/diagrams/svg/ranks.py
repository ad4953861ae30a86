"""The rank of each block and its place in the row, chosen so that few arrows cross."""

from collections import deque
from collections.abc import Iterable

from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import EdgeLine
from interlock.diagrams.svg.measures import SWEEPS


def assign_ranks(blocks: list[Box], lines: list[EdgeLine]) -> list[list[Box]]:
    """Ranks the blocks by distance from the entry; unreachable blocks start at the top again."""
    ahead = _neighbours(lines)
    starts = sorted(blocks, key=lambda box: not _holds_entry(box))
    seen: dict[Box, None] = {}
    for start in starts:
        if start not in seen and start.node.kind != "end":
            _rank_from(start, ahead, seen)
    _place_end_last(blocks, lines)
    rows: list[list[Box]] = [[] for _ in range(max((box.rank for box in blocks), default=-1) + 1)]
    for box in [*seen, *(box for box in blocks if box not in seen)]:
        rows[box.rank].append(box)
    return [row for row in rows if row]


def _holds_entry(box: Box) -> bool:
    return box.node.entry or any(member.node.entry for member in box.members)


def _neighbours(lines: Iterable[EdgeLine]) -> dict[Box, list[Box]]:
    ahead: dict[Box, list[Box]] = {}
    for line in lines:
        if line.target.node.kind != "end":
            ahead.setdefault(line.source.block, []).append(line.target.block)
    return ahead


def _rank_from(start: Box, ahead: dict[Box, list[Box]], seen: dict[Box, None]) -> None:
    queue = deque([start])
    seen[start] = None
    while queue:
        box = queue.popleft()
        for other in ahead.get(box, ()):
            if other not in seen:
                seen[other] = None
                other.rank = box.rank + 1
                queue.append(other)


def _place_end_last(blocks: list[Box], lines: list[EdgeLine]) -> None:
    """Puts the end below everything that leads to it, so that ending always points down."""
    for box in blocks:
        if box.node.kind == "end":
            box.rank = max((line.source.block.rank + 1 for line in lines if line.target is box), default=0)


def order_rows(rows: list[list[Box]], lines: list[EdgeLine]) -> list[list[Box]]:
    """Sweeps down and up, each time sorting a rank by the middle of its neighbours in the rank before."""
    for rank, row in enumerate(rows):
        for order, box in enumerate(row):
            box.rank, box.order = rank, order
    linked = links_of(lines)
    for sweep in range(SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for row in rows[::step]:
            _sort_by_neighbours(row, linked, row[0].rank - step)
    return rows


def links_of(lines: Iterable[EdgeLine]) -> dict[Box, list[Box]]:
    """Blocks one rank apart that an arrow joins, seen from both ends."""
    linked: dict[Box, list[Box]] = {}
    for line in lines:
        a, b = line.source.block, line.target.block
        if abs(a.rank - b.rank) == 1:
            linked.setdefault(a, []).append(b)
            linked.setdefault(b, []).append(a)
    return linked


def _sort_by_neighbours(row: list[Box], linked: dict[Box, list[Box]], rank: int) -> None:
    def middle(box: Box) -> float:
        orders = [other.order for other in linked.get(box, ()) if other.rank == rank]
        return sum(orders) / len(orders) if orders else float(box.order)

    row.sort(key=middle)
    for order, box in enumerate(row):
        box.order = order
