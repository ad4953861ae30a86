"""Every rule, by the crews that break it. The gallery has one crew a code; here are the finer points."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.crew import checks
from interlock.crew.checks import CHECKS
from interlock.crew.codes import CODES
from interlock.crew.host import Host, UncallableTool
from interlock.crew.problem import Problem, Severity

GALLERY = Path("examples/broken")
QUIET = {
    "ambiguous-signals",
    "deprecated-signal",
    "differing-return",
    "legacy-key",
    "limit-below-prompt",
    "missing-api-key",
    "missing-package",
    "unfilled-field",
    "unknown-mark-in-prompt",
    "unused",
    "unlisted-host",
}

# A machine without a key; without a host nobody asks.
HOST = Host(unset_keys={"openai": "OPENAI_API_KEY"})

# Rules about what the host has, rather than about what a crew file says.
HOSTS_OF_RULES = {
    "agents_have_models": Host(needs_models=True),
    "tools_can_be_called": Host(
        uncallable_tools=(UncallableTool(name="find", parameter="args", file="tools.py", line=3),)
    ),
}

Load = Callable[[str], LoadedCrew]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_read(text: str) -> LoadedCrew:
        (tmp_path / "crew.yaml").write_text(textwrap.dedent(text), "utf-8")
        return read_crew(tmp_path)

    return write_and_read


def found(loaded: LoadedCrew) -> list[tuple[str, str]]:
    return [(p.code, p.path) for p in loaded.problems]


def only(loaded: LoadedCrew) -> Problem:
    assert len(loaded.problems) == 1, loaded.problems
    return loaded.problems[0]


CREW = """\
version: "2.0"
name: school
entry_point: teacher
"""


@pytest.mark.parametrize("path", sorted(GALLERY.iterdir()), ids=lambda path: path.stem)
def test_a_crew_of_the_gallery_has_its_one_problem_and_no_other(path: Path) -> None:
    loaded = read_crew(path, HOST)
    assert {p.code for p in loaded.problems} == {path.stem}
    assert loaded.is_sound == (path.stem in QUIET)
    assert all(p.line > 1 and p.fix and p.message for p in loaded.problems)


def test_every_code_that_has_a_crew_file_is_in_the_gallery() -> None:
    # There is no file to show, or the file is the host's.
    without = {"unreadable", "no-model", "uncallable-tool"}
    assert {path.stem for path in GALLERY.iterdir()} == set(CODES) - without


AGENTS = "agents: [{id: teacher, is_terminal: true}]\n"
ROUTED = "agents: [{id: teacher}]\nrouting: {signals: {teacher: [%s, {signal: '[END]'}]}}\n"

NEXT = "{signal: '[NEXT]', target: teacher}"

# What the gallery does not break: a crew for each further rule.
RULE_BREAKERS = {
    "the_entry_point_exists": "agents: [{id: techer, is_terminal: true}]\n",
    "there_are_agents": "agents: []\n",
    "ids_are_well_formed": "agents: [{id: teacher, handoff_targets: ['a b']}, {id: a b, is_terminal: true}]\n",
    "spoken_names_are_unique": "agents: [{id: teacher, name: T, handoff_targets: [t]}, {id: t, name: T}]\n",
    "definitions_name_what_exists": AGENTS + "signals: [{name: '[A]', allowed_agents: [nobody]}]\n",
    "definitions_agree_with_themselves": AGENTS
    + "signals: [{name: '[A]', behavior: terminate, default_target: teacher}]\n",
    "replacements_of_deprecated_signals_exist": AGENTS + "signals: [{name: '[A]', deprecated_msg: 'use [B]'}]\n",
    "routing_names_agents": AGENTS + "routing: {defaults: {nobody: teacher}}\n",
    "broadcasts_name_agents": ROUTED % "{signal: '[A]', type: broadcast, targets: [nobody]}",
    "definitions_are_unique": AGENTS + "signals: [{name: '[A]'}, {name: '[A]'}]\n",
    "agents_hand_over_to_agents": "agents: [{id: teacher, is_terminal: true, handoff_targets: [nobody]}]\n",
    "agents_narrow_to_known_signals": "agents: [{id: teacher, is_terminal: true, signals: ['[ZZZ]']}]\n",
    "subscriptions_can_match": AGENTS + "subscriptions: {teacher: [{pattern: 'a:b'}, {pattern: ' a:b '}]}\n",
    "signal_modes_have_marks": AGENTS + "settings: {signal_mode: tool}\n",
    "only_texts_are_cut": f"{ROUTED % NEXT}settings: {{signal_mode: tool, cut_on_signal: true}}\n",
    "agents_under_constraint_rely_on_marks": "agents: [{id: teacher}]\nsettings: {signal_mode: constrained}\n"
    "routing: {signals: {teacher: [{signal: '[END]'}]}, defaults: {teacher: teacher}}\n",
    "addresses_are_addresses": "agents: [{id: teacher, is_terminal: true, primary: {provider: openai-compatible, "
    "model: m, provider_url: 'https://me:secret@h/v1'}}]\n",
    "emit_signal_is_for_tool_mode": "agents: [{id: teacher, is_terminal: true, tools: [emit_signal]}]\n",
    "tools_have_their_place": "agents: [{id: teacher, is_terminal: true, tools: [delegate]}]\n",
    "reports_that_are_measured_are_checked": "agents: [{id: teacher, is_terminal: true}, {id: a}]\n"
    "delegation: {children: {teacher: [a]}, report_check: none, min_report_chars: 9}\n",
    "prompts_have_values_for_their_fields": "agents: [{id: teacher, is_terminal: true, system_prompt: '{{role}}'}]\n",
    "sub_crews_are_used": AGENTS + "sub_crews: {team: {config_path: nowhere}}\n",
    "memory_is_read": "agents: [{id: teacher, is_terminal: true, tools: [memory_write]}]\n",
    "sub_crews_give_what_is_expected": ROUTED % "{signal: '[A]', type: sub_crew, target_crew: kid}"
    + "sub_crews: {kid: {config_path: kid, output: {type: string}}}\n",
    "templates_use_parts_that_results_have": ROUTED
    % "{signal: '[A]', type: sub_crew, target_crew: kid, input_template: '{{.PreviousResults.kid.size}}'}"
    + "sub_crews: {kid: {config_path: kid}}\n",
    "outputs_are_asked_for": "agents: [{id: teacher, is_terminal: true}, {id: a, output: {type: string}}]\n"
    "delegation: {children: {teacher: [a]}}\n",
    "templates_use_known_fields": ROUTED
    % "{signal: '[A]', type: sub_crew, target_crew: x, input_template: '{{.Nonsense}}'}",
}


@pytest.mark.parametrize("rule", [check.__name__ for check in CHECKS])
def test_a_crew_exists_that_only_this_rule_refuses(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking the rule out must change what is found: a rule that nothing needs is a rule nobody keeps."""
    crews = sorted(GALLERY.iterdir())
    if rule in RULE_BREAKERS:
        (tmp_path / "crew.yaml").write_text(CREW + RULE_BREAKERS[rule])
        (tmp_path / "kid").mkdir()
        (tmp_path / "kid" / "crew.yaml").write_text(f"{CREW}output: {{type: integer}}\n{AGENTS}")
        crews = [tmp_path]
    host = HOSTS_OF_RULES.get(rule, HOST)
    whole = [read_crew(path, host).problems for path in crews]
    monkeypatch.setattr(checks, "CHECKS", tuple(check for check in CHECKS if check.__name__ != rule))
    assert [read_crew(path, host).problems for path in crews] != whole


