"""Every YAML example of seeds 000, 001 and 003: it loads, or is refused with the code that DESIGN.md calls for.

The text in capitals is the seeds' own, letter for letter. What a fragment lacks to be a crew is written around it,
and no more than that: a version, an entry point, the agents it names, an ending for those that would have none.
"""

import textwrap
from pathlib import Path

import pytest

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.crew.problem import Severity
from interlock.engine.routing.candidates import Verb
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.signals.definition import SignalBehavior

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
VERSIONS = ("1.0", "2.0")

SEED_000_3_ROUTE = """\
routing:
  signals:
    teacher:
      - signal: "[QUESTION]"
        target: "question_handler"
        description: "Route to question handler"
"""

SEED_000_3_TERMINATE = """\
routing:
  signals:
    teacher:
      - signal: "[END_EXAM]"
        target: ""              // EMPTY = terminate
        description: "End exam"
"""

SEED_000_3_PAUSE = """\
routing:
  signals:
    agent:
      - signal: "[WAIT]"
        target: ""
        description: "Wait for user input"
"""

SEED_000_3_PARALLEL = """\
routing:
  signals:
    coordinator:
      - signal: "[START_PARALLEL]"
        target: "parallel_group_name"
"""

SEED_000_6_EXAMPLE_1 = """\
version: "1.0"
entry_point: "teacher"
agents: ["teacher", "reporter"]

routing:
  signals:
    teacher:
      - signal: "[QUESTION_READY]"
        target: "reporter"
        description: "Questions ready for reporting"
      - signal: "[END_EXAM]"
        target: ""  # Empty = terminate
        description: "Exam complete"
"""

SEED_000_6_EXAMPLE_2 = """\
routing:
  signals:
    analyzer:
      - signal: "[DATA_READY]"
        target: "processor"
      - signal: "[ERROR]"
        target: "error_handler"
      - signal: "[SKIP]"
        target: "reporter"
      - signal: "[END]"
        target: ""
"""

SEED_000_6_EXAMPLE_3 = """\
routing:
  signals:
    giao_vien:
      - signal: "[CÂU_HỎI_SẴN_SÀNG]"
        target: "bao_cao"
      - signal: "[KẾT_THÚC_THI]"
        target: ""
"""

SEED_000_9_DO_NOT_2 = """\
# ✗ Wrong - termination signal with target
- signal: "[END]"
  target: "agent"
"""

SEED_001_1_1 = """\
routing:
  signals:
    teacher:
      - signal: "[QUESTION]"
        target: parallel_question      # Route tới parallel group
      - signal: "[END]"
        target: reporter               # Route tới agent cụ thể
    executor:
      - signal: "[COMPLETE]"
        target: ""                     # Empty = TERMINATE workflow
"""

SEED_001_5_1 = """\
settings:
  max_handoffs: 30  # Maximum number of agent-to-agent transitions
"""

SEED_001_6_1 = """\
routing:
  signals:
    teacher:
      - signal: "[QUESTION]"
        target: parallel_question  # ← Routes to parallel GROUP not agent

  parallel_groups:
    parallel_question:
      agents: [student, reporter]     # Both run in parallel
      wait_for_all: false             # Don't wait for all to finish
      timeout_seconds: 30             # Max 30s for parallel execution
      next_agent: teacher             # After parallel, goto teacher
"""

SEED_001_7_1 = """\
routing:
  agent_behaviors:
    orchestrator:
      wait_for_signal: true   # Pause execution, await user input
      auto_route: false       # Don't auto-route
      description: "Orchestrator waits for explicit signal"
    executor:
      is_terminal: true       # Terminal, no handoff
      description: "Executor is the final agent"
"""

SEED_001_10_4 = """\
routing:
  signals:
    a:
      - signal: "[ROUTE_B]"
        target: b
    b:
      - signal: "[ROUTE_A]"
        target: a  # Circle!
"""

SEED_001_11_2_PATTERN_1 = """\
signals:
  orchestrator:
    - signal: "[COMPLEX]"
      target: executor
    - signal: "[SIMPLE]"
      target: clarifier
"""

SEED_001_11_2_PATTERN_2 = """\
signals:
  teacher:
    - signal: "[QUESTION]"
      target: parallel_question
    - signal: "[END]"
      target: reporter
    - signal: "[DONE]"
      target: ""  # Terminate
"""

SEED_001_11_2_PATTERN_3 = """\
signals:
  analyzer:
    - signal: "[NEEDS_HUMAN]"
      target: human_reviewer
    - signal: "[AUTO_APPROVE]"
      target: approval_agent
"""

