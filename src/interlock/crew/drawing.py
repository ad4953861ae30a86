"""A diagram as one self-contained SVG, laid out in ranks from top to bottom.

Rule 1: a rank is the shortest way from the entry, so an arrow down spans one rank; every other arrow is special.
Rule 2: between two ranks lies a channel: labels in rows above, level runs of long arrows on tracks below.
Rule 3: arrows over several ranks leave through channels and run on lanes beside all ranks, never across a box.
Rule 4: every pass is linear or sorts; nothing compares all pairs.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal, TypeVar

from interlock.crew.diagram import DOES, Diagram, EdgeKind, Node, called, columns, marks_of, plain

GAP = 44.0
PAD = 14.0
NODE_HEIGHT = 46.0
END_HEIGHT = 30.0
TITLE_HEIGHT = 30.0
LINE_HEIGHT = 15.0
SLOT = 24.0
TRACK = 10.0
LANE = 14.0
LOOP = 26.0
LEEWAY_MAX = 28.0
MARGIN = 24.0
CORNER = 9.0
SWEEPS = 4

# Mean widths of a column of text, in the fonts of names, of what stands below them, and of marks.
NAME_COLUMN = 8.2
SUBTITLE_COLUMN = 6.1
MARK_COLUMN = 6.7

# Longer names are cut; the whole name is in the tooltip and in the text form.
LABEL_COLUMNS_MAX = 30

# A wider group would be drawn as a wall; its members stand below it on dashed arrows instead.
HOSTED_MAX = 6

# Boxes do not grow taller for more arrows than this on one side; the rest use the channel.
SLOTS_MAX = 4

# Past this many level runs in one channel nobody can follow a single one, so they share tracks.
TRACKS_MAX = 32

# Labels of arrows that share their way; the text form lists the rest.
STACK_MAX = 5

Key = TypeVar("Key")
Side = Literal["left", "right"]
Way = Literal["loop", "beside", "direct", "under", "around"]
Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Box:
    """A node with its place. `x` is its middle, `top` its upper edge; a member's place is inside its owner."""

    node: Node
    width: float
    height: float
    members: list["Box"] = field(default_factory=list)
    picture: "Picture | None" = None
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
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


@dataclass(slots=True, eq=False)
class Line:
    """All arrows of one kind from one box to another, drawn as one."""

    source: Box
    target: Box
    kind: EdgeKind
    labels: list[tuple[str, EdgeKind]] = field(default_factory=list)
    way: Way = "direct"
    side: Side = "right"
    leaves_aside: bool = False
    arrives_aside: bool = False
    label_at: Point = (0.0, 0.0)

    @property
    def stack(self) -> list[tuple[str, EdgeKind]]:
        shown = [(_clipped(label), kind) for label, kind in self.labels[:STACK_MAX]]
        more = len(self.labels) - STACK_MAX
        return [*shown, (f"and {more} more", self.kind)] if more > 0 else shown

    @property
    def label_width(self) -> float:
        return max((columns(label) * MARK_COLUMN for label, _ in self.stack), default=0.0) + 10

    @property
    def label_height(self) -> float:
        return len(self.stack) * LINE_HEIGHT + 4

    @property
    def bundle(self) -> "Bundle":
        """Long arrows of one kind to one box share their way from the lane on."""
        return self.target, self.kind, self.side

    @property
    def goes_down(self) -> bool:
        return self.source.block.rank < self.target.block.rank

    @property
    def channel(self) -> int:
        """The channel that holds the label: above the lower of two boxes, else below the source."""
        a, b = self.source.block.rank, self.target.block.rank
        return max(a, b) if self.way == "direct" else a + 1


Bundle = tuple[Box, EdgeKind, Side]
Run = Line | tuple[Literal["out", "in"], Bundle]


@dataclass(slots=True)
class Picture:
    width: float
    height: float
    markup: list[str]


def as_svg(diagram: Diagram) -> str:
    """The whole diagram, with the crews inside it; light or dark as the reader's system is."""
    picture = _picture(diagram)
    width, height = f"{picture.width:.0f}", f"{picture.height:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="interlock" role="img" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    title = f"<title>{_escaped(diagram.name)}</title>"
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return "\n".join([head, title, f"<style>{_STYLE}</style>", paper, *picture.markup, "</svg>"]) + "\n"


def _picture(diagram: Diagram) -> Picture:
    boxes = _boxes(diagram)
    lines = _lines(diagram, boxes)
    blocks = [box for box in boxes.values() if box.owner is None]
    rows = _ordered(_ranked(blocks, lines), lines)
    return _Sheet(rows, lines).picture(list(boxes.values()))


