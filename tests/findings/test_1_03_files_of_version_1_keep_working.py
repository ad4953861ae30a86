"""Files of version 1.0 keep working unchanged; the same files as 2.0 are refused."""

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import Interlock, Result
from interlock.cli.main import interlock
from interlock.compose.crews import load_definition
from interlock.signals import SignalValidator, load_default_signals
from interlock.testing import ScriptedModel
from tests.crew.test_seed_examples import (
    SEED_000_6_EXAMPLE_1,
    SEED_000_6_EXAMPLE_2,
    SEED_000_6_EXAMPLE_3,
    agent_files,
    crew_text,
)

Found = list[tuple[str, str, str]]


def crew_in(folder: Path, text: str, files: dict[str, str] | None = None) -> Path:
    for name, content in {"crew.yaml": textwrap.dedent(text), **(files or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    return folder


def check(folder: Path) -> tuple[int, Found]:
    """What the command says: its exit code, and every problem but that these crews name no model."""
    said = CliRunner().invoke(interlock, ["check", str(folder), "--json"])
    problems = json.loads(said.stdout)["problems"]
    return said.exit_code, [(p["severity"], p["code"], p["path"]) for p in problems if p["code"] != "no-model"]


async def run(folder: Path, crew: Path, script: dict[str, list[str]]) -> Result:
    async with Interlock(folder / "data", models=ScriptedModel(script)) as box:
        return await (await box.start(load_definition(crew), "go")).result()


def as_2(folder: Path) -> Path:
    """The same crew as a file of version 2.0, with its signals registered as in 1.0."""
    text = (folder / "crew.yaml").read_text("utf-8").replace('"1.0"', '"2.0"')
    assert "settings:" not in text
    (folder / "crew.yaml").write_text(text + "settings: {signal_registration: inferred}\n", "utf-8")
    return folder


async def test_example_1_of_the_seed_loads_and_its_reporter_ends_the_run(tmp_path: Path) -> None:
    crew = crew_in(tmp_path / "crew", SEED_000_6_EXAMPLE_1, agent_files("teacher", "reporter"))
    assert check(crew) == (
        0,
        [
            ("note", "unregistered-signal", "routing.signals.teacher[0].signal"),
            ("warning", "no-way-on", ""),
        ],
    )
    result = await run(tmp_path, crew, {"teacher": ["Ten questions. [QUESTION_READY]"], "reporter": ["Filed."]})
    assert (result.status, result.reason, result.agent) == ("completed", "terminal_agent", "reporter")
    assert check(as_2(crew))[0] == 1


async def test_example_2_of_the_seed_loads_and_every_way_ends(tmp_path: Path) -> None:
    agents = "analyzer processor error_handler reporter"
    crew = crew_in(tmp_path / "crew", crew_text("1.0", "analyzer", agents, SEED_000_6_EXAMPLE_2))
    code, problems = check(crew)
    assert (code, [p[:2] for p in problems]) == (
        0,
        [("warning", "no-way-on")] * 3 + [("note", "unregistered-signal")] * 2,
    )
    for mark, agent in (("[DATA_READY]", "processor"), ("[ERROR]", "error_handler"), ("[SKIP]", "reporter")):
        result = await run(tmp_path, crew, {"analyzer": [f"So. {mark}"], agent: ["Done here."]})
        assert (result.status, result.agent) == ("completed", agent)
    assert [p[:2] for p in check(as_2(crew))[1]].count(("error", "no-way-on")) == 3


async def test_example_3_of_the_seed_loads_and_ends(tmp_path: Path) -> None:
    crew = crew_in(tmp_path / "crew", crew_text("1.0", "giao_vien", "giao_vien bao_cao", SEED_000_6_EXAMPLE_3))
    code, problems = check(crew)
    assert (code, [p[:2] for p in problems]) == (
        0,
        [("warning", "no-way-on"), ("note", "unregistered-signal"), ("note", "unregistered-signal")],
    )
    result = await run(tmp_path, crew, {"giao_vien": ["Xong. [câu hỏi sẵn sàng]"], "bao_cao": ["Đã ghi."]})
    assert (result.status, result.agent) == ("completed", "bao_cao")


EMPTY = """\
version: "1.0"
entry_point: teacher
agents: [{id: teacher, is_terminal: true}]
%srouting:
  signals:
    teacher: [{signal: "%s", target: ""}]
"""


@pytest.mark.parametrize(
    ("signal", "severity"),
    [
        ("[OK]", "note"),
        ("[ERROR]", "note"),
        ("[RETRY]", "note"),
        ("[NEXT]", "warning"),
        ("[QUESTION]", "warning"),
        ("[ANSWER]", "warning"),
    ],
)
async def test_an_empty_target_of_a_built_in_route_acknowledges(tmp_path: Path, signal: str, severity: str) -> None:
    crew = crew_in(tmp_path / "crew", EMPTY % ("", signal))
    assert check(crew) == (0, [(severity, "wrong-target", "routing.signals.teacher[0].signal")])
    result = await run(tmp_path, crew, {"teacher": [f"Well. {signal}"]})
    assert (result.status, result.reason) == ("completed", "terminal_agent")  # and not signal:…
    (crew / "crew.yaml").write_text((EMPTY % ("", signal)).replace("1.0", "2.0"), "utf-8")
    assert check(crew) == (1, [("error", "wrong-target", "routing.signals.teacher[0].target")])


def test_a_signal_that_the_crew_itself_defines_as_route_needs_a_target(tmp_path: Path) -> None:
    own = 'signals: [{name: "[ANSWER]", behavior: route}]\n'
    assert check(crew_in(tmp_path, EMPTY % (own, "[ANSWER]"))) == (
        1,
        [("error", "wrong-target", "routing.signals.teacher[0].target")],
    )


def test_a_built_in_that_the_crew_only_describes_is_still_the_built_in(tmp_path: Path) -> None:
    own = 'signals: [{name: "[ANSWER]", description: What I think}]\n'
    code, problems = check(crew_in(tmp_path, EMPTY % (own, "[ANSWER]")))
    assert (code, [p[:2] for p in problems]) == (0, [("warning", "wrong-target")])


async def test_an_unregistered_name_with_an_empty_target_ends_the_run(tmp_path: Path) -> None:
    crew = crew_in(tmp_path / "crew", EMPTY % ("", "[FINI]"))
    assert check(crew) == (0, [("note", "unregistered-signal", "routing.signals.teacher[0].signal")])
    assert (await run(tmp_path, crew, {"teacher": ["[FINI]"]})).reason == "signal:[FINI]"


def test_the_validator_keeps_the_strict_sentences() -> None:
    validator = SignalValidator(load_default_signals())
    (error,) = validator.validate_configuration({"teacher": [{"signal": "[ANSWER]", "target": ""}]}, ["teacher"])
    assert str(error).startswith("routing signal '[ANSWER]' must have a target agent")


LEFT_OUT = """\
version: "1.0"
name: school
entry_point: teacher
agents: [{id: teacher}, {id: student}, {id: ghost, tools: [haunt]}, {id: shade}]
signals: [{name: "[BOO]", behavior: route, allowed_agents: [ghost], valid_targets: [shade, teacher]}]
routing:
  signals:
    teacher: [{signal: "[QUESTION]", target: class}, {signal: "[END]", target: ""}]
    student: [{signal: "[ANSWER]", target: shade}]
    ghost: [{signal: "[BOO]", target: shade}, {signal: "[BOTH]", target: spirits}]
  defaults: {shade: ghost}
  agent_behaviors: {ghost: {wait_for_signal: true}}
  parallel_groups:
    class: {agents: [student], next_agent: teacher}
    spirits: {agents: [shade]}
subscriptions: {ghost: [{pattern: "a:b"}]}
"""


async def test_agents_that_nobody_can_reach_are_left_out(tmp_path: Path) -> None:
    """Also from all that names them: the mark of a group's member that led to one of them is only noted."""
    crew = crew_in(tmp_path / "crew", LEFT_OUT)
    code, problems = check(crew)
    assert code == 0
    assert [p for p in problems if p[1] == "unreachable-agent"] == [
        ("warning", "unreachable-agent", "agents[2]"),
        ("warning", "unreachable-agent", "agents[3]"),
    ]
    loaded = load_definition(crew)
    assert loaded.agent_ids == ("teacher", "student")
    assert "ghost" not in repr(loaded)
    assert "shade" not in repr(loaded)
    result = await run(tmp_path, crew, {"teacher": ["Who? [QUESTION]", "Right. [END]"], "student": ["Me. [ANSWER]"]})
    assert (result.status, result.reason) == ("completed", "signal:[END]")
    assert [p[:2] for p in check(as_2(crew))[1]].count(("error", "unreachable-agent")) == 2


def test_what_is_wrong_with_an_agent_that_nobody_reaches_is_still_wrong(tmp_path: Path) -> None:
    code, problems = check(crew_in(tmp_path, LEFT_OUT.replace("target: spirits", "target: cellar")))
    assert code == 1
    assert ("error", "unknown-target", "routing.signals.ghost[1].target") in problems


HANDED_OVER = """\
version: "1.0"
entry_point: a
agents: [{id: a}, {id: m, handoff_targets: [a, ghost]}, {id: ghost}]
routing:
  signals: {a: [{signal: "[ASK]", target: g}, {signal: "[END]", target: ""}]}
  parallel_groups: {g: {agents: [m], next_agent: a}}
"""
REQUIRED = """\
version: "1.0"
entry_point: a
agents: [{id: a}, {id: ghost}]
signals: [{name: "[MUST]", behavior: terminate, required: true}]
routing:
  signals: {a: [{signal: "[END]", target: ""}], ghost: [{signal: "[MUST]", target: ""}]}
"""


@pytest.mark.parametrize("text", [HANDED_OVER, REQUIRED], ids=["handoff target of a member", "required signal"])
async def test_what_names_an_agent_that_is_left_out_does_not_keep_the_crew_from_starting(
    tmp_path: Path, text: str
) -> None:
    crew = crew_in(tmp_path / "crew", text)
    code, problems = check(crew)
    assert (code, [p[1] for p in problems if p[0] != "note"]) == (0, ["unreachable-agent"])
    result = await run(tmp_path, crew, {"a": ["Enough. [END]"]})
    assert (result.status, result.reason) == ("completed", "signal:[END]")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_trap_is_an_error_in_both_versions(tmp_path: Path, version: str) -> None:
    text = """\
    version: "%s"
    entry_point: a
    agents: [{id: a}, {id: b}]
    routing:
      signals:
        a: [{signal: "[NEXT]", target: b}]
        b: [{signal: "[NEXT]", target: a}]
    """
    assert check(crew_in(tmp_path, text % version)) == (1, [("error", "trap", "agents[0]")])


async def test_a_loop_with_a_dead_end_is_no_trap(tmp_path: Path) -> None:
    text = """\
    version: "1.0"
    entry_point: a
    agents: [{id: a}, {id: b}, {id: c}]
    routing:
      signals:
        a: [{signal: "[NEXT]", target: b}, {signal: "[ERROR]", target: c}]
        b: [{signal: "[NEXT]", target: a}]
        c: [{signal: "[OK]", target: ""}]
    """
    crew = crew_in(tmp_path / "crew", text)
    assert [p[:2] for p in check(crew)[1]] == [("warning", "no-way-on"), ("note", "wrong-target")]
    result = await run(tmp_path, crew, {"a": ["x [ERROR]"], "c": ["Sorry. [OK]"]})
    assert (result.status, result.reason) == ("completed", "terminal_agent")


@pytest.mark.parametrize(("outer", "inner", "sound"), [("2.0", "1.0", True), ("1.0", "2.0", False)])
async def test_a_sub_crew_is_judged_by_the_version_of_its_own_file(
    tmp_path: Path, outer: str, inner: str, sound: bool
) -> None:
    boss = """\
    version: "%s"
    entry_point: boss
    agents: [{id: boss, is_terminal: true}]
    sub_crews: {team: {config_path: team}}
    routing: {signals: {boss: [{signal: "[CALL]", type: sub_crew, target_crew: team}]}}
    """
    team = """\
version: "%s"
entry_point: a
agents: [{id: a}, {id: b}]
routing: {signals: {a: [{signal: "[NEXT]", target: b}]}}
"""
    crew = crew_in(tmp_path / "crew", boss % outer, {"team/crew.yaml": team % inner})
    code, problems = check(crew)
    assert (code, [p[:2] for p in problems]) == (
        (0, [("warning", "no-way-on")]) if sound else (1, [("error", "no-way-on")])
    )
    if sound:
        said = {"boss": ["Please. [CALL]", "Thanks."], "team/a": ["Over. [NEXT]"], "team/b": ["Found it."]}
        assert (await run(tmp_path, crew, said)).status == "completed"
