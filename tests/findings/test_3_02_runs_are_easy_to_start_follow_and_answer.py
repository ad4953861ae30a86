"""FINDINGS 3.2: input is asked for, ids may be short, runs are followed, and what is new and accepted is shown."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock
from interlock.cli.system_user import system_user
from interlock.cli.view.narration import EventAnnotator
from interlock.cli.view.transcript import lines_of
from interlock.compose.crews import load_definition

CREW = """version: "2.0"
entry_point: clerk
agents: [{id: clerk, tools: [%s], is_terminal: true}]
routing: {signals: {clerk: [{signal: "[WAIT]"}]}}
"""
TOOLS = """from interlock import tool

def look(text: str) -> str:
    return "found " + text

@tool(needs_approval=True)
def pay(dollars: int) -> str:
    return "paid"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("interlock.toml").write_text('[tools]\nmodules = ["tools_3_02"]\n')
    Path("tools_3_02.py").write_text(TOOLS)
    Path("crew.yaml").write_text(CREW % "look, pay")
    monkeypatch.delitem(sys.modules, "tools_3_02", raising=False)
    return tmp_path


def says(*command: str) -> Result:
    return CliRunner().invoke(interlock, command)


def script(*replies: str) -> None:
    lines = "".join(f"    - {reply}\n" for reply in replies)
    Path("script.yaml").write_text(f"replies:\n  clerk:\n{lines}")


def started(*replies: str) -> tuple[str, Result]:
    script(*replies)
    result = says("run", ".", "go", "--script", "script.yaml", "--plain")
    found = re.search(r"^run (\S+) ", result.stdout, re.MULTILINE)
    assert found is not None, result.output
    return found[1], result


WAIT, DONE = '{text: "Well? [WAIT]"}', "{text: Done.}"


def test_run_without_an_input_is_refused_with_the_command_to_write() -> None:
    script(DONE)
    result = says("run", ".", "--script", "script.yaml")
    assert result.exit_code == 2
    assert result.stderr == ("interlock: INPUT is missing; write: interlock run . 'INPUT', or - for standard input\n")
    assert not Path(".interlock").exists(), "nothing has begun"


@pytest.mark.parametrize("blank", ["", " \n"])
def test_an_input_that_is_blank_is_none(blank: str) -> None:
    """Such as of a variable of the shell that is not set."""
    script(DONE)
    result = says("run", ".", blank, "--script", "script.yaml")
    assert result.exit_code == 2
    assert "INPUT is missing" in result.stderr
    assert not Path(".interlock").exists()


def test_run_without_an_input_asks_on_a_terminal() -> None:
    script(DONE)
    code, shown = at_a_terminal(["run", ".", "--script", "script.yaml", "--plain"], b"the harbour\n")
    assert "input: " in shown
    assert code == 0, shown
    assert says("runs", "list").stdout.count("completed") == 1
    code, shown = at_a_terminal(["run", ".", "--script", "script.yaml", "--plain"], b"\n")
    assert code == 2
    assert "INPUT is missing" in shown


def at_a_terminal(command: list[str], typed: bytes) -> tuple[int, str]:
    primary, secondary = pty.openpty()
    words = [sys.executable, "-c", "from interlock.cli.main import interlock; interlock()", *command]
    process = subprocess.Popen(words, stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True)
    os.close(secondary)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(primary, 4096):
                shown.append(data)
                if b"input: " in data:
                    os.write(primary, typed)
        except OSError:
            pass  # the terminal is gone with its process

    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(60)
    reader.join(60)
    os.close(primary)
    return code, b"".join(shown).decode()


def test_ids_may_be_shortened_from_either_end() -> None:
    run, _ = started(WAIT, DONE)
    for command in (("show",), ("explain",), ("replay",), ("show", "--messages"), ("script",), ("export",)):
        for part in (run[:-6], run[-6:]):
            result = says("runs", command[0], part, *command[1:])
            assert result.exit_code == 0, (command, result.output)
    assert says("resume", run[-6:], "--script", "script.yaml", "--input", "yes", "--plain").exit_code == 0
    forked = says("runs", "fork", run[-6:], "--after", "1", "--script", "script.yaml", "--plain")
    assert run in forked.output, "it was found"
    again = says("run", ".", "more", "--continue", run[-6:], "--script", "script.yaml", "--plain")
    assert again.exit_code in (0, 3), again.output
    assert says("runs", "delete", run[-6:]).stdout.startswith(f"deleted {run}")


def test_cancel_and_answer_take_short_ids() -> None:
    run, _ = started(WAIT, DONE)
    [question] = [json.loads(line) for line in says("runs", "questions", "--json").stdout.splitlines()]
    short = f"{run[-6:]}:{question['id'].partition(':')[2]}"
    assert says("runs", "answer", short, "yes", "--script", "script.yaml", "--plain").exit_code == 0
    other, _ = started(WAIT, DONE)
    assert says("runs", "cancel", other[-6:]).stdout == f"{other} is cancelled\n"


