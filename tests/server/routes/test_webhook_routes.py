"""Webhooks in: what is signed, new and allowed becomes a broadcast; everything else is refused."""

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.config.webhook_settings import IncomingHook
from interlock.adapters.webhooks.verification import TOKEN_HEADER, incoming_webhooks
from tests.server.office import ADDRESS, Office, code_of, open_office

NEW, OLD, OTHER = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"n", b"o", b"x"))
HOOK = IncomingHook(types=("build:*:done", "deploy"), secret_env="NEW", old_secret_env="OLD")
PLAIN = IncomingHook(types=("*",), token_env="TOKEN")
SAID = {"type": "build:x:done", "data": {"ok": True}}


def signed(secret: str, body: bytes, message: str = "msg_1", at: float | None = None) -> dict[str, str]:
    moment = datetime.fromtimestamp(int(at if at is not None else time.time()), UTC)
    return {
        "content-type": "application/json",
        "webhook-id": message,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(message, moment, body.decode("utf-8", "replace")),
    }


@asynccontextmanager
async def taking(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Office, httpx2.AsyncClient]]:
    environ = {"NEW": NEW, "OLD": OLD, "TOKEN": "a plain token of some length"}
    hooks = {"ci": HOOK, "plain": PLAIN, "blank": IncomingHook(types=("*",), secret_env="MISSING")}
    settings = ServerSettings(failures_per_minute=100_000, **options)
    async with (
        open_office(tmp_path, incoming=incoming_webhooks(hooks, environ), settings=settings) as office,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(office.guard), base_url=ADDRESS) as sender,
    ):
        yield office, sender


async def broadcasts(office: Office) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await office.get("/v1/engine/signals/events")).json()["events"]
    return found


@pytest.mark.parametrize("secret", [NEW, OLD])
async def test_what_is_signed_with_one_of_two_secrets_becomes_a_broadcast_from_the_webhook(
    tmp_path: Path, secret: str
) -> None:
    async with taking(tmp_path) as (office, sender):
        body = json.dumps(SAID).encode()
        answer = await sender.post("/v1/webhooks/ci", content=body, headers=signed(secret, body))
        assert answer.status_code == 201, answer.text
        (kept,) = await broadcasts(office)
        assert kept == answer.json()
        assert (kept["source"], kept["type"], kept["data"]) == (
            {"type": "webhook", "id": "ci"},
            "build:x:done",
            {"ok": True},
        )


async def test_a_replay_has_no_effect_also_after_a_restart(tmp_path: Path) -> None:
    body = json.dumps(SAID).encode()
    headers = signed(NEW, body)

    async with taking(tmp_path) as (_, sender):
        assert (await sender.post("/v1/webhooks/ci", content=body, headers=headers)).status_code == 201
        again = await sender.post("/v1/webhooks/ci", content=body, headers=headers)
        assert again.status_code == 200
    async with taking(tmp_path) as (office, sender):
        again = await sender.post("/v1/webhooks/ci", content=body, headers=headers)
        assert again.status_code == 200
        assert len(await broadcasts(office)) == 1


async def test_no_byte_of_body_or_headers_can_change_unnoticed(tmp_path: Path) -> None:
    body = json.dumps(SAID).encode()

    async with taking(tmp_path, requests_per_second=100_000) as (office, sender):
        headers = signed(NEW, body)
        for n in range(len(body)):
            changed = body[:n] + bytes([body[n] ^ 1]) + body[n + 1 :]
            answer = await sender.post("/v1/webhooks/ci", content=changed, headers=headers)
            assert code_of(answer) == (401, "wrong-key"), n
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            changed_value = headers[name][:4] + ("A" if headers[name][4] != "A" else "B") + headers[name][5:]
            for value in ("", "x", changed_value, headers[name][:-2], "v1,", "v2," + headers[name][3:], "é"):
                forged = {key.encode(): given.encode() for key, given in {**headers, name: value}.items()}
                answer = await sender.post("/v1/webhooks/ci", content=body, headers=forged)
                assert code_of(answer) == (401, "wrong-key"), (name, value)
        without = {key: value for key, value in headers.items() if key != "webhook-signature"}
        assert code_of(await sender.post("/v1/webhooks/ci", content=body, headers=without)) == (401, "wrong-key")
        assert await broadcasts(office) == []


@pytest.mark.parametrize("seconds", [-301, 301, -86_400, 86_400])
async def test_what_is_too_old_or_from_the_future_is_refused(tmp_path: Path, seconds: int) -> None:
    async with taking(tmp_path) as (_, sender):
        body = json.dumps(SAID).encode()
        headers = signed(NEW, body, at=time.time() + seconds + (600 if seconds > 0 else 0))
        assert code_of(await sender.post("/v1/webhooks/ci", content=body, headers=headers)) == (401, "wrong-key")


async def test_another_secret_and_another_hooks_secret_are_refused(tmp_path: Path) -> None:
    async with taking(tmp_path) as (_, sender):
        body = json.dumps(SAID).encode()
        for hook, secret in (("ci", OTHER), ("plain", NEW)):
            answer = await sender.post(f"/v1/webhooks/{hook}", content=body, headers=signed(secret, body))
            assert code_of(answer) == (401, "wrong-key")


@pytest.mark.parametrize("hook", ["none", "blank"])
async def test_a_hook_that_is_not_there_or_has_no_secret_is_none(tmp_path: Path, hook: str) -> None:
    async with taking(tmp_path) as (_, sender):
        body = json.dumps(SAID).encode()
        answer = await sender.post(f"/v1/webhooks/{hook}", content=body, headers=signed(NEW, body))
        assert code_of(answer) == (404, "webhook-not-found")


