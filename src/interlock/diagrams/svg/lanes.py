"""The lanes beside all ranks, on which arrows run that pass a rank."""

from interlock.diagrams.svg.across import outer_edge
from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import Bundle, EdgeLine, Side
from interlock.diagrams.svg.measures import LANE, MARGIN, TRACKS_MAX
from interlock.diagrams.svg.spans import Spans, assign_tracks, widen


class Lanes:
    """The positions of the lanes, one per bundle, outside of all boxes and labels."""

    def __init__(self, rows: list[list[Box]], lines: list[EdgeLine]) -> None:
        self.starts: dict[Side, float] = {
            "left": min([outer_edge(rows, "left"), *(line.label_left for line in lines)]) - LANE,
            "right": max([outer_edge(rows, "right"), *(line.label_right for line in lines)]) + LANE,
        }
        self.places: dict[Bundle, float] = {}
        for side, spans in _spans(lines).items():
            step = LANE if side == "right" else -LANE
            for bundle, number in assign_tracks(spans, TRACKS_MAX).items():
                self.places[bundle] = self.starts[side] + number * step

    def edges(self) -> tuple[float, float]:
        """The left and right edges of the picture."""
        left = min([self.starts["left"] + LANE, *self.places.values()]) - MARGIN
        right = max([self.starts["right"] - LANE, *self.places.values()]) + MARGIN
        return left, right


def _spans(lines: list[EdgeLine]) -> dict[Side, Spans[Bundle]]:
    spans: dict[Side, Spans[Bundle]] = {"left": {}, "right": {}}
    for line in lines:
        if line.way == "around":
            leaves = line.source.block.rank + (0.0 if line.leaves_aside else 0.5)
            arrives = line.target.block.rank - (0.0 if line.arrives_aside else 0.5)
            widen(spans[line.side], line.bundle, leaves, arrives)
    return spans
