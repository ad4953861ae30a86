"""`interlock mcp`: a real client that runs crews as tools."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock
from interlock.cli.main import interlock

mcp = pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

COMMAND = str(Path(sys.executable).parent / "interlock")
CREW = """\
version: "2.0"
name: {name}
description: Answers what is asked.
entry_point: {agent}
agents: [{{id: {agent}}}]
routing: {{signals: {{{agent}: [{{signal: "[WAIT]"}}, {{signal: "[DONE]"}}]}}}}
"""
SCRIPT = """\
replies:
  clerk:
    - "Which colour?\\n[WAIT]"
    - "Blue it is.\\n[DONE]"
  wreck:
    - {error: "overloaded"}
    - {error: "overloaded"}
    - {error: "overloaded"}
  snail:
    - {text: "too late [DONE]", delay_seconds: 60}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    crews = {"crew": ("front desk", "clerk"), "other": ("other", "clerk"), "wreck": ("wreck", "wreck")}
    for file, (name, agent) in {**crews, "snail": ("snail", "snail")}.items():
        (tmp_path / f"{file}.yaml").write_text(CREW.format(name=name, agent=agent), "utf-8")
    (tmp_path / "script.yaml").write_text(SCRIPT, "utf-8")
    return tmp_path


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Any]:
    args = ["mcp", "crew.yaml", "wreck.yaml", "snail.yaml", "--script", "script.yaml", "--data", "data"]
    with (folder / "errors").open("w", encoding="utf-8") as errors:
        parameters = mcp.StdioServerParameters(command=COMMAND, args=args, cwd=folder)
        async with mcp.Client(mcp.stdio_client(parameters, errors)) as client:
            yield client


async def statuses(folder: Path) -> list[tuple[str, str]]:
    async with Interlock(folder / "data") as box:
        return [(row.status, row.reason) for row in await box.journal.rows()]


async def test_a_crew_is_a_tool_that_asks_back_fails_with_a_code_and_can_be_cancelled(desk: Path) -> None:
    async with connected(desk) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["front_desk", "resume", "snail", "wreck"]
        assert tools["front_desk"].description.startswith("Answers what is asked.")
        assert list(tools["front_desk"].input_schema["properties"]) == ["input"]
        steps: list[str] = []

        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            steps.append(message or "")

        paused = await client.call_tool("front_desk", {"input": "A lamp, please"}, progress_callback=progress)
        told = paused.structured_content
        assert (paused.is_error, told["status"], told["question"]) == (False, "paused", "Which colour?")
        assert steps == ["clerk works"]
        assert told["run"] in paused.content[0].text

        done = await client.call_tool("resume", {"run": told["run"], "answer": "blue"})
        assert (done.is_error, done.structured_content["reason"]) == (False, "signal:[DONE]")
        assert done.content[0].text == "Blue it is."

        again = await client.call_tool("resume", {"run": told["run"], "answer": "red", "token": told["token"]})
        assert (again.is_error, again.structured_content["code"]) == (True, "already-resumed")
        nobody = await client.call_tool("resume", {"run": "nobody", "answer": "?"})
        assert (nobody.is_error, nobody.structured_content["code"]) == (True, "run-not-found")

        failed = await client.call_tool("wreck", {"input": "again"})
        assert failed.is_error
        assert (failed.structured_content["code"], failed.structured_content["reason"]) == ("run-failed", "model_error")

        begun = asyncio.Event()

        async def begins(*_: object) -> None:
            begun.set()

        call = asyncio.ensure_future(client.call_tool("snail", {"input": "slow"}, progress_callback=begins))
        await asyncio.wait_for(begun.wait(), 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await statuses(desk) == [
        ("cancelled", "cancelled"),
        ("failed", "model_error"),
        ("completed", "signal:[DONE]"),
    ]
    assert "Traceback" not in (desk / "errors").read_text("utf-8")


def test_a_run_of_a_crew_that_is_not_served_is_not_touched(desk: Path) -> None:
    run = CliRunner().invoke(
        interlock,
        ["run", str(desk / "other.yaml"), "x", "--script", str(desk / "script.yaml"), "--data", str(desk / "data")],
    )
    assert run.exit_code == 3
    run_id = next(line for line in run.stdout.splitlines() if "run.started" in line).split('"run":"')[1].split('"')[0]

    async def refused() -> Any:
        async with connected(desk) as client:
            return await client.call_tool("resume", {"run": run_id, "answer": "x"})

    answer = asyncio.run(refused())
    assert (answer.is_error, answer.structured_content["code"]) == (True, "usage-error")
    assert asyncio.run(statuses(desk)) == [("paused", "signal:[WAIT]")]


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "snail", "arguments": {"input": "x"}, "_meta": {"progressToken": "p"}},
}


async def test_a_client_that_leaves_ends_its_run_and_only_the_protocol_was_on_standard_output(desk: Path) -> None:
    command = [COMMAND, "mcp", "snail.yaml", "--script", "script.yaml", "--data", "data"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=desk) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        for message in (HELLO, READY, CALL):
            served.stdin.write(json.dumps(message).encode() + b"\n")
        served.stdin.write(b"no protocol\n")
        served.stdin.flush()
        lines: list[bytes] = []
        while not lines or b"snail works" not in lines[-1]:
            lines.append(served.stdout.readline())
            assert lines[-1], "the server ended before the run began"
        rest, _ = served.communicate(timeout=60)
    assert served.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in (*lines, *rest.splitlines()))
    assert await statuses(desk) == [("cancelled", "cancelled")]


def test_a_client_that_listens_no_more_ends_it_without_a_trace(desk: Path) -> None:
    command = [COMMAND, "mcp", "snail.yaml", "--script", "script.yaml", "--data", "data"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=desk
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        assert served.stderr is not None
        served.stdin.write(json.dumps(HELLO).encode() + b"\n")
        served.stdin.flush()
        served.stdout.readline()
        served.stdout.close()
        for message in (READY, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}):
            served.stdin.write(json.dumps(message).encode() + b"\n")
        served.stdin.close()
        told = served.stderr.read()
    assert (served.returncode, told) == (0, b"")


def test_crews_that_would_be_called_alike_are_refused(desk: Path) -> None:
    (desk / "same.yaml").write_text(CREW.format(name="front/desk", agent="clerk"), "utf-8")
    (desk / "resume.yaml").write_text(CREW.format(name="resume", agent="clerk"), "utf-8")
    for second in ("same.yaml", "resume.yaml"):
        told = CliRunner().invoke(interlock, ["mcp", str(desk / "crew.yaml"), str(desk / second)])
        assert told.exit_code == 2
        assert "rename it, or leave it out" in told.stderr
        assert ("crew 'front desk' has that name already" in told.stderr) == (second == "same.yaml")
