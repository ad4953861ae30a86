"""Points to the paths of SVG: curves, loops, rounded corners and tips."""

from interlock.crew.drawing.boxes import Box
from interlock.crew.drawing.lines import Point
from interlock.crew.drawing.measures import CORNER, LOOP


def at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def curve(start: Point, through: Point | None, end: Point) -> str:
    """Leaves and arrives upright, and passes through the label on the way."""
    (sx, sy), (ex, ey) = start, end
    if through is None:
        half = (ey - sy) / 2
        return f"C{at((sx, sy + half))} {at((ex, ey - half))} {at(end)}"
    x, y = through
    slope = (ex - sx) / (ey - sy)
    before, after = (y - sy) / 2, (ey - y) / 2
    first = f"C{at((sx, sy + before))} {at((x - slope * before, y - before))} {at(through)}"
    return f"{first} C{at((x + slope * after, y + after))} {at((ex, ey - after))} {at(end)}"


def loop(box: Box) -> tuple[str, Point, Point]:
    x, y, out = box.right, box.middle, box.right + LOOP
    path = f"M{at((x, y - 10))} C{at((out, y - 22))} {at((out, y + 22))} {at((x, y + 10))}"
    return path, (x, y + 10), (-1.0, 0.0)


def direction(before: Point, end: Point) -> Point:
    if abs(end[0] - before[0]) > abs(end[1] - before[1]):
        return (1.0 if end[0] > before[0] else -1.0), 0.0
    return 0.0, (1.0 if end[1] > before[1] else -1.0)


def rounded(points: list[Point]) -> str:
    parts = [f"M{at(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        parts.append(f"L{at(_toward(corner, before))} Q{at(corner)} {at(_toward(corner, after))}")
    return " ".join([*parts, f"L{at(points[-1])}"])


def _toward(corner: Point, other: Point) -> Point:
    """A little way from the corner, at most half of the way."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = abs(dx) + abs(dy)
    share = min(CORNER, length / 2) / length if length else 0.0
    return corner[0] + dx * share, corner[1] + dy * share


def tip(end: Point, direction: Point) -> str:
    (x, y), (dx, dy) = end, direction
    left = (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx)
    right = (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)
    return f"M{at(end)} L{at(left)} L{at(right)}Z"
