"""The life of a local model's process, with a stand-in for the server: it starts, serves, dies and ends well."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.adapters.models import local_model
from interlock.adapters.models.local_model import LocalModel
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


def test_all_callers_share_one_process_that_ends_with_the_model(stand_in: Path) -> None:
    stand_in.write_text(SERVES)

    async def story() -> int | None:
        model = LocalModel("m", Path("m.gguf"))
        one, other = await asyncio.gather(model._served(), model._served())
        assert one is other
        assert one.endpoint.url == "http://127.0.0.1:9/43/v1"
        assert one.endpoint.key not in repr(one.endpoint)
        process = model._process
        assert process is not None
        await model.close()
        return process.returncode

    assert asyncio.run(story()) == 0


@pytest.mark.parametrize("chatter", ["print()", "print('x' * 200_000)", "print('http: soon')"])
def test_what_it_says_while_it_starts_does_not_matter(stand_in: Path, chatter: str) -> None:
    stand_in.write_text(SERVES.replace("print(f", f"{chatter}\nprint(f"))

    async def story() -> str:
        model = LocalModel("m", Path("m.gguf"))
        try:
            return (await model._served()).endpoint.url
        finally:
            await model.close()

    assert asyncio.run(story()) == "http://127.0.0.1:9/43/v1"


def test_one_that_died_is_started_anew(stand_in: Path) -> None:
    stand_in.write_text(SERVES)

    async def story() -> None:
        model = LocalModel("m", Path("m.gguf"))
        first = await model._served()
        assert model._process is not None
        model._process.kill()
        await model._process.wait()
        assert await model._served() is not first
        await model.close()

    asyncio.run(story())


def test_one_that_cannot_start_says_why(stand_in: Path) -> None:
    stand_in.write_text(FAILS)
    for name, advice in (("m", "is the file whole"), ("smollm2", "'interlock model get smollm2' fetches it anew")):
        with pytest.raises(ModelRefused, match=rf"{name} did not start from {name}\.gguf: this is .*{advice}"):
            asyncio.run(LocalModel(name, Path(f"{name}.gguf"))._served())


def test_one_that_hangs_is_given_up(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.write_text(HANGS)
    monkeypatch.setattr(local_model, "START_SECONDS", 0.01)
    with pytest.raises(ModelUnavailable, match="was not ready after"):
        asyncio.run(LocalModel("m", Path("m.gguf"))._served())


def test_the_address_is_found_amid_what_a_server_logs(stand_in: Path) -> None:
    stand_in.write_text(SERVES.replace("http", "\\n\\nhttp"))

    async def story() -> str:
        model = LocalModel("m", Path("m.gguf"))
        url = (await model._served()).endpoint.url
        await model.close()
        return url

    assert asyncio.run(story()).startswith("http://127.0.0.1:9/")


def test_the_server_says_its_address_on_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(LIBRARY)
    server = Path(local_model.__file__).with_name("local_server.py")
    command = [sys.executable, "-P", str(server), "m.gguf"]
    done = subprocess.run(
        command, input="key\n", capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.splitlines() == ["0.00.478.471 ", "http://127.0.0.1:9"]