SEED_001_12 = """\
agents: [teacher, student, reporter]
routing:
  signals:
    teacher:
      - signal: "[QUESTION]"
        target: parallel_question
    student:
      - signal: "[ANSWER]"
        target: parallel_answer
    reporter:
      - signal: "[DONE]"
        target: ""
"""

SEED_003_2_1 = """\
# Hiện tại
signals:
  coordinator:
    - signal: "[DELEGATE_ALPHA]"
      target: ""  # ← Luôn terminate, không có cách emit "output signal"
"""

SEED_003_3_1 = """\
# Proposed crew.yaml v2.0
routing:
  signals:
    coordinator:
      # Type 1: Route to agent (existing)
      - signal: "[ANALYZE]"
        target: "analyst"
        type: "route"  # default

      # Type 2: Terminate workflow (existing, explicit)
      - signal: "[DONE]"
        target: ""
        type: "terminate"

      # Type 3: NEW - External/Output signal (không terminate)
      - signal: "[DELEGATE_ALPHA]"
        type: "external"  # Emit signal, workflow continues/pauses
        pause: true       # Optional: pause waiting for external result

      # Type 4: NEW - Call sub-crew
      - signal: "[RESEARCH]"
        type: "sub_crew"
        target_crew: "team-alpha"
        return_to: "coordinator"  # Resume here after sub-crew completes
"""

SEED_003_3_2 = """\
# crew.yaml v2.0
version: "2.0"
name: master-crew

# NEW: Sub-crew definitions
sub_crews:
  team-alpha:
    config_path: "./team-alpha/config"
    description: "Research & Analysis team"

  team-beta:
    config_path: "./team-beta/config"
    description: "Content Writing team"

entry_point: coordinator

agents:
  - coordinator

routing:
  signals:
    coordinator:
      - signal: "[DELEGATE_ALPHA]"
        type: "sub_crew"
        target_crew: "team-alpha"
        input_template: "Research topic: {{.Input}}"
        return_to: "coordinator"

      - signal: "[DELEGATE_BETA]"
        type: "sub_crew"
        target_crew: "team-beta"
        input_template: "Write about: {{.PreviousResult}}"
        return_to: "coordinator"
"""

SEED_003_5 = """\
# examples/02-multi-team/config/crew.yaml (v2.0)
version: "2.0"
name: multi-team-orchestrator

sub_crews:
  team-alpha:
    config_path: "./team-alpha/config"
  team-beta:
    config_path: "./team-beta/config"

entry_point: coordinator

agents:
  - coordinator

routing:
  signals:
    coordinator:
      - signal: "[RESEARCH]"
        type: "sub_crew"
        target_crew: "team-alpha"
        return_to: "coordinator"

      - signal: "[WRITE]"
        type: "sub_crew"
        target_crew: "team-beta"
        input_template: |
          Dựa trên kết quả nghiên cứu sau:
          {{.PreviousResult}}

          Hãy viết content về: {{.OriginalInput}}
        return_to: "coordinator"

      - signal: "[FINAL]"
        type: "terminate"
"""


def crew_text(version: str, entry: str, agents: str, *parts: str) -> str:
    """A crew around a fragment; an agent written as `name!` is terminal."""
    listed = "".join(
        f"  - {{id: {agent.removesuffix('!')}{', is_terminal: true' if agent.endswith('!') else ''}}}\n"
        for agent in agents.split()
    )
    return f'version: "{version}"\nentry_point: {entry}\nagents:\n{listed}' + "".join(parts)


def under(path: str, fragment: str) -> str:
    """A fragment put where the seed says it belongs."""
    keys = path.split(".")
    head = "".join(f"{'  ' * n}{key}:\n" for n, key in enumerate(keys))
    return head + textwrap.indent(fragment, "  " * len(keys))


def read(folder: Path, crew: str, files: dict[str, str] | None = None) -> LoadedCrew:
    for name, text in {"crew.yaml": crew, **(files or {})}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return read_crew(folder)


def found(loaded: LoadedCrew) -> list[tuple[str, Severity]]:
    return [(problem.code, problem.severity) for problem in loaded.problems]


def behaviors(loaded: LoadedCrew, agent: str) -> dict[str, tuple[SignalBehavior, str]]:
    assert loaded.crew is not None
    return {route.signal: (route.behavior, route.target) for route in loaded.crew.routes[agent]}


