"""Who wins when a reply carries several marks, and where control goes when it carries none."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import CrewDefinition
from interlock.crew.registry import registry_of
from interlock.engine.routing.decision import Decision, OwnReply, RoutingTable
from interlock.errors import UsageError

AGENTS = "agents: [{id: boss}, {id: ann, is_terminal: true}, {id: bob, is_terminal: true}]\n"


def crew(tmp_path: Path, routes: str, *, rest: str = "", agents: str = AGENTS, **settings_: object) -> CrewDefinition:
    lines = "".join(f"      - {route.strip()}\n" for route in routes.strip().splitlines())
    written = "".join(f"  {key}: {value}\n" for key, value in {"signal_position": "anywhere", **settings_}.items())
    head = f'version: "2.0"\nname: c\nentry_point: boss\n{agents}'
    text = f"{head}routing:\n  signals:\n    boss:\n{lines}{rest}settings:\n{written}"
    (tmp_path / "crew.yaml").write_text(text, "utf-8")
    loaded = read_crew(tmp_path)
    assert loaded.is_sound, loaded.problems
    assert loaded.crew is not None
    return loaded.crew


def decide(crew: CrewDefinition, text: str, agent: str = "boss") -> Decision:
    return RoutingTable(crew).decide(OwnReply(agent, text))


def outcomes(decision: Decision) -> list[tuple[str, str]]:
    return [(c.signal, c.outcome) for c in decision.candidates]


BASIC = """
{signal: "[NEXT]", target: ann}
{signal: "[QUESTION]", target: bob}
{signal: "[END]"}
"""


def test_termination_wins_over_a_route_in_the_same_reply(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC), "Well done. [NEXT] [end]")
    assert (decision.verb, decision.signal, decision.because) == ("end", "[END]", "signal")
    assert outcomes(decision) == [("[END]", "won"), ("[NEXT]", "lost")]


def test_a_route_may_have_a_higher_priority_than_an_ending(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC.replace("target: ann", "target: ann, priority: 200")), "[END] [NEXT]")
    assert (decision.verb, decision.target) == ("hand_over", "ann")
    rest = 'signals: [{name: "[GO]", behavior: route, priority: 150}]\n'
    own = crew(tmp_path, BASIC + '{signal: "[GO]", target: ann}\n{signal: "[STOP]"}', rest=rest)
    assert decide(own, "[GO] [END] [STOP]").signal == "[GO]"


def test_of_equal_priorities_the_more_exact_mark_wins(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC)
    assert decide(table, "[next] [QUESTION]").signal == "[QUESTION]"
    assert decide(table, "[ question ] [next]").signal == "[NEXT]"


def test_of_equal_marks_the_first_in_the_file_wins_not_the_first_in_the_reply(tmp_path: Path) -> None:
    assert decide(crew(tmp_path, BASIC), "[QUESTION] then [NEXT]").signal == "[NEXT]"


@pytest.mark.parametrize("order", list(itertools.permutations(["[NEXT]", "[question]", "[ end ]", "[STOP]"])))
def test_the_order_of_marks_in_a_reply_decides_nothing(tmp_path: Path, order: tuple[str, ...]) -> None:
    decision = decide(crew(tmp_path, BASIC), " ".join(order))
    assert (decision.verb, decision.signal) == ("end", "[END]")


def test_a_signal_said_twice_is_one_candidate_at_its_most_exact_mark(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC), "[next] or [NEXT] or [NEXT]")
    assert [(c.method, c.start, c.end) for c in decision.candidates] == [("exact", 10, 16)]


def test_a_loser_that_leads_elsewhere_contradicts_the_winner(tmp_path: Path) -> None:
    same = crew(tmp_path, BASIC + '{signal: "[AGAIN]", type: route, target: ann}')
    decision = decide(same, "[NEXT] [QUESTION] [AGAIN]")
    assert {c.signal: c.conflicts for c in decision.candidates} == {
        "[NEXT]": False,
        "[QUESTION]": True,
        "[AGAIN]": False,
    }


@pytest.mark.parametrize(
    ("policy", "verb", "then"), [("priority", "end", ""), ("nudge", None, "nudge"), ("fail", None, "fail")]
)
def test_on_conflict_decides_what_contradiction_causes(
    tmp_path: Path, policy: str, verb: str | None, then: str
) -> None:
    decision = decide(crew(tmp_path, BASIC, on_conflict=policy), "[NEXT] [END]")
    assert (decision.verb, decision.then) == (verb, then)
    agreeing = decide(crew(tmp_path, BASIC, on_conflict=policy), "[END] [end]")
    assert agreeing.verb == "end"


def test_tells_all_fire_and_do_not_compete(tmp_path: Path) -> None:
    routes = (
        BASIC + '{signal: "[SHOUT]", type: broadcast, targets: [bob], priority: 900}\n{signal: "[LOG]", type: external}'
    )
    decision = decide(crew(tmp_path, routes), "[SHOUT] [LOG] [NEXT]")
    assert outcomes(decision) == [("[SHOUT]", "told"), ("[NEXT]", "won"), ("[LOG]", "told")]
    assert decision.signal == "[NEXT]"


def test_a_reply_with_only_tells_counts_as_no_signal(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC + '{signal: "[LOG]", type: external}'), "[LOG]")
    assert (decision.verb, decision.because, decision.then) == (None, "no_signal", "nudge")


def test_an_external_signal_that_pauses_waits(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC + '{signal: "[ASK]", type: external, pause: true}'), "[ASK]")
    assert decision.verb == "await"


def test_sub_crews_of_equal_priority_run_together(tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "crew.yaml").write_text('version: "2.0"\nname: x\nentry_point: a\nagents: [{id: a}]\n')
    rest = "sub_crews: {red: {config_path: red}, blue: {config_path: blue}}\n"
    routes = """
    {signal: "[RED]", type: sub_crew, target_crew: red}
    {signal: "[BLUE]", type: sub_crew, target_crew: blue}
    {signal: "[DEEP]", type: sub_crew, target_crew: blue, priority: 10}
    {signal: "[NEXT]", target: ann}
    {signal: "[QUESTION]", target: bob}
    {signal: "[END]"}
    """
    decision = decide(crew(tmp_path, routes, rest=rest), "[BLUE] [RED] [DEEP]")
    assert outcomes(decision) == [("[RED]", "won"), ("[BLUE]", "joined"), ("[DEEP]", "lost")]
    assert (decision.verb, decision.target) == ("call", "red")


def test_auto_route_false_holds_what_would_move(tmp_path: Path) -> None:
    rest = "  agent_behaviors: {boss: {auto_route: false}}\n"
    held = crew(tmp_path, BASIC, rest=rest)
    assert decide(held, "[NEXT]").held
    assert not decide(held, "[END]").held


# Position


def test_last_line_is_the_default_of_version_2_and_the_last_that_is_not_blank(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC, signal_position="last_line")
    assert decide(table, "Do not say [END] yet.\nGo. [NEXT]  \n\n  \n").signal == "[NEXT]"
    early = decide(table, "[END]\nand then nothing")
    assert early.because == "no_signal"
    assert [(r.mark, r.reason) for r in early.rejected] == [("[END]", "position: signal_position is last_line")]


def test_a_mark_stands_on_the_line_of_its_closing_bracket(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC + '{signal: "[GO ON]", type: route, target: bob}', signal_position="last_line")
    assert decide(table, "all right [go\non]").signal == "[GO ON]"


def test_own_line_counts_lines_of_nothing_but_marks(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC, signal_position="own_line")
    assert decide(table, "so\n **[NEXT]** \nit is").signal == "[NEXT]"
    assert decide(table, "so [NEXT]\n[END] [NEXT]\nbye").signal == "[END]"
    assert decide(table, "say [NEXT]").because == "no_signal"
    assert decide(table, "[what] [NEXT]").because == "no_signal"


def test_carriage_returns_break_lines_too(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC, signal_position="last_line")
    assert decide(table, "[END]\r\n[NEXT]\r\n").signal == "[NEXT]"
    assert decide(table, "[END]\r[NEXT]").signal == "[NEXT]"


# What does not steer


def test_a_registered_mark_that_is_not_routed_here_is_named_and_does_not_steer(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC), "[STOP]")
    assert decision.because == "no_signal"
    assert [(r.mark, r.nearest, r.reason) for r in decision.rejected] == [
        ("[STOP]", "[STOP]", "not routed: agent 'boss' has no route for [STOP]")
    ]


def test_a_forbidden_mark_says_so(tmp_path: Path) -> None:
    rest = 'signals: [{name: "[SECRET]", allowed_agents: [ann]}]\n'
    decision = decide(crew(tmp_path, BASIC, rest=rest), "[SECRET]")
    assert decision.rejected[0].reason == "forbidden: agent 'boss' is not allowed to emit [SECRET]"


@pytest.mark.parametrize("slip", ["[QUESTON]", "[QUESTIONS]", "[QUESTIOM]", "[QEUSTION]", "[questio n]"])
def test_a_mark_one_edit_away_is_named_with_what_it_resembles(tmp_path: Path, slip: str) -> None:
    decision = decide(crew(tmp_path, BASIC), slip)
    assert [(r.mark, r.nearest) for r in decision.rejected] == [(slip, "[QUESTION]")]


@pytest.mark.parametrize("text", ["[QSTON]", "[see docs]", "[1]", "`[QUESTON]`", "[QUESTON](url)"])
def test_what_resembles_nothing_or_is_not_visible_is_not_worth_a_word(tmp_path: Path, text: str) -> None:
    assert decide(crew(tmp_path, BASIC), text).rejected == ()


def test_another_agents_signals_do_not_steer_this_one(tmp_path: Path) -> None:
    decision = decide(crew(tmp_path, BASIC), "[NEXT]", agent="ann")
    assert (decision.verb, decision.because) == ("end", "terminal_agent")
    assert decision.rejected[0].reason == "not routed: agent 'ann' has no route for [NEXT]"


def test_of_all_registered_signals_an_agent_is_steered_by_those_it_has_routes_for_and_no_others(tmp_path: Path) -> None:
    rest = """\
    ann: [{signal: "[DONE]"}, {signal: "[REDO]", type: route, target: boss}]