def test_all_problems_come_at_once_in_file_order() -> None:
    problems = read_crew("src/interlock/templates/broken").problems
    assert [p.code for p in problems] == [
        "unknown-mark-in-prompt",
        "trap",
        "unreachable-agent",
        "unknown-target",
        "wrong-target",
        "unknown-key",
    ]
    assert [p.line for p in problems] == sorted(p.line for p in problems)


def test_a_problem_says_what_where_and_what_now() -> None:
    problem = next(p for p in read_crew("src/interlock/templates/broken").problems if p.code == "unknown-target")
    assert problem.message == "signal '[QUESTION]' targets unknown agent 'studnet'"
    assert problem.fix == "did you mean 'student'?"
    assert (problem.line, problem.column) == (16, 40)
    assert problem.path == "routing.signals.teacher[0].target"


# Reaching, going on, ending


def test_a_trap_is_shown_with_the_way_into_it(load: Load) -> None:
    problem = only(read_crew(GALLERY / "trap.yaml"))
    assert "marker and student" in problem.message
    assert "(teacher -> student -> marker -> student)" in problem.message


def test_a_pause_ends_nothing(load: Load) -> None:
    loaded = load(CREW + 'agents: [{id: teacher}]\nrouting: {signals: {teacher: [{signal: "[WAIT]"}]}}\n')
    assert only(loaded).code == "trap"


def test_waiting_for_a_signal_that_nobody_routes_is_a_trap(load: Load) -> None:
    loaded = load(CREW + "agents: [{id: teacher}]\nrouting: {agent_behaviors: {teacher: {wait_for_signal: true}}}\n")
    assert only(loaded).code == "trap"


def test_one_agent_without_exits_answers_and_is_done(load: Load) -> None:
    assert load(CREW + "agents: [{id: teacher}]\n").problems == ()


def test_one_agent_that_only_tells_answers_and_is_done(load: Load) -> None:
    assert load(
        CREW + 'agents: [{id: teacher}]\nrouting: {signals: {teacher: [{signal: "[HI]", type: external}]}}\n'
    ).is_sound


def test_on_no_signal_complete_is_an_ending(load: Load) -> None:
    agents = "agents: [{id: teacher, handoff_targets: [student]}, {id: student}]\n"
    assert [p.code for p in load(CREW + agents).problems] == ["no-way-on"]
    assert load(CREW + agents + "settings: {on_no_signal: complete}\n").problems == ()


def test_a_member_needs_no_way_on_but_the_same_agent_with_the_floor_does(load: Load) -> None:
    group = """\
    agents: [{id: teacher}, {id: student}]
    routing:
      signals:
        teacher:
          - {signal: "[QUESTION]", target: class}
          - {signal: "[END]"}
          %s
      parallel_groups:
        class: {agents: [student], next_agent: teacher}
    """
    assert load(CREW + textwrap.dedent(group % "")).problems == ()
    both = load(CREW + textwrap.dedent(group % '- {signal: "[NEXT]", target: student}'))
    assert only(both).code == "no-way-on"