def verb_of(loaded: LoadedCrew, agent: str, reply: str) -> Verb | None:
    assert loaded.crew is not None
    return RoutingTable(loaded.crew).decide(OwnReply(agent, reply)).verb


def agent_files(*agents: str) -> dict[str, str]:
    """Files of agents, with nothing in them but what they must have; `name!` is terminal."""
    return {
        f"agents/{agent.removesuffix('!')}.yaml": f"id: {agent.removesuffix('!')}\n"
        + ("is_terminal: true\n" if agent.endswith("!") else "")
        for agent in agents
    }


# Seed 000


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_000_section_3_route(tmp_path: Path, version: str) -> None:
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher question_handler!", SEED_000_3_ROUTE))
    assert found(loaded) == []
    assert behaviors(loaded, "teacher") == {"[QUESTION]": (SignalBehavior.ROUTE, "question_handler")}


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_000_section_3_terminate_has_a_comment_that_yaml_does_not_know(tmp_path: Path, version: str) -> None:
    """`//` starts no comment in YAML: the file cannot be read, and the problem says what to write."""
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher", SEED_000_3_TERMINATE))
    assert not loaded.readable
    assert found(loaded) == [("bad-yaml", ERROR)]
    problem = loaded.problems[0]
    text = (tmp_path / "crew.yaml").read_text(encoding="utf-8").splitlines()
    assert text[problem.line - 1][problem.column - 1 :].startswith("//")
    assert "'#'" in problem.fix


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_000_section_3_terminate_with_a_yaml_comment(tmp_path: Path, version: str) -> None:
    fragment = SEED_000_3_TERMINATE.replace("//", "#")
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher", fragment))
    assert found(loaded) == []
    assert behaviors(loaded, "teacher") == {"[END_EXAM]": (SignalBehavior.TERMINATE, "")}


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_000_section_3_pause(tmp_path: Path, version: str) -> None:
    """An empty target of `[WAIT]` pauses; it does not end the run."""
    loaded = read(tmp_path, crew_text(version, "agent", "agent!", SEED_000_3_PAUSE))
    assert found(loaded) == []
    assert behaviors(loaded, "agent") == {"[WAIT]": (SignalBehavior.PAUSE, "")}
    assert verb_of(loaded, "agent", "Which city? [WAIT]") is Verb.AWAIT


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_000_section_3_parallel(tmp_path: Path, version: str, severity: Severity) -> None:
    group = "  parallel_groups: {parallel_group_name: {agents: [worker], next_agent: worker}}\n"
    loaded = read(tmp_path, crew_text(version, "coordinator", "coordinator worker!", SEED_000_3_PARALLEL, group))
    assert found(loaded) == [("unregistered-signal", severity)]
    assert behaviors(loaded, "coordinator") == {"[START_PARALLEL]": (SignalBehavior.PARALLEL, "parallel_group_name")}


def test_seed_000_section_3_parallel_names_a_group(tmp_path: Path) -> None:
    loaded = read(tmp_path, crew_text("1.0", "coordinator", "coordinator!", SEED_000_3_PARALLEL))
    assert found(loaded) == [("unregistered-signal", NOTE), ("unknown-target", ERROR)]


def test_seed_000_section_6_example_1_simple_route(tmp_path: Path) -> None:
    loaded = read(tmp_path, SEED_000_6_EXAMPLE_1, agent_files("teacher", "reporter!"))
    assert found(loaded) == [("unregistered-signal", NOTE)]
    assert loaded.is_sound
    assert behaviors(loaded, "teacher") == {
        "[QUESTION_READY]": (SignalBehavior.ROUTE, "reporter"),
        "[END_EXAM]": (SignalBehavior.TERMINATE, ""),
    }


def test_seed_000_section_6_example_1_simple_route_without_its_agent_files(tmp_path: Path) -> None:
    loaded = read(tmp_path, SEED_000_6_EXAMPLE_1)
    assert found(loaded) == [("agent-file", ERROR), ("agent-file", ERROR), ("unregistered-signal", NOTE)]


