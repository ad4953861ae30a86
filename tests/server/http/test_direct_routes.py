"""Routes that are called directly answer as they do through FastAPI."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock.server.http.direct_routes import DirectRoutes
from tests.server.office import Office, open_office

READS = (
    "/v1/runs", "/v1/runs?limit=1", "/v1/runs?limit=0", "/v1/runs?limit=x", "/v1/runs?status=odd", "/v1/runs?limit=",
    "/v1/runs?limit=1&limit=2", "/v1/runs?nothing=1", "/v1/runs/RUN", "/v1/runs/nobody", f"/v1/runs/{'r' * 201}",
    "/v1/runs/RUN/events", "/v1/runs/RUN/events?after=1", "/v1/runs/RUN/events?after=-1", "/v1/runs/RUN/explain",
    "/v1/runs/RUN/", "/v1/nothing", "/v1/crews", "/v1/crews/office", "/v1/crews/nobody", "/v1/questions", "/healthz",
)  # fmt: skip
BODIES: tuple[Any, ...] = (
    {"crew": "nobody"}, {"crew": "broken"}, {}, {"crew": 1}, {"crew": "office", "odd": 1}, [], None, "x",
    {"crew": "office", "continue": "nobody"}, {"crew": "office", "context": {"original_input": 1}},
)  # fmt: skip


def through_fastapi(office: Office) -> None:
    """Sends all requests of an office through FastAPI."""
    direct = office.guard.app
    assert isinstance(direct, DirectRoutes)
    office.guard.app = direct.app


def shown(answer: httpx2.Response) -> tuple[Any, ...]:
    kept = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status_code, kept, answer.text


@pytest.mark.parametrize("path", READS)
async def test_a_read_is_answered_alike(tmp_path: Path, path: str) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.finished("hello"))["id"]
        where = path.replace("RUN", run)
        direct = shown(await office.get(where))
        through_fastapi(office)
        assert shown(await office.get(where)) == direct


@pytest.mark.parametrize("body", BODIES, ids=json.dumps)
async def test_a_refused_body_is_refused_alike(tmp_path: Path, body: Any) -> None:
    async with open_office(tmp_path) as office:
        direct = shown(await office.post("/v1/runs", json=body))
        assert direct[0] >= 400
        through_fastapi(office)
        assert shown(await office.post("/v1/runs", json=body)) == direct


RAW = (
    b"",
    b"{",
    b"nonsense",
    b'{"crew": NaN}',
    b'{"crew": "office", "input": "\\ud800"}',
    b'{"crew": "office", "crew": "other"}',
    b'{"crew": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"crew": "office", "input": "' + b"\xff" + b'"}',
)


@pytest.mark.parametrize("body", RAW, ids=lambda body: body[:24].decode("utf-8", "replace"))
async def test_bytes_that_are_no_body_are_refused_alike(tmp_path: Path, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    async with open_office(tmp_path) as office:
        direct = shown(await office.post("/v1/runs", content=body, headers=headers))
        through_fastapi(office)
        assert shown(await office.post("/v1/runs", content=body, headers=headers)) == direct
        assert 400 <= direct[0] < 500


async def test_a_start_is_answered_alike_but_for_its_id_and_time(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        direct = await office.post("/v1/runs", json={"crew": "office", "input": "hang"})
        through_fastapi(office)
        other = await office.post("/v1/runs", json={"crew": "office", "input": "hang"})
        read = (await office.get(f"/v1/runs/{direct.json()['id']}")).json()
        assert direct.json() == read, "what a start answers without reading is what is read"
        own = dict.fromkeys(("id", "run", "created_at", "updated_at"))
        assert direct.json() | own == other.json() | own


async def test_an_error_of_a_route_is_answered_alike_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(*_: object) -> None:
        raise ZeroDivisionError

    async with open_office(tmp_path) as office:
        monkeypatch.setattr("interlock.server.run_answers.read_run_detail", breaks)
        direct = shown(await office.get("/v1/runs/some"))
        through_fastapi(office)
        assert direct[0] == 500
        assert shown(await office.get("/v1/runs/some")) == direct
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [ZeroDivisionError] * 2