def test_a_group_without_next_agent_leads_where_its_members_lead(load: Load) -> None:
    text = """\
    agents: [{id: teacher}, {id: student}, {id: marker, is_terminal: true}]
    routing:
      signals:
        teacher: [{signal: "[QUESTION]", target: class}]
        student: [{signal: "[ANSWER]", target: marker}]
      parallel_groups:
        class: {agents: [student]%s}
    """
    assert load(CREW + textwrap.dedent(text % "")).problems == ()
    closed = load(CREW + textwrap.dedent(text % ", next_agent: teacher"))
    assert {p.code for p in closed.problems} == {"trap", "unreachable-agent"}


def test_parallel_targets_return_to_the_emitter(load: Load) -> None:
    text = """\
    agents: [{id: teacher}, {id: student}]
    routing:
      signals:
        teacher:
          - {signal: "[QUESTION]", parallel_targets: [student]}
          - {signal: "[END]"}
    """
    loaded = load(CREW + textwrap.dedent(text))
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.groups["teacher:[QUESTION]"].agents == ("student",)


@pytest.mark.parametrize(
    "reach",
    [
        "routing: {defaults: {teacher: student}}",
        'routing: {signals: {teacher: [{signal: "[NEXT]", target: student}]}}',
        "subscriptions: {student: [{pattern: 'build:*', silent: false}]}\nrouting: {defaults: {teacher: student}}",
        'routing: {signals: {teacher: [{signal: "[HEY]", type: broadcast, targets: [student]}, {signal: "[END]"}]}}',
        'delegation: {children: {teacher: [student]}}\nrouting: {signals: {teacher: [{signal: "[END]"}]}}',
    ],
)
def test_ways_to_reach_an_agent(load: Load, reach: str) -> None:
    assert load(f"{CREW}agents: [{{id: teacher}}, {{id: student, is_terminal: true}}]\n{reach}\n").problems == ()


def test_a_silent_subscription_reaches_nobody(load: Load) -> None:
    text = CREW + "agents: [{id: teacher, is_terminal: true}, {id: student, is_terminal: true}]\n"
    assert load(text + "subscriptions: {student: [{pattern: 'a:b', silent: false}]}\n").problems == ()
    silent = load(text + "subscriptions: {student: [{pattern: 'a:b'}]}\n")
    assert only(silent).code == "unreachable-agent"


def test_one_mistake_is_one_problem(load: Load) -> None:
    """A mistyped target makes neither its agent unreachable nor what lies behind it."""
    loaded = load(
        CREW
        + textwrap.dedent("""\
        agents: [{id: teacher}, {id: student}, {id: marker, is_terminal: true}]
        routing:
          signals:
            teacher: [{signal: "[QUESTION]", target: studnt}]
            student: [{signal: "[ANSWER]", target: marker}]
        """)
    )
    assert only(loaded).code == "unknown-target"


# Versions


def test_old_files_may_route_a_built_in_ending_with_a_note(load: Load) -> None:
    rest = """\
    name: school
    entry_point: teacher
    agents: [{id: teacher}, {id: student, is_terminal: true}]
    routing: {signals: {teacher: [{signal: "[END]", target: student}]}}
    """
    old = load('version: "1.0"\n' + textwrap.dedent(rest))
    assert (only(old).code, only(old).severity) == ("wrong-target", Severity.NOTE)
    new = load('version: "2.0"\n' + textwrap.dedent(rest))
    assert (only(new).code, only(new).severity) == ("wrong-target", Severity.ERROR)


def test_old_files_declare_signals_by_using_them(load: Load) -> None:
    rest = """\
    name: school
    entry_point: teacher
    agents: [{id: teacher}, {id: student, is_terminal: true}]
    routing: {signals: {teacher: [{signal: "[HOMEWORK]", target: student}]}}
    """
    old = load('version: "1.0"\n' + textwrap.dedent(rest))
    assert (only(old).code, only(old).severity) == ("unregistered-signal", Severity.NOTE)
    assert load('version: "2.0"\n' + textwrap.dedent(rest) + "settings: {signal_registration: inferred}\n").is_sound


def test_an_unknown_tool_is_a_warning_in_old_files(load: Load) -> None:
    rest = "name: s\nentry_point: t\nagents: [{id: t, tools: [hammer]}]\n"
    assert only(load('version: "1.0"\n' + rest)).severity is Severity.WARNING
    assert only(load('version: "2.0"\n' + rest)).severity is Severity.ERROR


@pytest.mark.parametrize("version", ["'3.0'", "1", "''", "2.00"])
def test_an_unknown_version_is_refused(load: Load, version: str) -> None:
    loaded = load(f"version: {version}\nname: s\nentry_point: t\nagents: [{{id: t}}]\n")
    assert [p.code for p in loaded.problems] == ["bad-value"]


def test_a_version_without_quotes_is_understood(load: Load) -> None:
    loaded = load("version: 1.0\nname: s\nentry_point: t\nagents: [{id: t}]\n")
    assert loaded.crew is not None
    assert loaded.crew.version == "1.0"
    assert loaded.problems == ()


