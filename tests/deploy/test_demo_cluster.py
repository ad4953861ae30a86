"""`make demo-cluster`, small: real processes on a server of their own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

RUNS = 6


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not `tmp_path`, which no other user can reach: if the tests are root, the server runs as one."""
    with TemporaryDirectory(prefix="interlock-demo-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@contextmanager
def demo(call_s: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """The demonstration, with all its folders in the given one."""
    command = [sys.executable, "-m", "deploy.demo_cluster", str(RUNS), call_s]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def workers_in(output: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"# worker \d, process (\d+)", output)]


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.timeout(300)
def test_every_run_finishes_although_a_worker_is_killed(folder: Path) -> None:
    with demo("0.1", folder) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output
    assert f"{RUNS} of {RUNS} runs completed." in output
    assert "kill -9: worker" in output
    assert "Calls that were finished and made again: 0." in output
    assert len(workers_in(output)) == 3
    assert all(map(has_ended, workers_in(output)))
    assert list(folder.iterdir()) == []


@pytest.mark.timeout(300)
def test_ctrl_c_ends_all_that_was_started(folder: Path) -> None:
    with demo("60", folder) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "driven now" in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate()
    assert process.returncode == 130, (lines, rest)
    assert "stopped" in rest
    assert all(map(has_ended, workers_in("".join(lines))))
    assert list(folder.iterdir()) == []