def test_seed_000_section_6_example_1_simple_route_with_a_reporter_that_cannot_end(tmp_path: Path) -> None:
    """As the seed has it: the reporter's reply completes the run."""
    loaded = read(tmp_path, SEED_000_6_EXAMPLE_1, agent_files("teacher", "reporter"))
    assert found(loaded) == [("unregistered-signal", NOTE), ("no-way-on", WARNING)]
    strict = SEED_000_6_EXAMPLE_1.replace("1.0", "2.0")
    assert found(read(tmp_path, strict)) == [("unregistered-signal", ERROR), ("no-way-on", ERROR)]


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_000_section_6_example_2_multiple_routes(tmp_path: Path, version: str, severity: Severity) -> None:
    agents = "analyzer processor! error_handler! reporter!"
    loaded = read(tmp_path, crew_text(version, "analyzer", agents, SEED_000_6_EXAMPLE_2))
    assert found(loaded) == [("unregistered-signal", severity)] * 2  # [DATA_READY] and [SKIP]
    assert behaviors(loaded, "analyzer") == {
        "[DATA_READY]": (SignalBehavior.ROUTE, "processor"),
        "[ERROR]": (SignalBehavior.ROUTE, "error_handler"),
        "[SKIP]": (SignalBehavior.ROUTE, "reporter"),
        "[END]": (SignalBehavior.TERMINATE, ""),
    }


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_000_section_6_example_3_vietnamese_signals(tmp_path: Path, version: str, severity: Severity) -> None:
    loaded = read(tmp_path, crew_text(version, "giao_vien", "giao_vien bao_cao!", SEED_000_6_EXAMPLE_3))
    assert found(loaded) == [("unregistered-signal", severity)] * 2
    assert verb_of(loaded, "giao_vien", "Xong. [ kết thúc  thi ]") is Verb.END


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_000_section_9_termination_with_a_target(tmp_path: Path, version: str, severity: Severity) -> None:
    """What the seed calls wrong is refused in 2.0; a 1.0 file may do it, and is told so."""
    text = crew_text(version, "teacher", "teacher agent!", under("routing.signals.teacher", SEED_000_9_DO_NOT_2))
    loaded = read(tmp_path, text)
    assert found(loaded) == [("wrong-target", severity)]
    if version == "2.0":
        expected = "termination signal '[END]' must have empty target, got 'agent'"
        assert loaded.problems[0].message == expected
    else:
        assert behaviors(loaded, "teacher") == {"[END]": (SignalBehavior.ROUTE, "agent")}


# Seed 001


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_001_section_1_1_definition(tmp_path: Path, version: str, severity: Severity) -> None:
    group = "  parallel_groups: {parallel_question: {agents: [student], next_agent: executor}}\n"
    agents = "teacher reporter! executor student"
    loaded = read(tmp_path, crew_text(version, "teacher", agents, SEED_001_1_1, group))
    assert found(loaded) == [("wrong-target", severity), ("unregistered-signal", severity)]  # [END], [COMPLETE]
    assert behaviors(loaded, "executor") == {"[COMPLETE]": (SignalBehavior.TERMINATE, "")}
    assert behaviors(loaded, "teacher")["[QUESTION]"] == (SignalBehavior.PARALLEL, "parallel_question")


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_001_section_5_1_max_handoffs(tmp_path: Path, version: str) -> None:
    loaded = read(tmp_path, crew_text(version, "solo", "solo", SEED_001_5_1.replace("30", "7")))
    assert found(loaded) == []
    assert loaded.crew is not None
    assert loaded.crew.settings.max_handoffs == 7
    assert found(read(tmp_path, crew_text(version, "solo", "solo", SEED_001_5_1))) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_001_section_6_1_parallel_group(tmp_path: Path, version: str) -> None:
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher! student reporter", SEED_001_6_1))
    assert found(loaded) == []
    assert loaded.crew is not None
    group = loaded.crew.groups["parallel_question"]
    assert (group.agents, group.wait_for_all, group.timeout_seconds, group.next_agent) == (
        ("student", "reporter"),
        False,
        30,
        "teacher",
    )
    assert verb_of(loaded, "teacher", "What is 2+2? [QUESTION]") is Verb.FORK


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_001_section_6_1_parallel_group_alone_never_ends(tmp_path: Path, version: str) -> None:
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher student reporter", SEED_001_6_1))
    assert found(loaded) == [("trap", ERROR)]
    assert "teacher -> parallel_question -> teacher" in loaded.problems[0].message


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_001_section_7_1_agent_behaviors(tmp_path: Path, version: str) -> None:
    route = '  signals: {orchestrator: [{signal: "[NEXT]", target: executor}]}\n'
    loaded = read(tmp_path, crew_text(version, "orchestrator", "orchestrator executor", SEED_001_7_1, route))
    assert found(loaded) == []
    assert loaded.crew is not None
    table = RoutingTable(loaded.crew)
    assert table.decide(OwnReply("orchestrator", "Hm.")).because == "wait_for_signal"
    assert table.decide(OwnReply("orchestrator", "On. [NEXT]")).held
    assert table.decide(OwnReply("executor", "Done it.")).because == "terminal_agent"


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_001_section_10_4_circular_routing(tmp_path: Path, version: str, severity: Severity) -> None:
    """The seed leaves this circle to max_handoffs; a crew that can never end is refused before it runs."""
    loaded = read(tmp_path, crew_text(version, "a", "a b", SEED_001_10_4))
    assert found(loaded) == [
        ("trap", ERROR),
        ("unregistered-signal", severity),
        ("unregistered-signal", severity),
    ]
    assert "a -> b -> a" in loaded.problems[0].message