# Names and signals


@pytest.mark.parametrize("name", ["user", "system", "external"])
def test_no_agent_may_pose_as_somebody_else(load: Load, name: str) -> None:
    loaded = load(f'version: "2.0"\nname: s\nentry_point: {name}\nagents: [{{id: {name}}}]\n')
    assert only(loaded).code == "name-clash"


def test_two_agents_of_one_spoken_name_are_a_warning(load: Load) -> None:
    loaded = load(
        CREW + "agents: [{id: teacher, name: T, handoff_targets: [t]}, {id: t, name: T, is_terminal: true}]\n"
    )
    assert (only(loaded).code, only(loaded).severity) == ("name-clash", Severity.WARNING)


def test_names_that_look_the_same_are_an_error_and_names_that_do_not_a_note(load: Load) -> None:
    agents = "agents: [{id: teacher}]\n"
    routes = 'routing: {signals: {teacher: [{signal: "%s", type: terminate}, {signal: "%s", type: pause}]}}\n'
    composed, decomposed = "[K\u1ebeT]", "[KE\u0302\u0301T]"
    assert only(load(CREW + agents + routes % (composed, decomposed))).severity is Severity.ERROR
    assert only(load(CREW + agents + routes % ("[KET]", "[ket]"))).severity is Severity.NOTE


def test_an_agent_may_narrow_what_it_emits(load: Load) -> None:
    loaded = load(
        CREW + 'agents: [{id: teacher, signals: ["[DONE]"]}]\nrouting: {signals: {teacher: [{signal: "[END]"}]}}\n'
    )
    assert only(loaded).message == "agent 'teacher' is not allowed to emit signal '[END]'"


def test_an_unknown_target_is_reported_before_a_forbidden_one(load: Load) -> None:
    loaded = load(
        CREW
        + textwrap.dedent("""\
        agents: [{id: teacher, is_terminal: true}]
        signals: [{name: "[ASK]", valid_targets: [teacher]}]
        routing: {signals: {teacher: [{signal: "[ASK]", target: zzz}]}}
        """)
    )
    assert only(loaded).code == "unknown-target"


def test_a_default_target_stands_in_for_a_missing_one(load: Load) -> None:
    loaded = load(
        CREW
        + textwrap.dedent("""\
        agents: [{id: teacher}, {id: student, is_terminal: true}]
        signals: [{name: "[ASK]", default_target: student}]
        routing: {signals: {teacher: [{signal: "[ASK]"}]}}
        """)
    )
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.routes["teacher"][0].target == "student"


def test_a_deprecated_signal_names_its_heir(load: Load) -> None:
    problem = only(read_crew(GALLERY / "deprecated-signal.yaml"))
    assert "Use [END] instead" in problem.message
    assert problem.fix == "route '[END]' too, change the agent's prompt to use it, then remove '[FINISH]'"


def test_a_deprecated_signal_whose_heir_is_unknown_leads_nowhere(load: Load) -> None:
    loaded = load(
        CREW
        + 'agents: [{id: teacher}]\nsignals: [{name: "[A]", behavior: terminate, deprecated_msg: "Use [B] instead"}]\n'
    )
    assert only(loaded).path == "signals[0].deprecated_msg"


def test_strict_mode_lists_every_missing_setting() -> None:
    loaded = read_crew(GALLERY / "missing-setting.yaml")
    assert len(loaded.problems) == 20


def test_each_misplaced_key_is_named(load: Load) -> None:
    loaded = load(
        CREW
        + textwrap.dedent("""\
        agents: [{id: teacher}]
        routing:
          signals:
            teacher:
              - {signal: "[END]", targets: [teacher], return_to: teacher, on_error: fail, context: {history: all}}
              - {signal: "[SHOUT]", type: broadcast, target: teacher}
        """)
    )
    assert [(p.code, p.path.rpartition(".")[2]) for p in loaded.problems] == [
        ("misplaced-key", key) for key in ("targets", "return_to", "on_error", "context", "target")
    ]


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("{{.Input}}", None),
        ("{{ .OriginalInput }}", None),
        ("{{.PreviousResults.library}}", None),
        ("{{.SharedMemory.any_key}}", None),
        ("{{.PreviousResults.museum}}", "unknown-field"),
        ("{{Input}}", "unknown-field"),
        ("{{.Input | upper}}", "unknown-field"),
        ("{{7*7}}", "unknown-field"),
        ("{{.__class__}}", "unknown-field"),
        ("{{.Input.__class__}}", "unknown-field"),
        ("{{.PreviousResults}}", "unknown-field"),
        ("{{.PreviousResults.library.upper}}", "unknown-field"),
        ("{{.SharedMemory.}}", "unknown-field"),
        ("{{.SharedMemory.a.b}}", None),
        ("{{}}", "unknown-field"),
        ("{{ }}", "unknown-field"),
        ("{{.input}}", "unknown-field"),
        ("{{{{.Secret}}}}", "unknown-field"),
        ("{% for x in y %}{x}", None),
        ("{0.__globals__}", None),
    ],
)
def test_an_input_template_knows_its_fields_and_no_others(tmp_path: Path, field: str, code: str | None) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "crew.yaml").write_text('version: "2.0"\nname: l\nentry_point: a\nagents: [{id: a}]\n')
    (tmp_path / "crew.yaml").write_text(
        CREW
        + textwrap.dedent(f"""\
        agents: [{{id: teacher, tools: [memory_read, memory_write]}}]
        sub_crews: {{library: {{config_path: library}}}}
        routing:
          signals:
            teacher:
              - {{signal: "[LOOK]", type: sub_crew, target_crew: library, input_template: "{field}"}}
              - {{signal: "[END]"}}
        """)
    )
    assert [p.code for p in read_crew(tmp_path).problems] == ([code] if code else [])


