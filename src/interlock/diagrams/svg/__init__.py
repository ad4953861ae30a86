"""A diagram as one self-contained SVG, laid out in ranks from top to bottom.

Rule 1: a rank is the shortest way from the entry, so an arrow down spans one rank; every other arrow is special.
Rule 2: between two ranks lies a channel: labels in rows above, level runs of long arrows on tracks below.
Rule 3: arrows over several ranks leave through channels and run on lanes beside all ranks, never across a box.
Rule 4: every pass is linear or sorts; nothing compares all pairs.
"""

from interlock.diagrams.model import Diagram
from interlock.diagrams.svg.across import place_across
from interlock.diagrams.svg.boxes import Picture, boxes_of, make_room_for_members
from interlock.diagrams.svg.channels import Channels
from interlock.diagrams.svg.lanes import Lanes
from interlock.diagrams.svg.lines import choose_ways, lines_of
from interlock.diagrams.svg.markup import escape_label, markup_of
from interlock.diagrams.svg.ports import Ports
from interlock.diagrams.svg.ranks import assign_ranks, order_rows
from interlock.diagrams.svg.routes import LinePaths
from interlock.diagrams.svg.sides import BoxSides
from interlock.diagrams.svg.style import STYLE

__all__ = ["as_svg"]


def as_svg(diagram: Diagram) -> str:
    """The whole diagram with its sub-crews; light or dark like the reader's system."""
    picture = _picture(diagram)
    width, height = f"{picture.width:.0f}", f"{picture.height:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="interlock" role="img" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    title = f"<title>{escape_label(diagram.name)}</title>"
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return "\n".join([head, title, f"<style>{STYLE}</style>", paper, *picture.markup, "</svg>"]) + "\n"


def _picture(diagram: Diagram) -> Picture:
    """Runs every layout pass over one crew; each builds on the ones before it."""
    insides = {node.id: _picture(node.inside) for node in diagram.nodes if node.inside and node.inside.nodes}
    boxes = boxes_of(diagram, insides)
    lines = lines_of(diagram, boxes)
    make_room_for_members(boxes.values())
    rows = order_rows(assign_ranks([box for box in boxes.values() if box.owner is None], lines), lines)
    choose_ways(lines)
    place_across(rows, lines)
    sides = BoxSides(rows, lines)
    ports = Ports(lines)
    channels = Channels(rows, lines, ports)
    sides.place_labels(lines)
    lanes = Lanes(rows, lines)
    left, right = lanes.edges()
    body = markup_of(list(boxes.values()), lines, LinePaths(sides, ports, channels, lanes))
    return Picture(right - left, channels.height, [f'<g transform="translate({-left:.1f} 0)">', *body, "</g>"])
