"""The last part of the tour: a crew that asks a person, behind the dashboard.

In a terminal it runs until Ctrl-C. Headless, it uses the HTTP API as the page would, and ends by itself.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import ProxyHandler, Request, build_opener

import click
import msgspec

from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.models.scripted_model import ScriptedAnswer

CREW, SCRIPT = "returns", "script.yaml"
INPUT = "The lamp that I bought does not shine, order A-17"
ANSWER = "yes, pay it"
PROGRAM = "from interlock.cli.main import interlock; interlock()"
# The lines that the server prints before it accepts requests.
LINES = 3
WAIT_S = 60
PRINTED_EVENTS = ("turn.started", "input.requested", "run.resumed", "child.started", "child.finished", "run.finished")


class DemoServer(NamedTuple):
    process: "subprocess.Popen[str]"
    address: str
    opening: str
    key: str

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._send_request(path, json.dumps(body).encode(), {"content-type": "application/json"}) as answer:
            return dict(json.load(answer))

    def events(self, run: str) -> Iterator[dict[str, Any]]:
        with self._send_request(f"/v1/runs/{run}/events?deltas=false", None, {"accept": "text/event-stream"}) as answer:
            for line in answer:
                if line.startswith(b"data: ") and b'"type"' in line:
                    yield json.loads(line.removeprefix(b"data: "))

    def _send_request(self, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        """The server is on this machine, so no proxy is used."""
        request = Request(self.address + path, body, {"authorization": f"Bearer {self.key}", **headers})  # noqa: S310
        return build_opener(ProxyHandler({})).open(request, timeout=WAIT_S)


def run_server_demo(templates: Path, data: Path, *, headless: bool) -> bool:
    """Return whether it succeeded."""
    click.secho("\nThe same in a browser: a crew that asks a person.", bold=True)
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        click.echo(f"Skipped: {missing_extra_message('this part', 'server')}")
        return True
    click.secho(f"$ interlock serve {CREW} --script {SCRIPT}", fg="blue")
    with _run_server(templates, data, headless=headless) as served:
        run = served.post("/v1/runs", {"crew": CREW, "input": INPUT})["id"]
        if headless:
            return _play_run(served, run)
        click.echo(f"Open {served.opening}  (works once)")
        click.echo("A run has started, and will ask you a question. Ctrl-C stops the server.")
        _wait_for_exit(served.process)
        return True


@contextmanager
def _run_server(templates: Path, data: Path, *, headless: bool) -> Iterator[DemoServer]:
    script = _script_without_delays(templates / CREW / SCRIPT, data) if headless else templates / CREW / SCRIPT
    command = [sys.executable, "-c", PROGRAM, "serve", str(templates / CREW), str(templates / "hello")]
    command += ["--script", str(script), "--data", str(data / "served"), "--port", "0", "--print-code"]
    # The log is for operators, not for a tour.
    with (
        (data / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 - our own program, with paths of ours
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        ) as process,
    ):
        try:
            yield _connect_to_server(process, data)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def _connect_to_server(process: "subprocess.Popen[str]", data: Path) -> DemoServer:
    assert process.stdout is not None, "stdout is a pipe"
    lines = [process.stdout.readline() for _ in range(LINES)]
    if process.poll() is not None:
        raise click.ClickException(f"the server did not start: {(data / 'log').read_text('utf-8').strip()}")
    key = (data / "served" / "server.key").read_text("ascii").strip()
    return DemoServer(process, lines[0].split()[-1], lines[1].split()[1], key)


def _script_without_delays(script: Path, data: Path) -> Path:
    """The same replies without their delays."""
    replies = {agent: [_without_delay(answer) for answer in answers] for agent, answers in read_script(script).items()}
    quick = data / SCRIPT
    quick.write_bytes(msgspec.json.encode({"replies": replies}))
    return quick


def _without_delay(answer: ScriptedAnswer | str) -> ScriptedAnswer | str:
    return answer if isinstance(answer, str) else msgspec.structs.replace(answer, delay_seconds=0.0)


def _play_run(served: DemoServer, run: str) -> bool:
    """Follow the run, and answer its question."""
    status = ""
    for event in served.events(run):
        if event["type"] in PRINTED_EVENTS:
            click.echo(_event_line(event))
        if event["type"] == "input.requested":
            served.post(f"/v1/questions/{event['token']}/answer", {"answer": ANSWER})
        if event["type"] == "run.finished" and event["run"] == run:
            status = event["status"]
    return status == "completed"


def _event_line(event: dict[str, Any]) -> str:
    where = " › ".join(event.get("path", ()))
    what = {
        "turn.started": lambda: f"{event['agent']} starts a turn",
        "input.requested": lambda: f"{event['agent']} asks: {event['question']}",
        "run.resumed": lambda: f"answered: {event['input']}",
        "child.started": lambda: f"started sub-crew {event['crew']}",
        "child.finished": lambda: f"sub-crew {event['crew']} finished: {event['status']}",
        "run.finished": lambda: f"{event['status']}: {event['reason']}",
    }[event["type"]]()
    return f"  {where + ': ' if where else ''}{what}"


def _wait_for_exit(process: "subprocess.Popen[str]") -> None:
    """Wait for the server: Ctrl-C reaches it too, and it shuts down in order."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
