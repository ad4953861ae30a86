"""Served crews in Python whose files change: new code in a new process, and broken code in none."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.process import Served, serving

DESK = """\
from interlock import END, Agent, Crew
from answers import ANSWER


def answer() -> str:
    \"\"\"Answer.\"\"\"
    return ANSWER


desk = Crew("desk", [Agent("clerk", "Help.", tools=[answer], on={"[DONE]": END})], description="TEXT")
"""
SCRIPT = """\
replies:
  clerk:
    - {tool_calls: [{name: answer, arguments: {}}]}
    - "Said. [DONE]"
"""


def desk_now(server: Served) -> dict[str, Any]:
    try:
        with server.asking() as client:
            crews = client.get("/v1/crews").json()["crews"]
    except httpx2.TransportError:  # between two processes
        return {}
    return next(crew for crew in crews if crew["name"] == "desk")


def until(server: Served, check: Callable[[dict[str, Any]], bool]) -> None:
    """Asks until it is so; a failure ends by the timeout of the test."""
    while not ((found := desk_now(server)) and check(found)):
        pass


@pytest.mark.parametrize("by_signal", [True, False])
def test_new_code_is_served_by_a_new_process_and_broken_code_is_not(tmp_path: Path, by_signal: bool) -> None:
    def change(file: str, text: str) -> None:
        (tmp_path / file).write_text(text, "utf-8")
        if by_signal:
            server.tell(signal.SIGHUP)

    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "answers.py").write_text("ANSWER = 'first'\n", "utf-8")
    option = () if by_signal else ("--reload",)
    with serving(tmp_path, "desk.py:desk", *option, script=SCRIPT) as server:
        change("desk.py", DESK.replace("END})", 'END, "[GO]": "ghost"})'))
        until(server, lambda crew: crew["newer_problems"] > 0)
        assert "unknown-target" in server.log
        change("desk.py", "raise ValueError('half written')\n")
        while "half written" not in server.log:
            pass
        change("answers.py", "ANSWER = 'second'\n")
        change("desk.py", DESK.replace("TEXT", "newer"))
        until(server, lambda crew: crew["description"] == "newer")
        with server.asking() as client:
            run = client.post("/v1/runs", json={"crew": "desk", "input": "hi"}).json()["id"]
            while client.get(f"/v1/runs/{run}").json()["status"] == "running":
                pass
            events = client.get(f"/v1/runs/{run}/events").json()["events"]
        assert [event["output"] for event in events if event["type"] == "tool.returned"] == ["second"]
        assert server.stopped() == 0
