"""Approvals over HTTP: an answer that holds needs its scope, whichever way it comes; they are listed and revoked."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock import Interlock, tool
from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.crew.host import Host
from interlock.server.app import build_app
from interlock.server.auth import Authenticator
from interlock.server.crews import ServedCrews
from interlock.server.http.origins import Origins
from interlock.server.service import Service
from tests.server.office import KEY

CREW = """\
version: "2.0"
name: {name}
entry_point: a
agents: [{{id: a, tools: [pay]}}]
routing: {{signals: {{a: [{{signal: "[END]"}}]}}}}
"""
OTHER = "ilk_other"
AS_OTHER = {"authorization": f"Bearer {OTHER}"}
NOTHING: dict[str, list[Any]] = {"approvals": [], "revoked": []}


class Paying:
    def __init__(self, client: httpx2.AsyncClient, box: Interlock) -> None:
        self.client, self.box = client, box

    async def asked(self, crew: str = "desk") -> dict[str, Any]:
        """A question about a call of the tool, in a run of its own."""
        run = (await self.client.post("/v1/runs", json={"crew": crew, "input": "go"})).json()
        await self.box.runner.wait_until_settled(run["id"])
        return dict((await self.client.get(f"/v1/runs/{run['id']}")).json()["questions"][0])

    async def answer(self, question: str, text: str, key: str = KEY) -> httpx2.Response:
        return await self.client.post(
            f"/v1/questions/{question}/answer", json={"answer": text}, headers={"authorization": f"Bearer {key}"}
        )


@asynccontextmanager
async def office(folder: Path, *scopes: str, crews: tuple[str, ...] | None = None) -> AsyncIterator[Paying]:
    @tool(needs_approval=True)
    def pay(amount: int = 0) -> str:
        return "paid"

    names, loaded = ("desk", "shop"), []
    for name in names:
        (folder / f"{name}.yaml").write_text(CREW.format(name=name), "utf-8")
        loaded.append(read_crew(folder / f"{name}.yaml", Host(tools=("pay",))))
    sha = hashlib.sha256(OTHER.encode()).hexdigest()
    settings = ServerSettings(keys={"ci": ServerKey(sha256=sha, scopes=scopes or ("read",), crews=crews)})
    model = ScriptedModel({"a": [ScriptedAnswer(tool_calls=(ToolCall("pay", {"amount": 5}),)), "done [END]"] * 9})
    async with Interlock(folder / "data", models=model, tools=[pay], recover=True) as box:
        access = Authenticator(KEY, settings.keys, box.clock, 24, port=8321)
        service = Service(box, ServedCrews(loaded), settings, access, None)
        guard = build_app(service, Origins("127.0.0.1", 8321, (), (), ""))
        transport = httpx2.ASGITransport(guard, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {KEY}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321", headers=headers) as client:
            async with asyncio.timeout(60):
                yield Paying(client, box)


@pytest.mark.parametrize("text", ["always", "for this run", "Always: pay:amount = 5"])
async def test_an_answer_that_holds_needs_the_scope_approve(tmp_path: Path, text: str) -> None:
    async with office(tmp_path, "answer", "run", "read") as paying:
        question = await paying.asked()
        refused = await paying.answer(question["id"], text, OTHER)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope")
        resumed = await paying.client.post(
            f"/v1/runs/{question['run']}/resume",
            json={"input": text},
            headers={"authorization": f"Bearer {OTHER}"},
        )
        assert (resumed.status_code, resumed.json()["code"]) == (403, "missing-scope")
        assert (await paying.client.get("/v1/approvals")).json() == NOTHING
        assert (await paying.answer(question["id"], "yes", OTHER)).status_code == 200


async def test_an_approval_is_given_listed_and_revoked(tmp_path: Path) -> None:
    async with office(tmp_path, "answer", "approve", "read") as paying:
        question = await paying.asked()
        assert question["holds_for"] == "pay"
        assert (await paying.answer(question["id"], "always", OTHER)).status_code == 200
        headers = {"authorization": f"Bearer {OTHER}"}
        (given,) = (await paying.client.get("/v1/approvals", headers=headers)).json()["approvals"]
        assert (given["tool"], given["pattern"], given["run"], given["by"]) == ("pay", "pay", "", "key:ci")
        assert (await paying.client.delete(f"/v1/approvals/{given['id']}", headers=headers)).status_code == 204
        again = await paying.client.delete(f"/v1/approvals/{given['id']}", headers=headers)
        assert (again.status_code, again.json()["code"]) == (404, "no-such-approval")
        assert (await paying.asked())["tool"] == "pay"


async def test_revoking_needs_the_scope_and_a_key_sees_the_approvals_of_its_crews_only(tmp_path: Path) -> None:
    async with office(tmp_path, "read", crews=("shop",)) as paying:
        await paying.answer((await paying.asked("desk"))["id"], "always")
        await paying.box.runner.wait_until_settled((await paying.box.approvals())[0].asked_in)
        (given,) = (await paying.client.get("/v1/approvals")).json()["approvals"]
        headers = {"authorization": f"Bearer {OTHER}"}
        assert (await paying.client.get("/v1/approvals", headers=headers)).json() == NOTHING
        assert (await paying.client.delete(f"/v1/approvals/{given['id']}", headers=headers)).status_code == 403
        assert (await paying.asked("shop"))["tool"] == "pay"  # an approval holds for its crew alone


async def given_approval(paying: Paying, crew: str = "desk") -> dict[str, Any]:
    """A standing approval that the key of the data folder gave."""
    await paying.answer((await paying.asked(crew))["id"], "always")
    (given,) = [each for each in (await paying.client.get("/v1/approvals")).json()["approvals"] if each["crew"] == crew]
    await paying.box.runner.wait_until_settled(given["asked_in"])
    return dict(given)


@pytest.mark.parametrize(
    ("scope", "may_list", "may_revoke"),
    [
        ("read", True, False),
        ("run", False, False),
        ("answer", False, False),
        ("approve", True, True),
        ("metrics", False, False),
        ("admin", True, True),
    ],
)
async def test_each_scope_lists_and_revokes_what_it_may(
    tmp_path: Path, scope: str, may_list: bool, may_revoke: bool
) -> None:
    async with office(tmp_path, scope) as paying:
        given = await given_approval(paying)
        listed = await paying.client.get("/v1/approvals", headers=AS_OTHER)
        assert (listed.status_code, listed.json().get("code")) == ((200, None) if may_list else (403, "missing-scope"))
        revoked = await paying.client.delete(f"/v1/approvals/{given['id']}", headers=AS_OTHER)
        assert revoked.status_code == (204 if may_revoke else 403)
        left = (await paying.client.get("/v1/approvals")).json()
        assert (len(left["approvals"]), len(left["revoked"])) == ((0, 1) if may_revoke else (1, 0))


@pytest.mark.parametrize("key", ["", "ilk_wrong"])
async def test_without_a_key_of_the_server_nothing_is_listed_or_revoked(tmp_path: Path, key: str) -> None:
    async with office(tmp_path) as paying:
        given = await given_approval(paying)
        headers = {"authorization": f"Bearer {key}" if key else ""}
        assert (await paying.client.get("/v1/approvals", headers=headers)).status_code == 401
        assert (await paying.client.delete(f"/v1/approvals/{given['id']}", headers=headers)).status_code == 401
        assert len(await paying.box.approvals()) == 1


async def test_a_key_of_other_crews_may_neither_see_nor_revoke_an_approval(tmp_path: Path) -> None:
    async with office(tmp_path, "read", "approve", "admin", crews=("shop",)) as paying:
        desk, shop = await given_approval(paying, "desk"), await given_approval(paying, "shop")
        refused = await paying.client.delete(f"/v1/approvals/{desk['id']}", headers=AS_OTHER)
        assert (refused.status_code, refused.json()["code"]) == (404, "no-such-approval")
        listed = (await paying.client.get("/v1/approvals", headers=AS_OTHER)).json()
        assert [each["id"] for each in listed["approvals"]] == [shop["id"]]
        assert (await paying.client.delete(f"/v1/approvals/{desk['id']}")).status_code == 204
        assert (await paying.client.get("/v1/approvals", headers=AS_OTHER)).json()["revoked"] == []
        assert (await paying.client.delete(f"/v1/approvals/{shop['id']}", headers=AS_OTHER)).status_code == 204


async def test_who_revoked_an_approval_is_stored_shown_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with office(tmp_path, "approve") as paying:
        given = await given_approval(paying)
        with caplog.at_level("INFO", logger="interlock"):
            await paying.client.delete(f"/v1/approvals/{given['id']}", headers=AS_OTHER)
        (ended,) = (await paying.client.get("/v1/approvals")).json()["revoked"]
        assert {**given, "revoked_by": "key:ci", "revoked_at": ended["revoked_at"]} == ended
        assert ended["revoked_at"] >= given["at"]
        assert f"approval {given['id']} is revoked by key:ci" in caplog.messages
    async with office(tmp_path) as paying:  # another process
        assert (await paying.client.get("/v1/approvals")).json() == {"approvals": [], "revoked": [ended]}
