"""Fields without a value are named; `check` warns of them, of limits below a prompt, and of what nothing uses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.cli.main import interlock
from tests.findings.test_1_03_files_of_version_1_keep_working import check, crew_in

BOSS = """\
version: "2.0"
name: office
entry_point: boss
agents: [{id: boss%s}, {id: clerk}]
sub_crews: {alpha: {config_path: alpha}, beta: {config_path: beta}}
routing:
  signals:
    boss:
      - {signal: "[ALPHA]", type: sub_crew, target_crew: alpha, return_to: %s}
      - {signal: "[BETA]", type: sub_crew, target_crew: beta, return_to: %s, input_template: "%s"}
      - {signal: "[NEXT]", target: clerk}
      - {signal: "[END]"}
    clerk: [{signal: "[DONE]"}%s]
"""
SOLO = 'version: "2.0"\nname: {0}\nentry_point: {0}r\nagents: [{{id: {0}r{1}}}]\n'


def office(
    folder: Path, template: str, *, tools: str = "", back: str = "boss", inner: str = "", more: str = ""
) -> Path:
    files = {f"{name}/crew.yaml": SOLO.format(name, inner) for name in ("alpha", "beta")}
    return crew_in(folder / "crew", BOSS % (tools, back, back, template, more), files)


def warnings_of_run(folder: Path, crew: Path, replies: dict[str, list[str]]) -> list[dict[str, str]]:
    script = folder / "script.yaml"
    script.write_text(json.dumps({"replies": replies}), "utf-8")
    args = ["run", str(crew), "go", "--script", str(script), "--json", "--data", str(folder / "data")]
    said = CliRunner().invoke(interlock, args)
    assert said.exit_code == 0, said.output
    events = [json.loads(line) for line in said.stdout.splitlines()]
    return [event for event in events if event["type"] == "warning"]


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("{{.PreviousResult}}", "{{.PreviousResult}}"),
        ("{{ .PreviousResults.alpha }}", "{{.PreviousResults.alpha}}"),
        ("{{.SharedMemory.customer}}", "{{.SharedMemory.customer}}"),
    ],
)
def test_a_field_without_a_value_is_a_warning_that_names_it(tmp_path: Path, field: str, named: str) -> None:
    """Once, however often the template repeats it; and not where there is a value."""
    crew = office(tmp_path, f"On {field} and {field} for {{{{.Input}}}}")
    replies = {"boss": ["Write.\n[BETA]", "That was it.\n[END]"], "betar": ["Written."]}
    (warning,) = warnings_of_run(tmp_path, crew, replies)
    assert warning["code"] == "unfilled-field"
    assert warning["message"] == f"{named} in the input_template of [BETA] has no value; beta gets nothing in its place"


def test_a_field_that_has_a_value_is_no_warning(tmp_path: Path) -> None:
    crew = office(tmp_path, "{{.PreviousResult}} {{.PreviousResults.alpha}} {{.Input}} {{.OriginalInput}}")
    replies = {"boss": ["a\n[ALPHA]", "b\n[BETA]", "c\n[END]"], "alphar": ["Found."], "betar": ["Written."]}
    assert warnings_of_run(tmp_path, crew, replies) == []


UNFILLED = ("warning", "unfilled-field", "routing.signals.boss[1].input_template")


@pytest.mark.parametrize(
    ("template", "options", "expected"),
    [
        ("{{.PreviousResults.alpha}}", {}, []),
        ("{{.PreviousResults.beta}}", {}, []),  # the second time
        ("{{.PreviousResult}}", {}, []),
        ("{{.Input}}", {"back": "clerk"}, []),
        ("{{.PreviousResults.alpha}}", {"back": "clerk"}, [UNFILLED]),
        ("{{.PreviousResult}}", {"back": "clerk"}, [UNFILLED]),
        ("{{.PreviousResult}}", {"back": "clerk", "more": ", {signal: '[RETRY]', target: boss}"}, []),
        ("{{.SharedMemory.x}}", {}, [UNFILLED]),
        ("{{.SharedMemory.x}}", {"tools": ", tools: [memory_write]"}, []),
        ("{{.SharedMemory.x}}", {"inner": ", tools: [memory_write]"}, []),
        ("{{.SharedMemory.x}}", {"inner": ", tools: [memory_write]", "back": "clerk"}, [UNFILLED]),
    ],
)
def test_check_warns_of_fields_that_no_path_fills_before_use(
    tmp_path: Path, template: str, options: dict[str, str], expected: list[tuple[str, str, str]]
) -> None:
    assert check(office(tmp_path, template, **options)) == (0, expected)


def test_a_sub_crew_brings_results_and_memory_of_its_callers_along(tmp_path: Path) -> None:
    outer = """\
    version: "2.0"
    entry_point: a
    agents: [{id: a, is_terminal: true, tools: [memory_write]}]
    sub_crews: {office: {config_path: crew}}
    routing: {signals: {a: [{signal: "[CALL]", type: sub_crew, target_crew: office}]}}
    """
    office(tmp_path, "{{.SharedMemory.x}}")
    assert check(crew_in(tmp_path, outer)) == (0, [])


def test_a_field_of_a_prompt_whose_key_is_not_written_is_empty(tmp_path: Path) -> None:
    text = 'version: "2.0"\nentry_point: a\nagents: [{id: a, name: Ann, system_prompt: "{{name}}, {{role}}"%s}]\n'
    assert check(crew_in(tmp_path, text % "")) == (0, [("warning", "unfilled-field", "agents[0].system_prompt")])
    assert check(crew_in(tmp_path, text % ", role: Clerk")) == (0, [])


PROMPT = """\
version: "2.0"
entry_point: a
agents: [{id: a, system_prompt: %s%s}]
%s"""


@pytest.mark.parametrize(("limit", "is_small"), [(99, True), (100, False)])
def test_a_limit_of_tokens_below_the_prompt_is_a_warning(tmp_path: Path, limit: int, is_small: bool) -> None:
    own = PROMPT % ("x" * 300, f", cost_limits: {{max_tokens_per_call: {limit}}}", "")
    crew = PROMPT % ("x" * 300, "", f"settings: {{max_tokens_per_call: {limit}}}\n")
    expected = ["agents[0].cost_limits.max_tokens_per_call", "settings.max_tokens_per_call"]
    for text, path in zip((own, crew), expected, strict=True):
        found = [("warning", "limit-below-prompt", path)] if is_small else []
        assert check(crew_in(tmp_path, text)) == (0, found)


def test_a_sub_crew_that_nothing_calls_is_a_warning(tmp_path: Path) -> None:
    crew = office(tmp_path, "")
    text = (crew / "crew.yaml").read_text("utf-8").replace("target_crew: beta", "target_crew: alpha")
    assert check(crew_in(crew, text)) == (0, [("warning", "unused", "sub_crews.beta")])


def test_a_sub_crew_whose_name_is_mistyped_where_it_is_called_is_one_problem(tmp_path: Path) -> None:
    crew = office(tmp_path, "")
    text = (crew / "crew.yaml").read_text("utf-8").replace("target_crew: beta", "target_crew: betta")
    assert check(crew_in(crew, text)) == (1, [("error", "unknown-sub-crew", "routing.signals.boss[1].target_crew")])


@pytest.mark.parametrize("use", ["parallel_groups: {both: {agents: [beta]}}", ""])
def test_a_member_of_a_group_and_a_child_are_used(tmp_path: Path, use: str) -> None:
    text = """\
    version: "2.0"
    entry_point: a
    agents: [{id: a, is_terminal: true}]
    sub_crews: {beta: {config_path: beta}}
    %s
    """ % (f"routing: {{signals: {{a: [{{signal: '[NEXT]', target: both}}]}}, {use}}}" if use else
           "delegation: {children: {a: [beta]}}")  # fmt: skip
    assert check(crew_in(tmp_path, text, {"beta/crew.yaml": SOLO.format("beta", "")})) == (0, [])


GROUP = """\
version: "2.0"
entry_point: a
agents: [{id: a%s}, {id: b}]
routing:
  signals: {a: [{signal: "[NEXT]", target: %s}, {signal: "[END]"}]}
  parallel_groups: {both: {agents: [b], next_agent: a}, other: {agents: [b], next_agent: a}}
