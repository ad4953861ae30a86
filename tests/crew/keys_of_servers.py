"""Keys whose effect is seen over HTTP: two crews that differ in one value, each served."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.crews.crew_files import LoadedCrew
from tests.crew.keys_of_runs import Case, Look
from tests.server.office import Office, live, served

# How long it is waited for something that should not come.
SHORT_S = 0.1

CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk}]
routing: {signals: {clerk: [{signal: "[DONE]"}]}}
settings: {<>}
"""


def over_http(look: Callable[[Office], Awaitable[Any]]) -> Look:
    def looked(loaded: LoadedCrew) -> Any:
        async def asked() -> Any:
            with TemporaryDirectory() as folder:
                async with served(Path(folder), [loaded], ServerSettings()) as office:
                    return await look(office)

        return asyncio.run(asked())

    return looked


async def _status_of_two_kilobytes(office: Office) -> int:
    answer = await office.post("/v1/runs", json={"crew": "office", "input": "x" * 2000})
    return answer.status_code


async def _says_that_it_is_alive(office: Office) -> bool:
    run = await office.start("hang")
    try:
        async with asyncio.timeout(SHORT_S if office.service.crews.keep_alive_s > 1 else 60):
            async with live(office, f"/v1/runs/{run['id']}/events") as pieces:
                async for piece in pieces:
                    if b": alive" in piece:
                        return True
    except TimeoutError:
        pass
    return False


SERVED: dict[str, Case] = {
    "settings.max_request_body_size_kb": Case(
        crew=CREW,
        one="max_request_body_size_kb: 1",
        other="max_request_body_size_kb: 3",
        look=over_http(_status_of_two_kilobytes),
        seen=(413, 201),
    ),
    "settings.sse_keep_alive_seconds": Case(
        crew=CREW,
        one="sse_keep_alive_seconds: 0.01",
        other="sse_keep_alive_seconds: 1000",
        look=over_http(_says_that_it_is_alive),
        seen=(True, False),
    ),
}
