"""The lanes beside all ranks, on which arrows run that pass a rank."""

from interlock.crew.drawing.across import edge_of
from interlock.crew.drawing.boxes import Box
from interlock.crew.drawing.lines import Bundle, Line, Side
from interlock.crew.drawing.measures import LANE, MARGIN, TRACKS_MAX
from interlock.crew.drawing.spans import Spans, lowest_free, widen


class Lanes:
    """Where the lane of every bundle is; lanes begin outside of all boxes and labels."""

    def __init__(self, rows: list[list[Box]], lines: list[Line]) -> None:
        self.starts: dict[Side, float] = {
            "left": min([edge_of(rows, "left"), *(line.label_left for line in lines)]) - LANE,
            "right": max([edge_of(rows, "right"), *(line.label_right for line in lines)]) + LANE,
        }
        self.places: dict[Bundle, float] = {}
        for side, spans in _spans(lines).items():
            step = LANE if side == "right" else -LANE
            for bundle, number in lowest_free(spans, TRACKS_MAX).items():
                self.places[bundle] = self.starts[side] + number * step

    def reach(self) -> tuple[float, float]:
        """The left and right edges of the picture."""
        left = min([self.starts["left"] + LANE, *self.places.values()]) - MARGIN
        right = max([self.starts["right"] - LANE, *self.places.values()]) + MARGIN
        return left, right


def _spans(lines: list[Line]) -> dict[Side, Spans[Bundle]]:
    spans: dict[Side, Spans[Bundle]] = {"left": {}, "right": {}}
    for line in lines:
        if line.way == "around":
            leaves = line.source.block.rank + (0.0 if line.leaves_aside else 0.5)
            arrives = line.target.block.rank - (0.0 if line.arrives_aside else 0.5)
            widen(spans[line.side], line.bundle, leaves, arrives)
    return spans
