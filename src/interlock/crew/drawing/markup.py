"""Boxes, lines and labels as the elements of SVG, those that lie above others last."""

from collections.abc import Iterator
from html import escape

from interlock.crew.diagram import DOES, Node, marks_of, plain
from interlock.crew.drawing.boxes import Box
from interlock.crew.drawing.curves import tip
from interlock.crew.drawing.lines import Line, Point
from interlock.crew.drawing.measures import END_HEIGHT, LINE_HEIGHT, PAD
from interlock.crew.drawing.routes import Routes
from interlock.crew.drawing.words import clipped, subtitle_of


def markup_of(boxes: list[Box], lines: list[Line], routes: Routes) -> list[str]:
    frames = [box for box in boxes if box.members or box.picture]
    layers = (
        (part for box in frames for part in _frame(box)),
        (part for line in lines for part in _line(line, routes)),
        (part for box in boxes if box not in frames for part in _node(box)),
        (part for box in frames for part in _frame_title(box)),
        (part for line in lines for part in _label(line)),
    )
    return [part for layer in layers for part in layer]


def escaped(text: str) -> str:
    return escape(plain(text))


def _text(place: Point, text: str, look: str) -> str:
    return f'<text class="{look}" x="{place[0]:.1f}" y="{place[1]:.1f}">{escape(text)}</text>'


def _rect(box: Box, look: str, radius: float) -> str:
    return (
        f'<rect class="{look}" x="{box.left:.1f}" y="{box.top:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def _tooltip(node: Node) -> str:
    words = [plain(node.label), *marks_of(node), node.closed, *node.notes]
    return f"<title>{escaped('; '.join(filter(None, words)))}</title>"


def _node(box: Box) -> Iterator[str]:
    node, subtitle = box.node, subtitle_of(box.node)
    look = f"node {node.kind}" + (" entry" if node.entry else "") + (" waits" if node.waits else "")
    yield f'<g data-name="{escaped(node.name)}">{_tooltip(node)}'
    yield _rect(box, look, END_HEIGHT / 2 if node.kind == "end" else 9)
    rise = 3 if subtitle else -4.5
    yield _text((box.x, box.middle - rise), clipped(node.label), f"name {node.kind}")
    if subtitle:
        yield _text((box.x, box.middle + 13), subtitle, "subtitle")
    yield "</g>"


def _frame(box: Box) -> Iterator[str]:
    """A box that has others inside."""
    node, picture = box.node, box.picture
    yield f'<g data-name="{escaped(node.name)}">{_tooltip(node)}'
    yield _rect(box, f"node {node.kind}", 14)
    if picture:
        x, y = box.x - picture.width / 2, box.bottom - picture.height
        yield from (f'<g class="inside" transform="translate({x:.1f} {y:.1f})">', *picture.markup, "</g>")
    yield "</g>"


def _frame_title(box: Box) -> Iterator[str]:
    yield _text((box.left + PAD, box.top + 20), clipped(box.node.label), f"title {box.node.kind}")
    if subtitle := subtitle_of(box.node):
        yield _text((box.left + PAD, box.top + 35), subtitle, f"subtitle start {box.node.kind}")


def _line(line: Line, routes: Routes) -> Iterator[str]:
    path, end, direction = routes.path(line)
    title = f"{line.source.node.label} → {line.target.node.label}: {DOES[line.kind]}"
    yield f'<path class="line {line.kind}" d="{path}"><title>{escaped(title)}</title></path>'
    yield f'<path class="tip {line.kind}" d="{tip(end, direction)}"/>'


def _label(line: Line) -> Iterator[str]:
    if not line.labels:
        return
    left, width, height = line.label_left, line.label_width, line.label_height
    middle = line.source.middle if line.way == "loop" else line.label_at[1]
    top = middle - height / 2
    yield (f'<rect class="halo" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"/>')
    for n, (label, kind) in enumerate(line.stack):
        yield _text((left + width / 2, top + 13 + n * LINE_HEIGHT), label, f"mark {kind}")
