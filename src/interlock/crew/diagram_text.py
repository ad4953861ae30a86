"""A diagram for terminals: one block for each node, its arrows as lines."""

from collections.abc import Iterator, Mapping

from interlock.crew.diagram import DOES, Diagram, Edge, Node, NodeKind, called, columns, marks_of, plain

TEXT_COLUMNS = 80


def as_text(diagram: Diagram) -> str:
    """One block for each agent, group and crew, at most 80 columns wide."""
    return "\n".join(_page(diagram, TEXT_COLUMNS)) + "\n"


def _page(diagram: Diagram, width: int) -> Iterator[str]:
    leaving: dict[str, list[Edge]] = {}
    for edge in diagram.edges:
        leaving.setdefault(edge.source, []).append(edge)
    names = {node.id: plain(node.name or node.label) or "?" for node in diagram.nodes}
    names |= {node.id: f"{names[node.id]} (unknown)" for node in diagram.nodes if node.kind == "unknown"}
    yield from _cut(plain(diagram.name), width)
    if diagram.description:
        yield from _indented("  ", plain(diagram.description), width)
    yield from _overview(diagram, names, width)
    for node in diagram.nodes:
        if node.kind != "end":
            yield ""
            yield from _block(node, leaving.get(node.id, []), names, width)


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


def _block(node: Node, edges: list[Edge], names: dict[str, str], width: int) -> Iterator[str]:
    corner = "┌─ "
    for piece in _cut(_title(node), width - len(corner)):
        yield corner + piece
        corner = "│  "
    for line in _contents(node, edges, names, width - len(corner)):
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


def _contents(node: Node, edges: list[Edge], names: dict[str, str], width: int) -> Iterator[str]:
    marks = [columns(plain(called(edge))) for edge in edges]
    targets = [columns(_target(edge, names)) for edge in edges]
    mark_width, target_width = min(max(marks, default=0), 20), min(max(targets, default=0), 20)
    for edge in edges:
        yield from _arrow(edge, _target(edge, names), mark_width, target_width, width)
    for note in node.notes:
        yield from _indented("· ", plain(note), width)
    if node.inside:
        yield from _page(node.inside, width)
    elif not edges and not node.notes:
        yield "nothing leads on from here"


def _target(edge: Edge, names: dict[str, str]) -> str:
    return "itself" if edge.source == edge.target else names[edge.target]


def _arrow(edge: Edge, target: str, mark_width: int, target_width: int, width: int) -> Iterator[str]:
    mark, does = plain(called(edge)), DOES[edge.kind]
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
