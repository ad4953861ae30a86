"""`interlock run` where a person sits: the real command in a pseudo terminal, typed at and read from."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock
from interlock.cli.view.terminal import capture_output
from interlock.cli.view.transcript import TranscriptLine

HELLO = "src/interlock/templates/hello"
SECONDS_MAX = 60
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
OPENED, CLOSED, CURSOR_OFF, CURSOR_ON = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25l", "\x1b[?25h"

# Makes the pseudo terminal the command's own, so that Ctrl-C and job control are those of a real one.
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
COMMAND = "from interlock.cli.main import interlock; interlock()"
DRAFT = "Sleepy harbour.\\n[DRAFT]"


class Terminal:
    """What a person sees of a command, and their keyboard."""

    def __init__(self, screen: int, process: subprocess.Popen[bytes]) -> None:
        self._screen, self._process, self.raw = screen, process, ""

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    @property
    def left_behind(self) -> str:
        """What the terminal's history holds: all that was not on the view's own screen."""
        outside = re.sub(f"{re.escape(OPENED)}.*?{re.escape(CLOSED)}", "", self.raw, flags=re.DOTALL)
        return ESCAPES.sub("", outside).replace("\r\n", "\n")

    def wait_for(self, words: str, times: int = 1) -> None:
        while self.text.count(words) < times:
            assert self._read(), f"the command ended without {words!r}:\n{self.text}"

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def exit_code(self) -> int:
        while self._read():
            pass
        return self._process.wait(SECONDS_MAX)

    def wait_until_stopped(self) -> None:
        """The shell's part of Ctrl-Z: it is told of its child, and reads the rest of what that one wrote."""
        pid, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert (pid, os.WIFSTOPPED(status)) == (self._process.pid, True)
        while select.select([self._screen], [], [], 0)[0]:
            assert self._read()

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._screen)[3] & termios.ECHO)

    def _read(self) -> bool:
        assert select.select([self._screen], [], [], SECONDS_MAX)[0], f"nothing happens:\n{self.text}"
        try:
            piece = os.read(self._screen, 65_536)
        except OSError:  # the other side is closed
            return False
        self.raw += piece.decode("utf-8", "replace")
        return bool(piece)


@contextmanager
def terminal(
    *words: str, size: tuple[int, int] = (80, 24), log: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[Terminal]:
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    env = {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    command = [sys.executable, "-c", OWN_TERMINAL, sys.executable, "-c", COMMAND, *words]
    with log.open("wb") if log else os.fdopen(os.dup(inside), "wb") as errors:
        process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=errors, env=env, start_new_session=True)
    os.close(inside)
    try:
        yield Terminal(screen, process)
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def words_of(tmp_path: Path, *entries: str, crew: str = HELLO, editor: str = '"Fine.\\n[DONE]"') -> list[str]:
    (tmp_path / "script.yaml").write_text(
        f"replies:\n  writer: [{', '.join(entries)}]\n  editor: [{editor}]\n", encoding="utf-8"
    )
    return ["run", crew, "go", "--script", str(tmp_path / "script.yaml"), "--data", str(tmp_path / "data")]


def paused_crew(tmp_path: Path) -> list[str]:
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: asker\nentry_point: writer\nagents: [{id: writer}]\n'
        'routing: {signals: {writer: [{signal: "[WAIT]"}, {signal: "[END]"}]}}\n'
    )
    answers = ['"Which town?\\n[WAIT]"', '"And which street?\\n[WAIT]"', '"So be it.\\n[END]"']
    return words_of(tmp_path, *answers, crew=str(tmp_path))


def run(*words: str) -> Result:
    return CliRunner().invoke(interlock, list(words))


# The view


def test_the_view_shows_who_works_and_ctrl_c_parks_the_run_and_gives_the_terminal_back(tmp_path: Path) -> None:
    words = words_of(tmp_path, f'"{DRAFT}"', editor="{text: x, delay_seconds: 600}")
    with terminal(*words) as person:
        person.wait_for("editor    0.")
        person.wait_for("1 of 6 handoffs")  # Ctrl-C throws away what is on its way
        assert not person.echoes()
        person.type("\x03")
        assert person.exit_code() == 3
        assert person.echoes()
        assert person.raw.rindex(CURSOR_ON) > person.raw.rindex(CURSOR_OFF)
        assert person.raw.count(OPENED) == person.raw.count(CLOSED) == 1
        assert person.raw.rindex("\x1b[?7h") > person.raw.rindex("\x1b[?7l")
        assert "[DRAFT] ━▶ editor" in person.text
        assert "writer:\n  Sleepy harbour.\n  [DRAFT]\n" in person.left_behind
        parked = re.search(r"continue with: interlock (resume .*)\n$", person.left_behind)
    assert parked is not None
    words_of(tmp_path, f'"{DRAFT}"')
    assert run(*parked[1].split(), "--script", str(tmp_path / "script.yaml")).exit_code == 0


