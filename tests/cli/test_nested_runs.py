"""Runs of crews that call crews, as a person sees them: lists, trees, transcripts, reasons, waits and the log."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock
from tests.cli.commands.test_run import terminal
from tests.nested_crews import nested_crew


@pytest.fixture(autouse=True)
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLOCK_DATA", str(tmp_path / "data"))
    return nested_crew(tmp_path / "crew")


def run(*words: str) -> Result:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def paused(crew: Path, script: str = "script.yaml") -> str:
    done = run("run", str(crew), "Lamps", "--script", str(crew / script), "--json")
    assert done.exit_code == 3, done.output
    return str(json.loads(done.stdout.splitlines()[0])["run"])


def answered(crew: Path, name: str, *words: str, script: str = "script.yaml") -> Result:
    return run("resume", name, "--input", "The red one", "--script", str(crew / script), "--plain", *words)


def finished(crew: Path) -> str:
    name = paused(crew)
    assert answered(crew, name).exit_code == 0
    return name


def without(text: str, name: str) -> list[str]:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", text.replace(name, "RUN")).splitlines()


def test_the_list_holds_outermost_runs_and_all_of_them_below_their_callers(crew: Path) -> None:
    name = finished(crew)
    assert without(run("runs", "list").stdout, name) == ["RUN  WHEN  completed   $0.5000  master  signal:[END]"]
    assert without(run("runs", "list", "--all").stdout, name) == [
        "RUN  WHEN  completed   $0.5000  master  signal:[END]",
        "  RUN~4.0  WHEN  completed         -  alpha-team  signal:[END]",
        "    RUN~4.0~4.0  WHEN  completed         -  inner-team  signal:[END]",
        "  RUN~15.0  WHEN  completed         -  beta-team  signal:[END]",
    ]
    assert len(run("runs", "list", "--all", "--json").stdout.splitlines()) == 4
    assert run("runs", "list", "--crew", "alpha-team").stdout.startswith("no runs match --crew alpha-team")


def test_show_has_the_tree_the_talk_under_its_calls_and_what_each_crew_has_cost(crew: Path) -> None:
    name = finished(crew)
    assert without(run("runs", "show", name).stdout, name) == [
        "RUN completed: signal:[END]",
        "  started by user:tester",
        "master           completed  signal:[END]  RUN",
        "  alpha          completed  signal:[END]  RUN~4.0",
        "    alpha/inner  completed  signal:[END]  RUN~4.0~4.0",
        "  beta           completed  signal:[END]  RUN~15.0",
        *("user:", "  Lamps", "a:", "  Go.", "  [RESEARCH]"),
        *("  user:", "    Lamps", "  alpha/x:", "    Deeper.", "    [DEEP]"),
        *("    user:", "      Lamps", "    alpha/inner/y:", "      Which one?", "      [WAIT]"),
        *("    user:", "      The red one", "    alpha/inner/y:", "      That one.", "      [END]"),
        *("  alpha/inner:", "    That one.", "  alpha/x:", "    Found it.", "    [END]"),
        *("alpha:", "  Found it.", "a:", "  Now.", "  [WRITE]"),
        *("  user:", "    Found it. for Lamps", "  beta/z:", "    Written.", "    [END]"),
        *("beta:", "  Written.", "a:", "  All done.", "  [END]"),
        "crew         agent  calls  tokens in  cached  tokens out     cost",
        "master                  3         10       -           0  $0.5000",
        "             a          3         10       -           0  $0.5000",
        "alpha                   2          0       -           0        -",
        "             x          2          0       -           0        -",
        "alpha/inner             2          3       -           4        -",
        "             y          2          3       -           4        -",
        "beta                    1          0       -           0        -",
        "             z          1          0       -           0        -",
        "all                     8         13       -           4  $0.5000",
    ]


def test_show_of_a_child_begins_there(crew: Path) -> None:
    name = finished(crew)
    lines = without(run("runs", "show", f"{name}~4.0").stdout, name)
    assert lines[:4] == [
        "RUN~4.0 completed: signal:[END]",
        "called by RUN",
        "alpha          completed  signal:[END]  RUN~4.0",
        "  alpha/inner  completed  signal:[END]  RUN~4.0~4.0",
    ]
    assert (lines[4:8], lines[-1].split()[:2]) == (["user:", "  Lamps", "x:", "  Deeper."], ["all", "4"])


def test_each_open_wait_of_a_tree_comes_with_the_command_that_answers_it(crew: Path) -> None:
    name = paused(crew, "both.yaml")
    shown = run("runs", "show", name).stdout
    commands = re.findall(r"^(\S+) waits \(signal:\[WAIT\]\): interlock (.*) --input TEXT$", shown, re.MULTILINE)
    assert [agent for agent, _ in commands] == ["alpha/inner/y", "beta/z"]
    assert re.search("^all +4 ", shown, re.MULTILINE), "what children have cost counts before they come back"
    first, second = (command.split() for _, command in commands)
    script = ("--input", "yes", "--script", str(crew / "both.yaml"), "--plain")
    assert run(*first, *script).exit_code == 3
    (left,) = json.loads(run("runs", "show", name, "--json").stdout)["waits"]
    assert (left["agent"], left["run"], left["command"]) == (
        "beta/z",
        f"{name}~4.1",
        f"interlock resume {name} --input TEXT",
    )
    assert run(*second, *script).exit_code == 0


def test_show_as_values_holds_the_runs_and_the_costs(crew: Path) -> None:
    name = finished(crew)
    told: dict[str, Any] = json.loads(run("runs", "show", name, "--json").stdout)
    assert (told["status"], told["usage"]["calls"], told["usage_of_all"]["calls"]) == ("completed", 8, 8)
    assert [(each["run"].replace(name, ""), each["path"]) for each in told["runs"]] == [
        ("", []),
        ("~4.0", ["alpha"]),
        ("~4.0~4.0", ["alpha", "inner"]),
        ("~15.0", ["beta"]),
    ]
    assert {crew: each["calls"] for crew, each in told["usage_by_crew"].items()} == {
        "master": 3,
        "alpha": 2,
        "alpha/inner": 2,
        "beta": 1,
    }


def test_a_paused_run_has_the_question_of_the_crew_that_was_called(crew: Path) -> None:
    told = json.loads(run("runs", "show", paused(crew), "--json").stdout)
    assert (told["text"], told["output"], told["reason"]) == ("Which one?", "Which one?\n[WAIT]", "signal:[WAIT]")


def test_explain_tells_the_whole_tree_in_the_order_of_the_store(crew: Path) -> None:
    name = finished(crew)
    lines = [line.partition(";")[0] for line in without(run("runs", "explain", name).stdout, name)]
    assert lines[:13] == [
        "    1  started by user:tester",
        "    6  a called alpha on [RESEARCH]",
        "    7  alpha started as RUN~4.0",
        "    6    alpha: x called inner on [DEEP]",
        "    7    alpha: inner started as RUN~4.0~4.0",
        "    6      alpha/inner: y waits for an answer on [WAIT]",
        "    8      alpha/inner: paused at y: signal:[WAIT]",
        "    8    alpha: a sub-crew waits at y",
        "    9    alpha: paused at inner/y: signal:[WAIT]",
        "    8  a sub-crew waits at inner/y",
        "    9  paused at alpha/inner/y: signal:[WAIT]",
        "    9      alpha/inner: answered by user:tester",
        "   15      alpha/inner: y ended the run on [END]",
    ]
    assert lines[-3:] == [
        "   20  beta finished ([END])",
        "   25  a ended the run on [END]",
        "   26  completed: signal:[END]",
    ]
    below = without(run("runs", "explain", f"{name}~4.0").stdout, name)
    assert below[0].startswith("    6  x called inner on [DEEP]")
    assert below[2].startswith("    6    alpha/inner: y waits for an answer on [WAIT]")


def test_the_transcript_sets_in_what_crews_say_that_were_called(crew: Path) -> None:
    name = paused(crew)
    answered(crew, name)
    lines = without(run("runs", "follow", name, "--plain").stdout, name)
    assert lines[3:12] == [
        "  alpha started: Lamps",
        "  alpha/x:",
        "    Deeper.",
        "    [DEEP]",
        "    alpha/inner started: Lamps",
        "    alpha/inner/y:",
        "      Which one?",
        "      [WAIT]",
        "      alpha/inner/y waits: signal:[WAIT]",
    ]
    assert "    alpha/inner finished ([END])" in lines
    assert lines[-1] == "run RUN completed: signal:[END]"


def test_the_log_keeps_its_lines_and_tells_a_pause_once(crew: Path) -> None:
    done = run("run", str(crew), "Lamps", "--script", str(crew / "script.yaml"), "--json", "--verbose")
    assert done.stderr.splitlines() == [
        "[SIGNAL-EVENT] Agent 'a' emitted '[RESEARCH]' (exact)",
        "[SIGNAL-EVENT] Agent 'x' emitted '[DEEP]' (exact)",
        "[SIGNAL-EVENT] Agent 'y' emitted '[WAIT]' (exact) - Pause and wait for input",
        "[PAUSE:y] Waiting for user input",
    ]


def test_whoever_answers_a_child_goes_on_with_all_that_called_it(crew: Path) -> None:
    name = paused(crew)
    done = answered(crew, f"{name}~4.0~4.0")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, f"run {name} completed: signal:[END]")


def test_cancelling_a_child_is_a_failure_to_whoever_called_it(crew: Path) -> None:
    name = paused(crew)
    refused = run("runs", "cancel", f"{name}~4.0")  # its caller would continue, and needs its models
    assert refused.exit_code == 2 and "does not have: models" in refused.stderr
    done = run("runs", "cancel", f"{name}~4.0", "--script", str(crew / "script.yaml"))
    first, *advice = without(done.stdout, name)
    assert (done.exit_code, first) == (0, "RUN~4.0 is cancelled")
    if advice:  # the command ended before the callers did
        assert advice == ["continue its caller: interlock resume RUN"]
        assert run("resume", name, "--script", str(crew / "script.yaml"), "--plain").exit_code == 1
    assert without(run("runs", "show", name).stdout, name)[:5] == [
        "RUN failed: child_failed",
        "  started by user:tester",
        "master           failed     child_failed  RUN",
        "  alpha          cancelled  cancelled     RUN~4.0",
        "    alpha/inner  cancelled  cancelled     RUN~4.0~4.0",
    ]


def test_a_person_at_the_terminal_answers_the_crews_that_were_called(crew: Path, tmp_path: Path) -> None:
    words = ["run", str(crew), "Lamps", "--script", str(crew / "both.yaml"), "--data", str(tmp_path / "data")]
    answers = {"alpha/inner/y asks:\n  Which one?\n": "the red one\n", "beta/z asks:\n  For whom?\n": "the harbour\n"}
    with terminal(*words) as person:
        for times in (1, 2):
            person.wait_for("leaves the run paused): ", times)
            asked = [question for question in answers if question in person.left_behind]
            assert len(asked) == 1, "they are at work at once, so either may ask first"
            person.type(answers.pop(asked[0]))
        assert person.exit_code() == 0
    assert person.left_behind.count("Which one?\n      [WAIT]") == 1, "what was said is printed once"
    assert person.left_behind.endswith("completed: signal:[END]\n")


def test_a_tree_is_deleted_and_says_how_much_went_with_it(crew: Path) -> None:
    name = finished(crew)
    refused = run("runs", "delete", f"{name}~4.0")
    assert refused.exit_code == 2
    assert f"cannot be deleted by itself: interlock runs delete {name}\n" in refused.stderr
    assert run("runs", "delete", name).stdout.splitlines()[1:] == ["deleted 3 runs of its sub-crews"]


def test_a_tree_becomes_a_test_that_passes_and_names_routes_of_crews_that_are_called(crew: Path) -> None:
    name = finished(crew)
    (crew / "tests").mkdir()
    (crew / "tests" / "made.yaml").write_text(run("runs", "script", name, "--as-test").stdout, "utf-8")
    assert run("test", str(crew)).stdout.splitlines() == [
        "passed  made",
        "route coverage 8/10; not covered:",
        "        a [BOTH] -> alpha",
        "        beta/z [WAIT]",
        "1 passed, 0 failed",
    ]
    shorter = (crew / "tests" / "made.yaml").read_text("utf-8").replace('  - "alpha/inner/y"\n', "", 1)
    (crew / "tests" / "made.yaml").write_text(shorter, "utf-8")
    assert "turns: expected a, alpha/x, alpha/inner/y, alpha/x" in run("test", str(crew)).stdout
    own = re.sub(r'^  - "(alpha|beta)/.*\n', "", shorter, flags=re.MULTILINE)
    (crew / "tests" / "made.yaml").write_text(own, "utf-8")
    assert "passed  made" in run("test", str(crew)).stdout, "a test may speak of the crew's own turns alone"


# Crews that were given a task


def test_messages_and_waits_of_crews_below_stand_in_one_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agency = Path(__file__).parents[2] / "examples" / "agency"
    script = str(agency / "script.yaml")
    ran = CliRunner().invoke(interlock, ["run", str(agency), "Three nights in Rome", "--script", script, "--plain"])
    assert ran.exit_code == 3, ran.output
    assert "    stays/finder -> user REQUEST_USER_INPUT: How much for a night?\n" in ran.stdout
    run = re.search(r"^run (\S+) paused", ran.stdout, re.MULTILINE)[1]  # type: ignore[index]

    def said(*words: str) -> str:
        return CliRunner().invoke(interlock, ["runs", *words, run]).stdout

    waits = [line.partition(" since ")[0] for line in said("explain").splitlines() if "waits for" in line]
    assert waits[-2:] == [
        "  now  planner waits for stays (DELEGATE m2)",
        "  now  stays/finder waits for user (question m1)",
    ]
    assert f"stays started as {run}~6.3, for task m2" in said("explain")
    transcript = said("show", "--messages")
    assert "DELEGATE planner -> stays: open" in transcript
    assert "REQUEST_USER_INPUT stays/finder -> user: open" in transcript
    assert "  participant p3 as stays/finder\n" in said("show", "--mermaid")
    assert "  p3->>p4: REQUEST_USER_INPUT How much for a night?" in said("show", "--mermaid")
    assert len(said("show", "--messages", "--json").splitlines()) == 4
