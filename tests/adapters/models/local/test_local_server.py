"""The life of a local model's process, with a stand-in for the server: it starts, serves, dies and ends well."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.adapters.models.local import local_model
from interlock.adapters.models.local.local_model import LocalModel
from interlock.errors import ModelRefused, ModelUnavailable

SERVES = """\
import sys
key = sys.stdin.readline().strip()
print("loading", sys.argv[1])
print(f"http://127.0.0.1:9/{len(key)}", flush=True)
sys.stdin.read()
"""
FAILS = "print('loading')\nprint('this is no model')\nraise SystemExit(1)\n"
HANGS = "import sys\nsys.stdin.read()\n"


# What the real server is made with, as far as it is used. Its threads log half a line, and the rest of it later.
LIBRARY = """\
import os
from types import SimpleNamespace
def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())
class Server:
    listening_address = "http://127.0.0.1:9"
    def __init__(self, params):
        os.write(1, b"0.00.478.471 ")
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "server.py"
    monkeypatch.setattr(local_model, "SERVER", script)
    return script


async def test_all_callers_share_one_process_that_ends_with_the_model(stand_in: Path) -> None:
    stand_in.write_text(SERVES)

    model = LocalModel("m", Path("m.gguf"))
    one, other = await asyncio.gather(model._ensure_client(), model._ensure_client())
    assert one is other
    assert one.endpoint.url == "http://127.0.0.1:9/43/v1"
    assert one.endpoint.key not in repr(one.endpoint)
    process = model._process
    assert process is not None
    await model.close()
    assert process.returncode == 0


@pytest.mark.parametrize("chatter", ["print()", "print('x' * 200_000)", "print('http: soon')"])
async def test_what_it_says_while_it_starts_does_not_matter(stand_in: Path, chatter: str) -> None:
    stand_in.write_text(SERVES.replace("print(f", f"{chatter}\nprint(f"))

    model = LocalModel("m", Path("m.gguf"))
    try:
        assert (await model._ensure_client()).endpoint.url == "http://127.0.0.1:9/43/v1"
    finally:
        await model.close()


async def test_one_that_died_is_started_anew(stand_in: Path) -> None:
    stand_in.write_text(SERVES)

    model = LocalModel("m", Path("m.gguf"))
    first = await model._ensure_client()
    assert model._process is not None
    model._process.kill()
    await model._process.wait()
    assert await model._ensure_client() is not first
    await model.close()


async def test_one_that_cannot_start_says_why(stand_in: Path) -> None:
    stand_in.write_text(FAILS)
    for name, advice in (
        ("m", "is the file complete"),
        ("smollm2", "'interlock model get smollm2' downloads it again"),
    ):
        with pytest.raises(ModelRefused, match=rf"{name} did not start from {name}\.gguf: this is .*{advice}"):
            await LocalModel(name, Path(f"{name}.gguf"))._ensure_client()


async def test_one_that_hangs_is_given_up(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.write_text(HANGS)
    monkeypatch.setattr(local_model, "START_SECONDS", 0.01)
    with pytest.raises(ModelUnavailable, match="was not ready after"):
        await LocalModel("m", Path("m.gguf"))._ensure_client()


async def test_the_address_is_found_amid_what_a_server_logs(stand_in: Path) -> None:
    stand_in.write_text(SERVES.replace("http", "\\n\\nhttp"))

    model = LocalModel("m", Path("m.gguf"))
    url = (await model._ensure_client()).endpoint.url
    await model.close()
    assert url.startswith("http://127.0.0.1:9/")


def test_the_server_says_its_address_on_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(LIBRARY)
    server = Path(local_model.__file__).with_name("local_server.py")
    command = [sys.executable, "-P", str(server), "m.gguf"]
    done = subprocess.run(
        command, input="key\n", capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.splitlines() == ["0.00.478.471 ", "http://127.0.0.1:9"]