async def test_only_types_that_the_section_names_are_announced(tmp_path: Path) -> None:
    async with taking(tmp_path) as (office, sender):
        for n, kind in enumerate(("build:x:failed", "agent:clerk:wake", "deploy:now", "build:x:done:more")):
            body = json.dumps({"type": kind}).encode()
            answer = await sender.post("/v1/webhooks/ci", content=body, headers=signed(NEW, body, f"m{n}"))
            assert code_of(answer) == (403, "webhook-type-not-allowed")
        assert await broadcasts(office) == []


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b'{"data": 1}', b'{"type": 7}', b'{"type": ""}', b"{"])
async def test_what_says_nothing_is_refused_after_it_was_verified(tmp_path: Path, body: bytes) -> None:
    async with taking(tmp_path) as (_, sender):
        answer = await sender.post("/v1/webhooks/ci", content=body, headers=signed(NEW, body))
        assert code_of(answer) in ((422, "bad-body"), (400, "bad-json"))


async def test_cloudevents_are_understood_whole_and_from_a_sender_with_a_token_in_headers(tmp_path: Path) -> None:
    async with taking(tmp_path) as (office, sender):
        whole = {"specversion": "1.0", "id": "e1", "source": "/x", "type": "deploy", "data": {"n": 1}}
        body = json.dumps(whole).encode()
        headers = {**signed(NEW, body, "m1"), "content-type": "application/cloudevents+json"}
        assert (await sender.post("/v1/webhooks/ci", content=body, headers=headers)).status_code == 201
        in_headers = {"ce-specversion": "1.0", "ce-id": "e2", "ce-source": "/x", "ce-type": "deploy"}
        headers = {TOKEN_HEADER: "a plain token of some length", **in_headers}
        assert (await sender.post("/v1/webhooks/plain", json={"n": 2}, headers=headers)).status_code == 201
        again = await sender.post("/v1/webhooks/plain", json={"n": 2}, headers=headers)
        assert again.status_code == 200
        assert [(each["type"], each["data"]) for each in await broadcasts(office)] == [
            ("deploy", {"n": 1}),
            ("deploy", {"n": 2}),
        ]


async def test_what_the_signature_does_not_cover_changes_neither_the_type_nor_the_id(tmp_path: Path) -> None:
    """A stolen signed webhook cannot be made a new one, nor another one, by headers of a CloudEvent."""

    async with taking(tmp_path) as (office, sender):
        body = json.dumps(SAID).encode()
        forged = {**signed(NEW, body), "ce-specversion": "1.0", "ce-id": "e1", "ce-source": "/x", "ce-type": "deploy"}
        assert (await sender.post("/v1/webhooks/ci", content=body, headers=forged)).status_code == 201
        again = await sender.post("/v1/webhooks/ci", content=body, headers={**forged, "ce-id": "e2"})
        assert again.status_code == 200
        assert [(each["type"], each["data"]) for each in await broadcasts(office)] == [("build:x:done", {"ok": True})]
        untyped = b'{"n": 1}'
        headers = {**forged, **signed(NEW, untyped, "m2")}
        assert code_of(await sender.post("/v1/webhooks/ci", content=untyped, headers=headers)) == (422, "bad-body")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"id": "1", "type": "\xff"}', "bad-json"),
        (b'{"id": "1", "type": "x", "type": "y"}', "bad-json"),
        (b'{"id": "1", "type": "x", "data": ' + b"[" * 70 + b"]" * 70 + b"}", "too-deep"),
        (b'{"id": "1", "type": "x", "data": 1e999}', "bad-json"),
    ],
    ids=["no utf-8", "a key twice", "too deep", "beyond numbers"],
)
async def test_a_body_that_is_no_sound_json_is_refused_whoever_sent_it(tmp_path: Path, body: bytes, code: str) -> None:
    async with taking(tmp_path) as (office, sender):
        headers = {TOKEN_HEADER: "a plain token of some length", "content-type": "application/json"}
        answer = await sender.post("/v1/webhooks/plain", content=body, headers=headers)
        assert code_of(answer) == (400, code)
        assert await broadcasts(office) == []


async def test_a_plain_token_is_enough_where_it_is_set_up(tmp_path: Path) -> None:
    async with taking(tmp_path) as (_, sender):
        said = {"id": "7", "type": "x"}
        right = {TOKEN_HEADER: "a plain token of some length"}
        assert (await sender.post("/v1/webhooks/plain", json=said, headers=right)).status_code == 201
        again = await sender.post("/v1/webhooks/plain", json=said, headers=right)
        assert again.status_code == 200
        for wrong in ("", "a plain token", "a plain token of some lengths"):
            answer = await sender.post("/v1/webhooks/plain", json={**said, "id": "8"}, headers={TOKEN_HEADER: wrong})
            assert code_of(answer) == (401, "wrong-key")


async def test_a_webhook_that_comes_too_often_is_held_up(tmp_path: Path) -> None:
    async with taking(tmp_path, requests_per_second=1) as (_, sender):
        right = {TOKEN_HEADER: "a plain token of some length"}
        found = [
            (await sender.post("/v1/webhooks/plain", json={"id": str(n), "type": "x"}, headers=right)).status_code
            for n in range(4)
        ]
        assert found[:2] == [201, 201]
        assert 429 in found


async def test_whoever_cannot_sign_does_not_use_up_what_the_sender_may_send(tmp_path: Path) -> None:
    async with taking(tmp_path, requests_per_second=0.5) as (_, sender):
        body = json.dumps(SAID).encode()
        for n in range(10):
            forged = await sender.post("/v1/webhooks/ci", content=body, headers=signed(OTHER, body, f"forged {n}"))
            assert code_of(forged) == (401, "wrong-key")
        answer = await sender.post("/v1/webhooks/ci", content=body, headers=signed(NEW, body))
        assert answer.status_code == 201, answer.text
