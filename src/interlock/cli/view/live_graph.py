"""The crew's graph in the live view: a row for each agent and group with its arrows and state.

Rule 1: rows are in file order and keep their positions while they fit; only their style changes.
Rule 2: an agent that works only in groups is shown in their rows, and has no row of its own.
Rule 3: if not all rows fit, those near the active agent are shown, and the number of the others.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from interlock.cli.view.live_rows import Piece, fit_width, row, spinner
from interlock.cli.view.progress import ControlEdge, Progress
from interlock.crew.definition import CrewDefinition
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.model import label_of

NAME_COLUMNS_MAX = 22

_STATUS: Mapping[str, Piece] = {
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "late": ("✗ late", "red"),
    "cancelled": ("–", "dim"),
}


class Arrow(msgspec.Struct, frozen=True):
    word: str
    target: str
    way: ControlEdge


class LiveNode(msgspec.Struct, frozen=True):
    """An agent or a group, with its members and outgoing arrows."""

    name: str
    members: tuple[str, ...]
    arrows: tuple[Arrow, ...]


class GraphLayout:
    """The fixed part of a crew's graph, computed once."""

    def __init__(self, crew: CrewDefinition) -> None:
        diagram = diagram_of(crew)
        names = {node.id: "" if node.kind == "end" else node.name for node in diagram.nodes}
        members = {member for group in crew.groups.values() for member in group.agents}
        arrows: dict[str, list[Arrow]] = {}
        for edge in diagram.edges:
            if edge.kind != "member":
                way = ControlEdge(names[edge.source], edge.label, names[edge.target])
                arrows.setdefault(edge.source, []).append(Arrow(label_of(edge), names[edge.target] or "end", way))
        self.nodes = tuple(
            LiveNode(
                node.name, crew.groups[node.name].agents if node.kind == "group" else (), tuple(arrows.get(node.id, ()))
            )
            for node in diagram.nodes
            if node.kind != "end" and (node.id in arrows or node.name not in members)
        )
        self.name_columns = min(NAME_COLUMNS_MAX, max((cell_len(place.name) for place in self.nodes), default=0))
        self._beside = _neighbours_of(self.nodes)

    def nodes_near(self, name: str, most: int) -> list[LiveNode]:
        """The nearest nodes, in file order; all of them if they fit."""
        if len(self.nodes) <= most:
            return list(self.nodes)
        start = name if name in self._beside else self.nodes[0].name
        near, ahead = {start: None}, deque([start])
        while ahead and len(near) < most:
            new = [beside for beside in self._beside[ahead.popleft()] if beside not in near]
            near.update(dict.fromkeys(new))
            ahead.extend(new)
        kept = set(list(near)[:most])
        return [place for place in self.nodes if place.name in kept]


def _neighbours_of(places: Sequence[LiveNode]) -> dict[str, dict[str, None]]:
    beside: dict[str, dict[str, None]] = {place.name: {} for place in places}
    for place in places:
        for other in (*place.members, *(arrow.way.target for arrow in place.arrows)):
            if other in beside and other != place.name:
                beside[place.name][other] = beside[other][place.name] = None
    return beside


def graph_rows(drawn: GraphLayout, progress: Progress, width: int, most: int, now_ms: int) -> list[Text]:
    """At most `most` rows: all arrows if there is room, else one row per node, else the nearest nodes."""
    lead = drawn.name_columns + 4
    blocks = [(place, list(_arrow_lines(place, progress, width - lead, now_ms))) for place in drawn.nodes[: most + 1]]
    if len(blocks) <= most and sum(len(lines) for _, lines in blocks) <= most:
        return [text for place, lines in blocks for text in _node_rows(drawn, place, lines, progress, width, now_ms)]
    whole = len(drawn.nodes) <= most
    places = drawn.nodes_near(progress.position, most if whole else most - 1)
    rows = [
        row(width, *_node_head(drawn, place.name, progress, now_ms), *_arrow_pieces(place, progress, now_ms))
        for place in places
    ]
    left = len(drawn.nodes) - len(places)
    return rows if not left else [*rows, row(width, (f"    … and {left} more in this crew", "dim"))][:most]


def _node_rows(
    drawn: GraphLayout, place: LiveNode, lines: list[list[Piece]], progress: Progress, width: int, now_ms: int
) -> Iterator[Text]:
    lead = _node_head(drawn, place.name, progress, now_ms)
    for line in lines:
        yield row(width, *lead, *line)
        lead = [(" " * (drawn.name_columns + 4), "")]


def _arrow_lines(place: LiveNode, progress: Progress, width: int, now_ms: int) -> Iterator[list[Piece]]:
    """The arrows of a node, over as many lines as needed."""
    line: list[Piece] = []
    for words, style in _arrow_pieces(place, progress, now_ms):
        if line and sum(cell_len(piece) for piece, _ in line) + cell_len(words.rstrip()) > width:
            yield line
            line = []
        line.append((words, style))
    yield line


def _node_head(drawn: GraphLayout, name: str, progress: Progress, now_ms: int) -> list[Piece]:
    mark, style = _node_mark(name, progress, now_ms)
    here = name == progress.position
    return [
        ("▶" if here and progress.status == "running" else " ", "bold cyan"),
        (f"{mark} ", style),
        (fit_width(name, drawn.name_columns), "bold reverse" if here else style),
        (" ", ""),
    ]


def _node_mark(name: str, progress: Progress, now_ms: int) -> Piece:
    if progress.has_open_question(name):
        return "?", "bold yellow"
    if progress.is_working(name):
        return spinner(now_ms), "bold cyan"
    return ("●", "green") if progress.visits[name] else ("○", "dim")


def _arrow_pieces(place: LiveNode, progress: Progress, now_ms: int) -> Iterator[Piece]:
    branches = progress.branches.get(place.name, {})
    for member in place.members:
        status, style = _STATUS.get(branches.get(member, ""), ("", "dim"))
        if branches.get(member) == "working":
            status, style = (spinner(now_ms), "cyan") if place.name == progress.group else ("–", "dim")
        yield f"{member} {status}".rstrip() + "  ", style
    for arrow in place.arrows:
        times = progress.edges_taken[arrow.way]
        count = f" ×{times}" if times > 1 else ""
        line, style = ("━▶", "green") if times else ("─▷", "dim")
        yield f"{arrow.word} {line} {arrow.target}{count}  ", style
