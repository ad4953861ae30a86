"""Nodes as boxes, with the members of small groups and the crews of sub-crews inside them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from interlock.diagrams.model import Diagram, DiagramNode
from interlock.diagrams.svg.measures import END_HEIGHT, HOSTED_MAX, NODE_HEIGHT, PAD, TITLE_HEIGHT
from interlock.diagrams.svg.words import text_width


@dataclass(slots=True)
class Picture:
    width: float
    height: float
    markup: list[str]


@dataclass(slots=True, eq=False)
class Box:
    """A node with its place. `x` is its middle, `top` its upper edge; a member's place is inside its owner."""

    node: DiagramNode
    width: float
    height: float
    members: list["Box"] = field(default_factory=list)
    picture: Picture | None = None
    owner: "Box | None" = None
    loop_width: float = 0.0
    rank: int = 0
    order: int = 0
    x: float = 0.0
    top: float = 0.0

    @property
    def block(self) -> "Box":
        return self.owner or self

    @property
    def min_x(self) -> float:
        return self.x - self.width / 2

    @property
    def max_x(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> float:
        return self.top + self.height / 2

    @property
    def members_width(self) -> float:
        return sum(m.width + m.loop_width for m in self.members) + PAD * (len(self.members) - 1)


def boxes_of(diagram: Diagram, insides: Mapping[str, Picture]) -> dict[str, Box]:
    """A box for every node by its id, around the picture of the crew inside it."""
    boxes = {node.id: _box(node, insides.get(node.id)) for node in diagram.nodes}
    for group, members in _members_drawn_inside(diagram).items():
        boxes[group].members = [boxes[member] for member in members]
        for member in members:
            boxes[member].owner = boxes[group]
    return boxes


def _members_drawn_inside(diagram: Diagram) -> dict[str, list[str]]:
    """The members that are drawn inside their group: those of one small group only."""
    kinds = {node.id: node.kind for node in diagram.nodes}
    entries = {node.id for node in diagram.nodes if node.entry}
    groups: dict[str, list[str]] = {}
    homes: dict[str, int] = {}
    for edge in diagram.edges:
        if edge.kind == "member" and kinds[edge.source] == "group":
            groups.setdefault(edge.source, []).append(edge.target)
            homes[edge.target] = homes.get(edge.target, 0) + 1
    return {
        group: members
        for group, members in groups.items()
        if len(members) <= HOSTED_MAX
        and all(homes[m] == 1 and m not in entries and kinds[m] != "unknown" for m in members)
    }


def _box(node: DiagramNode, picture: Picture | None) -> Box:
    if node.kind == "end":
        return Box(node, 74.0, END_HEIGHT)
    width = text_width(node) + 2 * PAD
    if picture is None:
        return Box(node, max(width, 96.0), NODE_HEIGHT)
    return Box(node, max(width, picture.width), picture.height + TITLE_HEIGHT, picture=picture)


def make_room_for_members(boxes: Iterable[Box]) -> None:
    for box in boxes:
        if box.members:
            box.width = max(box.width, box.members_width + 2 * PAD)
            box.height = max(m.height for m in box.members) + NODE_HEIGHT + PAD
