"""A crew as nodes and arrows, as text and as Mermaid."""

import re
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewDefinition,
    CrewSettings,
    DelegationDefinition,
    GroupDefinition,
    RouteDefinition,
    SubCrewDefinition,
    SubscriptionDefinition,
)
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.mermaid import as_mermaid
from interlock.diagrams.model import (
    EDGE_ACTIONS,
    Diagram,
    DiagramEdge,
    DiagramNode,
    EdgeKind,
    column_width,
    plain_line,
)
from interlock.diagrams.text import TEXT_COLUMNS, as_text
from interlock.limits import NESTED_NODES_MAX
from interlock.signals.definition import SignalBehavior

HOSTILE = '"]|end\n  n9-->n0 <script>alert(1)</script> ]]> #quot; `x` \x1b[31m \u202eevil \u2028 שלום & \ud800 --'


def route(signal: str, behavior: str, target: str = "", **more: Any) -> RouteDefinition:
    return RouteDefinition(signal=signal, behavior=SignalBehavior(behavior), priority=50, target=target, **more)


def crew_of(*agents: str | AgentDefinition, **more: Any) -> CrewDefinition:
    listed = tuple(
        agent if isinstance(agent, AgentDefinition) else AgentDefinition(id=agent, name=agent) for agent in agents
    )
    entry = listed[0].id if listed else ""
    return CrewDefinition(**{"version": "2.0", "name": "quiz", "entry_point": entry, "agents": listed, **more})


def routed(*routes: RouteDefinition, others: tuple[str, ...] = ("b", "c"), **more: Any) -> CrewDefinition:
    """A crew whose entry `a` has these routes."""
    return crew_of("a", *others, routes={"a": routes}, **more)


def arrows(crew: CrewDefinition) -> list[tuple[str, str, str, str]]:
    """Every edge as source, kind, target and label, with the names of the crew file."""
    diagram = diagram_of(crew)
    names = {node.id: node.name or node.label for node in diagram.nodes}
    return [(names[edge.source], edge.kind, names[edge.target], edge.label) for edge in diagram.edges]


def node(crew: CrewDefinition, name: str) -> DiagramNode:
    return next(node for node in diagram_of(crew).nodes if node.name == name)


def block(text: str, title: str) -> list[str]:
    """The lines of one block of the text form, its own frame taken off."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"┌─ {title}"))
    return [line.removeprefix("│").strip() for line in lines[start : lines.index("└─", start)]]


# Arrows, one test for each kind


def test_a_route_hands_over_to_its_target() -> None:
    assert arrows(routed(route("[GO]", "route", "b"))) == [("a", "route", "b", "[GO]")]


def test_a_termination_leads_to_one_end() -> None:
    crew = routed(route("[END]", "terminate"), route("[STOP]", "terminate"))
    assert arrows(crew) == [("a", "terminate", "END", "[END]"), ("a", "terminate", "END", "[STOP]")]
    assert [node.kind for node in diagram_of(crew).nodes].count("end") == 1


def test_a_pause_comes_back_to_its_agent_or_goes_on_at_its_target() -> None:
    crew = routed(route("[WAIT]", "pause"), route("[ASK]", "pause", "b"))
    assert arrows(crew) == [("a", "pause", "a", "[WAIT]"), ("a", "pause", "b", "[ASK]")]


def test_a_group_has_its_members_and_goes_on_at_its_next_agent() -> None:
    group = GroupDefinition(name="g", agents=("b", "c"), next_agent="a")
    assert arrows(routed(route("[ALL]", "parallel", "g"), groups={"g": group})) == [
        ("a", "parallel", "g", "[ALL]"),
        ("g", "member", "b", ""),
        ("g", "member", "c", ""),
        ("g", "next", "a", ""),
    ]


def test_a_group_without_a_next_agent_returns_to_whoever_started_it() -> None:
    crew = routed(route("[ALL]", "parallel", "g"), groups={"g": GroupDefinition(name="g", agents=("b",))})
    assert ("g", "return", "a", "") in arrows(crew)
    assert "next" not in [kind for _, kind, _, _ in arrows(crew)]


def test_parallel_targets_in_a_file_are_a_group_without_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(
        """