def test_ctrl_z_gives_the_screen_back_and_the_view_comes_again(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, "{text: x, delay_seconds: 600}")) as person:
        person.wait_for("writer    0.")
        person.wait_for("0 of 6 handoffs")
        person.type("\x1a")
        person.wait_until_stopped()
        assert (person.raw.count(OPENED), person.raw.count(CLOSED)) == (1, 1)
        person.go_on()
        person.wait_for("0 of 6 handoffs", times=person.text.count("0 of 6 handoffs") + 1)
        assert (person.raw.count(OPENED), person.raw.count(CLOSED)) == (2, 1)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50), (0, 0)])
def test_the_view_leaves_what_lines_would_have_said_and_the_log(tmp_path: Path, size: tuple[int, int]) -> None:
    words = [*words_of(tmp_path, f'"{DRAFT}"'), "--verbose"]
    with terminal(*words, size=size) as person:
        assert person.exit_code() == 0
    assert person.raw.count(OPENED) == 1
    with terminal(*words, "--plain", size=size) as reader:
        assert reader.exit_code() == 0
    assert reader.raw.count(OPENED) == 0
    runs = re.compile("run [0-9a-f]{20} ")
    assert sorted(runs.sub("", person.left_behind).splitlines()) == sorted(runs.sub("", reader.text).splitlines())
    assert "[ROUTING] writer -> editor (signal: [DRAFT])" in person.left_behind
    assert person.left_behind.endswith("completed: signal:[DONE]\n")


def test_a_log_that_goes_elsewhere_goes_there_at_once_and_not_to_the_view(tmp_path: Path) -> None:
    words = words_of(tmp_path, f'"{DRAFT}"', editor="{text: x, delay_seconds: 600}")
    with terminal(*words, "--verbose", log=tmp_path / "log.txt") as person:
        person.wait_for("editor    0.")
        assert "[ROUTING] writer -> editor (signal: [DRAFT])" in (tmp_path / "log.txt").read_text()
        person.type("\x03")
        assert person.exit_code() == 3
    assert "[ROUTING]" not in person.text


