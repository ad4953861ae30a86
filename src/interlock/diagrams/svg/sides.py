"""The left and right sides of boxes: slots for arrows to neighbours, and to lanes with no box between."""

from interlock.diagrams.svg.across import outer_edge
from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import Bundle, EdgeLine, Point, Side
from interlock.diagrams.svg.measures import PAD, SLOT, SLOTS_MAX


class BoxSides:
    """Gives out the slots, and makes boxes tall enough for theirs."""

    def __init__(self, rows: list[list[Box]], lines: list[EdgeLine]) -> None:
        self.rows = rows
        self.slots: dict[tuple[Box, Side], dict[EdgeLine | Bundle, int]] = {}
        self._assign_slots(lines)
        for (box, _), slots in self.slots.items():
            box.height = max(box.height, len(slots) * SLOT + PAD)

    def _assign_slots(self, lines: list[EdgeLine]) -> None:
        middle = (outer_edge(self.rows, "left") + outer_edge(self.rows, "right")) / 2
        for line in lines:
            if line.way == "around":
                line.side = "left" if line.source.x + line.target.x < 2 * middle - 1 else "right"
                line.leaves_aside = self._claim_slot(line.source, line.side, line, line.target.block.rank)
                line.arrives_aside = self._claim_slot(line.target, line.side, line.bundle, line.source.block.rank)
            elif line.way == "beside":
                for end in _facing_sides(line):
                    self.slots.setdefault(end, {})[line] = 0

    def _claim_slot(self, box: Box, side: Side, key: EdgeLine | Bundle, other_rank: int) -> bool:
        outermost = self.rows[box.block.rank][-1 if side == "right" else 0]
        if box is not outermost or (side == "right" and box.loop_width):
            return False
        slots = self.slots.setdefault((box, side), {})
        if key not in slots and len(slots) == SLOTS_MAX:
            return False
        slots.setdefault(key, other_rank)
        return True

    def slot_point(self, box: Box, side: Side, key: EdgeLine | Bundle) -> Point:
        slots = self.slots[box, side]
        place = sorted(slots, key=lambda each: slots[each]).index(key)
        y = box.middle + (place - (len(slots) - 1) / 2) * SLOT
        return (box.max_x if side == "right" else box.min_x), y

    def points_beside(self, line: EdgeLine) -> list[Point]:
        """The points of an arrow to a neighbour in the same rank."""
        return [self.slot_point(box, side, line) for box, side in _facing_sides(line)]

    def place_labels(self, lines: list[EdgeLine]) -> None:
        """Puts labels on the arrows that leave at a side, once the boxes have their heights."""
        for line in lines:
            if line.way == "beside":
                start, end = self.points_beside(line)
                line.label_at = ((start[0] + end[0]) / 2, start[1])
            elif line.leaves_aside:
                x, y = self.slot_point(line.source, line.side, line)
                out = line.label_width / 2 + 8
                line.label_at = (x + out if line.side == "right" else x - out, y)


def _facing_sides(line: EdgeLine) -> tuple[tuple[Box, Side], tuple[Box, Side]]:
    """The sides that two neighbours turn to each other, that of the source first."""
    if line.source.order < line.target.order:
        return (line.source, "right"), (line.target, "left")
    return (line.source, "left"), (line.target, "right")