def test_seed_001_section_10_4_circular_routing_with_a_way_out(tmp_path: Path) -> None:
    loaded = read(tmp_path, crew_text("1.0", "a", "a b!", SEED_001_10_4))
    assert found(loaded) == [("unregistered-signal", NOTE)] * 2


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_001_section_11_2_pattern_1_explicit_routes(tmp_path: Path, version: str, severity: Severity) -> None:
    routing = under("routing", SEED_001_11_2_PATTERN_1)
    loaded = read(tmp_path, crew_text(version, "orchestrator", "orchestrator executor! clarifier!", routing))
    assert found(loaded) == [("unregistered-signal", severity)] * 2
    assert behaviors(loaded, "orchestrator") == {
        "[COMPLEX]": (SignalBehavior.ROUTE, "executor"),
        "[SIMPLE]": (SignalBehavior.ROUTE, "clarifier"),
    }


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_001_section_11_2_pattern_2_multi_signal_agent(tmp_path: Path, version: str, severity: Severity) -> None:
    routing = under("routing", SEED_001_11_2_PATTERN_2)
    group = "  parallel_groups: {parallel_question: {agents: [student], next_agent: teacher}}\n"
    loaded = read(tmp_path, crew_text(version, "teacher", "teacher reporter! student", routing, group))
    assert found(loaded) == [("wrong-target", severity)]  # [END] leads to reporter
    assert behaviors(loaded, "teacher")["[DONE]"] == (SignalBehavior.TERMINATE, "")


def test_seed_001_section_11_2_pattern_2_multi_signal_agent_that_redefines_end(tmp_path: Path) -> None:
    """A 2.0 crew may route `[END]` once it says under `signals` that `[END]` routes."""
    routing = under("routing", SEED_001_11_2_PATTERN_2)
    group = "  parallel_groups: {parallel_question: {agents: [student], next_agent: teacher}}\n"
    own = 'signals: [{name: "[END]", behavior: route}]\n'
    loaded = read(tmp_path, crew_text("2.0", "teacher", "teacher reporter! student", routing, group, own))
    assert found(loaded) == []
    assert behaviors(loaded, "teacher")["[END]"] == (SignalBehavior.ROUTE, "reporter")


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_001_section_11_2_pattern_3_conditional_handoff(tmp_path: Path, version: str, severity: Severity) -> None:
    routing = under("routing", SEED_001_11_2_PATTERN_3)
    agents = "analyzer human_reviewer! approval_agent!"
    loaded = read(tmp_path, crew_text(version, "analyzer", agents, routing))
    assert found(loaded) == [("unregistered-signal", severity)] * 2
    assert behaviors(loaded, "analyzer") == {
        "[NEEDS_HUMAN]": (SignalBehavior.ROUTE, "human_reviewer"),
        "[AUTO_APPROVE]": (SignalBehavior.ROUTE, "approval_agent"),
    }


