"""A server without a socket: a real data folder, a crew that says what it is told to, and a client."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from interlock import Interlock
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.adapters.webhooks.verification import IncomingWebhook
from interlock.ports import Clock, Delta, ModelReply, ModelRequest
from interlock.server.app import build_app
from interlock.server.auth import Authenticator
from interlock.server.crews import ServedCrews
from interlock.server.http.guard import Guard
from interlock.server.http.origins import Origins
from interlock.server.service import Service
from interlock.server.webhooks import WEBHOOKS

KEY = "ilk_" + "k" * 43
ADDRESS = "http://127.0.0.1:8321"
PAGE = {"origin": ADDRESS}

CREW = """\
version: "2.0"
name: office
description: Says what it is told to.
entry_point: clerk
agents:
  - {id: clerk, system_prompt: "Serve the customer."}
  - {id: boss, system_prompt: "Decide."}
routing:
  signals:
    clerk: [{signal: "[WAIT]"}, {signal: "[NEXT]", target: boss}, {signal: "[DONE]"}]
    boss: [{signal: "[DONE]"}]
"""
BROKEN = """\
version: "2.0"
name: broken
entry_point: clerk
agents: [{id: clerk}]
routing: {signals: {clerk: [{signal: "[NEXT]", target: nobody}]}}
"""


async def parrot(request: ModelRequest) -> str:
    """Says what was last said to it with its marks, or else that it is done; `hang` is never answered."""
    text = request.messages[-1].text.partition("\n")[2].removesuffix("\n</said>")  # without its frame
    if text == "hang":
        await asyncio.Event().wait()
    marked = text.replace("⟦", "[").replace("⟧", "]")
    return marked if request.agent == "clerk" and "[" in marked else f"{text} [DONE]"


class PieceByPiece:
    """A parrot that speaks in pieces."""

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        text = await parrot(request)
        for piece in text.split(" "):
            yield Delta(piece)
        yield ModelReply(text=text)


def crew_file(folder: Path, text: str = CREW, name: str = "crew") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(text, "utf-8")
    return file


class Office(httpx2.AsyncClient):
    """Asks with the key of the data folder, unless told otherwise."""

    service: Service
    guard: Guard

    @property
    def box(self) -> Interlock:
        return self.service.box

    async def start(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        answer = await self.post("/v1/runs", json={"crew": "office", "input": text, **more})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def finished(self, text: str = "hello") -> dict[str, Any]:
        run = await self.start(text)
        await self.box.runner.wait_until_settled(run["id"])
        return dict((await self.get(f"/v1/runs/{run['id']}")).json())

    async def events(self, path: str, **headers: str) -> "list[Sse]":
        """All of a stream that ends by itself."""
        answer = await self.get(path, headers={"accept": "text/event-stream", **headers})
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)


@asynccontextmanager
async def open_office(
    folder: Path,
    *,
    settings: ServerSettings | None = None,
    with_keys: bool = True,
    incoming: Mapping[str, IncomingWebhook] | None = None,
    crews: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    model: Any = parrot,
    host: HostSettings | None = None,
) -> AsyncIterator[Office]:
    texts = crews or {"crew": CREW, "broken": BROKEN}
    loaded = [read_crew(crew_file(folder, text, name)) for name, text in texts.items()]
    async with served(
        folder,
        loaded,
        settings or ServerSettings(),
        with_keys=with_keys,
        incoming=incoming,
        clock=clock,
        model=model,
        host=host,
    ) as it:
        async with asyncio.timeout(60):
            yield it


@asynccontextmanager
async def served(
    folder: Path,
    loaded: Sequence[LoadedCrew],
    settings: ServerSettings,
    *,
    with_keys: bool = True,
    incoming: Mapping[str, IncomingWebhook] | None = None,
    clock: Clock | None = None,
    model: Any = parrot,
    host: HostSettings | None = None,
) -> AsyncIterator[Office]:
    async with Interlock(folder / "data", models=model, clock=clock, host=host, recover=True) as box:
        closed = await box.store.list_closed_sessions(box.clock.now_ms())
        access = Authenticator(KEY, settings.keys, box.clock, settings.session_hours, port=8321, closed=closed)
        service = Service(box, ServedCrews(loaded), settings, access if with_keys else None, incoming)
        guard = build_app(service, Origins("127.0.0.1", 8321, settings.hosts, settings.origins, settings.public_url))
        feeding = asyncio.create_task(service.feed.run())
        transport = httpx2.ASGITransport(guard, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {KEY}"} if with_keys else {}
        async with Office(transport=transport, base_url=ADDRESS, headers=headers) as asking:
            asking.service, asking.guard = service, guard
            yield asking
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


@asynccontextmanager
async def live(office: Office, path: str, **headers: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """A stream as it comes, piece by piece: the program is called as a server calls it."""
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    gone = asyncio.Event()
    given = {**dict(office.headers), "host": "127.0.0.1:8321", "accept": "text/event-stream", **headers}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
        "scheme": "http",
        "http_version": "1.1",
    }

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pieces.put_nowait(message.get("body", b""))

    async def come() -> AsyncIterator[bytes]:
        while True:
            yield await pieces.get()

    asking = asyncio.create_task(office.guard(scope, receive, send))
    try:
        yield come()
    finally:
        gone.set()
        await asking


class Sse(dict[str, str]):
    """One event of a stream: its fields."""

    @property
    def data(self) -> Any:
        return json.loads(self["data"])


def parsed(text: str) -> list[Sse]:
    """The events of a stream that have data, each with its fields; comments are left out."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = Sse(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append(fields)
    return found


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of a refusal, which must look like one."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"].endswith(problem["code"])
    return answer.status_code, problem["code"]


class Alone:
    """A `Leadership` of a server beside which there never was another."""

    name, epoch = WEBHOOKS, 0

    def is_held(self) -> bool:
        return True


ALONE = Alone()