# Calls of other crews


@pytest.fixture
def calling(tmp_path: Path) -> Callable[..., LoadedCrew]:
    """Reads a crew of agents a, b and c in which a has these routes; [A], [B] and [C] call crews that are there."""

    def read(*routes: str) -> LoadedCrew:
        (tmp_path / "library").mkdir(exist_ok=True)
        (tmp_path / "library" / "crew.yaml").write_text('version: "2.0"\nentry_point: a\nagents: [{id: a}]\n')
        listed = "".join(f"      - {{type: sub_crew, target_crew: library, {route}}}\n" for route in routes)
        (tmp_path / "crew.yaml").write_text(
            'version: "2.0"\nentry_point: a\n'
            "agents: [{id: a, handoff_targets: [b, c]}, {id: b, is_terminal: true}, {id: c, is_terminal: true}]\n"
            "sub_crews: {library: {config_path: library}}\n"
            f"routing:\n  signals:\n    a:\n{listed}"
        )
        return read_crew(tmp_path)

    return read


def differing(loaded: LoadedCrew) -> list[tuple[str, Severity, str]]:
    return [(p.path, p.severity, p.message) for p in loaded.problems if p.code == "differing-return"]


def test_calls_that_may_run_together_and_return_to_different_agents_are_a_warning(
    calling: Callable[..., LoadedCrew],
) -> None:
    loaded = calling('signal: "[A]"', 'signal: "[B]", return_to: b', 'signal: "[C]", return_to: a')
    message = "'[A]' and '[B]' may run together, but return to different agents"
    assert differing(loaded) == [("routing.signals.a[1].return_to", Severity.WARNING, message)]
    assert loaded.is_sound


@pytest.mark.parametrize(
    "routes",
    [
        ('signal: "[A]"', 'signal: "[B]", return_to: a'),
        ('signal: "[A]", return_to: b', 'signal: "[B]", return_to: b'),
        ('signal: "[A]"', 'signal: "[B]", return_to: b, priority: 59'),
    ],
)
def test_calls_that_return_to_one_agent_or_never_run_together_are_fine(
    calling: Callable[..., LoadedCrew], routes: tuple[str, ...]
) -> None:
    assert differing(calling(*routes)) == []


def test_calls_are_compared_with_those_of_their_own_priority(calling: Callable[..., LoadedCrew]) -> None:
    """The first call of all has another priority than the two that differ."""
    calls = ('signal: "[A]"', 'signal: "[B]", priority: 7', 'signal: "[C]", priority: 7, return_to: b')
    assert [message for _, _, message in differing(calling(*calls))] == [
        "'[B]' and '[C]' may run together, but return to different agents"
    ]


@pytest.mark.parametrize(
    ("keys", "path", "fix"),
    [
        ("return_to: d", "return_to", "name one of a, b, c, or add it"),
        ("on_error: d", "on_error", "name one of a, b, c, fail, return, or add it"),
        ("on_error: retrun", "on_error", "did you mean 'return'?"),
        ("on_error: library", "on_error", "name one of a, b, c, fail, return, or add it"),
        ("return_to: library", "return_to", "name one of a, b, c, or add it"),
    ],
)
def test_control_returns_to_agents_and_errors_lead_to_agents(
    calling: Callable[..., LoadedCrew], keys: str, path: str, fix: str
) -> None:
    problem = only(calling(f'signal: "[A]", {keys}'))
    assert (problem.code, problem.path, problem.fix) == ("unknown-agent", f"routing.signals.a[0].{path}", fix)


@pytest.mark.parametrize("on_error", ["fail", "return", "b", "a"])
def test_an_error_may_fail_return_or_lead_to_an_agent(calling: Callable[..., LoadedCrew], on_error: str) -> None:
    assert calling(f'signal: "[A]", on_error: {on_error}').problems == ()


def test_an_agent_that_only_errors_or_returns_lead_to_is_reached(tmp_path: Path) -> None:
    (tmp_path / "library.yaml").write_text('version: "2.0"\nentry_point: a\nagents: [{id: a}]\n')
    call = "type: sub_crew, target_crew: library, return_to: b, on_error: c"
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nentry_point: a\nagents: [{id: a}, {id: b, is_terminal: true}, {id: c, is_terminal: true}]\n'
        "sub_crews: {library: {config_path: library.yaml}}\n"
        f'routing: {{signals: {{a: [{{signal: "[A]", {call}}}]}}}}\n'
    )
    assert read_crew(tmp_path).problems == ()


