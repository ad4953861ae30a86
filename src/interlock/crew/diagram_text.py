"""A diagram for terminals: one block for each node, its arrows as lines."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from interlock.crew.diagram import DOES, Diagram, Edge, EdgeKind, Node, NodeKind, called, columns, marks_of, plain

TEXT_COLUMNS = 80


def as_text(diagram: Diagram) -> str:
    """One block for each agent, group and crew, at most 80 columns wide."""
    return "\n".join(_page(diagram, TEXT_COLUMNS)) + "\n"


def _page(diagram: Diagram, width: int, box: str = "") -> Iterator[str]:
    """A crew, block by block; `box` is the name of the box around it, if there is one."""
    leaving: dict[str, list[Edge]] = {}
    for edge in diagram.edges:
        leaving.setdefault(edge.source, []).append(edge)
    names = {node.id: plain(node.name or node.label) or "?" for node in diagram.nodes}
    names |= {node.id: f"{names[node.id]} (unknown)" for node in diagram.nodes if node.kind == "unknown"}
    if plain(diagram.name) != box:
        yield from _cut(plain(diagram.name), width)
    if diagram.description:
        yield from _indented("  ", plain(diagram.description), width)
    yield from _overview(diagram, names, width)
    does: Mapping[EdgeKind, str] = {**DOES, "terminate": "ends this crew's run"} if box else DOES
    for node in diagram.nodes:
        if node.kind != "end":
            yield ""
            yield from _block(node, leaving.get(node.id, []), _Words(names, does), width)


def _overview(diagram: Diagram, names: dict[str, str], width: int) -> Iterator[str]:
    waiting = [names[node.id] for node in diagram.nodes if node.waits]
    ending = dict.fromkeys(edge.source for edge in diagram.edges if edge.kind == "terminate")
    yield from _listed("starts at", [names[node.id] for node in diagram.nodes if node.entry], width)
    if waiting:
        yield from _listed("waits at", waiting, width)
    yield from _listed("ends at", [names[source] for source in ending], width)


def _listed(title: str, names: list[str], width: int) -> Iterator[str]:
    """The names after their title, as many on a line as fit."""
    line, lead = "", f"  {title:<11}"
    for name in names or ["nowhere"]:
        if line and columns(f"{lead}{line}, {name}") > width - 1:
            yield f"{lead}{line},"
            line, lead = "", " " * len(lead)
        line = f"{line}, {name}" if line else name
    yield from _indented(lead, line, width)


def _indented(lead: str, text: str, width: int) -> Iterator[str]:
    for piece in _cut(text, width - len(lead)):
        yield lead + piece
        lead = " " * len(lead)


class _Words(NamedTuple):
    """What nodes are called on a page, and what its arrows do."""

    names: Mapping[str, str]
    does: Mapping[EdgeKind, str]

    def target(self, edge: Edge) -> str:
        return "itself" if edge.source == edge.target else self.names[edge.target]


def _block(node: Node, edges: list[Edge], words: _Words, width: int) -> Iterator[str]:
    corner = "┌─ "
    for piece in _cut(_title(node), width - len(corner)):
        yield corner + piece
        corner = "│  "
    for line in _contents(node, edges, words, width - len(corner)):
        yield f"│  {line}".rstrip()
    yield "└─"


def _title(node: Node) -> str:
    name, label = plain(node.name) or "?", plain(node.label)
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


def _contents(node: Node, edges: list[Edge], words: _Words, width: int) -> Iterator[str]:
    marks = [columns(plain(called(edge))) for edge in edges]
    targets = [columns(words.target(edge)) for edge in edges]
    mark_width, target_width = min(max(marks, default=0), 20), min(max(targets, default=0), 20)
    for edge in edges:
        yield from _arrow(edge, words, mark_width, target_width, width)
    for note in (node.closed, *node.notes) if node.closed else node.notes:
        yield from _indented("· ", plain(note), width)
    if node.inside:
        yield ""
        yield from _page(node.inside, width, box=plain(node.name))
    elif not edges and not node.notes and not node.closed:
        yield "nothing leads on from here"


def _arrow(edge: Edge, words: _Words, mark_width: int, target_width: int, width: int) -> Iterator[str]:
    mark, target, does = plain(called(edge)), words.target(edge), words.does[edge.kind]
    line = f"{_filled(mark, mark_width)} ──▶ {_filled(target, target_width)}  {does}"
    if columns(line) <= width:
        yield line
        return
    yield from _indented("", mark, width)
    yield from _indented("  ──▶ ", target, width)
    yield from _indented("      ", does, width)


# Lines that fit


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def _cut(text: str, width: int) -> Iterator[str]:
    """The text in pieces that fit; a letter stays with its accents."""
    piece, taken = "", 0
    for char in text:
        size = columns(char)
        if taken + size > width:
            yield piece
            piece, taken = "", 0
        piece, taken = piece + char, taken + size
    yield piece
