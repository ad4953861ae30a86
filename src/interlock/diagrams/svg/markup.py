"""Boxes, lines and labels as SVG elements; later ones are drawn on top."""

from collections.abc import Iterator
from html import escape

from interlock.diagrams.model import EDGE_ACTIONS, DiagramNode, marks_of, plain_line
from interlock.diagrams.svg.boxes import Box
from interlock.diagrams.svg.curves import tip_path
from interlock.diagrams.svg.lines import EdgeLine, Point
from interlock.diagrams.svg.measures import END_HEIGHT, LINE_HEIGHT, PAD
from interlock.diagrams.svg.routes import LinePaths
from interlock.diagrams.svg.words import clip_label, subtitle_of


def markup_of(boxes: list[Box], lines: list[EdgeLine], routes: LinePaths) -> list[str]:
    frames = [box for box in boxes if box.members or box.picture]
    layers = (
        (part for box in frames for part in _frame(box)),
        (part for line in lines for part in _line(line, routes)),
        (part for box in boxes if box not in frames for part in _node(box)),
        (part for box in frames for part in _frame_title(box)),
        (part for line in lines for part in _label(line)),
    )
    return [part for layer in layers for part in layer]


def escape_label(text: str) -> str:
    return escape(plain_line(text))


def _text(place: Point, text: str, look: str) -> str:
    return f'<text class="{look}" x="{place[0]:.1f}" y="{place[1]:.1f}">{escape(text)}</text>'


def _rect(box: Box, look: str, radius: float) -> str:
    return (
        f'<rect class="{look}" x="{box.min_x:.1f}" y="{box.top:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def _tooltip(node: DiagramNode) -> str:
    words = [plain_line(node.label), *marks_of(node), node.closed, *node.notes]
    return f"<title>{escape_label('; '.join(filter(None, words)))}</title>"


def _node(box: Box) -> Iterator[str]:
    node, subtitle = box.node, subtitle_of(box.node)
    look = f"node {node.kind}" + (" entry" if node.entry else "") + (" waits" if node.waits else "")
    yield f'<g data-name="{escape_label(node.name)}">{_tooltip(node)}'
    yield _rect(box, look, END_HEIGHT / 2 if node.kind == "end" else 9)
    rise = 3 if subtitle else -4.5
    yield _text((box.x, box.middle - rise), clip_label(node.label), f"name {node.kind}")
    if subtitle:
        yield _text((box.x, box.middle + 13), subtitle, "subtitle")
    yield "</g>"


def _frame(box: Box) -> Iterator[str]:
    """A box with other boxes inside."""
    node, picture = box.node, box.picture
    yield f'<g data-name="{escape_label(node.name)}">{_tooltip(node)}'
    yield _rect(box, f"node {node.kind}", 14)
    if picture:
        x, y = box.x - picture.width / 2, box.bottom - picture.height
        yield from (f'<g class="inside" transform="translate({x:.1f} {y:.1f})">', *picture.markup, "</g>")
    yield "</g>"


def _frame_title(box: Box) -> Iterator[str]:
    yield _text((box.min_x + PAD, box.top + 20), clip_label(box.node.label), f"title {box.node.kind}")
    if subtitle := subtitle_of(box.node):
        yield _text((box.min_x + PAD, box.top + 35), subtitle, f"subtitle start {box.node.kind}")


def _line(line: EdgeLine, routes: LinePaths) -> Iterator[str]:
    path, end, direction = routes.path(line)
    title = f"{line.source.node.label} → {line.target.node.label}: {EDGE_ACTIONS[line.kind]}"
    yield f'<path class="line {line.kind}" d="{path}"><title>{escape_label(title)}</title></path>'
    yield f'<path class="tip {line.kind}" d="{tip_path(end, direction)}"/>'


def _label(line: EdgeLine) -> Iterator[str]:
    if not line.labels:
        return
    left, width, height = line.label_left, line.label_width, line.label_height
    middle = line.source.middle if line.way == "loop" else line.label_at[1]
    top = middle - height / 2
    yield (f'<rect class="halo" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"/>')
    for n, (label, kind) in enumerate(line.stack):
        yield _text((left + width / 2, top + 13 + n * LINE_HEIGHT), label, f"mark {kind}")