version: "2.0"
entry_point: a
agents: [{id: a, model: "scripted:a"}, {id: b, model: "scripted:b"}, {id: c, model: "scripted:c"}]
routing: {signals: {a: [{signal: "[ALL]", parallel_targets: [b, c]}, {signal: "[END]"}]}}
""",
        "utf-8",
    )
    crew = read_crew(tmp_path).crew
    assert crew is not None
    assert [node.label for node in diagram_of(crew).nodes if node.kind == "group"] == ["in parallel"]
    assert [(kind, target) for _, kind, target, _ in arrows(crew)] == [
        ("parallel", "a:[ALL]"),
        ("return", "a"),
        ("terminate", "END"),
        ("member", "b"),
        ("member", "c"),
    ]


def test_a_default_and_handoff_targets_are_drawn() -> None:
    crew = crew_of(AgentDefinition(id="a", name="a", handoff_targets=("c", "b")), "b", "c", defaults={"a": "b"})
    assert arrows(crew) == [("a", "default", "b", ""), ("a", "handoff", "c", ""), ("a", "handoff", "b", "")]


def test_a_broadcast_leads_to_each_of_its_targets() -> None:
    crew = routed(route("[TELL]", "broadcast", targets=("b", "c")))
    assert arrows(crew) == [("a", "broadcast", "b", "[TELL]"), ("a", "broadcast", "c", "[TELL]")]


def test_a_broadcast_without_targets_and_an_external_signal_stay_at_their_agent() -> None:
    crew = routed(route("[TELL]", "broadcast"), route("[DEPLOY]", "external"))
    assert arrows(crew) == [("a", "broadcast", "a", "[TELL]"), ("a", "external", "a", "[DEPLOY]")]


def test_a_call_returns_to_its_caller() -> None:
    crew = routed(
        route("[CALL]", "sub_crew", target_crew="s"), sub_crews={"s": SubCrewDefinition(name="s", config_path="s")}
    )
    assert arrows(crew) == [("a", "sub_crew", "s", "[CALL]"), ("s", "return", "a", "")]


def test_a_call_returns_where_it_says_and_leads_errors_to_their_agent() -> None:
    call = route("[CALL]", "sub_crew", target_crew="s", return_to="b", on_error="c")
    drawn = arrows(routed(call, sub_crews={"s": SubCrewDefinition(name="s", config_path="s")}))
    assert drawn[1:] == [("s", "return", "b", ""), ("s", "error", "c", "")]


@pytest.mark.parametrize(
    ("on_error", "notes"), [("return", ("when [CALL] fails, it returns the error",)), ("fail", ())]
)
def test_a_call_that_returns_its_error_says_so(on_error: str, notes: tuple[str, ...]) -> None:
    call = route("[CALL]", "sub_crew", target_crew="s", on_error=on_error)
    subs = {name: SubCrewDefinition(name=name, config_path=name) for name in ("s", "t")}
    crew = routed(call, route("[NEXT]", "sub_crew", target_crew="t"), sub_crews=subs)
    assert (node(crew, "s").notes, node(crew, "t").notes) == (notes, ())
    assert [kind for _, kind, _, _ in arrows(crew)].count("error") == 0


def test_delegation_leads_from_parent_to_child() -> None:
    crew = crew_of("a", "b", "c", delegation=DelegationDefinition(root="a", children={"a": ("c", "b")}))
    assert arrows(crew) == [("a", "delegate", "c", ""), ("a", "delegate", "b", "")]


def test_every_kind_of_arrow_says_what_it_does() -> None:
    assert list(EDGE_ACTIONS) == list(get_args(EdgeKind))


# Where it ends


def test_a_terminal_agent_ends_the_run_with_its_reply() -> None:
    crew = crew_of("a", "b", behaviors={"a": AgentBehavior(is_terminal=True)})
    assert arrows(crew) == [("a", "terminate", "END", "")]
    assert node(crew, "a").terminal
    assert not node(crew, "b").terminal


def test_an_agent_alone_ends_the_run_with_its_reply() -> None:
    assert arrows(crew_of("a")) == [("a", "terminate", "END", "")]


def test_a_reply_without_signal_completes_where_the_crew_says_so() -> None:
    crew = crew_of("a", "b", defaults={"a": "b"}, settings=CrewSettings(on_no_signal="complete"))
    assert arrows(crew) == [("a", "default", "b", ""), ("b", "terminate", "END", "")]


def test_a_member_that_never_has_the_floor_does_not_end_the_run() -> None:
    crew = routed(
        route("[ALL]", "parallel", "g"),
        others=("b",),
        groups={"g": GroupDefinition(name="g", agents=("b",), next_agent="a")},
        behaviors={"b": AgentBehavior(is_terminal=True)},
    )
    assert "terminate" not in [kind for _, kind, _, _ in arrows(crew)]


def test_an_agent_that_waits_without_signal_does_not_end_the_run() -> None:
    crew = crew_of("a", behaviors={"a": AgentBehavior(wait_for_signal=True, is_terminal=True)})
    assert arrows(crew) == []


# Nodes


def test_nodes_stand_in_file_order_with_the_end_last() -> None:
    crew = routed(
        route("[END]", "terminate"),
        route("[ALL]", "parallel", "g"),
        others=("z", "b"),
        groups={"g": GroupDefinition(name="g", agents=("b", "z"))},
        sub_crews={"s": SubCrewDefinition(name="s", config_path="s")},
    )
    kinds = [(node.kind, node.name) for node in diagram_of(crew).nodes]
    agents = [("agent", "a"), ("agent", "z"), ("agent", "b")]
    assert kinds == [*agents, ("group", "g"), ("sub_crew", "s"), ("end", "")]


def test_only_the_entry_is_marked_as_entry() -> None:
    assert [node.entry for node in diagram_of(crew_of("a", "b", entry_point="b")).nodes] == [False, True]


@pytest.mark.parametrize(
    "more",
    [
        {"behaviors": {"a": AgentBehavior(wait_for_signal=True)}},
        {"behaviors": {"a": AgentBehavior(auto_route=False)}},
        {"routes": {"a": (route("[WAIT]", "pause"),)}},
        {"routes": {"a": (route("[DEPLOY]", "external", pause=True),)}},
    ],
)
def test_an_agent_that_waits_for_a_person_says_so(more: dict[str, Any]) -> None:
    crew = crew_of("a", "b", **more)
    text = as_text(diagram_of(crew))
    assert node(crew, "a").waits
    assert not node(crew, "b").waits
    assert "┌─ a ── starts here, waits for a person" in text
    assert "  waits at   a\n" in text


def test_a_crew_that_never_waits_does_not_mention_waiting() -> None:
    assert "waits" not in as_text(diagram_of(routed(route("[GO]", "route", "b"))))


def test_a_name_the_crew_does_not_have_is_drawn_as_unknown() -> None:
    crew = routed(route("[GO]", "route", "nobody"), route("[ALL]", "parallel", "b"))
    assert node(crew, "nobody").kind == "unknown"
    # An agent is no group, so a group of that name is missing as well.
    assert [node.kind for node in diagram_of(crew).nodes if node.name == "b"] == ["agent", "unknown"]
    assert "[GO]  ──▶ nobody (unknown)" in as_text(diagram_of(crew))


def test_an_empty_target_is_drawn_as_nothing() -> None:
    assert node(routed(route("[GO]", "route")), "").label == "nothing"


def test_routes_of_an_agent_the_crew_does_not_have_are_drawn() -> None:
    crew = crew_of("a", "b", routes={"ghost": (route("[GO]", "route", "b"),)})
    assert arrows(crew) == [("ghost", "route", "b", "[GO]")]


def test_a_mark_that_is_only_noted_has_no_arrow_but_a_note() -> None:
    crew = routed(route("[OK]", "terminate", acknowledges=True))
    assert arrows(crew) == []
    assert node(crew, "a").notes == ("[OK] is recorded and has no other effect",)


def test_notes_tell_what_arrows_cannot() -> None:
    group = GroupDefinition(name="g", agents=("b",), wait_for_all=False, timeout_seconds=30, on_error="fail")
    crew = crew_of(
        "a",
        "b",
        groups={"g": group},
        delegation=DelegationDefinition(root="a", children={"a": ("b",)}),
        subscriptions=(
            SubscriptionDefinition(agent="b", pattern="build:*:done"),
            SubscriptionDefinition(agent="b", pattern="x", silent=False),
        ),
    )
    assert node(crew, "b").notes == (
        "works in the group g",
        "reports to a",
        "receives build:*:done",
        "starts on x",
    )
    assert node(crew, "g").notes == (
        "continues at the first success",
        "waits at most 30 s",
        "fails when a member fails",
    )


def test_the_same_arrow_is_drawn_once() -> None:
    crew = routed(route("[GO]", "route", "b"), route("[GO]", "route", "b", description="again"))
    assert arrows(crew) == [("a", "route", "b", "[GO]")]


# Crews inside crews


def nested(inner: CrewDefinition | None) -> CrewDefinition:
    sub = SubCrewDefinition(name="s", config_path="s", crew=inner)
    return routed(route("[CALL]", "sub_crew", target_crew="s"), others=(), sub_crews={"s": sub})


def all_ids(diagram: Diagram) -> list[str]:
    inner = [found for node in diagram.nodes if node.inside for found in all_ids(node.inside)]
    return [node.id for node in diagram.nodes] + inner


def test_ids_are_safe_and_unique_on_all_levels() -> None:
    ids = all_ids(diagram_of(nested(nested(routed(route("[END]", "terminate"))))))
    assert sorted(ids, key=lambda each: int(each[1:])) == [f"n{n}" for n in range(len(ids))]
    assert len(ids) == 8


def test_a_sub_crew_is_a_block_of_blocks_in_text() -> None:
    lines = as_text(diagram_of(nested(routed(route("[END]", "terminate"))))).splitlines()
    assert "│  ┌─ a ── starts here" in lines
    assert "│  │  [END] ──▶ END  ends this crew's run" in lines
    assert lines.index("┌─ crew s") < lines.index("│  ┌─ a ── starts here") < len(lines) - 1


def test_a_sub_crew_is_a_subgraph_in_mermaid() -> None:
    lines = as_mermaid(diagram_of(nested(routed(route("[END]", "terminate"), others=())))).splitlines()
    start, end = lines.index('  subgraph n1["s, quiz"]'), lines.index("  end")
    assert lines[start + 1 : end] == [
        '    n2["a"]',
        "    class n2 entry",
        '    n3(["END"])',
        '    n2 -->|"#91;END#93;"| n3',
    ]


def test_a_sub_crew_that_could_not_be_read_is_a_closed_box() -> None:
    diagram = diagram_of(nested(None))
    assert "│  · its crew could not be read" in as_text(diagram).splitlines()
    assert 'n1[["s, its crew could not be read"]]' in as_mermaid(diagram)
    # A crew without agents has nothing to frame.
    assert "subgraph" not in as_mermaid(diagram) + as_mermaid(diagram_of(nested(crew_of())))


def calling(name: str, *subs: CrewDefinition) -> CrewDefinition:
    """A crew of one agent that calls these crews as s0, s1, …"""
    calls = tuple(route(f"[CALL{n}]", "sub_crew", target_crew=f"s{n}") for n in range(len(subs)))
    boxes = {f"s{n}": SubCrewDefinition(name=f"s{n}", config_path=f"s{n}", crew=sub) for n, sub in enumerate(subs)}
    return routed(*calls, route("[END]", "terminate"), others=(), name=name, sub_crews=boxes)


def test_the_name_of_a_crew_is_shown_where_it_is_not_that_of_its_box() -> None:
    lines = as_text(diagram_of(calling("outer", calling("s0"), calling("other")))).splitlines()
    assert lines[lines.index("┌─ crew s0") :][:4] == [
        "┌─ crew s0",
        "│  returns ──▶ a  returns to the caller",
        "│",
        "│    starts at  a",
    ]
    assert lines[lines.index("┌─ crew s1") :][3] == "│  other"
    mermaid = as_mermaid(diagram_of(calling("outer", calling("s0"), calling("other"))))
    assert re.findall(r'subgraph n\d+\["(.*)"\]', mermaid) == ["s0", "s1, other"]


def test_a_crew_that_is_used_twice_is_drawn_once() -> None:
    shared = calling("shared", calling("innermost"))
    diagram = diagram_of(calling("outer", shared, calling("middle", shared), shared))
    closed = {name: node.closed for name, node in all_boxes(diagram).items()}
    assert closed == {
        "s0": "",
        "s0 › s0": "",
        "s1": "",
        "s1 › s0": "the same crew as s0",
        "s2": "the same crew as s0",
    }
    assert as_text(diagram).count("· the same crew as s0\n") == 2
    assert as_mermaid(diagram).count("subgraph") == 3
    assert as_mermaid(diagram).count(', the same crew as s0"]]') == 2


def all_boxes(diagram: Diagram, trail: str = "") -> dict[str, DiagramNode]:
    """Every sub-crew on every level by its way from the outside."""
    boxes = {trail + node.name: node for node in diagram.nodes if node.kind == "sub_crew"}
    inner = [all_boxes(box.inside, f"{name} › ") for name, box in boxes.items() if box.inside]
    return boxes | {name: box for found in inner for name, box in found.items()}


def test_a_crew_drawn_inside_another_box_is_found_by_the_way_there() -> None:
    shared = calling("shared")
    diagram = diagram_of(calling("outer", calling("middle", shared), shared))
    assert all_boxes(diagram)["s1"].closed == "the same crew as s0 › s0"


def tower(levels: int) -> CrewDefinition:
    crew = calling("level-0")
    for n in range(1, levels + 1):
        crew = calling(f"level-{n}", crew)
    return crew


@pytest.mark.parametrize("depth", [0, 1, 3, 10, 11])
def test_crews_are_drawn_down_to_the_depth_that_is_asked_for(depth: int) -> None:
    boxes = list(all_boxes(diagram_of(tower(10), depth)).values())
    assert [box.inside is not None for box in boxes] == [True] * min(depth, 10) + [False] * (depth < 10)
    assert [box.closed for box in boxes] == [""] * min(depth, 10) + ["1 agent inside"] * (depth < 10)


def test_ten_levels_stay_within_the_columns_and_grow_line_by_line() -> None:
    lines = [as_text(diagram_of(tower(levels))).splitlines() for levels in range(11)]
    assert {len(after) - len(before) for before, after in pairwise(lines)} == {13}
    assert max(column_width(line) for line in lines[-1]) <= TEXT_COLUMNS
    assert as_mermaid(diagram_of(tower(10))).count("subgraph") == 10


def test_a_tower_of_crews_each_used_ten_times_is_drawn_once_a_level() -> None:
    crew = calling("level-0")
    for n in range(1, 11):
        crew = calling(f"level-{n}", *[crew] * 10)
    assert len(all_boxes(diagram_of(crew))) == 10 * 10


def test_thousands_of_crews_do_not_flood_the_diagram() -> None:
    crew = calling("outer", *(calling("middle", *(crew_of("a") for _ in range(50))) for _ in range(50)))
    diagram = diagram_of(crew)
    assert NESTED_NODES_MAX < len(all_ids(diagram)) < NESTED_NODES_MAX + 200
    assert "not drawn here, the diagram is full" in as_text(diagram)


# Text


def test_text_shows_marks_arrows_and_what_they_do() -> None:
    crew = routed(route("[QUESTION]", "route", "b"), route("[WAIT]", "pause"), route("[END]", "terminate"))
    assert block(as_text(diagram_of(crew)), "a") == [
        "┌─ a ── starts here, waits for a person",
        "[QUESTION] ──▶ b       hands over",
        "[WAIT]     ──▶ itself  waits for a person, then continues",
        "[END]      ──▶ END     ends the run",
    ]


def test_text_shows_a_group_with_its_members_and_next_agent() -> None:
    group = GroupDefinition(name="g", agents=("b", "c"), next_agent="a")
    assert block(as_text(diagram_of(crew_of("a", "b", "c", groups={"g": group}))), "group g") == [
        "┌─ group g",
        "in parallel ──▶ b  works in the group",
        "in parallel ──▶ c  works in the group",
        "then        ──▶ a  continues when the group is done",
        "· continues when all are done",
    ]


def test_text_begins_with_where_it_starts_and_ends() -> None:
    text = as_text(diagram_of(routed(route("[END]", "terminate"))))
    assert text.splitlines()[:3] == ["quiz", "  starts at  a", "  ends at    a"]
    assert "  ends at    nowhere\n" in as_text(diagram_of(crew_of("a", "b")))


def test_text_shows_the_name_beside_the_id() -> None:
    assert "┌─ teacher · Cô giáo Lan ── starts here" in as_text(
        diagram_of(crew_of(AgentDefinition(id="teacher", name="Cô giáo Lan")))
    )


def test_wide_and_accented_text_keeps_the_columns() -> None:
    # The accented mark is decomposed: more characters than columns.
    accented = unicodedata.normalize("NFD", "[HỎI ĐÁP]")
    crew = routed(route("[漢字]", "route", "b"), route(accented, "route", "b"))
    rows = [line for line in as_text(diagram_of(crew)).splitlines() if "──▶" in line]
    assert len(rows) == 2
    assert {column_width(row.split("──▶")[0]) for row in rows} == {3 + 9 + 1}


@pytest.mark.parametrize("letter", ["x", "漢", "Ệ", "e\u0323\u0302"])
def test_text_fits_eighty_columns_however_long_the_names_are(letter: str) -> None:
    long = letter * 150
    inner = routed(route(f"[{long}]", "route", long), name=long)
    crew = crew_of(
        AgentDefinition(id=long, name=long + "!"),
        *(f"{letter}{n}" for n in range(40)),
        name=long,
        behaviors={f"{letter}{n}": AgentBehavior(wait_for_signal=True) for n in range(40)},
        groups={long: GroupDefinition(name=long, agents=(long,))},
        sub_crews={long: SubCrewDefinition(name=long, config_path="", crew=inner)},
    )
    lines = as_text(diagram_of(crew)).splitlines()
    assert max(map(column_width, lines)) <= TEXT_COLUMNS
    assert "".join(lines).count(letter) > 6 * 150  # it is wrapped, not cut off


def test_hostile_names_do_not_steer_a_terminal_or_start_lines() -> None:
    text = as_text(
        diagram_of(crew_of(AgentDefinition(id="a", name=HOSTILE), routes={"a": (route(HOSTILE, "route", HOSTILE),)}))
    )
    assert not [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl")]
    assert all(line == "" or line[0] in "q ┌│└" for line in text.splitlines())


def test_plain_text_stays_as_it_is() -> None:
    assert plain_line("Cô giáo 漢字 نص שלום क\u094d\u200dष") == "Cô giáo 漢字 نص שלום क\u094d\u200dष"
    assert plain_line(" a\n\tb\u2029c ") == "a b c"
    assert plain_line("a\x00b\ud800") == "a\ufffdb\ufffd"
    assert plain_line("a\u202eb\u2066c\ufeff") == "abc"


# Mermaid


def test_mermaid_draws_shapes_flags_and_arrows() -> None:
    crew = routed(
        route("[ALL]", "parallel", "g"),
        route("[GO]", "route", "nobody"),
        others=("b",),
        groups={"g": GroupDefinition(name="g", agents=("b",))},
        behaviors={"b": AgentBehavior(wait_for_signal=True)},
    )
    assert as_mermaid(diagram_of(crew)).splitlines()[:13] == [
        "flowchart TD",
        '  n0["a"]',
        "  class n0 entry",
        '  n1["b"]',
        "  class n1 waits",
        '  n2{{"g"}}',
        '  n3>"nobody"]',
        "  class n3 unknown",
        '  n0 ==>|"#91;ALL#93;"| n2',
        '  n2 -.->|"returns"| n0',
        '  n0 -->|"#91;GO#93;"| n3',
        '  n2 -.->|"in parallel"| n1',
        "  classDef entry stroke-width:3px",
    ]


def test_mermaid_styles_every_class_it_uses() -> None:
    crew = crew_of("a", behaviors={"a": AgentBehavior(is_terminal=True)}, routes={"a": (route("[W]", "pause", "x"),)})
    lines = [line.split() for line in as_mermaid(diagram_of(crew)).splitlines()]
    used = {words[2] for words in lines if words[0] == "class"}
    assert used == {"entry", "waits", "terminal", "unknown"}
    assert used <= {words[1] for words in lines if words[0] == "classDef"}


def test_hostile_labels_stay_inside_their_quotes_in_mermaid() -> None:
    crew = crew_of(
        AgentDefinition(id="a", name=HOSTILE),
        routes={"a": (route(HOSTILE, "route", HOSTILE),)},
        sub_crews={HOSTILE: SubCrewDefinition(name=HOSTILE, config_path="", crew=crew_of("b"))},
    )
    harmless = crew_of(
        "a",
        routes={"a": (route("x", "route", "x"),)},
        sub_crews={"x": SubCrewDefinition(name="x", config_path="", crew=crew_of("b"))},
    )
    lines = as_mermaid(diagram_of(crew)).splitlines()
    assert [_outside_quotes(line) for line in lines] == [
        _outside_quotes(line) for line in as_mermaid(diagram_of(harmless)).splitlines()
    ]
    assert not [line for line in lines for sign in "<>&`[]|\\" if sign in _inside_quotes(line)]


def _outside_quotes(line: str) -> tuple[str, ...]:
    return tuple(line.split('"')[::2])


def _inside_quotes(line: str) -> str:
    return "".join(line.split('"')[1::2])


def test_mermaid_writes_signs_as_their_numbers() -> None:
    assert 'n0["a#34;#91;#124;#35;#60;b#62;#38; c"]' in as_mermaid(
        diagram_of(crew_of(AgentDefinition(id="a", name='a"[|#<b>&\nc')))
    )


# The same again


def test_the_same_crew_is_the_same_diagram_in_every_form() -> None:
    crew = nested(routed(route("[GO]", "route", "b"), route("[END]", "terminate")))
    again = msgspec.json.decode(msgspec.json.encode(crew), type=CrewDefinition)
    assert diagram_of(again) == diagram_of(crew)
    assert as_text(diagram_of(again)) == as_text(diagram_of(crew))
    assert as_mermaid(diagram_of(again)) == as_mermaid(diagram_of(crew))


def test_a_diagram_survives_a_trip_through_json() -> None:
    diagram = diagram_of(nested(routed(route("[GO]", "route", "b"))))
    assert msgspec.json.decode(msgspec.json.encode(diagram), type=Diagram) == diagram


def test_an_empty_crew_is_an_empty_diagram() -> None:
    diagram = diagram_of(crew_of())
    assert (diagram.nodes, diagram.edges) == ((), ())
    assert as_text(diagram) == "quiz\n  starts at  nowhere\n  ends at    nowhere\n"
    assert as_mermaid(diagram).startswith("flowchart TD\n")


def test_a_diagram_may_be_made_by_hand() -> None:
    nodes = (
        DiagramNode(id="n0", name="", label="", kind="agent"),
        DiagramNode(id="n1", name="b", label="b", kind="agent"),
    )
    diagram = Diagram(name="", nodes=nodes, edges=(DiagramEdge(source="n0", target="n1", kind="route"),))
    assert "route ──▶ b" in as_text(diagram)
    assert 'n0["#32;"]' in as_mermaid(diagram)
