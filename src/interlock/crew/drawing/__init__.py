"""A diagram as one self-contained SVG, laid out in ranks from top to bottom.

Rule 1: a rank is the shortest way from the entry, so an arrow down spans one rank; every other arrow is special.
Rule 2: between two ranks lies a channel: labels in rows above, level runs of long arrows on tracks below.
Rule 3: arrows over several ranks leave through channels and run on lanes beside all ranks, never across a box.
Rule 4: every pass is linear or sorts; nothing compares all pairs.
"""

from interlock.crew.diagram import Diagram
from interlock.crew.drawing.across import place_across
from interlock.crew.drawing.boxes import Picture, boxes_of, make_room_for_members
from interlock.crew.drawing.channels import Channels
from interlock.crew.drawing.lanes import Lanes
from interlock.crew.drawing.lines import choose_ways, lines_of
from interlock.crew.drawing.markup import escaped, markup_of
from interlock.crew.drawing.ports import Ports
from interlock.crew.drawing.ranks import ordered, ranked
from interlock.crew.drawing.routes import Routes
from interlock.crew.drawing.sides import Sides
from interlock.crew.drawing.style import STYLE

__all__ = ["as_svg"]


def as_svg(diagram: Diagram) -> str:
    """The whole diagram, with the crews inside it; light or dark as the reader's system is."""
    picture = _picture(diagram)
    width, height = f"{picture.width:.0f}", f"{picture.height:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="interlock" role="img" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    title = f"<title>{escaped(diagram.name)}</title>"
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return "\n".join([head, title, f"<style>{STYLE}</style>", paper, *picture.markup, "</svg>"]) + "\n"


def _picture(diagram: Diagram) -> Picture:
    """Every pass over one crew; each needs what those before it have placed."""
    insides = {node.id: _picture(node.inside) for node in diagram.nodes if node.inside and node.inside.nodes}
    boxes = boxes_of(diagram, insides)
    lines = lines_of(diagram, boxes)
    make_room_for_members(boxes.values())
    rows = ordered(ranked([box for box in boxes.values() if box.owner is None], lines), lines)
    choose_ways(lines)
    place_across(rows, lines)
    sides = Sides(rows, lines)
    ports = Ports(lines)
    channels = Channels(rows, lines, ports)
    sides.place_labels(lines)
    lanes = Lanes(rows, lines)
    left, right = lanes.reach()
    body = markup_of(list(boxes.values()), lines, Routes(sides, ports, channels, lanes))
    return Picture(right - left, channels.height, [f'<g transform="translate({-left:.1f} 0)">', *body, "</g>"])
