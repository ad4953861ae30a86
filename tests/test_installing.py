"""The wheel with each extra alone, in an empty environment: every command works, or says which extra it needs."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.cli.main import _COMMANDS

ROOT = Path(__file__).parent.parent
BUILT_WITH = ROOT / "build-requirements.txt"
UV = Path(sys.executable).parent / "uv"
EXTRAS = ("", "llm", "local", "mcp", "server")
CREW = """version: "2.0"
entry_point: a
agents: [{id: a, is_terminal: true}]
"""

# Environments are made from the shared cache of uv; a machine that never held these packages fetches them first.
pytestmark = pytest.mark.timeout(300)


def test_the_tools_of_this_test_are_here() -> None:
    assert UV.exists(), "make .venv/ready installs uv; without it nothing of this file is tested"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, with the tools whose hashes the project holds."""
    folder = tmp_path_factory.mktemp("wheel")
    _done(
        [
            UV,
            "build",
            "--wheel",
            "--build-constraints",
            BUILT_WITH,
            "--python",
            sys.executable,
            "--out-dir",
            folder,
            ROOT,
        ]
    )
    [built] = folder.glob("interlock-*.whl")
    return built


class Installed:
    """An environment of its own, with the wheel and one extra."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        self.folder, self.python = folder, folder / "env" / "bin" / "python"
        _done([UV, "venv", "--quiet", "--python", sys.executable, folder / "env"])
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        _done([UV, "pip", "install", "--quiet", "--python", self.python, wanted])
        (folder / "crew.yaml").write_text(CREW)
        (folder / "script.yaml").write_text("replies:\n  a: [{text: Done.}]\n")

    def says(self, *words: str, code: int = 0) -> str:
        command = [str(self.folder / "env" / "bin" / "interlock"), *words]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def _done(command: Sequence[str | Path]) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


@pytest.fixture(scope="module", params=EXTRAS, ids=lambda extra: extra or "none")
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp(request.param or "none"), wheel, request.param)
    made.folder.joinpath("extra").write_text(request.param)
    return made


def extra_of(installed: Installed) -> str:
    return installed.folder.joinpath("extra").read_text()


def test_every_command_has_its_help(installed: Installed) -> None:
    """In one process: what is loaded is the same, and twenty interpreters take twenty times as long."""
    program = (
        "import json, sys; from click.testing import CliRunner; from interlock.cli.main import interlock; "
        "print(json.dumps([CliRunner().invoke(interlock, [name, '--help']).exit_code for name in sys.argv[1:]]))"
    )
    codes = json.loads(_done([installed.python, "-c", program, *_COMMANDS]))
    assert dict(zip(_COMMANDS, codes, strict=True)) == dict.fromkeys(_COMMANDS, 0)


def test_what_needs_no_extra_works(installed: Installed) -> None:
    assert "is sound" in installed.says("check", ".")
    assert "Done." in installed.says("run", ".", "go", "--script", "script.yaml", "--plain")
    assert "completed" in installed.says("runs", "list")
    for words in ("graph .", "schema", "signals report", "doctor", "model list", "key me", "runs usage"):
        installed.says(*words.split())
    installed.says("schedule", "add", ".", "go", "--daily", "09:00")
    installed.says("backup", "copy.db")


NEEDS = {
    "server": (("schedule", "add", ".", "go", "--cron", "0 9 * * *"), "a cron expression"),
    "mcp": (("mcp", ".", "--script", "script.yaml"), "interlock mcp"),
    "local": (("run", ".", "go", "--model", "local:nothing"), "a model on this machine"),
}


@pytest.mark.parametrize("extra", NEEDS)
def test_what_needs_an_extra_works_or_names_it(installed: Installed, extra: str) -> None:
    words, what = NEEDS[extra]
    if extra_of(installed) == extra:
        said = installed.says(*words, code=2 if extra == "local" else 0)
        assert "needs the extra" not in said
        return
    said = installed.says(*words, code=2)
    assert f"{what} needs the extra '{extra}'" in said
    assert f"[{extra}]" in said.partition("install it with: ")[2]


def test_serve_and_providers_name_their_extras(installed: Installed) -> None:
    has = extra_of(installed)
    if has != "server":
        assert "interlock serve needs the extra 'server'" in installed.says("serve", ".", "--port", "0", code=2)
    said = installed.says("run", ".", "go", "--model", "anthropic:claude-sonnet-4-5", code=2)
    assert ("install them with: " in said) is (has != "llm")


def test_the_line_that_is_named_installs_the_extra(wheel: Path, tmp_path: Path) -> None:
    made = Installed(tmp_path, wheel, "")
    said = made.says("schedule", "add", ".", "go", "--cron", "0 9 * * *", code=2)
    line = said.partition("install it with: ")[2].partition("; or")[0].strip()
    assert line.startswith(f"uv pip install --python {made.python}"), "uv made this environment"
    own = os.environ | {"PATH": f"{UV.parent}:{os.environ['PATH']}"}
    done = subprocess.run(shlex.split(line), cwd="/", env=own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "scheduled" in made.says("schedule", "add", ".", "go", "--cron", "0 9 * * *")
