"""The picture, read back as XML: what stands where, and what never covers what."""

import random
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, get_args

import pytest

from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewDefinition,
    DelegationDefinition,
    GroupDefinition,
    RouteDefinition,
    SubCrewDefinition,
)
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.model import Diagram, DiagramEdge, DiagramNode, EdgeKind
from interlock.diagrams.svg import as_svg
from interlock.diagrams.svg.measures import HOSTED_MAX, SLOT, SLOTS_MAX, STACK_MAX, TRACKS_MAX
from interlock.signals.definition import SignalBehavior

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"'><script>alert(1)</script> ]]> <!-- &amp; \n\x00\x1b \u202eevil שלום \ud800\ufffe </text></svg>"


@dataclass
class Area:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Area") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def holds(self, other: "Area") -> bool:
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


@dataclass
class Drawn:
    """One level of a picture. The points of a line are all its corners and control points."""

    width: float = 0.0
    height: float = 0.0
    shift: float = 0.0
    boxes: dict[str, Area] = field(default_factory=dict)
    looks: dict[str, str] = field(default_factory=dict)
    labels: list[Area] = field(default_factory=list)
    lines: list[tuple[str, list[tuple[float, float]]]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def area(rect: ET.Element) -> Area:
    x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return Area(x, y, x + width, y + height)


def drawn(crew: CrewDefinition) -> Drawn:
    root = ET.fromstring(as_svg(diagram_of(crew)))
    level = root.find(f"{SVG}g")
    assert level is not None
    shift = float(re.findall(r"[-\d.]+", level.attrib["transform"])[0])
    picture = Drawn(float(root.attrib["width"]), float(root.attrib["height"]), shift)
    for part in level:
        _read(part, picture)
    picture.texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    return picture


def _read(part: ET.Element, picture: Drawn) -> None:
    look = part.attrib.get("class", "")
    if "data-name" in part.attrib:
        rect = part.find(f"{SVG}rect")
        assert rect is not None
        picture.boxes[part.attrib["data-name"]] = area(rect)
        picture.looks[part.attrib["data-name"]] = rect.attrib["class"]
    elif look == "halo":
        picture.labels.append(area(part))
    elif look.startswith("line "):
        numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", part.attrib["d"])]
        picture.lines.append((look.removeprefix("line "), list(zip(numbers[::2], numbers[1::2], strict=True))))
        picture.titles.append(part[0].text or "")


def route(signal: str, behavior: str = "route", target: str = "", **more: Any) -> RouteDefinition:
    return RouteDefinition(signal=f"[{signal}]", behavior=SignalBehavior(behavior), priority=50, target=target, **more)


def crew_of(*agents: str | AgentDefinition, **more: Any) -> CrewDefinition:
    listed = tuple(
        agent if isinstance(agent, AgentDefinition) else AgentDefinition(id=agent, name=agent) for agent in agents
    )
    entry = listed[0].id if listed else ""
    return CrewDefinition(**{"version": "2.0", "name": "quiz", "entry_point": entry, "agents": listed, **more})


def linked(*pairs: str, agents: str = "abcdefgh") -> CrewDefinition:
    """A crew with a route for each pair of letters."""
    routes: dict[str, tuple[RouteDefinition, ...]] = {}
    for pair in pairs:
        source, target = pair[0], pair[1]
        routes[source] = (*routes.get(source, ()), route(f"TO_{target.upper()}", "route", target))
    used = [agent for agent in agents if any(agent in pair for pair in pairs)]
    return crew_of(*used, routes=routes)


def tangled(agents: int, routes: int, seed: int) -> CrewDefinition:
    chance = random.Random(seed)
    ids = [f"agent{n}" for n in range(agents)]
    pairs = [(ids[chance.randrange(n)], ids[n]) for n in range(1, agents)]
    pairs += [(chance.choice(ids), chance.choice(ids)) for _ in range(routes - len(pairs))]
    found: dict[str, tuple[RouteDefinition, ...]] = {
        ids[-1]: (route("END", "terminate"),),
        ids[1]: (route("END", "terminate"),),
    }
    for source, target in pairs:
        mark = route(chance.choice(["NEXT", "ASK_FOR_REVIEW", "NO"]), "route", target)
        found[source] = (*found.get(source, ()), mark)
    return crew_of(*ids, routes=found)


# Order and place


def test_a_chain_stands_in_one_column_from_top_to_bottom() -> None:
    boxes = drawn(linked("ab", "bc", "cd", "de")).boxes
    assert all(upper.bottom < lower.top for upper, lower in pairwise(boxes[name] for name in "abcde"))
    assert len({round(box.middle) for box in boxes.values()}) == 1


def test_an_agent_stands_as_deep_as_its_shortest_way_from_the_entry() -> None:
    boxes = drawn(linked("ab", "bc", "cd", "ad", "db")).boxes
    assert boxes["b"].top == boxes["d"].top
    assert boxes["a"].top < boxes["b"].top < boxes["c"].top


def test_a_rank_is_ordered_so_that_arrows_do_not_cross() -> None:
    boxes = drawn(linked("ab", "ac", "bd", "ce", "cf", "bg", agents="abcefdgh")).boxes
    assert boxes["b"].middle < boxes["c"].middle
    assert max(boxes[name].middle for name in "dg") < min(boxes[name].middle for name in "ef")


def test_sweeps_take_crossings_out_of_the_order_of_the_file() -> None:
    pairs = ("ab", "ac", "ad", "ah", "be", "cf", "de", "he")
    boxes = drawn(linked(*pairs, agents="abcdhef")).boxes
    below = [(boxes[pair[0]].middle, boxes[pair[1]].middle) for pair in pairs[4:]]
    assert not [1 for one, other in combinations(below, 2) if (one[0] - other[0]) * (one[1] - other[1]) < 0]


def test_a_parent_stands_over_the_middle_of_its_children() -> None:
    boxes = drawn(linked("ab", "ac", "ad")).boxes
    assert boxes["a"].middle == pytest.approx(boxes["c"].middle, abs=1)
    assert boxes["b"].middle < boxes["c"].middle < boxes["d"].middle


def test_the_end_stands_below_everything_that_leads_to_it() -> None:
    ending = {name: (route("END", "terminate"),) for name in "abc"}
    crew = crew_of("a", "b", "c", routes=ending, defaults={"a": "b", "b": "c"})
    boxes = drawn(crew).boxes
    assert boxes[""].top > max(boxes[name].bottom for name in "abc")


def test_agents_that_nothing_leads_to_are_drawn_beside_the_entry() -> None:
    boxes = drawn(crew_of("a", "b", "c")).boxes
    assert boxes["a"].top == boxes["b"].top == boxes["c"].top


@pytest.mark.parametrize("seed", range(8))
def test_boxes_and_labels_never_cover_each_other(seed: int) -> None:
    picture = drawn(tangled(24, 50, seed))
    assert len(picture.boxes) == 25
    areas = [*picture.boxes.values(), *picture.labels]
    assert not [pair for pair in combinations(areas, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("seed", range(8))
def test_everything_is_inside_the_picture(seed: int) -> None:
    picture = drawn(tangled(24, 50, seed))
    sheet = Area(-picture.shift, 0, picture.width - picture.shift, picture.height)
    points = [Area(x, y, x, y) for _, line in picture.lines for x, y in line]
    assert picture.boxes and picture.labels and points
    assert all(sheet.holds(each) for each in (*picture.boxes.values(), *picture.labels, *points))


@pytest.mark.parametrize("seed", range(8))
def test_arrows_around_the_side_run_across_no_box(seed: int) -> None:
    """Their stretches are level or upright, so each is an area without width."""
    picture = drawn(tangled(24, 50, seed))
    around = [line for _, line in picture.lines if _is_square(line)]
    assert len(around) > 5
    for line in around:
        for (x1, y1), (x2, y2) in pairwise(line):
            stretch = Area(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
            assert not [name for name, box in picture.boxes.items() if _crosses(stretch, box)]


def _is_square(line: list[tuple[float, float]]) -> bool:
    return len(line) > 4 and all(abs(a[0] - b[0]) < 0.2 or abs(a[1] - b[1]) < 0.2 for a, b in pairwise(line))


def _crosses(stretch: Area, box: Area) -> bool:
    return stretch.overlaps(Area(box.left + 0.2, box.top + 0.2, box.right - 0.2, box.bottom - 0.2))


# Arrows


def test_arrows_there_and_back_do_not_share_their_ends() -> None:
    (_, there), (_, back) = drawn(linked("ab", "ba")).lines
    assert abs(there[0][0] - back[-1][0]) > 10
    assert abs(there[-1][0] - back[0][0]) > 10


def test_arrows_there_and_back_between_neighbours_do_not_share_their_height() -> None:
    lines = drawn(linked("ab", "ac", "bc", "cb")).lines
    there, back = (line for _, line in lines[2:])
    assert there[0][1] == there[-1][1]
    assert back[0][1] == back[-1][1]
    assert abs(there[0][1] - back[0][1]) > 15


def test_level_stretches_in_one_channel_do_not_lie_on_each_other() -> None:
    """A loop on the left one of two neighbours keeps the arrows between them in the channel below."""
    lines = drawn(linked("ab", "ac", "bb", "bc", "cb")).lines
    there, back = (max(y for _, y in line) for _, line in lines[-2:])
    assert abs(there - back) > 5


@pytest.mark.parametrize("seed", range(8))
def test_an_arrow_begins_and_ends_on_the_edge_of_its_boxes(seed: int) -> None:
    picture = drawn(tangled(12, 40, seed))
    for title, (_, line) in zip(picture.titles, picture.lines, strict=True):
        source, target = title.split(":")[0].split(" → ")
        assert _is_on_edge(line[0], picture.boxes[source])
        assert _is_on_edge(line[-1], picture.boxes["" if target == "END" else target])


def _is_on_edge(point: tuple[float, float], box: Area) -> bool:
    x, y = point
    is_level = min(abs(y - box.top), abs(y - box.bottom)) < 0.2 and box.left < x < box.right
    is_upright = min(abs(x - box.left), abs(x - box.right)) < 0.2 and box.top < y < box.bottom
    return is_level or is_upright


def test_a_long_way_back_goes_around_the_side() -> None:
    picture = drawn(linked("ab", "bc", "cd", "da"))
    back = picture.lines[-1][1]
    assert max(x for x, _ in back) > max(box.right for box in picture.boxes.values())
    assert back[0][1] > picture.boxes["c"].bottom
    assert back[-1][1] < picture.boxes["a"].bottom


def test_ways_around_the_side_to_different_boxes_keep_to_different_lanes() -> None:
    lines = drawn(linked("ab", "bc", "cd", "de", "da", "eb")).lines
    one, other = (max(x for x, _ in line) for _, line in lines if line[-1][1] < line[0][1])
    assert abs(one - other) > 10


def test_a_box_does_not_grow_without_end_for_arrows_at_its_side() -> None:
    picture = drawn(linked("ab", "bc", "cd", "de", "ef", "fg", "gh", "ha", "hb", "hc", "hd", "he", "hf"))
    last = picture.boxes["h"]
    starts = [line[0][1] for _, line in picture.lines[-6:]]
    assert last.bottom - last.top < (SLOTS_MAX + 1) * SLOT
    assert len([y for y in starts if y < last.bottom]) == SLOTS_MAX


def test_a_channel_does_not_grow_without_end_for_level_stretches() -> None:
    near, far = ([f"{rank}{n}" for n in range(3 * TRACKS_MAX)] for rank in ("near", "far"))
    routes = {
        "a": tuple(route("N", "route", name) for name in near),
        "near0": (route("B", "route", "b"),),
        "b": tuple(route("F", "route", name) for name in far),
        **{name: (route("BACK", "route", target),) for name, target in zip(far, near, strict=True)},
    }
    lines = drawn(crew_of("a", *near, "b", *far, routes=routes)).lines
    assert len({max(y for _, y in line) for _, line in lines[-len(far) :]}) <= TRACKS_MAX + 2


def test_a_self_loop_leaves_and_arrives_at_the_right_edge() -> None:
    picture = drawn(linked("aa"))
    (_, loop) = picture.lines[0]
    right = picture.boxes["a"].right
    assert loop[0][0] == loop[-1][0] == right
    assert all(x >= right for x, _ in loop)
    assert picture.labels[0].left > right


def test_one_loop_carries_all_marks_that_come_back() -> None:
    crew = crew_of("a", "b", routes={"a": (route("AGAIN", "route", "a"), route("WAIT", "pause"))})
    picture = drawn(crew)
    assert len(picture.lines) == 1
    assert picture.texts.index("[WAIT]") == picture.texts.index("[AGAIN]") + 1


def test_marks_that_lead_the_same_way_share_one_arrow() -> None:
    marks = tuple(route(f"MARK{n}", "route", "b") for n in range(STACK_MAX + 2))
    picture = drawn(crew_of("a", "b", routes={"a": marks}))
    assert len(picture.lines) == 1
    assert [text for text in picture.texts if "MARK" in text] == [f"[MARK{n}]" for n in range(STACK_MAX)]
    assert "and 2 more" in picture.texts


def every_kind() -> Diagram:
    nodes = (
        DiagramNode(id="n0", name="a", label="a", kind="agent", entry=True),
        DiagramNode(id="n1", name="b", label="b", kind="agent"),
    )
    edges = tuple(DiagramEdge(source="n0", target="n1", kind=kind) for kind in get_args(EdgeKind))
    return Diagram(name="x", nodes=nodes, edges=edges)


def test_every_kind_of_arrow_is_drawn_apart_from_the_others() -> None:
    root = ET.fromstring(as_svg(every_kind()))
    lines = [path for path in root.iter(f"{SVG}path") if path.attrib["class"].startswith("line ")]
    tips = [path.attrib["class"] for path in root.iter(f"{SVG}path") if path.attrib["class"].startswith("tip ")]
    assert [path.attrib["class"] for path in lines] == [f"line {kind}" for kind in get_args(EdgeKind)]
    assert tips == [f"tip {kind}" for kind in get_args(EdgeKind)]
    assert len({path.attrib["d"] for path in lines}) == len(lines)


def test_a_tooltip_says_what_an_arrow_does() -> None:
    assert drawn(linked("ab")).titles == ["a → b: hands over"]


# Boxes


def test_the_entry_and_those_who_wait_are_marked() -> None:
    picture = drawn(crew_of("a", "b", behaviors={"b": AgentBehavior(wait_for_signal=True)}))
    assert picture.looks == {"a": "node agent entry", "b": "node agent waits"}
    assert {"starts here", "waits for a person"} <= set(picture.texts)


def test_members_of_one_group_stand_inside_it() -> None:
    crew = crew_of(
        *"abc",
        routes={"a": (route("ALL", "parallel", "g"),)},
        groups={"g": GroupDefinition(name="g", agents=("b", "c"), next_agent="a")},
    )
    picture = drawn(crew)
    assert picture.boxes["g"].holds(picture.boxes["b"])
    assert picture.boxes["g"].holds(picture.boxes["c"])
    assert not picture.boxes["b"].overlaps(picture.boxes["c"])
    assert [kind for kind, _ in picture.lines] == ["parallel", "next"]


def test_members_of_several_groups_stand_outside_on_dashed_arrows() -> None:
    groups = {name: GroupDefinition(name=name, agents=("b", "c"), next_agent="a") for name in ("g", "h")}
    marks = (route("ONE", "parallel", "g"), route("TWO", "parallel", "h"))
    picture = drawn(crew_of(*"abc", routes={"a": marks}, groups=groups))
    assert [kind for kind, _ in picture.lines].count("member") == 4
    assert not any(picture.boxes[group].overlaps(picture.boxes[agent]) for group in "gh" for agent in "bc")


def test_a_large_group_does_not_hold_its_members() -> None:
    members = tuple(f"m{n}" for n in range(HOSTED_MAX + 1))
    picture = drawn(crew_of("a", *members, groups={"g": GroupDefinition(name="g", agents=members)}))
    assert [kind for kind, _ in picture.lines] == ["member"] * len(members)


def test_arrows_of_members_begin_at_the_member() -> None:
    crew = crew_of(
        *"abc",
        routes={"a": (route("ALL", "parallel", "g"),), "b": (route("DONE", "route", "a"), route("ASK", "route", "c"))},
        groups={"g": GroupDefinition(name="g", agents=("b", "c"))},
    )
    picture = drawn(crew)
    starts = [line[0] for kind, line in picture.lines if kind == "route"]
    member = picture.boxes["b"]
    assert [y for _, y in starts] == [member.top, member.bottom]
    assert all(member.left < x < member.right for x, _ in starts)


def test_a_sub_crew_is_drawn_inside_its_box() -> None:
    sub = SubCrewDefinition(name="s", config_path="s", crew=linked("xy", "yz", agents="xyz"))
    crew = crew_of("a", routes={"a": (route("CALL", "sub_crew", target_crew="s"),)}, sub_crews={"s": sub})
    root = ET.fromstring(as_svg(diagram_of(crew)))
    frame = next(group for group in root.iter(f"{SVG}g") if group.attrib.get("data-name") == "s")
    inside = frame.find(f"{SVG}g")
    outline = frame.find(f"{SVG}rect")
    assert inside is not None
    assert outline is not None
    assert [g.attrib["data-name"] for g in inside.iter(f"{SVG}g") if "data-name" in g.attrib] == ["x", "y", "z"]
    box = area(outline)
    shifts = [re.findall(r"[-\d.]+", g.attrib["transform"]) for g in inside.iter(f"{SVG}g") if "transform" in g.attrib]
    x, y = (sum(float(shift[axis]) for shift in shifts) for axis in (0, 1))
    for rect in inside.iter(f"{SVG}rect"):
        moved = area(rect)
        assert box.holds(Area(moved.left + x, moved.top + y, moved.right + x, moved.bottom + y))


def test_crews_in_a_group_are_drawn_inside_it() -> None:
    subs = {name: SubCrewDefinition(name=name, config_path=name, crew=linked("xy", agents="xy")) for name in ("s", "t")}
    groups = {"g": GroupDefinition(name="g", agents=("s", "t", "b"), next_agent="a")}
    picture = drawn(crew_of(*"ab", routes={"a": (route("ALL", "parallel", "g"),)}, groups=groups, sub_crews=subs))
    assert all(picture.boxes["g"].holds(picture.boxes[name]) for name in "stb")
    assert not [pair for pair in combinations("stb", 2) if picture.boxes[pair[0]].overlaps(picture.boxes[pair[1]])]


def test_a_closed_box_says_why_nothing_is_drawn_in_it() -> None:
    shared = linked("xy", agents="xy")
    subs = {name: SubCrewDefinition(name=name, config_path="s", crew=shared) for name in ("s", "t")}
    root = ET.fromstring(as_svg(diagram_of(crew_of("a", sub_crews=subs))))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts.count("the same crew as s") == 1
    assert texts.count("x") == 1
    assert "t; the same crew as s" in [title.text for title in root.iter(f"{SVG}title")]


@pytest.mark.parametrize(("name", "shown"), [("s", 0), ("helpers", 1)])
def test_a_box_says_what_the_crew_in_it_calls_itself(name: str, shown: int) -> None:
    inner = crew_of("x", "y", name=name)
    crew = crew_of("a", sub_crews={"s": SubCrewDefinition(name="s", config_path="s", crew=inner)})
    texts = [text.text for text in ET.fromstring(as_svg(diagram_of(crew))).iter(f"{SVG}text")]
    assert (texts.count("s"), texts.count("helpers")) == (1, shown)


def test_ten_levels_of_crews_are_a_picture_that_grows_by_as_much_with_each() -> None:
    sizes = []
    crew = linked("xy", agents="xy")
    for _ in range(10):
        calls = {"a": (route("CALL", "sub_crew", target_crew="s"), route("END", "terminate"))}
        crew = crew_of("a", routes=calls, sub_crews={"s": SubCrewDefinition(name="s", config_path="s", crew=crew)})
        picture = drawn(crew)
        sizes.append((picture.width, picture.height, len(as_svg(diagram_of(crew)))))
    growth = [[after[n] - before[n] for before, after in pairwise(sizes)] for n in range(3)]
    assert all(max(steps) < 1.2 * min(steps) for steps in growth)


def test_a_long_name_is_cut_and_kept_whole_in_its_tooltip() -> None:
    name = "Học sinh giỏi nhất lớp " * 10
    svg = as_svg(diagram_of(crew_of(AgentDefinition(id="a", name=name))))
    root = ET.fromstring(svg)
    assert f"{name.strip()}; starts here; ends here" in [title.text for title in root.iter(f"{SVG}title")]
    assert max(len(text.text or "") for text in root.iter(f"{SVG}text")) < 50


def test_a_box_is_wide_enough_for_wide_letters() -> None:
    narrow, wide = (drawn(crew_of(letter * 15, "b")).boxes[letter * 15] for letter in ("x", "漢"))
    assert wide.right - wide.left > 1.5 * (narrow.right - narrow.left)


# Inert, self-contained, the same again


def hostile() -> CrewDefinition:
    inner = crew_of(AgentDefinition(id="b", name=HOSTILE), name=HOSTILE)
    return crew_of(
        AgentDefinition(id=HOSTILE, name=HOSTILE),
        "m",
        name=HOSTILE,
        routes={HOSTILE: (route(HOSTILE, "route", HOSTILE + "!"), route("G", "parallel", HOSTILE))},
        groups={HOSTILE: GroupDefinition(name=HOSTILE, agents=("m",))},
        sub_crews={HOSTILE: SubCrewDefinition(name=HOSTILE, config_path="", crew=inner)},
        delegation=DelegationDefinition(root="m", children={"m": (HOSTILE,)}),
    )


def test_hostile_names_stay_text() -> None:
    svg = as_svg(diagram_of(hostile()))
    root = ET.fromstring(svg.encode())
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "g", "path", "text"}
    assert svg.count("</svg>") == 1
    assert "alert(1)" in "".join(root.itertext())
    assert not [char for char in "\u202e\x00\x1b" if char in svg]


def test_the_picture_needs_nothing_from_outside_and_runs_nothing() -> None:
    svg = as_svg(diagram_of(hostile()))
    attributes = {key for element in ET.fromstring(svg).iter() for key in element.attrib}
    assert not [key for key in attributes if key.startswith("on") or "href" in key or key == "style"]
    assert "url(" not in svg
    assert "@import" not in svg
    assert svg.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0


def test_the_picture_has_colours_for_light_and_dark() -> None:
    style = as_svg(diagram_of(linked("ab"))).split("<style>")[1].split("</style>")[0]
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    selectors = [set(re.findall(r"^(\.interlock [^{]+)\{[^}]*#", part, re.MULTILINE)) for part in (light, dark)]
    assert len(selectors[0]) > 10
    assert selectors[0] == selectors[1]


def test_no_rule_of_style_reaches_the_page_around_the_picture() -> None:
    style = as_svg(diagram_of(linked("ab"))).split("<style>")[1].split("</style>")[0]
    rules = [line for line in style.splitlines() if "{" in line and not line.startswith("@media")]
    assert rules
    assert all(part.startswith(".interlock ") for rule in rules for part in rule.split("{")[0].split(","))


def test_the_same_crew_is_the_same_picture() -> None:
    assert as_svg(diagram_of(tangled(20, 40, 1))) == as_svg(diagram_of(tangled(20, 40, 1)))


def test_an_empty_crew_is_an_empty_picture() -> None:
    picture = drawn(crew_of())
    assert (picture.boxes, picture.lines) == ({}, [])
    assert picture.width > 0


@pytest.mark.parametrize("shape", ["tangle", "chain", "hub"])
def test_a_crew_of_a_thousand_agents_is_drawn_in_seconds(shape: str) -> None:
    crew = large(shape)
    began = time.process_time()
    svg = as_svg(diagram_of(crew))
    assert time.process_time() - began < 10
    assert svg.count("data-name=") >= 1_000


def large(shape: str) -> CrewDefinition:
    if shape == "tangle":
        return tangled(1_000, 5_000, 1)
    ids = [f"agent{n}" for n in range(1_000)]
    steps = {"chain": (1, -1, -3, -9, -27), "hub": (-1_000, 1, 7, 49, 343)}[shape]
    routes = {
        name: tuple(route(f"S{step}", "route", ids[min(max(n + step, 0), 999)]) for step in steps)
        for n, name in enumerate(ids)
    }
    fan = tuple(route(f"N{n}", "route", name) for n, name in enumerate(ids))
    return crew_of(*ids, routes=routes | ({"agent0": fan} if shape == "hub" else {}))
