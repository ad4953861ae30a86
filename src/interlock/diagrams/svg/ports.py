"""The points on the upper and lower edges of boxes where arrows leave or arrive."""

from collections.abc import Iterator

from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import Bundle, EdgeLine


class Ports:
    """Spreads arrows evenly over an edge, in the order of their other ends."""

    def __init__(self, lines: list[EdgeLine]) -> None:
        wishes: dict[tuple[Box, bool], dict[EdgeLine | Bundle, float]] = {}
        for line in lines:
            for box, is_top, key, wish in _port_requests(line):
                wishes.setdefault((box, is_top), {}).setdefault(key, wish)
        self.crowds = {edge: len(keys) for edge, keys in wishes.items()}
        self.places: dict[tuple[Box, bool, EdgeLine | Bundle], float] = {}
        for (box, is_top), keys in wishes.items():
            for n, key in enumerate(sorted(keys, key=lambda each: keys[each]), 1):
                self.places[box, is_top, key] = box.min_x + box.width * n / (len(keys) + 1)

    def above(self, box: Box, key: EdgeLine | Bundle) -> float:
        return self.places[box, True, key]

    def below(self, box: Box, key: EdgeLine | Bundle) -> float:
        return self.places[box, False, key]

    def ends(self, line: EdgeLine) -> tuple[float, float]:
        """Both ends of a direct line."""
        down = line.is_downward
        return self.places[line.source, not down, line], self.places[line.target, down, line]

    def label_x(self, line: EdgeLine) -> float:
        """The position of the label on its arrow, nearer to the end with fewer arrows."""
        if line.way != "direct":
            return self.below(line.source, line)
        (start, end), down = self.ends(line), line.is_downward
        here, there = self.crowds[line.source, not down], self.crowds[line.target, down]
        return start + (end - start) * min(max(here / (here + there), 0.3), 0.7)


def _port_requests(line: EdgeLine) -> Iterator[tuple[Box, bool, EdgeLine | Bundle, float]]:
    source, target = line.source, line.target
    if line.way == "direct":
        yield source, not line.is_downward, line, target.x
        yield target, line.is_downward, line, source.x
    elif line.way == "under":
        yield source, False, line, target.x
        yield target, False, line, source.x
    elif line.way == "around" and not line.leaves_aside:
        yield source, False, line, line.far_aside
    if line.way == "around" and not line.arrives_aside:
        yield target, True, line.bundle, line.far_aside
