"""Writes the schemas of the OpenAPI document, the source of the page's types: `python -m web.document`."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from fastapi import FastAPI

from interlock import Interlock
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.crews.crew_files import read_crew
from interlock.server.app import build_app
from interlock.server.crews import ServedCrews
from interlock.server.http.direct_routes import DirectRoutes
from interlock.server.http.origins import Origins
from interlock.server.service import Service

FILE = Path(__file__).parent / "openapi.json"
CREW = Path(__file__).parents[1] / "examples" / "quiz-exam"


def document_text() -> str:
    return msgspec.json.format(msgspec.json.encode(asyncio.run(_document()), order="sorted"), indent=1).decode() + "\n"


async def _document() -> dict[str, Any]:
    with TemporaryDirectory() as data:
        async with Interlock(data) as box:
            guard = build_app(
                Service(box, ServedCrews([read_crew(CREW)]), ServerSettings(), None), Origins("", 0, (), ())
            )
            direct = guard.app
            assert isinstance(direct, DirectRoutes), "the guard wraps it"
            assert isinstance(direct.app, FastAPI), "it is asked for what is not plain"
            whole = direct.app.openapi()
            shapes = {"schemas": whole["components"]["schemas"]}
            return {"openapi": whole["openapi"], "info": whole["info"], "paths": {}, "components": shapes}


if __name__ == "__main__":
    FILE.write_text(document_text(), "utf-8")
