"""The upper and lower edges of boxes: where on them each arrow leaves or arrives."""

from collections.abc import Iterator

from interlock.crew.drawing.boxes import Box
from interlock.crew.drawing.lines import Bundle, Line


class Ports:
    """Spread evenly over an edge, in the order in which the other ends stand."""

    def __init__(self, lines: list[Line]) -> None:
        wishes: dict[tuple[Box, bool], dict[Line | Bundle, float]] = {}
        for line in lines:
            for box, is_top, key, wish in _wanted(line):
                wishes.setdefault((box, is_top), {}).setdefault(key, wish)
        self.crowds = {edge: len(keys) for edge, keys in wishes.items()}
        self.places: dict[tuple[Box, bool, Line | Bundle], float] = {}
        for (box, is_top), keys in wishes.items():
            for n, key in enumerate(sorted(keys, key=lambda each: keys[each]), 1):
                self.places[box, is_top, key] = box.left + box.width * n / (len(keys) + 1)

    def above(self, box: Box, key: Line | Bundle) -> float:
        return self.places[box, True, key]

    def below(self, box: Box, key: Line | Bundle) -> float:
        return self.places[box, False, key]

    def ends(self, line: Line) -> tuple[float, float]:
        """Both ends of a direct line."""
        down = line.goes_down
        return self.places[line.source, not down, line], self.places[line.target, down, line]

    def label_x(self, line: Line) -> float:
        """On its arrow, nearer to the end where fewer arrows meet."""
        if line.way != "direct":
            return self.below(line.source, line)
        (start, end), down = self.ends(line), line.goes_down
        here, there = self.crowds[line.source, not down], self.crowds[line.target, down]
        return start + (end - start) * min(max(here / (here + there), 0.3), 0.7)


def _wanted(line: Line) -> Iterator[tuple[Box, bool, Line | Bundle, float]]:
    source, target = line.source, line.target
    if line.way == "direct":
        yield source, not line.goes_down, line, target.x
        yield target, line.goes_down, line, source.x
    elif line.way == "under":
        yield source, False, line, target.x
        yield target, False, line, source.x
    elif line.way == "around" and not line.leaves_aside:
        yield source, False, line, line.far_aside
    if line.way == "around" and not line.arrives_aside:
        yield target, True, line.bundle, line.far_aside
