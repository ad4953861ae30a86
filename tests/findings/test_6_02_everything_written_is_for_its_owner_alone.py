"""Findings 6.2 and 2.2: whatever the umask, everything Interlock writes is for its owner alone.

Rule 1: every command of the tree stands in `WRITES`, or in `OWN_OR_NOTHING` with the reason; so must a new one.
Rule 2: what counts as the user's own (a crew that is not secret, a public model) is made as the umask says.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from interlock.adapters.files import private_files
from interlock.cli.main import interlock

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "src" / "interlock" / "templates" / "hello"
TRAVEL = ROOT / "examples" / "travel"
PROGRAM = "from interlock.cli.main import interlock; interlock()"
UMASKS = (0o000, 0o022)


class Place(NamedTuple):
    """Where the commands work: `data` is the folder they make."""

    folder: Path
    umask: int

    @property
    def data(self) -> Path:
        return self.folder / "new" / "data"

    def call(self, *words: str | Path, ends: tuple[int, ...] = (0,)) -> Result:
        return self.call_elsewhere(*words, "--data", self.data, ends=ends)

    def call_elsewhere(self, *words: str | Path, ends: tuple[int, ...] = (0,)) -> Result:
        done = CliRunner().invoke(interlock, [*map(str, words)])
        assert done.exit_code in ends, (words, done.output)
        return done

    def run_hello(self) -> str:
        done = self.call("run", HELLO, "go", "--script", HELLO / "script.yaml", "--json")
        return str(json.loads(done.stdout.splitlines()[0])["run"])

    def asking(self) -> dict[str, str]:
        """A run that waits for a person: its question."""
        self.call("run", TRAVEL, "Plan a trip from LAX to Italy", "--script", TRAVEL / "script.yaml", ends=(3,))
        found: dict[str, str] = json.loads(self.call("runs", "questions", "--json").stdout.splitlines()[-1])
        return found

    def schedule(self) -> str:
        done = self.call("broadcast", "schedule", "a:b", "--in", "60s", "--key", "k", "--json")
        return str(json.loads(done.stdout)["id"])

    def plan(self) -> str:
        """A schedule that starts runs."""
        return str(json.loads(self.call("schedule", "add", HELLO, "go", "--every", "1d", "--json").stdout)["id"])


def backs_up(place: Place) -> None:
    place.run_hello()
    place.call("backup", place.folder / "copy.db")
    place.call("backup", "--logical", place.folder / "copy.jsonl")
    place.run_hello()
    place.call("backup", "--logical", place.folder / "copy.jsonl")


def moves(place: Place) -> None:
    place.run_hello()
    place.schedule()
    words = ("store", "move", f"sqlite:{place.data}", f"sqlite:{place.folder / 'new' / 'other'}")
    place.call_elsewhere(*words)
    assert (place.data / "MOVED").exists()
    assert (place.folder / "new" / "other" / "interlock.db").exists()


def works(place: Place) -> None:
    detached = place.call("run", HELLO, "go", "--detach").stdout.strip()
    with in_a_process(place, "worker", "--script", HELLO / "script.yaml") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("interlock drives runs")
        place.call("runs", "follow", detached)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def imports_signals(place: Place) -> None:
    place.call("broadcast", "emit", "a:b")
    place.call("broadcast", "import", place.data / "signals" / "events.jsonl")


def answers(place: Place) -> None:
    place.call("runs", "answer", place.asking()["id"], "5", "--script", TRAVEL / "script.yaml", "--plain")


def resumes(place: Place) -> None:
    asked = place.asking()
    token = ("--token", asked["token"]) if "token" in asked else ()
    place.call("resume", asked["run"], *token, "--input", "5", "--script", TRAVEL / "script.yaml", "--plain")


def exports(place: Place) -> None:
    place.call("runs", "export", place.run_hello(), place.folder / "run.jsonl")


def imports_a_run(place: Place) -> None:
    run = place.run_hello()
    place.call("runs", "export", run, place.folder / "run.jsonl")
    place.call("runs", "delete", run)
    place.call("runs", "import", place.folder / "run.jsonl")


def forks(place: Place) -> None:
    run = place.run_hello()
    place.call("runs", "fork", run, "--after", "1", "--script", HELLO / "script.yaml", "--plain", ends=(0, 1, 2))


def after_a_run(*words: str, ends: tuple[int, ...] = (0,)) -> Callable[[Place], None]:
    """A command on a folder that `run` has made."""

    def work(place: Place) -> None:
        place.run_hello()
        place.call(*words, ends=ends)

    return work


def on_a_run(*words: str) -> Callable[[Place], None]:
    def work(place: Place) -> None:
        place.call(*words, place.run_hello())

    return work


def serves(place: Place) -> None:
    with in_a_process(place, "serve", HELLO, "--script", HELLO / "script.yaml", "--port", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("interlock serves")
        assert (place.data / "server.key").exists()
        process.send_signal(signal.SIGTERM)


def serves_mcp(place: Place) -> None:
    with in_a_process(place, "mcp", HELLO, "--script", HELLO / "script.yaml") as process:
        process.communicate("", timeout=60)
    assert (place.data / "interlock.db").exists()


def in_a_process(place: Place, *words: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words), "--data", str(place.data)],
        umask=place.umask,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


WRITES: dict[str, Callable[[Place], object]] = {
    "backup": backs_up,
    "broadcast cancel": lambda place: place.call("broadcast", "cancel", place.schedule()),
    "broadcast dead": after_a_run("broadcast", "dead"),
    "broadcast emit": lambda place: place.call("broadcast", "emit", "a:b"),
    "broadcast import": imports_signals,
    "broadcast list": after_a_run("broadcast", "list"),
    "broadcast prune": after_a_run("broadcast", "prune", "--older-than", "0"),
    "broadcast schedule": lambda place: place.schedule(),
    "broadcast subscriptions": after_a_run("broadcast", "subscriptions"),
    "broadcast tail": after_a_run("broadcast", "tail"),
    "compact": after_a_run("compact"),
    "doctor": after_a_run("doctor"),
    "mcp": serves_mcp,
    "resume": resumes,
    "run": lambda place: place.run_hello(),
    "runs answer": answers,
    "runs approvals list": lambda place: (place.run_hello(), place.call("runs", "approvals", "list")),
    "runs approvals revoke": lambda place: (
        place.run_hello(),
        place.call("runs", "approvals", "revoke", "none", ends=(2,)),
    ),
    "runs cancel": lambda place: place.call("runs", "cancel", place.asking()["run"]),
    "runs delete": on_a_run("runs", "delete"),
    "runs explain": on_a_run("runs", "explain"),
    "runs export": exports,
    "runs follow": on_a_run("runs", "follow"),
    "runs fork": forks,
    "runs import": imports_a_run,
    "runs list": lambda place: place.call("runs", "list"),
    "runs prune": after_a_run("runs", "prune", "--older-than", "0"),
    "runs questions": lambda place: place.call("runs", "questions"),
    "runs replay": on_a_run("runs", "replay"),
    "runs script": on_a_run("runs", "script"),
    "runs show": on_a_run("runs", "show"),
    "runs usage": lambda place: place.call("runs", "usage"),
    "schedule add": lambda place: place.plan(),
    "schedule delete": lambda place: place.call("schedule", "delete", place.plan()),
    "schedule list": lambda place: (place.plan(), place.call("schedule", "list")),
    "schedule pause": lambda place: place.call("schedule", "pause", place.plan()),
    "serve": serves,
    "store grant": after_a_run("store", "grant", ends=(2,)),
    "store init": lambda place: place.call("store", "init"),
    "store migrate": after_a_run("store", "migrate"),
    "store move": moves,
    "store raise-format": after_a_run("store", "raise-format"),
    "store status": after_a_run("store", "status"),
    "worker": works,
}
NOTHING = "it writes nothing"
OWN_OR_NOTHING = {
    "check": NOTHING,
    "demo": "it works in a folder of the system's for passing things, made 0700, and removes it",
    "explain": NOTHING,
    "graph": NOTHING,
    "init": "a crew is the user's own, to be shared as the umask says",
    "key": NOTHING,
    "migrate": "it changes files of a crew, which keep their modes",
    "model get": "a model that anybody may fetch is no secret",
    "model list": NOTHING,
    "schema": NOTHING,
    "signals report": NOTHING,
    "test": NOTHING,
}


def commands(command: click.Command = interlock, name: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        assert found is not None
        yield from commands(found, f"{name} {each}".strip())


def wide(folder: Path) -> list[str]:
    """What others may do something with."""
    return [
        f"{path.relative_to(folder)} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in sorted(folder.rglob("*"))
        if stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]


@pytest.fixture(params=UMASKS, ids=oct)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    before = os.umask(request.param)
    try:
        yield Place(tmp_path, request.param)
    finally:
        os.umask(before)


def test_every_command_is_tried_or_named_as_writing_nothing_of_ours() -> None:
    assert sorted([*WRITES, *OWN_OR_NOTHING]) == sorted(commands())


@pytest.mark.parametrize("command", WRITES)
def test_what_a_command_writes_is_for_its_owner_alone(place: Place, command: str) -> None:
    WRITES[command](place)
    assert any(place.folder.rglob("interlock.db")), "it has made a data folder"
    assert wide(place.folder) == []


def test_the_modes_are_0700_and_0600(place: Place) -> None:
    place.run_hello()
    place.schedule()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (place.data, *place.data.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {"newest", "interlock.db", "interlock.lock", "events.jsonl", "delayed.json"} <= {path.name for path in modes}


@pytest.mark.parametrize("command", [name for name, why in OWN_OR_NOTHING.items() if why == NOTHING])
def test_a_command_that_is_said_to_write_nothing_writes_nothing(tmp_path: Path, command: str) -> None:
    shutil.copytree(HELLO, tmp_path / "hello")
    arguments = {
        "check": ["hello"],
        "explain": ["hello", "--agent", "writer", "--reply", "[DRAFT]"],
        "graph": ["hello"],
        "key": ["robot"],
        "signals report": [],
        "test": ["hello"],
    }
    before = sorted(tmp_path.rglob("*"))
    words = [sys.executable, "-c", PROGRAM, *command.split(), *arguments.get(command, [])]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts) == before


def test_a_folder_that_an_older_version_left_open_is_closed_with_a_notice(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    run = place.run_hello()
    place.schedule()
    for path in (place.data, *place.data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    place.call("runs", "show", run)
    assert wide(place.folder / "new") == []
    assert "only their owner may access these now" in caplog.text
    caplog.clear()
    place.call("runs", "show", run)
    assert caplog.text == ""


def test_an_empty_folder_that_a_person_made_is_closed_and_one_with_other_things_in_it_is_not(
    place: Place,
) -> None:
    place.data.mkdir(parents=True)
    place.data.chmod(0o755)
    place.run_hello()
    assert stat.S_IMODE(place.data.stat().st_mode) == 0o700
    shared = place._replace(folder=place.folder / "shared")
    shared.data.mkdir(parents=True)
    shared.data.chmod(0o755)
    (shared.data / "notes.txt").write_text("mine", "utf-8")
    said = shared.call("run", HELLO, "go", "--script", HELLO / "script.yaml", "--json")
    assert stat.S_IMODE(shared.data.stat().st_mode) == 0o755
    assert "holds more than Interlock's data" in said.stderr
    assert stat.S_IMODE((shared.data / "interlock.db").stat().st_mode) == 0o600


def test_a_planted_fault_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made as the umask says, as they were before."""

    def careless(path: Path, flags: int) -> int:
        return os.open(path, flags, 0o666)

    for module in list(sys.modules.values()):
        if getattr(module, "open_private", None) is private_files.open_private:
            monkeypatch.setattr(module, "open_private", careless)
    place.run_hello()
    assert wide(place.folder) != []