def test_delegation_faults_are_told_apart(load: Load) -> None:
    agents = "agents: [{id: teacher, is_terminal: true}, {id: a}, {id: b}]\n"

    def messages(children: str) -> list[str]:
        loaded = load(f"{CREW}{agents}delegation: {{children: {children}}}\n")
        return [p.message for p in loaded.problems if p.code == "delegation-tree"]

    assert messages("{teacher: [a, b]}") == []
    assert messages("{teacher: [a], a: [b], b: [teacher]}") == ["'teacher' is the root and a child of 'b'"]
    assert messages("{a: [b], b: [a]}") == ["delegation is circular: a <- b <- a"]
    assert messages("{a: [b]}") == ["'a' is not below the root 'teacher'"]


@pytest.mark.parametrize(
    ("tools", "places"),
    [
        ("[delegate, answer_child]", []),
        ("[report]", [("misplaced-key", "agents[0].tools[0]")]),
        ("[delegate, query_parent]", [("misplaced-key", "agents[0].tools[1]")]),
    ],
)
def test_tools_of_delegation_need_their_place_in_the_tree(
    load: Load, tools: str, places: list[tuple[str, str]]
) -> None:
    agents = f"agents: [{{id: teacher, is_terminal: true, tools: {tools}}}, {{id: a, tools: [report]}}]\n"
    assert found(load(f"{CREW}{agents}delegation: {{children: {{teacher: [a]}}}}\n")) == places


def test_without_a_tree_nobody_has_them(load: Load) -> None:
    problem = only(load(CREW + "agents: [{id: teacher, is_terminal: true, tools: [delegate]}]\n"))
    assert problem.message == (
        "agent 'teacher' lists 'delegate', which needs children in the delegation tree; it has none"
    )


DELEGATES = "delegation: {{children: {{teacher: [{children}]}}, max_depth: {most}}}\n"


def with_library(load: Load, tmp_path: Path, text: str) -> LoadedCrew:
    """A crew with the agent `librarian` and the sub-crew `library`, whose clerk delegates to a porter."""
    (tmp_path / "library").mkdir(exist_ok=True)
    (tmp_path / "library" / "crew.yaml").write_text(
        'version: "2.0"\nentry_point: clerk\nagents: [{id: clerk, is_terminal: true}, {id: porter}]\n'
        "delegation: {children: {clerk: [porter]}}\n"
    )
    agents = "agents: [{id: teacher, is_terminal: true}, {id: librarian}]\n"
    return load(f"{CREW}{agents}sub_crews: {{library: {{config_path: library}}}}\n{text}")


def test_a_child_may_be_a_sub_crew_and_the_tree_goes_on_inside(load: Load, tmp_path: Path) -> None:
    tree = DELEGATES.format(children="librarian, library", most=2)
    assert with_library(load, tmp_path, tree).problems == ()
    flat = DELEGATES.format(children="librarian, library", most=1)
    problem = only(with_library(load, tmp_path, flat))
    assert (problem.code, problem.message) == ("delegation-tree", "delegation is 2 deep, max_depth is 1")


def test_a_sub_crew_delegates_in_its_own_file_alone(load: Load, tmp_path: Path) -> None:
    tree = "delegation: {children: {teacher: [library], library: [librarian]}}\n"
    problem = only(with_library(load, tmp_path, tree))
    assert (problem.code, problem.path) == ("unknown-agent", "delegation.children.library")
    assert problem.message == "parent 'library' is a sub-crew; only agents can delegate here"


def test_a_child_that_is_a_sub_crew_does_not_stand_for_an_agent_of_a_similar_name(load: Load, tmp_path: Path) -> None:
    loaded = with_library(load, tmp_path, DELEGATES.format(children="library", most=5))
    assert found(loaded) == [("unreachable-agent", "agents[1]")]


def test_a_mistyped_sub_crew_among_children_is_found_by_its_name(load: Load, tmp_path: Path) -> None:
    loaded = with_library(load, tmp_path, DELEGATES.format(children="librarian, libary", most=5))
    assert only(loaded).fix == "did you mean 'library'?"


def test_a_least_length_that_nobody_looks_at_is_a_problem(load: Load) -> None:
    agents = "agents: [{id: teacher, is_terminal: true}, {id: a}]\n"

    def found(keys: str) -> list[tuple[str, str]]:
        loaded = load(f"{CREW}{agents}delegation: {{children: {{teacher: [a]}}, {keys}}}\n")
        return [(problem.code, problem.path) for problem in loaded.problems]

    assert found("min_report_chars: 20") == []
    assert found("report_check: model, min_report_chars: 20") == []
    assert found("report_check: none, min_report_chars: 20") == [("bad-value", "delegation.min_report_chars")]
    assert found("min_report_chars: 0") == [("bad-value", "delegation.min_report_chars")]


# One mistake, one problem