# Boxes


def _boxes(diagram: Diagram) -> dict[str, Box]:
    boxes = {node.id: _box(node) for node in diagram.nodes}
    for group, members in _hosted(diagram).items():
        boxes[group].members = [boxes[member] for member in members]
        for member in members:
            boxes[member].owner = boxes[group]
    return boxes


def _hosted(diagram: Diagram) -> dict[str, list[str]]:
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


def _box(node: Node) -> Box:
    if node.kind == "end":
        return Box(node, 74.0, END_HEIGHT)
    width = _text_width(node) + 2 * PAD
    if node.inside is None or not node.inside.nodes:
        return Box(node, max(width, 96.0), NODE_HEIGHT)
    picture = _picture(node.inside)
    return Box(node, max(width, picture.width), picture.height + TITLE_HEIGHT, picture=picture)


def _text_width(node: Node) -> float:
    name, subtitle = columns(_clipped(node.label)), columns(_subtitle(node))
    return max(name * NAME_COLUMN, subtitle * SUBTITLE_COLUMN)


def _subtitle(node: Node) -> str:
    name = plain(node.name)
    own = [_clipped(name)] if node.kind == "agent" and name != plain(node.label) else []
    if node.kind == "group":
        own += [_clipped(note) for note in node.notes[:1]]
    return " · ".join([*own, *marks_of(node)])


def _clipped(text: str) -> str:
    kept, text = "", plain(text)
    for char in text:
        if columns(kept + char) > LABEL_COLUMNS_MAX:
            return kept + "…"
        kept += char
    return kept


# Lines


def _lines(diagram: Diagram, boxes: dict[str, Box]) -> list[Line]:
    lines: dict[tuple[str, str, str], Line] = {}
    for edge in diagram.edges:
        source, target = boxes[edge.source], boxes[edge.target]
        if edge.kind == "member" and target.owner is source:
            continue
        # One loop carries whatever comes back to its own box.
        key = (edge.source, edge.target, "" if source is target else edge.kind)
        line = lines.setdefault(key, Line(source, target, edge.kind))
        if edge.kind != "member":
            line.labels.append((called(edge), edge.kind))
    for line in lines.values():
        if line.source is line.target:
            line.way = "loop"
            line.source.loop_width = LOOP + line.label_width + 4
    for box in boxes.values():
        _make_room_for_members(box)
    return list(lines.values())


def _make_room_for_members(box: Box) -> None:
    if box.members:
        inner = sum(m.width + m.loop_width for m in box.members) + PAD * (len(box.members) - 1)
        box.width = max(box.width, inner + 2 * PAD)
        box.height = max(m.height for m in box.members) + NODE_HEIGHT + PAD


# Ranks and order


def _ranked(blocks: list[Box], lines: list[Line]) -> list[list[Box]]:
    """The blocks by their distance from the entry; what it does not reach starts at the top again."""
    ahead = _neighbours(lines)
    starts = sorted(blocks, key=lambda box: not _holds_entry(box))
    seen: dict[Box, None] = {}
    for start in starts:
        if start not in seen and start.node.kind != "end":
            _walk(start, ahead, seen)
    _sink_the_end(blocks, lines)
    rows: list[list[Box]] = [[] for _ in range(max((box.rank for box in blocks), default=-1) + 1)]
    for box in [*seen, *(box for box in blocks if box not in seen)]:
        rows[box.rank].append(box)
    return [row for row in rows if row]


def _holds_entry(box: Box) -> bool:
    return box.node.entry or any(member.node.entry for member in box.members)


def _neighbours(lines: Iterable[Line]) -> dict[Box, list[Box]]:
    ahead: dict[Box, list[Box]] = {}
    for line in lines:
        if line.target.node.kind != "end":
            ahead.setdefault(line.source.block, []).append(line.target.block)
    return ahead


def _walk(start: Box, ahead: dict[Box, list[Box]], seen: dict[Box, None]) -> None:
    queue = deque([start])
    seen[start] = None
    while queue:
        box = queue.popleft()
        for other in ahead.get(box, ()):
            if other not in seen:
                seen[other] = None
                other.rank = box.rank + 1
                queue.append(other)


def _sink_the_end(blocks: list[Box], lines: list[Line]) -> None:
    """Puts the end below everything that leads to it, so that ending always points down."""
    for box in blocks:
        if box.node.kind == "end":
            box.rank = max((line.source.block.rank + 1 for line in lines if line.target is box), default=0)


