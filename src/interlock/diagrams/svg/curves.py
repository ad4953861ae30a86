"""SVG paths from points: curves, loops, rounded corners and tips."""

from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.lines import Point
from interlock.diagrams.svg.measures import CORNER, LOOP


def point_text(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def curve_path(start: Point, through: Point | None, end: Point) -> str:
    """A curve that starts and ends vertically and passes through the label."""
    (sx, sy), (ex, ey) = start, end
    if through is None:
        half = (ey - sy) / 2
        return f"C{point_text((sx, sy + half))} {point_text((ex, ey - half))} {point_text(end)}"
    x, y = through
    slope = (ex - sx) / (ey - sy)
    before, after = (y - sy) / 2, (ey - y) / 2
    first = f"C{point_text((sx, sy + before))} {point_text((x - slope * before, y - before))} {point_text(through)}"
    return f"{first} C{point_text((x + slope * after, y + after))} {point_text((ex, ey - after))} {point_text(end)}"


def loop_path(box: Box) -> tuple[str, Point, Point]:
    x, y, out = box.max_x, box.middle, box.max_x + LOOP
    path = (
        f"M{point_text((x, y - 10))} C{point_text((out, y - 22))} {point_text((out, y + 22))} {point_text((x, y + 10))}"
    )
    return path, (x, y + 10), (-1.0, 0.0)


def direction(before: Point, end: Point) -> Point:
    if abs(end[0] - before[0]) > abs(end[1] - before[1]):
        return (1.0 if end[0] > before[0] else -1.0), 0.0
    return 0.0, (1.0 if end[1] > before[1] else -1.0)


def polyline_path(points: list[Point]) -> str:
    parts = [f"M{point_text(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        parts.append(
            f"L{point_text(_toward(corner, before))} Q{point_text(corner)} {point_text(_toward(corner, after))}"
        )
    return " ".join([*parts, f"L{point_text(points[-1])}"])


def _toward(corner: Point, other: Point) -> Point:
    """A little way from the corner, at most half of the way."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = abs(dx) + abs(dy)
    share = min(CORNER, length / 2) / length if length else 0.0
    return corner[0] + dx * share, corner[1] + dy * share


def tip_path(end: Point, direction: Point) -> str:
    (x, y), (dx, dy) = end, direction
    left = (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx)
    right = (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)
    return f"M{point_text(end)} L{point_text(left)} L{point_text(right)}Z"
