"""The wheel with each extra alone, in an empty environment: every command works, or says which extra it needs.

One environment is linked from the shared cache of uv, and made to hold exactly the wheel and one extra after another.
What works is a process of its own; helps and refusals share one interpreter, as what is loaded is the same.
"""

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.cli.main import _COMMANDS

ROOT = Path(__file__).parent.parent
BUILT_WITH = ROOT / "build-requirements.txt"
UV = Path(sys.executable).parent / "uv"
EXTRAS = ("", "llm", "local", "mcp", "postgres", "server")
CREW = """version: "2.0"
entry_point: a
agents: [{id: a, is_terminal: true}]
"""
# Runs commands in this order in one process, and prints the code and the words of each.
IN_TURN = """
import json, shlex, sys
from click.testing import CliRunner
from interlock.cli.main import interlock
results = [(words, CliRunner().invoke(interlock, words)) for words in json.loads(sys.argv[1])]
print(json.dumps({shlex.join(words): (result.exit_code, result.output) for words, result in results}))
"""
NEEDS_NOTHING = (
    "check .",
    "runs list",
    "runs usage",
    "graph .",
    "schema",
    "signals report",
    "doctor",
    "model list",
    "key me",
    "schedule add . go --daily 09:00",
    "backup copy.db",
)
CRON = "schedule add . go --cron '0 9 * * *'"
# By what needs an extra: the extra, and what the sentence calls it.
NEEDS = {
    CRON: ("server", "a cron expression needs the extra 'server'"),
    "serve . --script script.yaml --port 0": ("server", "interlock serve needs the extra 'server'"),
    "mcp . --script script.yaml": ("mcp", "interlock mcp needs the extra 'mcp'"),
    "run . go --model local:nothing": ("local", "a model on this machine needs the extra 'local'"),
    "run . go --model anthropic:claude-sonnet-4-5": ("llm", "install them with: "),
}

# A machine that never held these packages fetches them first.
pytestmark = pytest.mark.timeout(300)


def test_the_tools_of_this_test_are_here() -> None:
    assert UV.exists(), "make .venv/ready installs uv; without it nothing of this file is tested"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all workers, with the tools whose hashes the project holds."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel-of-each-extra"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("interlock-*.whl")):
            build = (UV, "build", "--quiet", "--wheel", "--build-constraints", BUILT_WITH)
            done([*build, "--python", sys.executable, "--out-dir", folder, ROOT])
    [built] = folder.glob("interlock-*.whl")
    return built


def done(command: Sequence[str | Path], *, cwd: Path | None = None) -> str:
    """What a command prints; it must succeed."""
    words = list(map(str, command))
    own = os.environ | {"PATH": f"{UV.parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        words, stdin=subprocess.DEVNULL, cwd=cwd, env=own, capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 0, (words, ended.stderr)
    return ended.stdout


class Installed:
    """An environment with exactly the wheel and one extra."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.bin, self._wheel = folder / "env" / "bin", wheel
        done([UV, "venv", "--quiet", "--python", sys.executable, folder / "env"])

    def hold(self, extra: str) -> None:
        """What another extra has brought is taken away."""
        wanted = f"{self._wheel}[{extra}]" if extra else str(self._wheel)
        how = ("--quiet", "--exact", "--link-mode", "hardlink", "--python", self.bin / "python")
        done([UV, "pip", "install", *how, wanted])

    def says(self, desk: Path, words: str, code: int = 0) -> str:
        command, none = [str(self.bin / "interlock"), *shlex.split(words)], subprocess.DEVNULL
        ended = subprocess.run(command, cwd=desk, capture_output=True, text=True, timeout=60, stdin=none)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode == code, (words, ended.stdout, ended.stderr)
        return ended.stdout + ended.stderr

    def say_in_turn(self, desk: Path, commands: Sequence[str]) -> dict[str, tuple[int, str]]:
        """The codes and words of commands that end by themselves."""
        words = json.dumps([shlex.split(command) for command in commands])
        return dict(json.loads(done([self.bin / "python", "-c", IN_TURN, words], cwd=desk)))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("each-extra"), wheel)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a crew."""
    (tmp_path / "crew.yaml").write_text(CREW)
    (tmp_path / "script.yaml").write_text("replies:\n  a: [{text: Done.}]\n")
    return tmp_path


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra or "none")
def test_every_command_works_or_names_the_extra_that_it_needs(installed: Installed, desk: Path, extra: str) -> None:
    installed.hold(extra)
    assert "Done." in installed.says(desk, "run . go --script script.yaml --plain")
    helps = [f"{name} --help" for name in _COMMANDS]
    refused = [words for words, (needed, _) in NEEDS.items() if needed != extra]
    told = installed.say_in_turn(desk, [*helps, *NEEDS_NOTHING, *refused])
    assert {words: said for words, said in told.items() if said[0] and words not in refused} == {}
    assert "is sound" in told["check ."][1]
    assert "completed" in told["runs list"][1]
    for words in refused:
        require_named(*NEEDS[words], *told[words])
    if extra:
        WORKS[extra](installed, desk)


def require_named(extra: str, sentence: str, code: int, said: str) -> None:
    assert (code, sentence in said) == (2, True), said
    assert f"[{extra}]" in said.partition("with: ")[2], said


def require_llm(installed: Installed, desk: Path) -> None:
    said = installed.says(desk, "run . go --model anthropic:claude-sonnet-4-5", code=2)
    assert "needs a key; set the environment variable ANTHROPIC_API_KEY" in said


def require_local(installed: Installed, desk: Path) -> None:
    said = installed.says(desk, "run . go --model local:nothing", code=2)
    assert "extra" not in said


def require_mcp(installed: Installed, desk: Path) -> None:
    installed.says(desk, "mcp . --script script.yaml")


def require_server(installed: Installed, desk: Path) -> None:
    assert "scheduled" in installed.says(desk, CRON)
    command = [str(installed.bin / "interlock"), "serve", ".", "--script", "script.yaml", "--port", "0"]
    with subprocess.Popen(command, cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            assert " on http://127.0.0.1:" in server.stdout.readline()
        finally:
            server.send_signal(signal.SIGTERM)
        server.stdout.read()
        assert server.wait(60) == 0


def require_postgres(installed: Installed, desk: Path) -> None:
    """The driver is there, and the wheel has the files of SQL."""
    program = (
        "from interlock.adapters.postgres.store import PostgresStore; from interlock.adapters.postgres import migrate,"
        " roles; print(PostgresStore.__name__, migrate.newest_schema() >= 9, 'grant' in roles.role_statements())"
    )
    assert done([installed.bin / "python", "-c", program], cwd=desk) == "PostgresStore True True\n"


WORKS = {
    "llm": require_llm,
    "local": require_local,
    "mcp": require_mcp,
    "postgres": require_postgres,
    "server": require_server,
}


def test_the_line_that_is_named_installs_the_extra(installed: Installed, desk: Path) -> None:
    installed.hold("")
    said = installed.says(desk, CRON, code=2)
    line = said.partition("install it with: ")[2].partition("; or")[0].strip()
    assert line.startswith(f"uv pip install --python {installed.bin / 'python'}"), "uv made this environment"
    done(shlex.split(line), cwd=Path("/"))
    assert "scheduled" in installed.says(desk, CRON)
