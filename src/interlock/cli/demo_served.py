"""The last part of the tour: a crew that asks a person, behind the dashboard.

In a terminal it stays until Ctrl-C. Headless, it is played over HTTP as the page would, and ends by itself.
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

from interlock.adapters.installing import needs_extra
from interlock.adapters.models.scripted import Answer
from interlock.adapters.script_files import read_script

CREW, SCRIPT = "returns", "script.yaml"
INPUT = "The lamp that I bought does not shine, order A-17"
ANSWER = "yes, pay it"
PROGRAM = "from interlock.cli.main import interlock; interlock()"
# What the server says at its start, before it takes requests.
LINES = 3
WAIT_S = 60
SHOWN = ("turn.started", "input.requested", "run.resumed", "child.started", "child.finished", "run.finished")


class Served(NamedTuple):
    process: "subprocess.Popen[str]"
    address: str
    opening: str
    key: str

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._asked(path, json.dumps(body).encode(), {"content-type": "application/json"}) as answer:
            return dict(json.load(answer))

    def events(self, run: str) -> Iterator[dict[str, Any]]:
        with self._asked(f"/v1/runs/{run}/events?deltas=false", None, {"accept": "text/event-stream"}) as answer:
            for line in answer:
                if line.startswith(b"data: ") and b'"type"' in line:
                    yield json.loads(line.removeprefix(b"data: "))

    def _asked(self, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        """It is on this machine, so no proxy is asked."""
        request = Request(self.address + path, body, {"authorization": f"Bearer {self.key}", **headers})  # noqa: S310
        return build_opener(ProxyHandler({})).open(request, timeout=WAIT_S)


def show_served(templates: Path, data: Path, *, headless: bool) -> bool:
    """Whether it went well."""
    click.secho("\nThe same in a browser: a crew that asks a person.", bold=True)
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        click.echo(f"Left out: {needs_extra('this part', 'server')}")
        return True
    click.secho(f"$ interlock serve {CREW} --script {SCRIPT}", fg="blue")
    with _serving(templates, data, headless=headless) as served:
        run = served.post("/v1/runs", {"crew": CREW, "input": INPUT})["id"]
        if headless:
            return _play(served, run)
        click.echo(f"Open {served.opening}  (works once)")
        click.echo("A run has begun, and will ask you something. Ctrl-C ends the server.")
        _wait_for(served.process)
        return True


@contextmanager
def _serving(templates: Path, data: Path, *, headless: bool) -> Iterator[Served]:
    script = _at_once(templates / CREW / SCRIPT, data) if headless else templates / CREW / SCRIPT
    command = [sys.executable, "-c", PROGRAM, "serve", str(templates / CREW), str(templates / "hello")]
    command += ["--script", str(script), "--data", str(data / "served"), "--port", "0", "--print-code"]
    # Its log is for whoever keeps a server, not for a tour.
    with (
        (data / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 - our own program, with paths of ours
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        ) as process,
    ):
        try:
            yield _served(process, data)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def _served(process: "subprocess.Popen[str]", data: Path) -> Served:
    assert process.stdout is not None, "it is piped"
    lines = [process.stdout.readline() for _ in range(LINES)]
    if process.poll() is not None:
        raise click.ClickException(f"the server did not start: {(data / 'log').read_text('utf-8').strip()}")
    key = (data / "served" / "server.key").read_text("ascii").strip()
    return Served(process, lines[0].split()[-1], lines[1].split()[1], key)


def _at_once(script: Path, data: Path) -> Path:
    """The same answers, without the time to look at them."""
    replies = {agent: [_quick(answer) for answer in answers] for agent, answers in read_script(script).items()}
    quick = data / SCRIPT
    quick.write_bytes(msgspec.json.encode({"replies": replies}))
    return quick


def _quick(answer: Answer | str) -> Answer | str:
    return answer if isinstance(answer, str) else msgspec.structs.replace(answer, delay_seconds=0.0)


def _play(served: Served, run: str) -> bool:
    """Follows the run, and answers what it asks."""
    status = ""
    for event in served.events(run):
        if event["type"] in SHOWN:
            click.echo(_told(event))
        if event["type"] == "input.requested":
            served.post(f"/v1/questions/{event['token']}/answer", {"answer": ANSWER})
        if event["type"] == "run.finished" and event["run"] == run:
            status = event["status"]
    return status == "completed"


def _told(event: dict[str, Any]) -> str:
    where = " › ".join(event.get("path", ()))
    what = {
        "turn.started": lambda: f"{event['agent']} has the floor",
        "input.requested": lambda: f"{event['agent']} asks: {event['question']}",
        "run.resumed": lambda: f"answered: {event['input']}",
        "child.started": lambda: f"calls the crew {event['crew']}",
        "child.finished": lambda: f"the crew {event['crew']} is back: {event['status']}",
        "run.finished": lambda: f"{event['status']}: {event['reason']}",
    }[event["type"]]()
    return f"  {where + ': ' if where else ''}{what}"


def _wait_for(process: "subprocess.Popen[str]") -> None:
    """Ctrl-C goes to the server as well, which ends in order; so the tour waits for it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