def _ordered(rows: list[list[Box]], lines: list[Line]) -> list[list[Box]]:
    """Sweeps down and up, each time sorting a rank by the middle of its neighbours in the rank before."""
    for rank, row in enumerate(rows):
        for order, box in enumerate(row):
            box.rank, box.order = rank, order
    linked = _linked(lines)
    for sweep in range(SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for row in rows[::step]:
            _sort_by_neighbours(row, linked, row[0].rank - step)
    return rows


def _linked(lines: Iterable[Line]) -> dict[Box, list[Box]]:
    """Blocks one rank apart that an arrow joins, seen from both ends."""
    linked: dict[Box, list[Box]] = {}
    for line in lines:
        a, b = line.source.block, line.target.block
        if abs(a.rank - b.rank) == 1:
            linked.setdefault(a, []).append(b)
            linked.setdefault(b, []).append(a)
    return linked


def _sort_by_neighbours(row: list[Box], linked: dict[Box, list[Box]], rank: int) -> None:
    def middle(box: Box) -> float:
        orders = [other.order for other in linked.get(box, ()) if other.rank == rank]
        return sum(orders) / len(orders) if orders else float(box.order)

    row.sort(key=middle)
    for order, box in enumerate(row):
        box.order = order


# Across


def _choose_ways(lines: list[Line]) -> None:
    beside: dict[tuple[Box, Box], int] = {}
    for line in lines:
        if line.way == "loop":
            continue
        line.way = _way(line)
        pair = (line.source, line.target) if line.source.order < line.target.order else (line.target, line.source)
        if line.way == "beside":
            beside[pair] = beside.get(pair, 0) + 1
            line.way = "beside" if beside[pair] <= SLOTS_MAX else "under"


def _way(line: Line) -> Way:
    a, b = line.source.block, line.target.block
    if a.rank != b.rank:
        return "direct" if abs(a.rank - b.rank) == 1 else "around"
    left = a if a.order < b.order else b
    are_blocks = line.source is a and line.target is b
    return "beside" if abs(a.order - b.order) == 1 and are_blocks and not left.loop_width else "under"


def _widen_for_arrows(lines: list[Line]) -> None:
    degrees: dict[Box, int] = {}
    for line in lines:
        for box in (line.source, line.target):
            degrees[box] = degrees.get(box, 0) + 1
    for box, degree in degrees.items():
        if not box.members:
            box.width = max(box.width, min(degree * 9.0, 360.0))


def _gaps(rows: list[list[Box]], lines: list[Line]) -> list[list[float]]:
    """The least distances between the middles of neighbours, rank by rank."""
    labels: dict[tuple[int, int], float] = {}
    for line in lines:
        if line.way == "beside":
            key = (line.source.rank, min(line.source.order, line.target.order))
            labels[key] = max(labels.get(key, 0.0), line.label_width + 2 * PAD)
    return [
        [
            (a.width + b.width) / 2 + a.loop_width + max(GAP, labels.get((a.rank, a.order), 0.0))
            for a, b in pairwise(row)
        ]
        for row in rows
    ]


def _place_across(rows: list[list[Box]], lines: list[Line]) -> None:
    gaps, linked = _gaps(rows, lines), _linked(lines)
    for row, apart in zip(rows, gaps, strict=True):
        _settle(row, [0.0] * len(row), apart)
    for sweep in range(2 * SWEEPS):
        step = -1 if sweep % 2 == 0 else 1
        for row, apart in list(zip(rows, gaps, strict=True))[::step]:
            _settle(row, [_wished(box, linked, box.rank - step) for box in row], apart)
    for row in rows:
        for box in row:
            _place_members(box)


def _wished(box: Box, linked: dict[Box, list[Box]], rank: int) -> float:
    places = [other.x for other in linked.get(box, ()) if other.rank == rank]
    return sum(places) / len(places) if places else box.x


def _settle(row: list[Box], wished: list[float], apart: list[float]) -> None:
    """Places a row as near to its wishes as its order and distances allow (least squares, by pooling)."""
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wished, offsets, strict=True):
        total, count = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    places = [total / count for total, count in pools for _ in range(count)]
    for box, place, offset in zip(row, places, offsets, strict=True):
        box.x = place + offset


def _place_members(box: Box) -> None:
    inner = sum(m.width + m.loop_width for m in box.members) + PAD * (len(box.members) - 1)
    left = box.x - inner / 2
    for member in box.members:
        member.x = left + member.width / 2
        left += member.width + member.loop_width + PAD


# Tracks and lanes