TWO = "agents: [{id: teacher}, {id: student, is_terminal: true}]\n"
ONE_MISTAKE = {
    "a mistyped member": (
        "agents: [{id: teacher}, {id: student}]\nrouting: {signals: {teacher: [{signal: '[GO]', type: parallel,"
        " target: g}, {signal: '[END]'}]}, parallel_groups: {g: {agents: [studnt], next_agent: teacher}}}\n",
        "unknown-agent",
    ),
    "a mistyped emitter": (
        TWO + "routing: {signals: {techer: [{signal: '[NEXT]', target: student}]}}\n",
        "unknown-agent",
    ),
    "a mistyped handoff target": (
        "agents: [{id: teacher, handoff_targets: [studnt]}, {id: student, is_terminal: true}]\n",
        "unknown-target",
    ),
    "a malformed signal": (TWO + "routing: {signals: {teacher: [{signal: 'NEXT', target: student}]}}\n", "bad-format"),
    "a missing signal": (TWO + "routing: {signals: {teacher: [{target: student}]}}\n", "missing-key"),
    "a mistyped key": (TWO + "routing: {signals: {teacher: [{signal: '[NEXT]', tarket: student}]}}\n", "unknown-key"),
    "a mistyped type": (
        TWO + "routing: {signals: {teacher: [{signal: '[GO]', target: student, type: rout}]}}\n",
        "bad-value",
    ),
    "an agent where a group belongs": (
        TWO + "routing: {signals: {teacher: [{signal: '[GO]', target: student, type: parallel}]}}\n",
        "wrong-target",
    ),
    "routes of the wrong shape": (
        TWO + "routing: {signals: {teacher: {signal: '[NEXT]', target: student}}}\n",
        "bad-value",
    ),
    "routing of the wrong shape": (TWO + "routing: [student]\n", "bad-value"),
    "a mistyped child": (
        "agents: [{id: teacher, is_terminal: true}, {id: student}]\ndelegation: {children: {teacher: [studnt]}}\n",
        "unknown-agent",
    ),
    "a pause that goes on at a group": (
        "agents: [{id: teacher}, {id: student}]\nrouting: {signals: {teacher: [{signal: '[WAIT]', target: g},"
        " {signal: '[GO]', type: parallel, target: g}, {signal: '[END]'}]},"
        " parallel_groups: {g: {agents: [student], next_agent: teacher}}}\n",
        "wrong-target",
    ),
}


@pytest.mark.parametrize("mistake", ONE_MISTAKE)
def test_one_mistake_gives_one_problem(load: Load, mistake: str) -> None:
    text, code = ONE_MISTAKE[mistake]
    assert [p.code for p in load(CREW + text).problems] == [code]


def test_a_missing_version_is_the_only_problem_of_an_old_file(load: Load) -> None:
    text = "entry_point: teacher\n" + TWO + "routing: {signals: {teacher: [{signal: '[HOMEWORK]', target: student}]}}\n"
    assert [p.code for p in load(text).problems] == ["missing-key"]


@pytest.mark.parametrize("members", ["", "b: [{signal: '[SHOUT]', type: broadcast}]", "b: [{signal: '[WAIT]'}]"])
def test_a_group_that_only_returns_is_no_way_out(load: Load, members: str) -> None:
    signals = (
        f"teacher: [{{signal: '[GO]', parallel_targets: [b]}}], {members}"
        if members
        else ("teacher: [{signal: '[GO]', parallel_targets: [b]}]")
    )
    loaded = load(CREW + f"agents: [{{id: teacher}}, {{id: b}}]\nrouting: {{signals: {{{signals}}}}}\n")
    assert "trap" in [p.code for p in loaded.problems]


def test_overriding_a_built_in_signal_keeps_what_is_not_overridden(load: Load) -> None:
    loaded = load(
        CREW
        + "agents: [{id: teacher}]\n"
        + "signals: [{name: '[WAIT]', allowed_agents: [teacher]}, {name: '[END]', max_occurs: 1},"
        + " {name: '[ERROR]', description: bad}, {name: '[STOP]', behavior: route}]\n"
        + "routing: {signals: {teacher: [{signal: '[WAIT]'}, {signal: '[END]'}, {signal: '[ERROR]', target: teacher},"
        + " {signal: '[STOP]', target: teacher}]}}\n"
    )
    assert loaded.problems == ()
    assert loaded.crew is not None
    routes = {route.signal: (route.behavior, route.priority) for route in loaded.crew.routes["teacher"]}
    assert routes == {
        "[WAIT]": ("pause", 80),
        "[END]": ("terminate", 100),
        "[ERROR]": ("route", 90),
        "[STOP]": ("route", 50),
    }


def test_a_definition_that_does_not_say_what_it_does_is_understood_from_its_route(load: Load) -> None:
    loaded = load(
        CREW + "agents: [{id: teacher}]\nsignals: [{name: '[FIN]', description: x}]\n"
        "routing: {signals: {teacher: [{signal: '[FIN]', target: ''}]}}\n"
    )
    assert loaded.problems == ()
    assert loaded.crew is not None
    assert loaded.crew.signals[0].behavior == "terminate"


@pytest.mark.parametrize("model", ["openai:", ":x", "gpt-5", " : "])
def test_half_a_model_name_is_refused(load: Load, model: str) -> None:
    assert only(load(CREW + f"agents: [{{id: teacher, model: '{model}'}}]\n")).code == "unknown-provider"


@pytest.mark.parametrize("field", ["{{user.name}}", "{{my-field}}", "{{ foo | upper }}", "{{ Name }}"])
def test_a_prompt_field_that_nothing_fills_is_refused(load: Load, field: str) -> None:
    assert only(load(CREW + f"agents: [{{id: teacher, system_prompt: 'x {field}'}}]\n")).code == "unknown-field"


