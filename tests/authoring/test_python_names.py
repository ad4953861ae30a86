"""Crews that a command names by a Python module: what is imported, and what every failure says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.authoring.python_names import PythonName, python_name_of

DESK = """\
import os
from interlock import Agent, Crew, END

print("printed by the module")
os.write(1, b"written by the module\\n")


def find_order(order: str) -> str:
    \"\"\"Find an order.\"\"\"
    return f"order {order}: a lamp"


clerk = Agent("clerk", "Help.", tools=[find_order], on={"[DONE]": END})
desk = Crew("desk", [clerk])
number = 3
"""
SCRIPT = """\
replies:
  clerk:
    - {tool_calls: [{name: find_order, arguments: {order: A-1}}]}
    - "Found. [DONE]"
"""
# The limit is one second here, so that a test of it ends.
COMMAND = """\
import sys
from interlock.authoring import python_names
python_names.IMPORT_SECONDS_MAX, python_names.LAST_SECONDS = 1.0, 0.5
from interlock.cli.main import interlock
interlock(sys.argv[1:])
"""


PLAIN = "from interlock.cli.main import interlock; interlock()"


def command(folder: Path, *words: str, program: str = PLAIN) -> "subprocess.CompletedProcess[str]":
    asked = [sys.executable, "-c", program, *words]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("desk.py:desk", PythonName("desk.py", "desk")),
        ("a/b c/desk.py:desk", PythonName("a/b c/desk.py", "desk")),
        ("pack.age.desk:desk", PythonName("pack.age.desk", "desk")),
        ("desk:desk", PythonName("desk", "desk")),
        ("desk.py", PythonName("desk.py", "")),
        ("desk.py:not-a-name", PythonName("desk.py", "not-a-name")),
        ("examples/desk", None),
        ("crew.yaml", None),
        ("a/b:c", None),
        ("desk:", None),
        ("1desk:desk", None),
    ],
)
def test_what_names_a_crew_in_python(argument: str, found: PythonName | None) -> None:
    assert python_name_of(argument) == found


def test_a_path_that_exists_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk:desk").mkdir()
    (tmp_path / "folder.py").mkdir()
    assert python_name_of("desk:desk") is None
    assert python_name_of("folder.py") is None


@pytest.mark.parametrize("name", ["desk.py:desk", "desk:desk", "desk.py:clerk"])
def test_a_crew_is_run_with_its_functions_and_what_the_module_prints_is_on_stderr(tmp_path: Path, name: str) -> None:
    written(tmp_path, desk=DESK)
    (tmp_path / "script.yaml").write_text(SCRIPT, "utf-8")
    done = command(tmp_path, "run", name, "hi", "--script", "script.yaml", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["output"] for event in events if event["type"] == "tool.returned"] == ["order A-1: a lamp"]
    assert "printed by the module" in done.stderr
    assert "written by the module" in done.stderr


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("def f():\n    raise ValueError('bad\\nluck')\n\n\nf()\n", "m.py:2 cannot be imported: ValueError: bad luck"),
        ("import sys\nsys.exit(7)\n", "m.py:2 ends the process with 7 when it is imported"),
        ("import sys\n\nsys.exit()\n", "m.py:3 ends the process when it is imported"),
        ("\nx = (\n", "m.py:2 cannot be imported: '(' was never closed"),
        ("import nowhere_to_be_found\n", "m.py:1 cannot be imported: ModuleNotFoundError"),
        ("class E(BaseException):\n    __str__ = None\n\n\nraise E\n", "m.py:5 cannot be imported: E: (its text"),
        ("def g():\n    return g()\n\n\ng()\n", "m.py:2 cannot be imported: RecursionError"),
        ("c = 3\n", "m.py:1 'c' is neither a Crew nor an Agent but of type int; it has no crew and no agent"),
        ("from interlock import Agent\ndesk = Agent('a')\n", "m.py has no 'c'; crews and agents there: desk"),
        ("from interlock import Agent\ncc = Agent('a')\n", "m.py has no 'c'; did you mean 'cc'? (crews and "),
        ("import time\n\nwhile True:\n    time.sleep(1)\n", "m.py:4 is not imported after 1 seconds; it waits here"),
        ("from threading import *\nt = Thread(target=Event().wait)\nt.start()\nt.join()\n", "m.py:4 is not imported"),
    ],
)  # fmt: skip
def test_whatever_a_module_does_is_one_sentence_and_exit_2(tmp_path: Path, module: str, sentence: str) -> None:
    done = command(written(tmp_path, m=module), "check", "m.py:c", program=COMMAND)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("interlock: ")
    assert sentence in line


def test_c_code_that_lets_no_thread_run_is_ended_too(tmp_path: Path) -> None:
    module = 'import re\n\nre.match(r"(a+)+$", "a" * 60 + "b")\n'
    done = command(written(tmp_path, m=module), "check", "m.py:c", program=COMMAND)
    assert done.returncode == 1  # faulthandler's own
    assert 'm.py", line 3' in done.stderr


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("none.py:c", "none.py does not exist"),
        ("no.such.module:c", "no.such.module is not a module that Python can find"),
        ("m.py", "m.py names no crew; write m.py:NAME"),
        ("m.py:", "m.py names no crew; write m.py:NAME"),
        ("m.py:a-b", "m.py names no crew; write m.py:NAME"),
        ("a.b.py:c", "a.b.py cannot be imported: its name has a dot before .py"),
        ("inner/pathlib.py:c", "pathlib.py has the name of another module that is loaded already"),
    ],
)
def test_a_wrong_name_is_one_sentence_and_exit_2(tmp_path: Path, argument: str, sentence: str) -> None:
    written(tmp_path, m="")
    (tmp_path / "a.b.py").touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "pathlib.py").touch()
    done = command(tmp_path, "check", argument)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_problems_of_a_crew_are_those_of_check(tmp_path: Path) -> None:
    ghost = (
        'from interlock import Agent, Crew, END\n\nc = Crew("c", [Agent("a", on={"[GO]": "ghost", "[DONE]": END})])\n'
    )
    done = command(written(tmp_path, m=ghost), "check", "m.py:c", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"]) == (1, False)
    assert [(p["code"], p["line"]) for p in told["problems"] if p["severity"] == "error"] == [("unknown-target", 3)]
    refused = command(tmp_path, "run", "m.py:c", "hi")
    assert refused.returncode == 1
    assert "m.py:c has errors" in refused.stderr


def test_check_tells_a_module_that_fails_as_json_too(tmp_path: Path) -> None:
    done = command(written(tmp_path, m="1 / 0\n"), "check", "m.py:c", "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (done.returncode, problem["code"], problem["file"], problem["line"]) == (2, "unreadable", "m.py", 1)


def test_the_folder_of_the_file_comes_first_on_the_import_path(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    written(tmp_path, beside="NAME = 'outer'\n")
    written(
        inner, beside="NAME = 'inner'\n", m="from beside import NAME\nfrom interlock import Agent\nc = Agent(NAME)\n"
    )
    assert command(tmp_path, "check", "inner/m.py:c").stdout.rstrip().endswith("inner is sound: 1 agent; 1 warning")


def test_the_settings_file_of_the_command_counts_for_the_crew(tmp_path: Path) -> None:
    written(
        tmp_path,
        m='from interlock import Agent\nc = Agent("a", tools=["look"])\n',
        looking='def look() -> str:\n    """Look."""\n    return ""\n',
    )
    (tmp_path / "other.toml").write_text('[tools]\nmodules = ["looking"]\n', "utf-8")
    assert command(tmp_path, "check", "m.py:c").returncode == 1
    done = command(tmp_path, "check", "m.py:c", "--config", "other.toml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("graph", "desk.py:desk"),
        ("explain", "desk.py:desk", "--agent", "clerk", "--reply", "ok [DONE]"),
        ("signals", "report", "desk.py:desk"),
        ("schedule", "add", "desk.py:desk", "hi", "--daily", "09:00"),
        ("test", "desk.py:desk"),
    ],
)
def test_every_command_takes_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    written(tmp_path, desk=DESK)
    (tmp_path / "interlock.toml").write_text('model = "openai:x"\n', "utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "one.yaml").write_text(
        f"input: hi\nexpect: {{reason: 'signal:[DONE]'}}\nscript:\n{SCRIPT.partition(chr(10))[2]}", "utf-8"
    )
    done = command(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "printed by the module" not in done.stdout


def test_migrate_refuses_it_and_imports_nothing(tmp_path: Path) -> None:
    done = command(written(tmp_path, desk=DESK), "migrate", "desk.py:desk")
    assert done.returncode == 2
    assert "'desk.py:desk' is a crew in Python" in done.stderr
    assert "printed" not in done.stderr