def _lowest_free(spans: dict[Key, tuple[float, float]], most: int) -> dict[Key, int]:
    """Numbers such that spans that overlap differ, as long as `most` numbers are enough."""
    numbers: dict[Key, int] = {}
    ends: list[float] = []
    for key, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        free = next((n for n, last in enumerate(ends) if last < start), len(ends))
        if free == most:
            free = len(numbers) % most
        ends[free : free + 1] = [end]
        numbers[key] = free
    return numbers


class _Sheet:
    """Where everything of one crew stands, and what it looks like there."""

    def __init__(self, rows: list[list[Box]], lines: list[Line]) -> None:
        self.rows, self.lines = rows, lines
        _choose_ways(lines)
        _widen_for_arrows(lines)
        _place_across(rows, lines)
        self.slots: dict[tuple[Box, Side], dict[Line | Bundle, int]] = {}
        self._use_sides()
        self.crowds: dict[tuple[Box, bool], int] = {}
        self.ports = self._ports()
        self.tracks = [_lowest_free(runs, TRACKS_MAX) for runs in self._runs()]
        self.bands: list[tuple[float, float]] = []
        self.track_tops: list[float] = []
        self.height = self._place_down(self._label_rows())
        self._place_side_labels()
        self.lanes = self._lanes()

    # Sides of boxes

    def _use_sides(self) -> None:
        middle = (self._edge("left") + self._edge("right")) / 2
        for line in self.lines:
            if line.way == "around":
                line.side = "left" if line.source.x + line.target.x < 2 * middle - 1 else "right"
                line.leaves_aside = self._takes_slot(line.source, line.side, line, line.target.block.rank)
                line.arrives_aside = self._takes_slot(line.target, line.side, line.bundle, line.source.block.rank)
            elif line.way == "beside":
                to_right = line.source.order < line.target.order
                for box, side in ((line.source, to_right), (line.target, not to_right)):
                    slots = self.slots.setdefault((box, "right" if side else "left"), {})
                    slots[line] = 0
        for (box, _), slots in self.slots.items():
            box.height = max(box.height, len(slots) * SLOT + PAD)

    def _takes_slot(self, box: Box, side: Side, key: Line | Bundle, other_rank: int) -> bool:
        outermost = self.rows[box.block.rank][-1 if side == "right" else 0]
        if box is not outermost or (side == "right" and box.loop_width):
            return False
        slots = self.slots.setdefault((box, side), {})
        if key not in slots and len(slots) == SLOTS_MAX:
            return False
        slots.setdefault(key, other_rank)
        return True

    def _slot(self, box: Box, side: Side, key: Line | Bundle) -> Point:
        slots = self.slots[box, side]
        place = sorted(slots, key=lambda each: slots[each]).index(key)
        y = box.middle + (place - (len(slots) - 1) / 2) * SLOT
        return (box.right if side == "right" else box.left), y

    def _edge(self, side: Side) -> float:
        if side == "left":
            return min((row[0].left for row in self.rows), default=0.0)
        return max((row[-1].right + row[-1].loop_width for row in self.rows), default=0.0)

    # Ports on the upper and lower edges

    def _ports(self) -> dict[tuple[Box, bool, Line | Bundle], float]:
        wishes: dict[tuple[Box, bool], dict[Line | Bundle, float]] = {}
        for line in self.lines:
            for box, is_top, key, wish in self._wanted_ports(line):
                wishes.setdefault((box, is_top), {}).setdefault(key, wish)
        ports = {}
        for (box, is_top), keys in wishes.items():
            self.crowds[box, is_top] = len(keys)
            for n, key in enumerate(sorted(keys, key=lambda each: keys[each]), 1):
                ports[box, is_top, key] = box.left + box.width * n / (len(keys) + 1)
        return ports

    def _wanted_ports(self, line: Line) -> Iterator[tuple[Box, bool, Line | Bundle, float]]:
        source, target = line.source, line.target
        aside = float("inf") if line.side == "right" else float("-inf")
        if line.way == "direct":
            yield source, not line.goes_down, line, target.x
            yield target, line.goes_down, line, source.x
        elif line.way == "under":
            yield source, False, line, target.x
            yield target, False, line, source.x
        elif line.way == "around" and not line.leaves_aside:
            yield source, False, line, aside
        if line.way == "around" and not line.arrives_aside:
            yield target, True, line.bundle, aside

    # Channels

    def _runs(self) -> list[dict[Run, tuple[float, float]]]:
        """The level stretches in every channel."""
        channels: list[dict[Run, tuple[float, float]]] = [{} for _ in range(len(self.rows) + 1)]
        for line in self.lines:
            for channel, run, start, end in self._stretches(line):
                low, high = channels[channel].get(run, (start, end))
                channels[channel][run] = (min(low, start, end), max(high, start, end))
        return channels

    def _stretches(self, line: Line) -> Iterator[tuple[int, Run, float, float]]:
        aside = float("inf") if line.side == "right" else float("-inf")
        if line.way == "under":
            start = self.ports[line.source, False, line]
            yield line.channel, line, start, self.ports[line.target, False, line]
        if line.way == "around" and not line.leaves_aside:
            yield line.channel, ("out", line.bundle), self.ports[line.source, False, line], aside
        if line.way == "around" and not line.arrives_aside:
            start = self.ports[line.target, True, line.bundle]
            yield line.target.block.rank, ("in", line.bundle), start, aside

    def _label_rows(self) -> list[list[list[Line]]]:
        """The labels of every channel in rows, so that none hides another."""
        channels: list[list[Line]] = [[] for _ in range(len(self.rows) + 1)]
        for line in self.lines:
            if line.labels and (line.way in ("direct", "under") or (line.way == "around" and not line.leaves_aside)):
                line.label_at = (self._label_x(line), 0.0)
                channels[line.channel].append(line)
        return [_in_rows(sorted(lines, key=lambda line: line.label_at[0])) for lines in channels]

    def _label_x(self, line: Line) -> float:
        """On its arrow, nearer to the end where fewer arrows meet."""
        if line.way != "direct":
            return self.ports[line.source, False, line]
        (start, end), down = self._ends(line), line.goes_down
        here, there = self.crowds[line.source, not down], self.crowds[line.target, down]
        return start + (end - start) * min(max(here / (here + there), 0.3), 0.7)

    def _ends(self, line: Line) -> tuple[float, float]:
        down = line.goes_down
        return self.ports[line.source, not down, line], self.ports[line.target, down, line]

    def _leeways(self) -> list[float]:
        """How much taller each channel is, so that arrows that reach far across do not lie flat."""
        leeways = [0.0] * (len(self.rows) + 1)
        for line in self.lines:
            if line.way == "direct":
                start, end = self._ends(line)
                leeways[line.channel] = max(leeways[line.channel], min(abs(end - start) / 12, LEEWAY_MAX))
        return leeways

    def _place_down(self, label_rows: list[list[list[Line]]]) -> float:
        y = MARGIN
        for channel, (labels, leeway) in enumerate(zip(label_rows, self._leeways(), strict=True)):
            y = self._place_channel(channel, labels, y + leeway) + leeway
            if channel < len(self.rows):
                height = max(box.height for box in self.rows[channel])
                self.bands.append((y, y + height))
                for box in self.rows[channel]:
                    _place_in_band(box, y, height)
                y += height
        return y + MARGIN

    def _place_channel(self, channel: int, labels: list[list[Line]], top: float) -> float:
        tracks = max(self.tracks[channel].values(), default=-1) + 1
        is_outer = channel in (0, len(self.rows))
        if is_outer and not labels and not tracks:
            self.track_tops.append(top)
            return top
        y = top + PAD + 2
        for row in labels:
            height = max(line.label_height for line in row)
            for line in row:
                line.label_at = (line.label_at[0], y + height / 2)
            y += height + 4
        self.track_tops.append(y + TRACK / 2)
        bottom = y + tracks * TRACK
        return bottom if channel == len(self.rows) else max(bottom + PAD + 2, top + GAP)

    # Lanes

    def _lanes(self) -> dict[Bundle, float]:
        spans: dict[Side, dict[Bundle, tuple[float, float]]] = {"left": {}, "right": {}}
        for line in self.lines:
            if line.way == "around":
                ends = self._span(line)
                low, high = spans[line.side].get(line.bundle, ends)
                spans[line.side][line.bundle] = (min(low, *ends), max(high, *ends))
        places = {}
        for side, of_side in spans.items():
            first, step = self._lane_start(side), LANE if side == "right" else -LANE
            for bundle, number in _lowest_free(of_side, TRACKS_MAX).items():
                places[bundle] = first + number * step
        return places

    def _span(self, line: Line) -> tuple[float, float]:
        leaves = line.source.block.rank + (0.0 if line.leaves_aside else 0.5)
        return leaves, line.target.block.rank - (0.0 if line.arrives_aside else 0.5)

    def _lane_start(self, side: Side) -> float:
        if side == "left":
            return min([self._edge(side), *map(_label_left, self.lines)]) - LANE
        return max([self._edge(side), *map(_label_right, self.lines)]) + LANE

    def _place_side_labels(self) -> None:
        for line in self.lines:
            if line.way == "beside":
                start, end = self._beside(line)
                line.label_at = ((start[0] + end[0]) / 2, start[1])
            elif line.leaves_aside:
                x, y = self._slot(line.source, line.side, line)
                out = line.label_width / 2 + 8
                line.label_at = (x + out if line.side == "right" else x - out, y)

    # Ways

    def _track(self, channel: int, run: Run) -> float:
        return self.track_tops[channel] + self.tracks[channel][run] * TRACK

    def path(self, line: Line) -> tuple[str, Point, Point]:
        """The way of a line, where it ends, and in which direction."""
        match line.way:
            case "loop":
                return _loop(line.source)
            case "direct":
                return self._direct(line)
            case "beside":
                points = self._beside(line)
            case "under":
                points = self._under(line)
            case "around":
                points = [*self._leaving(line), *self._arriving(line)]
        return _rounded(points), points[-1], _direction(points[-2], points[-1])

    def _direct(self, line: Line) -> tuple[str, Point, Point]:
        source, target, down = line.source, line.target, line.goes_down
        start_x, end_x = self._ends(line)
        start = (start_x, source.bottom if down else source.top)
        end = (end_x, target.top if down else target.bottom)
        leaving = (start_x, self.bands[source.block.rank][down])
        arriving = (end_x, self.bands[target.block.rank][not down])
        curve = _curve(leaving, line.label_at if line.labels else None, arriving)
        return f"M{_at(start)} L{_at(leaving)} {curve} L{_at(end)}", end, (0.0, 1.0 if down else -1.0)

    def _beside(self, line: Line) -> list[Point]:
        to_right = line.source.order < line.target.order
        start = self._slot(line.source, "right" if to_right else "left", line)
        return [start, self._slot(line.target, "left" if to_right else "right", line)]

    def _under(self, line: Line) -> list[Point]:
        sx, tx = self.ports[line.source, False, line], self.ports[line.target, False, line]
        y = self._track(line.channel, line)
        return [(sx, line.source.bottom), (sx, y), (tx, y), (tx, line.target.bottom)]

    def _leaving(self, line: Line) -> list[Point]:
        lane = self.lanes[line.bundle]
        if line.leaves_aside:
            start = self._slot(line.source, line.side, line)
            return [start, (lane, start[1])]
        x, y = self.ports[line.source, False, line], self._track(line.channel, ("out", line.bundle))
        return [(x, line.source.bottom), (x, y), (lane, y)]

    def _arriving(self, line: Line) -> list[Point]:
        lane = self.lanes[line.bundle]
        if line.arrives_aside:
            end = self._slot(line.target, line.side, line.bundle)
            return [(lane, end[1]), end]
        x = self.ports[line.target, True, line.bundle]
        y = self._track(line.target.block.rank, ("in", line.bundle))
        return [(lane, y), (x, y), (x, line.target.top)]

    # Markup

    def picture(self, boxes: list[Box]) -> Picture:
        left = min([self._lane_start("left") + LANE, *self.lanes.values()]) - MARGIN
        right = max([self._lane_start("right") - LANE, *self.lanes.values()]) + MARGIN
        frames = [box for box in boxes if box.members or box.picture]
        layers = (
            (part for box in frames for part in _frame(box)),
            (part for line in self.lines for part in self._line(line)),
            (part for box in boxes if box not in frames for part in _node(box)),
            (part for box in frames for part in _frame_title(box)),
            (part for line in self.lines for part in _label(line)),
        )
        body = [part for layer in layers for part in layer]
        return Picture(right - left, self.height, [f'<g transform="translate({-left:.1f} 0)">', *body, "</g>"])

    def _line(self, line: Line) -> Iterator[str]:
        path, end, direction = self.path(line)
        title = f"{line.source.node.label} → {line.target.node.label}: {DOES[line.kind]}"
        yield f'<path class="line {line.kind}" d="{path}"><title>{_escaped(title)}</title></path>'
        yield f'<path class="tip {line.kind}" d="{_tip(end, direction)}"/>'


