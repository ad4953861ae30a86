"""Other frameworks, measured beside us in an environment of their own.

Rule 1: their versions are pinned, so that a ratio means the same tomorrow.
Rule 2: each is driven in its own idiom, with a model that takes no time.
Rule 3: a peer that cannot be installed is left out, and the reason is printed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-peers"
PINNED = (
    "langgraph==1.2.22",
    "langgraph-checkpoint-sqlite==3.1.2",
    "burr==0.42.0",
    "pydantic-graph==2.66.0",
    "agent-framework-core==1.23.0",
)
# Steps of a run, at which each peer is measured: some grow with the length of a conversation.
SIZES = (100, 300, 1_000)
PINNED_CLIENTS = ("openai==3.49.0", "pydantic-ai-slim[openai]==2.66.0")
INSTALL_TIMEOUT_S = 300
RUN_TIMEOUT_S = 300


class PeerUnavailable(Exception):
    """The reason why a peer was not measured."""


def install(packages: tuple[str, ...] = PINNED) -> None:
    """Makes the environment, or raises `PeerUnavailable`. An existing one is kept."""
    uv = Path(sys.prefix) / "bin" / "uv"
    if not uv.exists():
        raise PeerUnavailable(f"there is no {uv}")
    if not (ENVIRONMENT / "bin" / "python").exists():
        _called([uv, "venv", "--quiet", "--python", sys.executable, ENVIRONMENT], INSTALL_TIMEOUT_S)
    python = ENVIRONMENT / "bin" / "python"
    _called([uv, "pip", "install", "--quiet", "--python", python, *packages], INSTALL_TIMEOUT_S)


def measured(script: str, folder: Path) -> list[dict[str, Any]]:
    """The output of a script of this folder: one JSON object per line."""
    python = ENVIRONMENT / "bin" / "python"
    out = _called([python, Path(__file__).parent / script, folder], RUN_TIMEOUT_S)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def _called(command: list[Any], timeout_s: int) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DO_NOT_TRACK": "1", "BURR_TELEMETRY_ENABLED": "false"}
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(str(error)) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise PeerUnavailable(f"{Path(str(command[0])).name} failed: {last}")
    return done.stdout