"""


def test_a_group_that_nothing_starts_is_a_warning(tmp_path: Path) -> None:
    assert check(crew_in(tmp_path, GROUP % ("", "both"))) == (
        0,
        [("warning", "unused", "routing.parallel_groups.other")],
    )


def test_a_group_whose_members_nobody_reaches_is_one_mistake(tmp_path: Path) -> None:
    found = check(crew_in(tmp_path, GROUP % ("", "a")))
    assert found == (1, [("error", "unreachable-agent", "agents[1]")])


def test_a_group_whose_name_is_mistyped_where_it_is_started_is_one_mistake(tmp_path: Path) -> None:
    found = check(crew_in(tmp_path, (GROUP % ("", "bothh")).replace(", other: {agents: [b], next_agent: a}", "")))
    assert found == (1, [("error", "unknown-target", "routing.signals.a[0].target")])


@pytest.mark.parametrize(
    ("tools", "template", "expected"),
    [
        ("memory_write", "", [("warning", "unused", "agents[0].tools[0]")]),
        ("memory_write, memory_read", "", []),
        ("memory_write", "{{.SharedMemory.x}}", []),
    ],
)
def test_memory_that_nothing_reads_is_a_warning(
    tmp_path: Path, tools: str, template: str, expected: list[tuple[str, str, str]]
) -> None:
    assert check(office(tmp_path, template, tools=f", tools: [{tools}]")) == (0, expected)


def test_memory_that_only_a_caller_reads_is_used(tmp_path: Path) -> None:
    crew = office(tmp_path, "", tools=", tools: [memory_read]", inner=", tools: [memory_write]")
    assert check(crew) == (0, [])