def _in_rows(lines: list[Line]) -> list[list[Line]]:
    rows: list[list[Line]] = []
    ends: list[float] = []
    for line in lines:
        start = line.label_at[0] - line.label_width / 2
        row = next((n for n, end in enumerate(ends) if end <= start), len(rows))
        if row == len(rows):
            rows.append([])
            ends.append(0.0)
        rows[row].append(line)
        ends[row] = start + line.label_width + 4
    return rows


def _place_in_band(box: Box, top: float, height: float) -> None:
    box.top = top + (height - box.height) / 2
    for member in box.members:
        member.top = box.top + NODE_HEIGHT


# Curves


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _curve(start: Point, through: Point | None, end: Point) -> str:
    """Leaves and arrives upright, and passes through the label on the way."""
    (sx, sy), (ex, ey) = start, end
    if through is None:
        half = (ey - sy) / 2
        return f"C{_at((sx, sy + half))} {_at((ex, ey - half))} {_at(end)}"
    x, y = through
    slope = (ex - sx) / (ey - sy)
    before, after = (y - sy) / 2, (ey - y) / 2
    first = f"C{_at((sx, sy + before))} {_at((x - slope * before, y - before))} {_at(through)}"
    return f"{first} C{_at((x + slope * after, y + after))} {_at((ex, ey - after))} {_at(end)}"


