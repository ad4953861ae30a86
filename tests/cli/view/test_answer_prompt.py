"""People answer while a run goes on: in the view, below its lines, and from elsewhere."""

import re
from pathlib import Path

import pytest

from interlock.cli.view.answer_prompt import LineInput
from tests.cli.commands.test_run import CLOSED, OPENED, run, terminal

CREW = """\
version: "2.0"
name: trip
entry_point: root
agents:
  - {id: root, is_terminal: true}
  - {id: slow}
  - {id: town, tools: [ask_user]}
  - {id: street, tools: [ask_user]}
delegation: {children: {root: [slow, town, street]}, select: all}
"""
TOWN = '{tool_calls: [{name: ask_user, arguments: {question: "Which town?", choices: [Huế, Hội An]}}]}'
STREET = '{tool_calls: [{name: ask_user, arguments: {question: "Which street?"}}]}'


def words_of(tmp_path: Path, *askers: str, slow_seconds: float = 600) -> list[str]:
    (tmp_path / "crew.yaml").write_text(CREW, encoding="utf-8")
    given = ", ".join(f"{{name: delegate, arguments: {{to: {to}, task: look}}}}" for to in ("slow", *askers))
    (tmp_path / "script.yaml").write_text(
        f"replies:\n  root: [{{tool_calls: [{given}]}}, all is done]\n"
        f"  slow: [{{text: slowly done, delay_seconds: {slow_seconds}}}]\n"
        f"  town: [{TOWN}, the town is known]\n  street: [{STREET}, the street is known]\n",
        encoding="utf-8",
    )
    return ["run", str(tmp_path), "go", "--script", str(tmp_path / "script.yaml"), "--data", str(tmp_path / "data")]


def answers_in(tmp_path: Path) -> list[tuple[str, str]]:
    data = ["--data", str(tmp_path / "data")]
    shown = run("runs", "list", *data).stdout.split()[0]
    told = run("runs", "show", shown, "--messages", *data).stdout
    found = re.finditer(r"USER_RESPONSE user -> (\w+)[^\n]*\n    (.*)", told)
    return [(match[1], match[2]) for match in found]


def test_a_question_is_asked_in_the_view_while_others_work(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, "street")) as person:
        person.wait_for("street asks:")
        person.type("Hàng Bồ")
        person.wait_for("Hàng Bồ")
        person.type("\x7f\x7fBạc\n")
        person.wait_for("the street is known")
        person.type("\x03")
        assert person.exit_code() == 3
        assert person.raw.count(OPENED) == person.raw.count(CLOSED) == 1
        assert "paused: parked" in person.left_behind
        assert "continue with: interlock resume" in person.left_behind
    assert answers_in(tmp_path) == [("street", "Hàng Bạc")]


def test_two_questions_are_asked_one_after_another_and_a_bad_answer_is_asked_again_with_the_reason(
    tmp_path: Path,
) -> None:
    with terminal(*words_of(tmp_path, "town", "street"), size=(100, 40)) as person:
        person.wait_for("town asks (1 more after this one):")
        person.type("Paris\n")
        person.wait_for("street asks (1 more after this one):")
        person.type("Hàng Bạc\n")
        person.wait_for("the street is known")
        person.wait_for("town asks:")
        person.wait_for("Huế, Hội An")
        person.type("Huế\n")
        person.wait_for("the town is known")
        person.type("\x03")
        assert person.exit_code() == 3
    assert answers_in(tmp_path) == [("street", "Hàng Bạc"), ("town", "Huế")]


def test_below_lines_nothing_is_written_into_what_a_person_types(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, "street"), "--plain") as person:
        person.wait_for("street asks:\n  Which street?\nanswer (an empty line leaves it open): ")
        person.type("Hàng Bạc\n")
        person.wait_for("street:\n  the street is known")
        person.type("\x03")
        assert person.exit_code() == 3
    assert answers_in(tmp_path) == [("street", "Hàng Bạc")]


@pytest.mark.parametrize("flags", [(), ("--plain",)])
@pytest.mark.parametrize("keys", ["\n", "\x04"])
def test_whoever_leaves_it_open_is_told_how_to_answer_when_all_else_is_done(
    tmp_path: Path, flags: tuple[str, ...], keys: str
) -> None:
    with terminal(*words_of(tmp_path, "street", slow_seconds=2), *flags) as person:
        person.wait_for("answer (an empty line leaves it open): ")
        person.type(keys)
        assert person.exit_code() == 3
    advice = re.search(
        r"answer with: interlock (resume \S+ --data \S+ --script \S+) --input TEXT\n$", person.left_behind
    )
    assert advice is not None
    done = run(*advice[1].split(), "--input", "Hàng Bạc")
    assert done.exit_code == 0, done.output


def test_ctrl_c_while_asked_says_how_to_answer_and_how_to_go_on(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, "street")) as person:
        person.wait_for("street asks:")
        person.wait_for("Ctrl-C parks the run")
        person.type("\x03")
        assert person.exit_code() == 3
        told = re.search(r"answer with: interlock (runs answer \S+ --data \S+ --script \S+) TEXT", person.left_behind)
    assert told is not None
    words_of(tmp_path, "street", slow_seconds=0)
    command, answer, token, *options = told[1].split()
    kept = run(command, answer, token, "Hàng Bạc", *options)
    assert kept.exit_code == 3, kept.output
    done = run("resume", token.partition(":")[0], *options)
    assert done.exit_code == 0, done.output


def test_what_is_answered_elsewhere_is_asked_no_more_and_the_run_is_followed(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, "street", slow_seconds=0)) as person:
        person.wait_for("leaves the run paused): ")
        (asked,) = re.findall(
            r'"id":"([^"]+)"', run("runs", "questions", "--json", "--data", str(tmp_path / "data")).stdout
        )
        script = ["--script", str(tmp_path / "script.yaml")]
        done = run("runs", "answer", asked, "Hàng Bạc", "--data", str(tmp_path / "data"), *script)
        assert done.exit_code == 0, done.output
        assert person.exit_code() == 0
    assert "the question of street was answered elsewhere, or its deadline has passed" in person.left_behind
    assert "all is done" in person.left_behind


def test_a_line_is_made_of_keys() -> None:
    line = LineInput()
    for piece in ("H\u1ebf".encode()[:2], "H\u1ebf".encode()[2:], b"\x1b[D\x1b[3~\x1bOA", b"x\x7f", b"\x01\t"):
        assert line.feed_keys(piece) is None
    assert line.text == "Hế"
    assert line.feed_keys(b"\x04") is None, "the end of input is at the beginning of a line"
    assert line.feed_keys(b"!\rlater") == "Hế!"
    assert LineInput().feed_keys(b"all of it\x15new\n") == "new"
    for ending in (b"\x04", b""):
        with pytest.raises(EOFError):
            LineInput().feed_keys(ending)
