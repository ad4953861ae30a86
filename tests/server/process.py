"""`interlock serve` as a process of its own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.server.office import Sse

# Tests ask more often than people.
PATIENT = "[server]\nrequests_per_second = 100000\n"

COMMAND = str(Path(sys.executable).parent / "interlock")

CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk}, {id: boss}]
routing:
  signals:
    clerk: [{signal: "[WAIT]"}, {signal: "[NEXT]", target: boss}, {signal: "[DONE]"}]
    boss: [{signal: "[RETRY]", target: clerk}, {signal: "[DONE]"}]
"""


# Nothing here is encrypted, and reading the certificates of this machine takes longer than most tests.
PLAIN: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 100}


class Served:
    """A server that runs, and how to ask it."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]", lines: list[str]) -> None:
        self.folder, self.process, self.lines = folder, process, lines
        self.address = lines[0].rpartition(" ")[2]
        # Empty unless it was started with --print-code: without a terminal no code is printed.
        self.code = lines[1].partition("#code=")[2].partition(" ")[0]

    @property
    def key(self) -> str:
        return (self.folder / "data" / "server.key").read_text("ascii").strip()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8")

    def asking(self, **more: Any) -> httpx2.Client:
        headers = {"authorization": f"Bearer {self.key}", **more.pop("headers", {})}
        return httpx2.Client(base_url=self.address, headers=headers, **PLAIN, **more)

    def asking_async(self) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {self.key}"}
        limits = httpx2.Limits(max_connections=None)
        return httpx2.AsyncClient(base_url=self.address, headers=headers, limits=limits, **PLAIN)

    def connected(self) -> socket.socket:
        parts = urlsplit(self.address)
        return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=60)

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    def stopped(self) -> int:
        """Its exit code after a signal to stop."""
        self.tell(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(
    folder: Path,
    *options: str,
    script: str = "",
    toml: str = "",
    crew: str = CREW,
    program: Sequence[str] = (COMMAND,),
) -> Iterator[Served]:
    folder.mkdir(exist_ok=True)
    (folder / "crew.yaml").write_text(crew, "utf-8")
    (folder / "script.yaml").write_text(script or "replies: {clerk: ['Fine. [DONE]']}\n", "utf-8")
    (folder / "interlock.toml").write_text(toml or PATIENT, "utf-8")
    words = ("serve", "crew.yaml", "--script", "script.yaml", "--data", "data", "--port", "0", *options)
    command = [*program, *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        (folder / "log").open("a", encoding="utf-8") as log,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().rstrip() for _ in range(3)]
            assert lines[0].startswith("interlock serves"), (folder / "log").read_text("utf-8")
            yield Served(folder, process, lines)
        finally:
            if process.poll() is None:
                process.kill()


class Parsing:
    """Lines of a stream, one by one; an event when it is whole."""

    def __init__(self) -> None:
        self._fields = Sse()

    def took(self, line: str) -> Sse | None:
        if line:
            if not line.startswith(":"):
                name, _, value = line.partition(": ")
                self._fields[name] = value
            return None
        whole, self._fields = self._fields, Sse()
        return whole if "data" in whole else None


def stream(client: httpx2.Client, path: str, last: str = "") -> Iterator[Sse]:
    """Events as they come, until the server closes the stream."""
    headers = {"accept": "text/event-stream", **({"last-event-id": last} if last else {})}
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code in (200, 204), answer.read()
        parsing = Parsing()
        for line in answer.iter_lines():
            if (event := parsing.took(line)) is not None:
                yield event


async def read_events(answer: httpx2.Response) -> AsyncIterator[Sse]:
    assert answer.status_code in (200, 204), await answer.aread()
    parsing = Parsing()
    async for line in answer.aiter_lines():
        if (event := parsing.took(line)) is not None:
            yield event
