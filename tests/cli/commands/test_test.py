"""`interlock test`: passes, differences, routes that no test took, and test files that are no tests."""

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.crews.crew_files import read_crew
from interlock.cli.main import interlock

HELLO = Path("src/interlock/templates/hello")


def run(*words: str) -> Result:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def crew_with(tmp_path: Path, **tests: str) -> str:
    """The hello crew with other tests."""
    folder = tmp_path / "crew"
    shutil.copytree(HELLO, folder)
    for file in (folder / "tests").iterdir():
        file.unlink()
    for name, text in tests.items():
        (folder / "tests" / f"{name}.yaml").write_text(text, "utf-8")
    return str(folder)


@pytest.mark.parametrize(
    "crew", ["src/interlock/templates/hello", "examples/quiz-exam", "examples/quiz-exam/crew.yaml"]
)
def test_the_crews_we_ship_pass_their_own_tests_and_take_every_route(crew: str) -> None:
    result = run("test", crew)
    assert result.exit_code == 0, result.stdout
    assert "never:" not in result.stdout
    assert result.stdout.endswith(" passed, 0 failed\n")


def test_a_tests_folder_changes_nothing_about_the_crew() -> None:
    assert {agent.id for agent in read_crew("examples/quiz-exam").crew.agents} == {"teacher", "student", "reporter"}  # type: ignore[union-attr]


def test_differences_and_routes_never_taken_are_shown(tmp_path: Path) -> None:
    crew = crew_with(
        tmp_path,
        wrong="""\
            input: x
            script: {writer: ["a\\n[DRAFT]"], editor: ["b\\n[DONE]"]}
            answers: ["yes"]
            expect: {turns: [writer], status: failed, reason: timeout, output_contains: zebra}
            """,
        right='{script: {writer: ["a\\n[DRAFT]"], editor: ["b\\n[DONE]"]}, expect: {turns: [writer, editor]}}',
    )
    result = run("test", crew)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "passed  right",
        "failed  wrong",
        "        turns: expected writer, got writer, editor",
        "        status: expected failed, got completed",
        "        reason: expected timeout, got signal:[DONE]",
        "        output: expected 'zebra' in 'b\\n[DONE]'",
        "        answers: expected 1 to be asked for, got 0",
        "route coverage 2/3; not covered:",
        "        editor [REWRITE] -> writer",
        "1 passed, 1 failed",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{script: {}, expect: {turn: [a]}}", "unknown field `turn`"),
        ("{expect: {}}", "missing required field `script`"),
        ("{script: ../../x.yaml, expect: {}}", "leaves the crew's folder"),
        ("{script: nothing.yaml, expect: {}}", "cannot be read"),
        ("{script: [", "look at line 2"),
    ],
)
def test_a_file_that_is_no_test_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    result = run("test", crew_with(tmp_path, one=text))
    assert result.exit_code == 2
    assert expected in result.stderr


def test_a_crew_without_tests_says_how_to_make_one(tmp_path: Path) -> None:
    result = run("test", crew_with(tmp_path))
    assert result.exit_code == 2
    assert "runs script RUN --as-test" in result.stderr


def test_a_run_becomes_a_test_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATA", str(tmp_path / "data"))
    assert run("run", str(HELLO), "a harbour", "--script", str(HELLO / "script.yaml"), "--json").exit_code == 0
    (name,) = [line.split()[0] for line in run("runs", "list").stdout.splitlines()]
    crew = crew_with(tmp_path, made=run("runs", "script", name, "--as-test").stdout)
    assert run("test", crew).stdout.splitlines()[0] == "passed  made"


TOOLED = """\
version: "2.0"
entry_point: a
agents: [{id: a, tools: [look_up]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""
TOOLED_TEST = """\
script: {a: [{tool_calls: [{name: look_up, arguments: {word: gull}}]}, "fine\\n[END]"]}
expect: {status: completed}
"""


def test_the_tools_of_the_hosts_file_are_called_by_a_crews_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "tests").mkdir()
    (tmp_path / "crew.yaml").write_text(TOOLED, "utf-8")
    (tmp_path / "tests" / "one.yaml").write_text(TOOLED_TEST, "utf-8")
    seen = str(tmp_path / "seen")
    source = f"import pathlib\ndef look_up(word: str) -> None:\n    pathlib.Path({seen!r}).write_text(word)\n"
    (tmp_path / "crew_test_tools.py").write_text(source, "utf-8")
    host = tmp_path / "interlock.toml"
    host.write_text("[tools]\nmodules = ['crew_test_tools']\n", "utf-8")
    assert run("check", str(tmp_path), "--config", str(host)).exit_code == 0
    assert "crew_test_tools" not in sys.modules
    done = run("test", str(tmp_path), "--config", str(host))
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "passed  one")
    assert (tmp_path / "seen").read_text("utf-8") == "gull"


def test_a_module_that_fails_is_a_wrong_use_and_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "failing_tools.py").write_text("raise RuntimeError('no key')\n", "utf-8")
    (tmp_path / "interlock.toml").write_text("[tools]\nmodules = ['failing_tools']\n", "utf-8")
    result = run("test", str(HELLO), "--config", str(tmp_path / "interlock.toml"))
    assert result.exit_code == 2
    assert "module 'failing_tools' cannot be imported: RuntimeError: no key" in result.stderr
    assert "Traceback" not in result.stderr