def test_a_part_that_fits_several_lists_them_and_a_short_one_fits_none() -> None:
    first, _ = started(DONE)
    second, _ = started(DONE)
    common = first[:5]  # of the time, which both share
    assert second.startswith(common)
    refused = says("runs", "show", common)
    assert refused.exit_code == 2
    assert refused.stderr == (f"interlock: '{common}' matches 2 runs: {second}, {first}; give more of the id\n")
    short = f"interlock: '{first[-3:]}' is too short for a run; give at least 4 characters of its id\n"
    assert says("runs", "show", first[-3:]).stderr == short


@pytest.mark.parametrize(("form", "expected"), [("--plain", "clerk:\n  Done.\n"), ("--json", '"run.finished"')])
def test_a_run_is_followed(form: str, expected: str) -> None:
    run, _ = started(DONE)
    result = says("runs", "follow", run[-6:], form)
    assert result.exit_code == 0
    assert expected in result.stdout
    assert says("runs", "follow", "nothing").exit_code == 2


def test_a_run_of_another_process_is_followed_until_it_ends() -> None:
    """The follower is there before the other process writes what it shows."""
    Path("script.yaml").write_text('replies:\n  clerk:\n    - {text: "Slowly.", delay_seconds: 3}\n')
    words = [sys.executable, "-c", "from interlock.cli.main import interlock; interlock()"]
    driver = subprocess.Popen([*words, "run", ".", "go", "--script", "script.yaml", "--json"], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    run = json.loads(driver.stdout.readline())["run"]
    follower = subprocess.run([*words, "runs", "follow", run, "--plain"], capture_output=True, text=True, timeout=60)
    driver.stdout.read()
    assert driver.wait(60) == 0
    driver.stdout.close()
    assert follower.returncode == 0, follower.stderr
    assert "clerk:\n  Slowly.\n" in follower.stdout
    assert f"run {run} completed" in follower.stdout


def test_what_a_tool_returned_is_shown() -> None:
    _, result = started("{tool_calls: [{name: look, arguments: {text: a lamp}}]}", DONE)
    assert '  clerk uses look {"text":"a lamp"}\n  look returned found a lamp\n' in result.stdout


def test_the_models_name_is_shown_where_one_was_called(here: Path) -> None:
    crew = load_definition("crew.yaml")
    narrator = EventAnnotator(crew, lambda agent: f"openai:{agent.id}-model")
    event = {"type": "model.replied", "run": "r", "call": "1.0", "agent": "clerk", "text": "Hello."}
    assert [line.text for line in lines_of(narrator.annotate_event(event))] == [
        "clerk (openai:clerk-model):",
        "  Hello.",
    ]
    backup = narrator.annotate_event({**event, "model": "ollama:small"})
    assert next(lines_of(backup)).text == "clerk (ollama:small):"


def test_resume_shows_what_is_new_and_what_the_person_said() -> None:
    run, first = started(WAIT, DONE)
    assert "  Well? [WAIT]" in first.stdout
    result = says("resume", run, "--script", "script.yaml", "--input", "use the blue one", "--plain")
    assert "Well?" not in result.stdout
    assert result.stdout.startswith(f"user ({system_user()}):\n  use the blue one\n")
    programs = says("runs", "follow", run, "--json").stdout
    assert "Well?" in programs, "programs get everything"


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        (
            WAIT,
            [
                "accepted: any text; clerk reads it",
                "answer with: interlock resume {run} --script script.yaml --input TEXT",
            ],
        ),
        (
            "{tool_calls: [{name: pay, arguments: {dollars: 5}}]}",
            [
                "approve: interlock resume {run} --script script.yaml --input yes",
                "reject:  interlock resume {run} --script script.yaml --input no",
                "for longer: interlock resume {run} --script script.yaml --input 'for this run' (or always)",
                "other arguments: interlock resume {run} --script script.yaml --input JSON",
            ],
        ),
    ],
)
def test_the_hint_says_what_is_accepted(reply: str, lines: list[str]) -> None:
    run, result = started(reply, DONE)
    assert result.stdout.endswith("".join(f"{line.format(run=run)}\n" for line in lines))


def test_the_command_of_the_hint_works_as_it_stands() -> None:
    _, result = started(WAIT, DONE)
    found = re.search(r"^answer with: interlock (.+) TEXT$", result.stdout, re.MULTILINE)
    assert found is not None
    assert says(*shlex.split(found[1]), "yes", "--plain").exit_code == 0
    run, _ = started(WAIT, DONE)
    refused = says("resume", run, "--input", "yes", "--plain").stderr
    assert "what this process does not have: models; give --script FILE, --model M" in refused
    Path("interlock.toml").unlink()
    refused = says("resume", run, "--input", "yes", "--plain", "--script", "script.yaml").stderr
    assert "[tools] in interlock.toml (none was found here; --config FILE names one)" in refused


def test_the_hint_of_a_question_names_its_choices() -> None:
    Path("crew.yaml").write_text(CREW % "ask_user")
    ask = "{tool_calls: [{name: ask_user, arguments: {question: Which?, choices: [red, blue]}}]}"
    _, result = started(ask, DONE)
    assert "accepted: one of: red, blue\n" in result.stdout
