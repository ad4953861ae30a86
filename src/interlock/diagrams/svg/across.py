"""Horizontal positions of boxes: near the middle of their neighbours, with room for labels between them."""

from itertools import pairwise

from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import EdgeLine, Side
from interlock.diagrams.svg.measures import GAP, PAD, SWEEPS
from interlock.diagrams.svg.ranks import links_of


def place_across(rows: list[list[Box]], lines: list[EdgeLine]) -> None:
    _widen_for_arrows(lines)
    gaps, linked = _gaps(rows, lines), links_of(lines)
    for row, apart in zip(rows, gaps, strict=True):
        _place_row(row, [0.0] * len(row), apart)
    for sweep in range(2 * SWEEPS):
        step = -1 if sweep % 2 == 0 else 1
        for row, apart in list(zip(rows, gaps, strict=True))[::step]:
            _place_row(row, [_mean_neighbour_x(box, linked, box.rank - step) for box in row], apart)
    for row in rows:
        for box in row:
            _place_members(box)


def _widen_for_arrows(lines: list[EdgeLine]) -> None:
    degrees: dict[Box, int] = {}
    for line in lines:
        for box in (line.source, line.target):
            degrees[box] = degrees.get(box, 0) + 1
    for box, degree in degrees.items():
        if not box.members:
            box.width = max(box.width, min(degree * 9.0, 360.0))


def _gaps(rows: list[list[Box]], lines: list[EdgeLine]) -> list[list[float]]:
    """The least distances between the middles of neighbours, rank by rank."""
    labels: dict[tuple[int, int], float] = {}
    for line in lines:
        if line.way == "beside":
            key = (line.source.rank, min(line.source.order, line.target.order))
            labels[key] = max(labels.get(key, 0.0), line.label_width + 2 * PAD)
    return [
        [
            (a.width + b.width) / 2 + a.loop_width + max(GAP, labels.get((a.rank, a.order), 0.0))
            for a, b in pairwise(row)
        ]
        for row in rows
    ]


def _mean_neighbour_x(box: Box, linked: dict[Box, list[Box]], rank: int) -> float:
    places = [other.x for other in linked.get(box, ()) if other.rank == rank]
    return sum(places) / len(places) if places else box.x


def _place_row(row: list[Box], wished: list[float], apart: list[float]) -> None:
    """Places a row as near to its wishes as its order and distances allow (least squares, by pooling)."""
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wished, offsets, strict=True):
        total, count = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    places = [total / count for total, count in pools for _ in range(count)]
    for box, place, offset in zip(row, places, offsets, strict=True):
        box.x = place + offset


def _place_members(box: Box) -> None:
    left = box.x - box.members_width / 2
    for member in box.members:
        member.x = left + member.width / 2
        left += member.width + member.loop_width + PAD


def outer_edge(rows: list[list[Box]], side: Side) -> float:
    """The outermost edge of all ranks, with the loops there."""
    if side == "left":
        return min((row[0].min_x for row in rows), default=0.0)
    return max((row[-1].max_x + row[-1].loop_width for row in rows), default=0.0)