def _loop(box: Box) -> tuple[str, Point, Point]:
    x, y, out = box.right, box.middle, box.right + LOOP
    path = f"M{_at((x, y - 10))} C{_at((out, y - 22))} {_at((out, y + 22))} {_at((x, y + 10))}"
    return path, (x, y + 10), (-1.0, 0.0)


def _direction(before: Point, end: Point) -> Point:
    if abs(end[0] - before[0]) > abs(end[1] - before[1]):
        return (1.0 if end[0] > before[0] else -1.0), 0.0
    return 0.0, (1.0 if end[1] > before[1] else -1.0)


def _rounded(points: list[Point]) -> str:
    parts = [f"M{_at(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        parts.append(f"L{_at(_toward(corner, before))} Q{_at(corner)} {_at(_toward(corner, after))}")
    return " ".join([*parts, f"L{_at(points[-1])}"])


def _toward(corner: Point, other: Point) -> Point:
    """A little way from the corner, at most half of the way."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = abs(dx) + abs(dy)
    share = min(CORNER, length / 2) / length if length else 0.0
    return corner[0] + dx * share, corner[1] + dy * share


def _tip(end: Point, direction: Point) -> str:
    (x, y), (dx, dy) = end, direction
    left = (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx)
    right = (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)
    return f"M{_at(end)} L{_at(left)} L{_at(right)}Z"


# Markup


def _escaped(text: str) -> str:
    return escape(plain(text))


def _text(place: Point, text: str, look: str) -> str:
    return f'<text class="{look}" x="{place[0]:.1f}" y="{place[1]:.1f}">{escape(text)}</text>'


def _rect(box: Box, look: str, radius: float) -> str:
    return (
        f'<rect class="{look}" x="{box.left:.1f}" y="{box.top:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def _tooltip(node: Node) -> str:
    return f"<title>{_escaped('; '.join([plain(node.label), *marks_of(node), *node.notes]))}</title>"


def _node(box: Box) -> Iterator[str]:
    node, subtitle = box.node, _subtitle(box.node)
    look = f"node {node.kind}" + (" entry" if node.entry else "") + (" waits" if node.waits else "")
    yield f'<g data-name="{_escaped(node.name)}">{_tooltip(node)}'
    yield _rect(box, look, END_HEIGHT / 2 if node.kind == "end" else 9)
    rise = 3 if subtitle else -4.5
    yield _text((box.x, box.middle - rise), _clipped(node.label), f"name {node.kind}")
    if subtitle:
        yield _text((box.x, box.middle + 13), subtitle, "subtitle")
    yield "</g>"


def _frame(box: Box) -> Iterator[str]:
    """A box that has others inside."""
    node, picture = box.node, box.picture
    yield f'<g data-name="{_escaped(node.name)}">{_tooltip(node)}'
    yield _rect(box, f"node {node.kind}", 14)
    if picture:
        x, y = box.x - picture.width / 2, box.bottom - picture.height
        yield from (f'<g class="inside" transform="translate({x:.1f} {y:.1f})">', *picture.markup, "</g>")
    yield "</g>"


def _frame_title(box: Box) -> Iterator[str]:
    yield _text((box.left + PAD, box.top + 20), _clipped(box.node.label), f"title {box.node.kind}")
    if subtitle := _subtitle(box.node):
        yield _text((box.left + PAD, box.top + 35), subtitle, f"subtitle start {box.node.kind}")


def _label_left(line: Line) -> float:
    if not line.labels:
        return line.source.x
    return line.source.right + LOOP if line.way == "loop" else line.label_at[0] - line.label_width / 2


def _label_right(line: Line) -> float:
    return _label_left(line) + line.label_width if line.labels else line.source.x


def _label(line: Line) -> Iterator[str]:
    if not line.labels:
        return
    left, width, height = _label_left(line), line.label_width, line.label_height
    middle = line.source.middle if line.way == "loop" else line.label_at[1]
    top = middle - height / 2
    yield (f'<rect class="halo" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"/>')
    for n, (label, kind) in enumerate(line.stack):
        yield _text((left + width / 2, top + 13 + n * LINE_HEIGHT), label, f"mark {kind}")


# Style. Every rule is scoped, for the picture may stand inside a page with rules of its own.


_FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_SHAPES = {
    "text": f"font:400 11px {_FONT};text-anchor:middle",
    ".name": "font-size:13px;font-weight:600",
    ".name.end": "font-size:11px;letter-spacing:1px",
    ".title": "font-size:13px;font-weight:600;text-anchor:start",
    ".subtitle.start": "text-anchor:start",
    ".title,.subtitle.start": "paint-order:stroke;stroke-width:5px;stroke-linejoin:round",
    ".mark": f"font:500 11px {_MONO}",
    ".node": "stroke-width:1.3",
    ".node.entry": "stroke-width:2.6",
    ".node.unknown": "stroke-dasharray:4 3",
    ".line": "fill:none;stroke-width:1.5",
    ".line.member,.line.default,.line.return": "stroke-dasharray:5 4",
    ".line.handoff,.line.broadcast,.line.external": "stroke-dasharray:2 3",
    ".line.parallel,.line.sub_crew": "stroke-width:2.2",
}


def _rules(rules: dict[str, str]) -> str:
    return "".join(
        f"{','.join(f'.interlock {each}' for each in selector.split(','))}{{{declarations}}}\n"
        for selector, declarations in rules.items()
    )


def _colors(paper: str, ink: str, soft: str, edge: str, box: str) -> dict[str, str]:
    return {
        ".paper,.halo": f"fill:{paper}",
        ".name,.title": f"fill:{ink}",
        ".subtitle": f"fill:{soft}",
        ".node": f"fill:{box};stroke:{edge}",
        ".node.end": f"fill:{ink};stroke:{ink}",
        ".name.end": f"fill:{paper}",
        ".line": f"stroke:{edge}",
        ".tip,.mark": f"fill:{edge}",
    }


def _accents(**colors: str) -> dict[str, str]:
    """The colour of arrows by what they do, and of the boxes they lead to."""
    strokes = {f".line.{kind}": f"stroke:{color}" for kind, color in colors.items()}
    fills = {f".tip.{kind},.mark.{kind}": f"fill:{color}" for kind, color in colors.items()}
    return strokes | fills


_LIGHT = _rules(
    _colors("#ffffff", "#0f172a", "#64748b", "#475569", "#f8fafc")
    | {
        ".node.entry": "fill:#eef2ff;stroke:#4f46e5",
        ".node.group": "fill:#f5f3ff;stroke:#8b5cf6",
        ".node.sub_crew": "fill:#f0fdfa;stroke:#0d9488",
        ".title.group,.subtitle.group": "stroke:#f5f3ff",
        ".title.sub_crew,.subtitle.sub_crew": "stroke:#f0fdfa",
        ".inside .halo": "fill:#f0fdfa",
        ".node.waits": "fill:#fffbeb",
        ".node.unknown": "fill:#fff1f2;stroke:#e11d48",
    }
    | _accents(
        terminate="#be123c",
        pause="#b45309",
        parallel="#7c3aed",
        member="#a78bfa",
        next="#7c3aed",
        sub_crew="#0f766e",
        delegate="#1d4ed8",
        broadcast="#0369a1",
        external="#0369a1",
    )
)
_DARK = _rules(
    _colors("#0f172a", "#f1f5f9", "#94a3b8", "#a3b1c6", "#1e293b")
    | {
        ".node.entry": "fill:#272a5c;stroke:#818cf8",
        ".node.group": "fill:#251f47;stroke:#8b5cf6",
        ".node.sub_crew": "fill:#10312f;stroke:#2dd4bf",
        ".title.group,.subtitle.group": "stroke:#251f47",
        ".title.sub_crew,.subtitle.sub_crew": "stroke:#10312f",
        ".inside .halo": "fill:#10312f",
        ".node.waits": "fill:#3a2d14",
        ".node.unknown": "fill:#3f1220;stroke:#fb7185",
    }
    | _accents(
        terminate="#fb7185",
        pause="#fbbf24",
        parallel="#a78bfa",
        member="#8b5cf6",
        next="#a78bfa",
        sub_crew="#2dd4bf",
        delegate="#60a5fa",
        broadcast="#38bdf8",
        external="#38bdf8",
    )
)
_STYLE = f"{_rules(_SHAPES)}{_LIGHT}@media (prefers-color-scheme:dark){{\n{_DARK}}}\n"
