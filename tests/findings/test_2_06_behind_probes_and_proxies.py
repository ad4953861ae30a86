"""Probes reach a server by any name, people reach it below a prefix, and no log of a service lets anybody in."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import httpx2
import pytest

from interlock.adapters.config.server_settings import ServerSettings, require_public_url
from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.engine.events import ExternalSent, InputRequested
from interlock.errors import UsageError
from interlock.ports import Record, StoredRecord
from interlock.server.webhooks import deliveries_of
from tests.server.browser import looking, needs_chromium, sign_in, start_run, status_of
from tests.server.office import KEY, open_office
from tests.server.prefixing_proxy import proxied
from tests.server.process import COMMAND, CREW, PLAIN, serving

PUBLIC = "https://ops.example.com/interlock"


async def test_probes_answer_by_whatever_name_and_nothing_else_does(tmp_path: Path) -> None:
    async with open_office(tmp_path) as asking:
        for name in ("10.1.2.3:8321", "interlock.default.svc", "[fd00::1]:8321", ""):
            for path in ("/healthz", "/readyz"):
                answer = await asking.get(path, headers={"host": name})
                assert answer.status_code == 200, (name, path, answer.text)
                assert (await asking.head(path, headers={"host": name})).status_code == 200
            refused = await asking.get("/v1/runs", headers={"host": name})
            assert refused.json()["code"] == "host-not-allowed"
            assert (await asking.get("/", headers={"host": name})).status_code == 403


@pytest.mark.parametrize("prefix", ["/interlock", ""])
async def test_the_api_answers_with_and_without_the_prefix(tmp_path: Path, prefix: str) -> None:
    async with open_office(tmp_path, settings=ServerSettings(public_url=PUBLIC)) as asking:
        page = {"host": "ops.example.com", "origin": "https://ops.example.com"}
        started = await asking.post(f"{prefix}/v1/runs", json={"crew": "office", "input": "x"}, headers=page)
        assert started.status_code == 201, started.text
        assert 'src="/interlock/static/app.js"' in (await asking.get(f"{prefix}/", headers=page)).text
        assert (await asking.get(f"{prefix}/static/app.js", headers=page)).status_code == 200
        opened = await asking.post(f"{prefix}/v1/session", json={"key": KEY}, headers=page)
        assert "Path=/interlock;" in opened.headers["set-cookie"] and "Secure" in opened.headers["set-cookie"]
        document = (await asking.get(f"{prefix}/openapi.json", headers=page)).json()
        assert document["servers"] == [{"url": PUBLIC}]
        other = {**page, "origin": "https://evil.example.com"}
        assert (await asking.get(f"{prefix}/v1/runs", headers=other)).json()["code"] == "origin-not-allowed"
        del asking.headers["authorization"]
        assert (await asking.get(f"{prefix}/v1/runs", headers=page)).status_code == 401
        assert (await asking.get("/interlock/interlock/v1/runs", headers=page)).status_code == 401


@pytest.mark.parametrize(
    "url",
    [
        "ops.example.com",
        "ftp://x/y",
        "https://u:p@x/",
        "https://x/a?b",
        "https://x/a b",
        "https://x/../y",
        "https://x/v1",
    ],
)
def test_a_public_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        require_public_url("--public-url", url)


def test_an_external_webhook_says_where_to_answer() -> None:
    sent = ExternalSent(signal="[PAY]", agent="clerk", content="pay", requires_response=True)
    asked = InputRequested(agent="clerk", question="", token="r1:4")
    stored = StoredRecord(position=1, run="r1", record=Record(seq=3, at=1, events=(sent, asked)))
    hook = OutgoingHook(url="https://x.example.com", secret_env="S", on=("external",))
    known = [json.loads(each.body)["data"]["answer"] for each in deliveries_of("h", hook, [stored], 1, PUBLIC)]
    unknown = [json.loads(each.body)["data"]["answer"] for each in deliveries_of("h", hook, [stored], 1)]
    assert known[0]["url"] == f"{PUBLIC}/v1/runs/r1/resume"
    assert "url" not in unknown[0] and unknown[0]["path"] == "/v1/runs/r1/resume"


@needs_chromium
@pytest.mark.parametrize("strips", [True, False])
def test_the_page_works_below_a_prefix(tmp_path: Path, strips: bool) -> None:
    with proxied("/tools/interlock", strips=strips) as proxy:
        public = f"http://localhost:{proxy.server_port}/tools/interlock"
        with serving(tmp_path, "--public-url", public) as server, looking(server) as look:
            proxy.upstream = look.address = server.address
            look.address = public
            page = look.tab()
            sign_in(page, server.key)
            page.get_by_text("live", exact=True).wait_for()
            run = start_run(page, "hello")
            status_of(page, "completed")
            page.get_by_text("by session:owner").wait_for()
            page.reload()
            page.locator(".run-head").wait_for()
            assert all(url.startswith(public) for url in look.asked if not url.startswith("data:")), look.asked
            cookies = page.context.cookies()
            assert [cookie["path"] for cookie in cookies] == ["/tools/interlock"]
            look.require_peace(page)
            with server.asking() as client:
                assert client.get(f"/v1/runs/{run}").json()["status"] == "completed"


def test_a_service_prints_no_code_and_its_address_first(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert re.fullmatch(r"interlock serves office on http://127\.0\.0\.1:\d+", server.lines[0])
        assert server.lines[1] == f"open {server.address}/ and sign in with the key"
        assert server.lines[2].endswith("server.key")
        assert not any("code" in line or "ilc_" in line for line in (*server.lines, server.log))
        assert httpx2.get(f"{server.address}/healthz", headers={"host": "10.0.0.1"}, **PLAIN).status_code == 200


def test_a_terminal_gets_a_code(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    (tmp_path / "script.yaml").write_text("replies: {clerk: ['Fine. [DONE]']}\n", "utf-8")
    command = [COMMAND, "serve", "crew.yaml", "--script", "script.yaml", "--data", "data", "--port", "0"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        while said.count(b"\n") < 3:
            said += os.read(ours, 4096)
        process.terminate()
    os.close(ours)
    assert b"#code=ilc_" in said
