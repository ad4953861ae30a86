"""The background of a process: closed at exit, new after a fork, and never the reason that a process hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock, UsageError
from interlock.authoring.background import background, close_background
from interlock.errors import InterlockError
from tests.authoring.lone_crews import LoneCrew

HEAD = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from tests.authoring.lone_crews import LoneCrew

# A shell that starts the tests in the background leaves it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
crew = LoneCrew(Path("crew"))

def done(request):
    return "done [END]"
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INTERLOCK_DATA", raising=False)
    yield
    close_background()


def process_of(story: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}
    environment.pop("INTERLOCK_DATA", None)
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", HEAD + story],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def outcome_of(story: str) -> tuple[int, str, str]:
    process = process_of(story)
    out, err = process.communicate(timeout=60)
    slow = "Executing <"  # asyncio's debug mode tells of slow steps, which a loaded machine has
    return process.returncode, out, "\n".join(line for line in err.splitlines() if not line.startswith(slow))


async def runs_in(folder: Path) -> dict[str, tuple[str, str]]:
    async with Interlock(folder / ".interlock") as box:
        return {row.run: (row.status, row.reason) for row in await box.journal.rows()}


def owners_in(folder: Path) -> list[Path]:
    return list((folder / ".interlock" / "owners").iterdir())


async def test_folders_are_closed_when_the_process_exits(tmp_path: Path) -> None:
    story = """
print(crew.run_sync("go", models=done).text)
print(asyncio.run(crew.run("go", models=done)).text)
try:
    asyncio.run(crew.run("go"))
except Exception as error:
    print(type(error).__name__)
"""
    assert outcome_of(story) == (0, "done\ndone\nUsageError\n", "")
    assert owners_in(tmp_path) == []
    assert set((await runs_in(tmp_path)).values()) == {("completed", "signal:[END]")}


def test_folders_are_closed_after_an_exception_too(tmp_path: Path) -> None:
    code, _, err = outcome_of('crew.run_sync("go", models=done)\nraise ValueError("x")')
    assert code == 1 and err.splitlines()[-1] == "ValueError: x"
    assert owners_in(tmp_path) == []


async def test_a_thread_that_keeps_the_process_alive_gets_its_result(tmp_path: Path) -> None:
    story = """
reached = threading.Event()

def held(request):
    reached.set()
    threading.main_thread().join(0.1)
    return "done [END]"

def work():
    print(crew.run_sync("go", models=held).text)
    try:
        crew.run_sync("go", models=done)
    except Exception as error:
        print(error.code)

threading.Thread(target=work).start()
reached.wait(30)
"""
    code, out, err = outcome_of(story)
    assert (code, err) == (0, "") and out.splitlines() in (["done"], ["done", "usage-error"])


async def test_a_thread_that_outlives_the_main_thread_is_told(tmp_path: Path) -> None:
    story = """
def work():
    threading.main_thread().join()
    try:
        crew.run_sync("go", models=done)
    except Exception as error:
        print(error)

threading.Thread(target=work).start()
"""
    code, out, err = outcome_of(story)
    assert (code, err) == (0, "") and out.startswith("the main thread of the process has ended")


async def test_a_daemon_thread_does_not_keep_the_process_alive_and_its_run_can_be_recovered(tmp_path: Path) -> None:
    story = """
reached = threading.Event()

async def endless(request):
    reached.set()
    await asyncio.Event().wait()

threading.Thread(target=lambda: crew.run_sync("go", models=endless, run_id="r"), daemon=True).start()
reached.wait(30)
"""
    code, out, _ = outcome_of(story)
    assert (code, out) == (0, "")
    assert (await runs_in(tmp_path)) == {"r": ("running", "")}
    assert owners_in(tmp_path) == []


@pytest.mark.parametrize("how", ['crew.run_sync("go", models=endless, run_id="r")', "asyncio.run(main())"])
async def test_an_interrupt_parks_the_run_and_reaches_the_caller(tmp_path: Path, how: str) -> None:
    story = f"""
async def endless(request):
    print("reached", flush=True)
    await asyncio.Event().wait()

async def main():
    await crew.run("go", models=endless, run_id="r")

try:
    {how}
except KeyboardInterrupt:
    print("interrupted", crew.run_sync("go", run_id="r").reason)
"""
    process = process_of(story)
    assert process.stdout is not None and process.stdout.readline() == "reached\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "interrupted parked\n")
    assert (await runs_in(tmp_path)) == {"r": ("paused", "parked")}


async def test_a_forked_child_opens_folders_of_its_own(tmp_path: Path) -> None:
    story = """
crew.run_sync("go", models=done, run_id="parent")
child = os.fork()
if child == 0:
    print(crew.run_sync("go", models=done, run_id="child").text, flush=True)
    print(crew.run_sync("go", run_id="parent").text, flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1], crew.run_sync("go", models=done, run_id="after").text)
"""
    code, out, err = outcome_of(story)
    assert (code, out, err) == (0, "done\ndone\n0 done\n", "")
    assert set(await runs_in(tmp_path)) == {"parent", "child", "after"}


def test_a_folder_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    crew.run_sync("go", models=lambda request: "one [END]", run_id="r")
    (tmp_path / ".interlock").rename(tmp_path / "moved")
    assert crew.run_sync("go", models=lambda request: "two [END]", run_id="r").text == "two"


def test_a_folder_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    (tmp_path / ".interlock").write_text("no folder")
    for _ in range(2):
        with pytest.raises(InterlockError):
            crew.run_sync("go", models=lambda request: "one [END]")
    (tmp_path / ".interlock").unlink()
    assert crew.run_sync("go", models=lambda request: "one [END]").text == "one"


def test_one_folder_has_one_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = LoneCrew(tmp_path / "crew")
    crew.run_sync("go", models=lambda request: "one [END]", data=tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    (other / "interlock.toml").write_text("", "utf-8")
    monkeypatch.chdir(other)
    with pytest.raises(UsageError, match=r"is open in this process with no interlock\.toml"):
        crew.run_sync("go", models=lambda request: "one [END]", data=tmp_path / "data")


def test_the_settings_file_of_the_working_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def find() -> str:\n    'Finds.'\n    return 'lamp'\n", "utf-8")
    (tmp_path / "interlock.toml").write_text('[tools]\nmodules = ["shop"]\n', "utf-8")
    LoneCrew(tmp_path / "crew").run_sync("go", models=lambda request: "one [END]")
    box = background().call(lambda: background().box_of(None)).result()
    assert box.host_file == tmp_path / "interlock.toml"


def test_closing_twice_and_calling_afterwards_is_fine(tmp_path: Path) -> None:
    crew = LoneCrew(tmp_path / "crew")
    crew.run_sync("go", models=lambda request: "one [END]")
    close_background()
    close_background()
    assert crew.run_sync("go", models=lambda request: "one [END]").text == "one"
