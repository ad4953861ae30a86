"""A diagram for terminals: one block per node, its arrows as lines."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from interlock.diagrams.model import (
    EDGE_ACTIONS,
    Diagram,
    DiagramEdge,
    DiagramNode,
    EdgeKind,
    NodeKind,
    column_width,
    label_of,
    marks_of,
    plain_line,
)

TEXT_COLUMNS = 80


def as_text(diagram: Diagram) -> str:
    """The diagram as text: one block per agent, group and crew, at most 80 columns wide."""
    return "\n".join(_page(diagram, TEXT_COLUMNS)) + "\n"


def _page(diagram: Diagram, width: int, box: str = "") -> Iterator[str]:
    """A crew, block by block; `box` is the name of the box around it, if there is one."""
    leaving: dict[str, list[DiagramEdge]] = {}
    for edge in diagram.edges:
        leaving.setdefault(edge.source, []).append(edge)
    names = {node.id: plain_line(node.name or node.label) or "?" for node in diagram.nodes}
    names |= {node.id: f"{names[node.id]} (unknown)" for node in diagram.nodes if node.kind == "unknown"}
    if plain_line(diagram.name) != box:
        yield from _wrap(plain_line(diagram.name), width)
    if diagram.description:
        yield from _indent("  ", plain_line(diagram.description), width)
    yield from _overview(diagram, names, width)
    does: Mapping[EdgeKind, str] = {**EDGE_ACTIONS, "terminate": "ends this crew's run"} if box else EDGE_ACTIONS
    for node in diagram.nodes:
        if node.kind != "end":
            yield ""
            yield from _block(node, leaving.get(node.id, []), _Words(names, does), width)


def _overview(diagram: Diagram, names: dict[str, str], width: int) -> Iterator[str]:
    waiting = [names[node.id] for node in diagram.nodes if node.waits]
    ending = dict.fromkeys(edge.source for edge in diagram.edges if edge.kind == "terminate")
    yield from _name_list("starts at", [names[node.id] for node in diagram.nodes if node.entry], width)
    if waiting:
        yield from _name_list("waits at", waiting, width)
    yield from _name_list("ends at", [names[source] for source in ending], width)


def _name_list(title: str, names: list[str], width: int) -> Iterator[str]:
    """Lists the names after their title, as many per line as fit."""
    line, lead = "", f"  {title:<11}"
    for name in names or ["nowhere"]:
        if line and column_width(f"{lead}{line}, {name}") > width - 1:
            yield f"{lead}{line},"
            line, lead = "", " " * len(lead)
        line = f"{line}, {name}" if line else name
    yield from _indent(lead, line, width)


def _indent(lead: str, text: str, width: int) -> Iterator[str]:
    for piece in _wrap(text, width - len(lead)):
        yield lead + piece
        lead = " " * len(lead)


class _Words(NamedTuple):
    """The names of nodes on a page, and the actions of its arrows."""

    names: Mapping[str, str]
    does: Mapping[EdgeKind, str]

    def target(self, edge: DiagramEdge) -> str:
        return "itself" if edge.source == edge.target else self.names[edge.target]


def _block(node: DiagramNode, edges: list[DiagramEdge], words: _Words, width: int) -> Iterator[str]:
    corner = "┌─ "
    for piece in _wrap(_title(node), width - len(corner)):
        yield corner + piece
        corner = "│  "
    for line in _contents(node, edges, words, width - len(corner)):
        yield f"│  {line}".rstrip()
    yield "└─"


def _title(node: DiagramNode) -> str:
    name, label = plain_line(node.name) or "?", plain_line(node.label)
    shown = name if node.kind != "agent" or label == name else f"{name} · {label}"
    marks = ", ".join(marks_of(node))
    return f"{_KIND_WORD[node.kind]}{shown}" + (f" ── {marks}" if marks else "")


_KIND_WORD: Mapping[NodeKind, str] = {
    "agent": "",
    "group": "group ",
    "sub_crew": "crew ",
    "end": "",
    "unknown": "unknown ",
}


def _contents(node: DiagramNode, edges: list[DiagramEdge], words: _Words, width: int) -> Iterator[str]:
    marks = [column_width(plain_line(label_of(edge))) for edge in edges]
    targets = [column_width(words.target(edge)) for edge in edges]
    mark_width, target_width = min(max(marks, default=0), 20), min(max(targets, default=0), 20)
    for edge in edges:
        yield from _arrow(edge, words, mark_width, target_width, width)
    for note in (node.closed, *node.notes) if node.closed else node.notes:
        yield from _indent("· ", plain_line(note), width)
    if node.inside:
        yield ""
        yield from _page(node.inside, width, box=plain_line(node.name))
    elif not edges and not node.notes and not node.closed:
        yield "no arrow leaves here"


def _arrow(edge: DiagramEdge, words: _Words, mark_width: int, target_width: int, width: int) -> Iterator[str]:
    mark, target, does = plain_line(label_of(edge)), words.target(edge), words.does[edge.kind]
    line = f"{_pad(mark, mark_width)} ──▶ {_pad(target, target_width)}  {does}"
    if column_width(line) <= width:
        yield line
        return
    yield from _indent("", mark, width)
    yield from _indent("  ──▶ ", target, width)
    yield from _indent("      ", does, width)


# Lines that fit


def _pad(text: str, width: int) -> str:
    return text + " " * (width - column_width(text))


def _wrap(text: str, width: int) -> Iterator[str]:
    """Splits the text into pieces that fit; a letter stays with its accents."""
    piece, taken = "", 0
    for char in text:
        size = column_width(char)
        if taken + size > width:
            yield piece
            piece, taken = "", 0
        piece, taken = piece + char, taken + size
    yield piece
