"""A crew as nodes and arrows, and the words that all output formats share.

Rule 1: everything is in file order, so the same crew gives the same diagram.
Rule 2: an unknown name is drawn as unknown; a diagram that hides it would make a broken crew look sound.
Rule 3: a label may contain anything; it is escaped where it is written, not where it is read.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

NodeKind = Literal["agent", "group", "sub_crew", "end", "unknown"]
EdgeKind = Literal[
    "route",
    "terminate",
    "pause",
    "parallel",
    "member",
    "next",
    "default",
    "handoff",
    "broadcast",
    "external",
    "sub_crew",
    "return",
    "error",
    "delegate",
]


class DiagramNode(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, group, sub-crew or end. `id` is safe everywhere; `name` is the one in the crew file."""

    id: str
    name: str
    label: str
    kind: NodeKind
    entry: bool = False
    terminal: bool = False
    waits: bool = False
    notes: tuple[str, ...] = ()
    closed: str = ""  # of a sub-crew: why it is drawn empty
    inside: "Diagram | None" = None


class DiagramEdge(msgspec.Struct, frozen=True, kw_only=True):
    """One arrow: a handover, a notification or a task."""

    source: str
    target: str
    kind: EdgeKind
    label: str = ""


class Diagram(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]
    description: str = ""


# Labels of arrows without a signal, and the action of every arrow.
DEFAULT_LABELS: Mapping[EdgeKind, str] = {
    "terminate": "reply",
    "member": "in parallel",
    "next": "then",
    "default": "no signal",
    "handoff": "handoff",
    "return": "returns",
    "error": "on error",
    "delegate": "delegates",
}
EDGE_ACTIONS: Mapping[EdgeKind, str] = {
    "route": "hands over",
    "terminate": "ends the run",
    "pause": "waits for a person, then continues",
    "parallel": "starts the group",
    "member": "works in the group",
    "next": "continues when the group is done",
    "default": "hands over if there is no signal",
    "handoff": "may hand over",
    "broadcast": "notifies, and keeps control",
    "external": "notifies the host program",
    "sub_crew": "calls the crew",
    "return": "returns to the caller",
    "error": "takes over when the crew fails",
    "delegate": "delegates a task",
}


def label_of(edge: DiagramEdge) -> str:
    """The label of an arrow: its signal, or the default of its kind."""
    return edge.label or DEFAULT_LABELS.get(edge.kind, edge.kind)


def remark_on(node: DiagramNode) -> str:
    """The remark beside the name of a box: why it is drawn empty, or the name of the crew in it."""
    if node.closed or node.inside is None:
        return node.closed
    return node.inside.name if plain_line(node.inside.name) != plain_line(node.name) else ""


def marks_of(node: DiagramNode) -> Iterator[str]:
    """The properties of a node, in words."""
    if node.entry:
        yield "starts here"
    if node.waits:
        yield "waits for a person"
    if node.terminal:
        yield "ends here"
    if node.kind == "unknown":
        yield "not in the crew"


def plain_line(text: str) -> str:
    """The text on one line, without characters that control terminals, break XML or change the reading direction."""
    return " ".join("".join(map(_harmless_char, text)).split())


def _harmless_char(char: str) -> str:
    category = unicodedata.category(char)
    if char.isspace() or category in ("Zl", "Zp"):
        return " "
    if category in ("Cc", "Cs", "Cn"):
        return "\N{REPLACEMENT CHARACTER}"
    # The joiners shape letters of Indic and Arabic scripts; every other format character only hides or reorders.
    return "" if category == "Cf" and char not in "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}" else char


def column_width(text: str) -> int:
    """The width of the text in columns of a terminal."""
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