def test_json_in_a_prompt_is_no_field(load: Load) -> None:
    assert load(CREW + "agents: [{id: teacher, system_prompt: 'x {{\"a\": 1}} {{ name }}'}]\n").problems == ()


def test_a_default_for_groups_is_no_problem_without_groups(load: Load) -> None:
    assert load(CREW + AGENTS + "settings: {timeout_seconds: 30, parallel_timeout_seconds: 60}\n").problems == ()


def test_signals_of_an_agent_without_a_value_narrow_nothing(load: Load) -> None:
    text = "agents: [{id: teacher, signals: }]\nrouting: {signals: {teacher: [{signal: '[END]'}]}}\n"
    assert load(CREW + text).problems == ()


def test_advice_compares_what_is_inside_the_brackets(load: Load) -> None:
    loaded = load(CREW + "agents: [{id: teacher, is_terminal: true, system_prompt: 'Say [NOPE].'}]\n")
    assert "did you mean" not in only(loaded).fix


def test_siblings_that_contain_each_other_are_a_cycle(tmp_path: Path) -> None:
    def write(name: str, sub: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "crew.yaml").write_text(
            f"version: '2.0'\nname: x\nentry_point: a\nagents: [{{id: a}}]\nsub_crews: {{s: {{config_path: {sub}}}}}\n"
        )

    write(".", "alpha")
    write("alpha", "../beta")
    write("beta", "../alpha")
    found = {p.code: p.message for p in read_crew(tmp_path).problems}
    assert set(found) == {"bad-path", "crew-cycle", "unused"}  # nothing calls them either
    assert found["crew-cycle"].endswith("alpha/crew.yaml -> beta/crew.yaml -> alpha/crew.yaml")


@pytest.mark.parametrize("behavior", ["broadcast", "external", "sub_crew"])
def test_a_default_target_that_nothing_would_use_is_refused(load: Load, behavior: str) -> None:
    loaded = load(CREW + AGENTS + f"signals: [{{name: '[A]', behavior: {behavior}, default_target: teacher}}]\n")
    assert (only(loaded).code, only(loaded).path) == ("misplaced-key", "signals[0].default_target")


@pytest.mark.parametrize(
    ("crew", "fix"),
    [
        (AGENTS + "settings: {max_tokens_per_day: 99999999999999}\n", "write at most 1,000,000,000"),
        ("agents: [{id: teacher, is_terminal: true, model: 'openai:'}]\n", "write 'openai:NAME'"),
        ("agents: [{id: teacher, is_terminal: true, model: ':gpt'}]\n", "write 'openai:gpt' or another provider"),
        (
            "agents: [{id: teacher, is_terminal: true, model: 'openai:m', provider_url: 'https://me:pw@h'}]\n",
            "write it as https://HOST/v1, without a name, a password or a query; keys come from the environment",
        ),
    ],
)
def test_the_fix_is_one(crew: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW + crew, "utf-8")
    (problem,) = read_crew(tmp_path).problems
    assert (problem.fix, "pw" in problem.message) == (fix, False)


def test_white_space_around_a_model_is_none_of_its_name(tmp_path: Path) -> None:
    agent = "agents: [{id: teacher, is_terminal: true, model: 'openai: gpt '}]\n"
    (tmp_path / "crew.yaml").write_text(CREW + agent, "utf-8")
    crew = read_crew(tmp_path).crew
    assert crew is not None and crew.agents[0].primary is not None
    assert crew.agents[0].primary.name == "openai:gpt"


def test_a_key_that_is_not_set_is_one_warning_that_names_all_who_need_it(tmp_path: Path) -> None:
    agents = "agents: [{id: teacher, model: 'openai:a', backup: {model: x, provider: ollama}, is_terminal: true,"
    agents += " handoff_targets: [pupil]}, {id: pupil, model: 'openai:b', is_terminal: true}]\n"
    (tmp_path / "crew.yaml").write_text(CREW + agents)
    problem = only(read_crew(tmp_path, HOST))
    assert (problem.severity, problem.path) == (Severity.WARNING, "agents[0].model")
    assert problem.message == "OPENAI_API_KEY is not set; 'teacher', 'pupil' cannot call openai without it"
    assert problem.fix == "set the environment variable OPENAI_API_KEY where the crew runs"
    assert read_crew(tmp_path, Host()).problems == ()


@pytest.mark.parametrize(("who", "allowed"), [("true", True), ("false", False)])
def test_a_built_in_signal_may_be_kept_to_some_agents(who: str, allowed: bool, tmp_path: Path) -> None:
    """Found by a walk over random crews: writing the key on a built-in signal was a traceback."""
    signals = f'signals: [{{name: "[END]", allow_all_agents: {who}, allowed_agents: [pupil]}}]\n'
    crew = "agents: [{id: teacher}, {id: pupil}]\nrouting: {signals: {teacher: [{signal: '[NEXT]', target: pupil}"
    (tmp_path / "crew.yaml").write_text(CREW + crew + ", {signal: '[END]'}]}}\n" + signals, "utf-8")
    codes = [problem.code for problem in read_crew(tmp_path).problems]
    assert ("emitter-not-allowed" not in codes) == allowed