@pytest.mark.parametrize(
    ("environment", "flags"), [({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({"TERM": ""}, []), ({}, ["--plain"])]
)
def test_there_is_no_view_where_none_is_wanted(tmp_path: Path, environment: dict[str, str], flags: list[str]) -> None:
    with terminal(*words_of(tmp_path, f'"{DRAFT}"'), *flags, environment=environment) as person:
        assert person.exit_code() == 0
    assert not {OPENED, CURSOR_OFF} & set(re.findall(r"\x1b\[\?\d+[hl]", person.raw))
    assert "writer:\n  Sleepy harbour.\n" in person.text


def test_json_on_a_terminal_is_one_object_a_line(tmp_path: Path) -> None:
    with terminal(*words_of(tmp_path, f'"{DRAFT}"'), "--json", log=tmp_path / "log.txt") as person:
        assert person.exit_code() == 0
    assert [json.loads(line)["run"] for line in person.raw.splitlines()]
    assert OPENED not in person.raw


def test_a_reply_cannot_command_the_terminal(tmp_path: Path) -> None:
    hostile = r'"\e[2J\e]0;owned\a\x9b5n\r\e[?1049l[red]x[/]\n[DRAFT]"'
    with terminal(*words_of(tmp_path, hostile, editor="{text: x, delay_seconds: 600}")) as person:
        person.wait_for("editor    0.")
        person.type("\x03")
        assert person.exit_code() == 3
    assert not any(code in person.raw for code in ("\x1b[2J", "\x1b]", "\a", "\x9b"))
    assert person.raw.count(CLOSED) == 1
    assert r"\x1b[2J\x1b]0;owned\x07\x9b5n" in person.left_behind
    assert "[red]x[/]" in person.left_behind


# Answering


def test_a_person_answers_where_the_run_was_started_until_it_ends(tmp_path: Path) -> None:
    with terminal(*paused_crew(tmp_path)) as person:
        person.wait_for("leaves the run paused): ")
        assert "writer asks:\n  Which town?\n" in person.left_behind
        person.type("Hà Nội\n")
        person.wait_for("leaves the run paused): ", times=2)
        assert "writer asks:\n  And which street?\n" in person.left_behind
        person.type("Hàng Bạc\n")
        assert person.exit_code() == 0
    assert person.left_behind.count("Which town?\n  [WAIT]") == 1, "what was said is printed once"
    assert person.left_behind.endswith("completed: signal:[END]\n")
    finished = re.findall("run ([0-9a-f]{20}) ", person.left_behind)[-1]
    history = run("runs", "show", finished, "--data", str(tmp_path / "data")).stdout
    assert "user:\n  Hà Nội\n" in history
    assert "user:\n  Hàng Bạc\n" in history


@pytest.mark.parametrize("keys", ["\n", "\x04", "\x03"])
def test_whoever_does_not_answer_leaves_the_run_paused(tmp_path: Path, keys: str) -> None:
    with terminal(*paused_crew(tmp_path), "--plain") as person:
        person.wait_for("leaves the run paused): ")
        person.type(keys)
        assert person.exit_code() == 3
    advice = re.search(r"answer with: interlock (resume \S+ --data \S+ --script \S+) --input TEXT\n$", person.text)
    assert advice is not None
    done = run(*advice[1].split(), "--input", "Huế")
    assert done.exit_code == 3
    assert json.loads(done.stdout.splitlines()[-1])["type"] == "run.paused"


def test_programs_are_not_asked(tmp_path: Path) -> None:
    with terminal(*paused_crew(tmp_path), "--json") as person:
        assert person.exit_code() == 3
    assert "asks" not in person.text


# What a run is given


def test_a_scripted_model_can_be_named_for_every_agent(tmp_path: Path) -> None:
    *words, flag, script, _, data = words_of(tmp_path, f'"{DRAFT}"')
    assert flag == "--script"
    result = run(*words, "--model", f"scripted:{script}", "--data", data)
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["reason"] == "signal:[DONE]"


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("openai:gpt-9", "'openai:gpt-9' needs a key; set the environment variable OPENAI_API_KEY"),
        ("anthropic:claude-9", "'anthropic:claude-9' needs a key; set the environment variable ANTHROPIC_API_KEY"),
        ("openia:gpt-9", "did you mean 'openai'?"),
        ("openai-compatible:x", "give its provider_url, or url under [providers.openai-compatible]"),
        ("scripted:", "write openai:NAME, or scripted:FILE"),
        ("scripted", "write openai:NAME, or scripted:FILE"),
        (":x", "write openai:NAME, or scripted:FILE"),
        ("", "write openai:NAME, or scripted:FILE"),
    ],
)
def test_a_model_that_cannot_be_asked_is_refused_before_anything_is_stored(
    tmp_path: Path, model: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    data = str(tmp_path / "data")
    result = run("run", HELLO, "go", "--model", model, "--data", data)
    assert result.exit_code == 2
    assert advice in result.stderr
    assert "no runs yet" in run("runs", "list", "--data", data).output


def test_agents_without_a_model_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    result = run("run", "examples/travel", "go", "--data", data)
    assert result.exit_code == 2
    assert "agent 'planner' of crew 'travel' has no model; write 'model: PROVIDER:NAME' in its file" in result.stderr
    assert "no runs yet" in run("runs", "list", "--data", data).output


def test_two_sources_of_answers_are_refused(tmp_path: Path) -> None:
    result = run(*words_of(tmp_path, f'"{DRAFT}"'), "--model", "scripted:x")
    assert (result.exit_code, result.stderr) == (
        2,
        "interlock: --script and --model both choose the model; give one of them\n",
    )


# Around the view


def test_what_is_printed_meanwhile_is_held_in_order_and_made_safe() -> None:
    lines: list[TranscriptLine] = []
    with capture_output(lines):
        sys.stdout.write("one\x1b[2J\ntwo")
        sys.stdout.write(" and a half\nunfinished")
    assert lines == [
        TranscriptLine("printed", r"one\x1b[2J"),
        TranscriptLine("printed", "two and a half"),
        TranscriptLine("printed", "unfinished"),
    ]


def test_rich_is_loaded_for_the_view_only(tmp_path: Path) -> None:
    program = (
        "import sys; from importlib import import_module; from interlock.cli.main import _COMMANDS, interlock\n"
        "for module, _ in _COMMANDS.values(): import_module(module)\n"
        f"try: interlock({words_of(tmp_path, f'{chr(34)}{DRAFT}{chr(34)}')!r})\n"
        "except SystemExit as done: sys.exit(done.code or ('rich' in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


PYTHON_CREW = """\
from interlock import END, Agent, Crew, Pause


def find_order(order: str) -> str:
    return f"{order}: a lamp"


agent = Agent("clerk", model="scripted:words.yaml", tools=[find_order], on={"[ASK]": Pause(), "[DONE]": END})
desk = Crew("desk", [agent])
"""
PYTHON_WORDS = """\
replies:
  clerk: ["Which? [ASK]", {tool_calls: [{name: find_order, arguments: {order: A-17}}]}, "It is a lamp. [DONE]"]
"""


TYPED_CREW = """\
from pydantic import BaseModel, field_validator

from interlock import END, Agent, Crew, Pause


class Payment(BaseModel):
    amount: float

    @field_validator("amount")
    @classmethod
    def require_small(cls, amount: float) -> float:
        if amount > 100:
            raise ValueError("too much")
        return amount


agent = Agent("clerk", model="scripted:words.yaml", on={"[ASK]": Pause(), "[DONE]": END})
desk = Crew("desk", [agent], output=Payment)
"""
TYPED_WORDS = """\
replies:
  clerk: ["Which? [ASK]", '{"amount": 240} [DONE]', '{"amount": 24} [DONE]']
"""


def test_the_types_of_a_crew_in_python_check_its_outputs_where_it_is_resumed(tmp_path: Path) -> None:
    crew = tmp_path / "typed_desk_to_resume.py"
    crew.write_text(TYPED_CREW, "utf-8")
    (tmp_path / "words.yaml").write_text(TYPED_WORDS, "utf-8")
    data = ["--data", str(tmp_path / "data")]
    paused = CliRunner().invoke(interlock, ["run", f"{crew}:desk", "hello", "--plain", *data])
    assert paused.exit_code == 3 and f"--crew {crew}:desk" in paused.output, paused.output
    found = CliRunner().invoke(interlock, ["runs", "list", *data]).stdout.split()[0]
    refused = CliRunner().invoke(interlock, ["resume", found, "--input", "A-17", *data])
    assert refused.exit_code == 2 and "does not have: output type of desk" in refused.stderr
    words = ["resume", found, "--input", "A-17", "--crew", f"{crew}:desk", "--plain", *data]
    resumed = CliRunner().invoke(interlock, words)
    assert resumed.exit_code == 0, resumed.output
    assert "clerk is asked again (invalid_output)" in resumed.stdout


def test_a_crew_in_python_gives_its_functions_to_a_run_that_is_resumed(tmp_path: Path) -> None:
    crew = tmp_path / "desk_to_resume.py"
    crew.write_text(PYTHON_CREW, "utf-8")
    (tmp_path / "words.yaml").write_text(PYTHON_WORDS, "utf-8")
    data = ["--data", str(tmp_path / "data")]
    paused = CliRunner().invoke(interlock, ["run", f"{crew}:desk", "hello", "--plain", *data])
    assert paused.exit_code == 3, paused.output
    found = CliRunner().invoke(interlock, ["runs", "list", *data]).stdout.split()[0]
    refused = CliRunner().invoke(interlock, ["resume", found, "--input", "A-17", *data])
    assert refused.exit_code == 2
    assert "or 'resume --crew FILE.py:NAME'" in refused.stderr
    assert f"interlock resume {found} --data {tmp_path / 'data'} --crew {crew}:desk --input" in paused.stdout
    forked = CliRunner().invoke(interlock, ["runs", "fork", found, "--after", "3", "--crew", f"{crew}:desk", *data])
    assert forked.exit_code == 3, forked.output
    words = ["resume", found, "--input", "A-17", "--crew", f"{crew}:desk", "--plain", *data]
    resumed = CliRunner().invoke(interlock, words)
    assert resumed.exit_code == 0, resumed.output
    assert "find_order returned A-17: a lamp" in resumed.stdout


def test_a_crew_in_python_gives_its_functions_to_a_run_that_is_answered(tmp_path: Path) -> None:
    crew = tmp_path / "desk_to_answer.py"
    crew.write_text(PYTHON_CREW, "utf-8")
    (tmp_path / "words.yaml").write_text(PYTHON_WORDS, "utf-8")
    data = ["--data", str(tmp_path / "data")]
    CliRunner().invoke(interlock, ["run", f"{crew}:desk", "hello", "--plain", *data])
    question = CliRunner().invoke(interlock, ["runs", "questions", *data]).stdout.split()[0]
    refused = CliRunner().invoke(interlock, ["runs", "answer", question, "A-17", *data])
    assert refused.exit_code == 2, refused.output
    words = ["runs", "answer", question, "A-17", "--crew", f"{crew}:desk", "--plain", *data]
    answered = CliRunner().invoke(interlock, words)
    assert answered.exit_code == 0, answered.output
    assert "find_order returned A-17: a lamp" in answered.stdout
