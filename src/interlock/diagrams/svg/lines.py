"""Arrows that share both ends, drawn as one line, and the path of the line.

A line loops at its box, runs beside or under the boxes of its rank, leads directly to the next rank, or around all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interlock.diagrams.model import Diagram, EdgeKind, column_width, label_of
from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.measures import LINE_HEIGHT, LOOP, MARK_COLUMN, SLOTS_MAX, STACK_MAX
from interlock.diagrams.svg.words import clip_label

Side = Literal["left", "right"]
Way = Literal["loop", "beside", "direct", "under", "around"]
Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class EdgeLine:
    """All arrows of one kind from one box to another, drawn as one."""

    source: Box
    target: Box
    kind: EdgeKind
    labels: list[tuple[str, EdgeKind]] = field(default_factory=list)
    way: Way = "direct"
    side: Side = "right"
    leaves_aside: bool = False
    arrives_aside: bool = False
    label_at: Point = (0.0, 0.0)

    @property
    def stack(self) -> list[tuple[str, EdgeKind]]:
        shown = [(clip_label(label), kind) for label, kind in self.labels[:STACK_MAX]]
        more = len(self.labels) - STACK_MAX
        return [*shown, (f"and {more} more", self.kind)] if more > 0 else shown

    @property
    def label_width(self) -> float:
        return max((column_width(label) * MARK_COLUMN for label, _ in self.stack), default=0.0) + 10

    @property
    def label_height(self) -> float:
        return len(self.stack) * LINE_HEIGHT + 4

    @property
    def label_left(self) -> float:
        if not self.labels:
            return self.source.x
        return self.source.max_x + LOOP if self.way == "loop" else self.label_at[0] - self.label_width / 2

    @property
    def label_right(self) -> float:
        return self.label_left + self.label_width if self.labels else self.source.x

    @property
    def bundle(self) -> "Bundle":
        """The bundle of the line: long arrows of one kind to one box share their path from the lane on."""
        return self.target, self.kind, self.side

    @property
    def far_aside(self) -> float:
        """The horizontal direction of its lane, seen from any box."""
        return float("inf") if self.side == "right" else float("-inf")

    @property
    def is_downward(self) -> bool:
        return self.source.block.rank < self.target.block.rank

    @property
    def channel(self) -> int:
        """The channel that holds the label: above the lower of two boxes, else below the source."""
        a, b = self.source.block.rank, self.target.block.rank
        return max(a, b) if self.way == "direct" else a + 1


Bundle = tuple[Box, EdgeKind, Side]


def lines_of(diagram: Diagram, boxes: Mapping[str, Box]) -> list[EdgeLine]:
    lines: dict[tuple[str, str, str], EdgeLine] = {}
    for edge in diagram.edges:
        source, target = boxes[edge.source], boxes[edge.target]
        if edge.kind == "member" and target.owner is source:
            continue
        # All arrows from a box to itself share one loop.
        key = (edge.source, edge.target, "" if source is target else edge.kind)
        line = lines.setdefault(key, EdgeLine(source, target, edge.kind))
        if edge.kind != "member":
            line.labels.append((label_of(edge), edge.kind))
    for line in lines.values():
        if line.source is line.target:
            line.way = "loop"
            line.source.loop_width = LOOP + line.label_width + 4
    return list(lines.values())


def choose_ways(lines: list[EdgeLine]) -> None:
    beside: dict[tuple[Box, Box], int] = {}
    for line in lines:
        if line.way == "loop":
            continue
        line.way = _way_of(line)
        pair = (line.source, line.target) if line.source.order < line.target.order else (line.target, line.source)
        if line.way == "beside":
            beside[pair] = beside.get(pair, 0) + 1
            line.way = "beside" if beside[pair] <= SLOTS_MAX else "under"


def _way_of(line: EdgeLine) -> Way:
    a, b = line.source.block, line.target.block
    if a.rank != b.rank:
        return "direct" if abs(a.rank - b.rank) == 1 else "around"
    left = a if a.order < b.order else b
    are_blocks = line.source is a and line.target is b
    return "beside" if abs(a.order - b.order) == 1 and are_blocks and not left.loop_width else "under"
