"""`runs questions`, `runs answer`, `runs show --messages` and what `runs explain` says of waits."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

ROOT = Path(__file__).parents[4]


@pytest.fixture
def trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of the example, with a run that waits for an answer; gives the question's id."""
    shutil.copytree(ROOT / "examples" / "travel", tmp_path / "travel")
    monkeypatch.chdir(tmp_path)
    ran = said("run", "travel", "Plan a trip from LAX to Italy", "--script", "travel/script.yaml")
    assert ran.exit_code == 3, ran.output
    (question,) = map(json.loads, said("runs", "questions", "--json").stdout.splitlines())
    return str(question["id"])


def said(*words: str) -> Result:
    return CliRunner().invoke(interlock, words)


def answered(question: str, text: str) -> Result:
    return said("runs", "answer", question, text, "--script", "travel/script.yaml", "--plain")


def test_questions_say_who_asks_what_since_when_and_what_an_answer_looks_like(trip: str) -> None:
    lines = said("runs", "questions").stdout.splitlines()
    assert lines[0].startswith(f"{trip}  hotels (travel) asks, since 20")
    assert lines[1:] == [
        "  How many nights will you stay?",
        "  context: I need this to find a hotel",
        "  answer with a whole number from 1 to 30",
    ]


def test_an_answer_goes_on_with_the_run_and_a_bad_one_says_what_is_wrong(trip: str) -> None:
    bad = answered(trip, "five")
    assert bad.exit_code == 3
    assert "asked: How many nights will you stay?" in bad.stdout
    assert "the answer should be a whole number from 1 to 30" in bad.stdout
    good = answered(trip, "5")
    assert good.exit_code == 0, good.output
    assert "1267 in all." in good.stdout
    assert said("runs", "questions").stdout == "no open questions\n"


def test_an_answer_where_nobody_could_go_on_with_it_is_refused_and_loses_nothing(trip: str) -> None:
    alone = said("runs", "answer", trip, "5")
    assert alone.exit_code == 2
    assert f"run '{trip.partition(':')[0]}' needs" in alone.stderr and "does not have: models" in alone.stderr
    assert answered(trip, "5").exit_code == 0


TWO = """\
version: "2.0"
name: two
entry_point: p
agents:
  - {id: p, is_terminal: true}
  - {id: a, tools: [ask_user]}
  - {id: b, tools: [ask_user]}
delegation: {children: {p: [a, b]}, select: all}
"""
TWO_SCRIPT = """\
replies:
  p: [{tool_calls: [{name: delegate, arguments: {to: a, task: x}}, {name: delegate, arguments: {to: b, task: x}}]}]
  a: [{tool_calls: [{name: ask_user, arguments: {question: Which?, choices: [red, blue]}}]}]
  b: [{tool_calls: [{name: ask_user, arguments: {question: When?}}]}]
"""


def test_a_bad_answer_says_what_is_wrong_although_the_run_waits_for_another_one_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crew.yaml").write_text(TWO, "utf-8")
    Path("script.yaml").write_text(TWO_SCRIPT, "utf-8")
    assert said("run", "crew.yaml", "go", "--script", "script.yaml").exit_code == 3
    asked = {each["agent"]: each for each in map(json.loads, said("runs", "questions", "--json").stdout.splitlines())}
    bad = said("runs", "answer", asked["a"]["id"], "green", "--script", "script.yaml", "--plain").stdout
    assert "  a asks again: Which? ('green' is none of the choices; answer with one of: red, blue)\n" in bad
    assert "asked: When?" in bad


def test_a_question_that_is_asked_again_stands_on_lines_of_its_own(trip: str) -> None:
    assert (
        "asked: How many nights will you stay?\n       (the answer should be a whole number"
        in answered(trip, "five").stdout
    )


def test_a_second_answer_is_told_so(trip: str) -> None:
    assert answered(trip, "5").exit_code == 0
    assert answered(trip, "5").exit_code == 0
    other = answered(trip, "6")
    assert other.exit_code == 1
    assert f"'{trip}' of run '{trip.partition(':')[0]}' was answered before; the first answer counts" in other.stderr


def test_what_is_no_question_is_refused(trip: str) -> None:
    assert "not the id of a question" in answered("nonsense", "5").stderr
    assert answered("norun:m1", "5").exit_code == 2


def test_explain_says_who_waits_for_whom_since_when_until_when(trip: str) -> None:
    run, _, number = trip.partition(":")
    now = [line for line in said("runs", "explain", run).stdout.splitlines() if line.startswith("  now")]
    assert len(now) == 2
    assert now[0].startswith("  now  planner waits for hotels (DELEGATE m2) since 20")
    assert now[0].endswith("s of work")
    assert now[1].startswith(f"  now  hotels waits for user (question {number}) since 20")
    assert now[1].endswith("no deadline")


def test_explain_says_who_was_needed_and_why_a_report_went_back(trip: str) -> None:
    told = said("runs", "explain", trip.partition(":")[0]).stdout
    assert "planner selected children: flights, hotels\n" in told
    assert "is not accepted by model: it names no flight and no price" in told


def test_the_messages_are_a_transcript_a_diagram_and_the_wire(trip: str) -> None:
    answered(trip, "5")
    run = trip.partition(":")[0]
    transcript = said("runs", "show", run, "--messages").stdout
    assert "QUERY flights -> planner: answered\n    Should I prioritize price or convenience?" in transcript
    assert "REPORT (completed) hotels -> planner to m2: answered" in transcript
    diagram = said("runs", "show", run, "--mermaid").stdout.splitlines()
    assert diagram[:3] == ["sequenceDiagram", "  participant p0 as planner", "  participant p1 as flights"]
    assert "  p3-->>p2: USER_RESPONSE 5" in diagram
    wires = [json.loads(line) for line in said("runs", "show", run, "--messages", "--json").stdout.splitlines()]
    assert wires[0]["type"] == "DELEGATE"
    assert wires[0]["context"] == {"month": "May"}
    assert said("runs", "show", run, "--mermaid", "--json").exit_code == 2


def test_words_cannot_break_out_of_a_diagram(tmp_path: Path) -> None:
    from interlock.cli.view.message_transcript import mermaid_lines
    from interlock.engine.events import MessageSent, RunStarted
    from interlock.ports import Record, StoredRecord

    wire = {"type": "QUERY", "from": "a", "to": "b", "question": 'x\nend;"<b>%% p0->>p1: y', "message_id": "1"}
    started = RunStarted(crew="c", input="go", rules=1)
    record = Record(seq=1, at=0, events=(started, MessageSent(message=wire)))
    tree = [StoredRecord(position=1, run="r", record=record)]
    (line,) = [line for line in mermaid_lines(tree) if "QUERY" in line]
    assert line == "  p0->>p1: QUERY x end#59;#34;#60;b#62;#37;#37; p0-#62;#62;p1#58; y"