QUIZ_GROUPS = """\
  parallel_groups:
    parallel_question: {agents: [student, reporter]}
    parallel_answer: {agents: [reporter], next_agent: teacher}
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_001_section_12_quiz(tmp_path: Path, version: str) -> None:
    text = f'version: "{version}"\nentry_point: teacher\n{SEED_001_12}{QUIZ_GROUPS}'
    loaded = read(tmp_path, text, agent_files("teacher", "student", "reporter"))
    assert found(loaded) == []
    assert verb_of(loaded, "student", "The answer is 4 [ANSWER]") is Verb.FORK
    assert verb_of(loaded, "reporter", "Filed. [DONE]") is Verb.END


def test_seed_001_section_12_quiz_without_its_groups(tmp_path: Path) -> None:
    text = f'version: "1.0"\nentry_point: teacher\n{SEED_001_12}'
    loaded = read(tmp_path, text, agent_files("teacher", "student", "reporter"))
    assert [p.code for p in loaded.problems] == ["unknown-target"] * 2 + ["unreachable-agent"] * 2


# Seed 003

TEAM = 'version: "2.0"\nentry_point: worker\nagents: [{id: worker}]\n'
TEAMS = {"team-alpha/config/crew.yaml": TEAM, "team-beta/config/crew.yaml": TEAM}


@pytest.mark.parametrize(("version", "severity"), [("1.0", NOTE), ("2.0", ERROR)])
def test_seed_003_section_2_1_empty_target_terminates(tmp_path: Path, version: str, severity: Severity) -> None:
    routing = under("routing", SEED_003_2_1)
    loaded = read(tmp_path, crew_text(version, "coordinator", "coordinator", routing))
    assert found(loaded) == [("unregistered-signal", severity)]
    assert behaviors(loaded, "coordinator") == {"[DELEGATE_ALPHA]": (SignalBehavior.TERMINATE, "")}


@pytest.mark.parametrize("version", VERSIONS)
def test_seed_003_section_3_1_signal_types(tmp_path: Path, version: str) -> None:
    """An explicit type declares a signal, so nothing has to be registered."""
    sub_crews = "sub_crews: {team-alpha: {config_path: ./team-alpha/config}}\n"
    text = crew_text(version, "coordinator", "coordinator analyst!", SEED_003_3_1, sub_crews)
    loaded = read(tmp_path, text, TEAMS)
    assert found(loaded) == []
    assert {signal: behavior for signal, (behavior, _) in behaviors(loaded, "coordinator").items()} == {
        "[ANALYZE]": SignalBehavior.ROUTE,
        "[DONE]": SignalBehavior.TERMINATE,
        "[DELEGATE_ALPHA]": SignalBehavior.EXTERNAL,
        "[RESEARCH]": SignalBehavior.SUB_CREW,
    }
    assert verb_of(loaded, "coordinator", "Over to you. [DELEGATE_ALPHA]") is Verb.AWAIT
    assert verb_of(loaded, "coordinator", "Look it up. [RESEARCH]") is Verb.CALL


def test_seed_003_section_3_1_signal_types_without_the_sub_crew(tmp_path: Path) -> None:
    loaded = read(tmp_path, crew_text("2.0", "coordinator", "coordinator analyst!", SEED_003_3_1))
    assert found(loaded) == [("unknown-sub-crew", ERROR)]


def test_seed_003_section_3_2_sub_crews(tmp_path: Path) -> None:
    loaded = read(tmp_path, SEED_003_3_2, {**TEAMS, **agent_files("coordinator!")})
    assert found(loaded) == []
    assert loaded.crew is not None
    assert loaded.crew.name == "master-crew"
    alpha = loaded.crew.sub_crews["team-alpha"]
    assert (alpha.config_path, alpha.description) == ("./team-alpha/config", "Research & Analysis team")
    assert alpha.crew is not None
    assert alpha.crew.entry_point == "worker"
    assert loaded.crew.routes["coordinator"][1].input_template == "Write about: {{.PreviousResult}}"


def test_seed_003_section_3_2_sub_crews_with_a_coordinator_that_cannot_end(tmp_path: Path) -> None:
    """Both signals come back to the coordinator; the example has no ending."""
    loaded = read(tmp_path, SEED_003_3_2, {**TEAMS, **agent_files("coordinator")})
    assert found(loaded) == [("trap", ERROR)]


def test_seed_003_section_3_2_sub_crews_that_are_not_there(tmp_path: Path) -> None:
    loaded = read(tmp_path, SEED_003_3_2, agent_files("coordinator!"))
    assert found(loaded) == [("bad-path", ERROR)] * 2


def test_seed_003_section_5_multi_team(tmp_path: Path) -> None:
    loaded = read(tmp_path, SEED_003_5, {**TEAMS, **agent_files("coordinator")})
    assert found(loaded) == []
    assert loaded.crew is not None
    write = loaded.crew.routes["coordinator"][1]
    assert write.input_template == (
        "Dựa trên kết quả nghiên cứu sau:\n{{.PreviousResult}}\n\nHãy viết content về: {{.OriginalInput}}\n"
    )
    assert behaviors(loaded, "coordinator")["[FINAL]"] == (SignalBehavior.TERMINATE, "")
    assert verb_of(loaded, "coordinator", "All written.\n[FINAL]") is Verb.END