signals:
  - {name: "[SECRET]", allowed_agents: [ann]}
  - {name: "[OLD]", deprecated_msg: "say [NEXT]"}
"""
    registered = crew(tmp_path, BASIC, rest=rest)
    signals = list(registry_of(registered).names())
    assert {"[NEXT]", "[END]", "[DONE]", "[REDO]", "[SECRET]", "[OLD]"} <= set(signals)
    for agent, signal in itertools.product(registered.agent_ids, signals):
        decision = decide(registered, f"so: {signal}", agent)
        own = signal in [route.signal for route in registered.routes.get(agent, ())]
        assert [each.signal for each in decision.candidates] == [signal] * own, (agent, signal)
        assert decision.signal == (signal if own else ""), (agent, signal)
        assert [each.mark for each in decision.rejected] == [signal] * (not own), (agent, signal)


def test_an_unknown_agent_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'boss'"):
        decide(crew(tmp_path, BASIC), "x", agent="bos")


# No signal


@pytest.mark.parametrize(
    ("agents", "rest", "settings_", "expected"),
    [
        (
            "{id: boss}",
            "  agent_behaviors: {boss: {wait_for_signal: true}}\n",
            {},
            ("await", "wait_for_signal", "boss"),
        ),
        ("{id: boss, is_terminal: true}", "", {}, ("end", "terminal_agent", "")),
        ("{id: boss, handoff_targets: [ann]}", "  defaults: {boss: bob}\n", {}, ("hand_over", "default", "bob")),
        ("{id: boss, handoff_targets: [bob, ann]}", "", {}, ("hand_over", "handoff_target", "bob")),
        ("{id: boss}", "", {"on_no_signal": "complete"}, ("end", "no_signal_complete", "")),
        ("{id: boss}", "", {"on_no_signal": "fail"}, (None, "no_signal", "")),
    ],
)
def test_without_a_signal_control_goes_where_the_crew_says(
    tmp_path: Path, agents: str, rest: str, settings_: dict[str, str], expected: tuple[str | None, str, str]
) -> None:
    everyone = f"agents: [{agents}, {{id: ann, is_terminal: true}}, {{id: bob, is_terminal: true}}]\n"
    decision = decide(crew(tmp_path, BASIC, rest=rest, agents=everyone, **settings_), "nothing")
    assert (decision.verb, decision.because, decision.target) == expected


def test_an_acknowledgement_is_noted_and_steers_nothing(tmp_path: Path) -> None:
    table = crew(tmp_path, BASIC + '{signal: "[OK]", target: ""}', signal_registration="inferred")
    decision = decide(table, "[OK]")
    assert outcomes(decision) == [("[OK]", "noted")]
    assert decision.because == "no_signal"


@settings(max_examples=60, derandomize=True, deadline=None)
@given(text=st.text(alphabet="[]NEXTnextEDd `\n>*_-()\\", max_size=60))
def test_any_text_gives_a_decision_and_every_candidate_lies_in_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    table = crew(tmp_path_factory.getbasetemp(), BASIC)
    decision = decide(table, text)
    for candidate in decision.candidates:
        assert text[candidate.start] == "["
        assert text[candidate.end - 1] == "]"
    assert (decision.verb is None) == (decision.then != "")
