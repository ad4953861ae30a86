"""The crew's graph in a live view: a row for each agent and group, its arrows behind it, and who is where.

Rule 1: rows stand in file order and keep their places while they fit; what changes is their looks.
Rule 2: an agent that only works in groups stands in their rows, and needs none of its own.
Rule 3: where not all fit, the neighbourhood of whoever has the floor is shown, and how many are not.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.cells import cell_len
from rich.text import Text

from interlock.cli.live_rows import Piece, filled, row, spinner
from interlock.cli.progress import Progress, Way
from interlock.crew.definition import Crew
from interlock.crew.diagram import called, diagram_of

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
    way: Way


class Place(msgspec.Struct, frozen=True):
    """An agent or a group, with its members and where control may go from it."""

    name: str
    members: tuple[str, ...]
    arrows: tuple[Arrow, ...]


class Map:
    """What of a crew's graph never changes, worked out once."""

    def __init__(self, crew: Crew) -> None:
        diagram = diagram_of(crew)
        names = {node.id: "" if node.kind == "end" else node.name for node in diagram.nodes}
        members = {member for group in crew.groups.values() for member in group.agents}
        arrows: dict[str, list[Arrow]] = {}
        for edge in diagram.edges:
            if edge.kind != "member":
                way = Way(names[edge.source], edge.label, names[edge.target])
                arrows.setdefault(edge.source, []).append(Arrow(called(edge), names[edge.target] or "end", way))
        self.places = tuple(
            Place(
                node.name, crew.groups[node.name].agents if node.kind == "group" else (), tuple(arrows.get(node.id, ()))
            )
            for node in diagram.nodes
            if node.kind != "end" and (node.id in arrows or node.name not in members)
        )
        self.name_columns = min(NAME_COLUMNS_MAX, max((cell_len(place.name) for place in self.places), default=0))
        self._beside = _neighbours(self.places)

    def around(self, name: str, most: int) -> list[Place]:
        """The nearest places, in file order; all of them if they fit."""
        if len(self.places) <= most:
            return list(self.places)
        start = name if name in self._beside else self.places[0].name
        near, ahead = {start: None}, deque([start])
        while ahead and len(near) < most:
            new = [beside for beside in self._beside[ahead.popleft()] if beside not in near]
            near.update(dict.fromkeys(new))
            ahead.extend(new)
        kept = set(list(near)[:most])
        return [place for place in self.places if place.name in kept]


def _neighbours(places: Sequence[Place]) -> dict[str, dict[str, None]]:
    beside: dict[str, dict[str, None]] = {place.name: {} for place in places}
    for place in places:
        for other in (*place.members, *(arrow.way.target for arrow in place.arrows)):
            if other in beside and other != place.name:
                beside[place.name][other] = beside[other][place.name] = None
    return beside


def graph_rows(drawn: Map, progress: Progress, width: int, most: int, now_ms: int) -> list[Text]:
    """At most so many rows: every arrow if there is room, else a row for each place, else those around."""
    lead = drawn.name_columns + 4
    blocks = [(place, list(_lines(place, progress, width - lead, now_ms))) for place in drawn.places[: most + 1]]
    if len(blocks) <= most and sum(len(lines) for _, lines in blocks) <= most:
        return [text for place, lines in blocks for text in _block(drawn, place, lines, progress, width, now_ms)]
    whole = len(drawn.places) <= most
    places = drawn.around(progress.position, most if whole else most - 1)
    rows = [
        row(width, *_head(drawn, place.name, progress, now_ms), *_arrows(place, progress, now_ms)) for place in places
    ]
    left = len(drawn.places) - len(places)
    return rows if not left else [*rows, row(width, (f"    … and {left} more in this crew", "dim"))][:most]


def _block(
    drawn: Map, place: Place, lines: list[list[Piece]], progress: Progress, width: int, now_ms: int
) -> Iterator[Text]:
    lead = _head(drawn, place.name, progress, now_ms)
    for line in lines:
        yield row(width, *lead, *line)
        lead = [(" " * (drawn.name_columns + 4), "")]


def _lines(place: Place, progress: Progress, width: int, now_ms: int) -> Iterator[list[Piece]]:
    """The arrows of a place over as many lines as they take."""
    line: list[Piece] = []
    for words, style in _arrows(place, progress, now_ms):
        if line and sum(cell_len(piece) for piece, _ in line) + cell_len(words.rstrip()) > width:
            yield line
            line = []
        line.append((words, style))
    yield line


def _head(drawn: Map, name: str, progress: Progress, now_ms: int) -> list[Piece]:
    mark, style = _mark(name, progress, now_ms)
    here = name == progress.position
    return [
        ("▶" if here and progress.status == "running" else " ", "bold cyan"),
        (f"{mark} ", style),
        (filled(name, drawn.name_columns), "bold reverse" if here else style),
        (" ", ""),
    ]


def _mark(name: str, progress: Progress, now_ms: int) -> Piece:
    if progress.is_asked_of(name):
        return "?", "bold yellow"
    if progress.is_at_work(name):
        return spinner(now_ms), "bold cyan"
    return ("●", "green") if progress.visits[name] else ("○", "dim")


def _arrows(place: Place, progress: Progress, now_ms: int) -> Iterator[Piece]:
    branches = progress.branches.get(place.name, {})
    for member in place.members:
        status, style = _STATUS.get(branches.get(member, ""), ("", "dim"))
        if branches.get(member) == "working":
            status, style = (spinner(now_ms), "cyan") if place.name == progress.group else ("–", "dim")
        yield f"{member} {status}".rstrip() + "  ", style
    for arrow in place.arrows:
        times = progress.taken[arrow.way]
        count = f" ×{times}" if times > 1 else ""
        line, style = ("━▶", "green") if times else ("─▷", "dim")
        yield f"{arrow.word} {line} {arrow.target}{count}  ", style
