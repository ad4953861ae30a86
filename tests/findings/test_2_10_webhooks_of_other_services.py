"""Finding 2.10: webhooks of GitHub, GitLab, Stripe and the like; a redelivery is 200."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock.adapters.config.host_file import read_settings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.config.webhook_settings import IncomingHook
from interlock.adapters.webhooks.verification import incoming_webhooks
from interlock.errors import UsageError
from tests.server.office import ADDRESS, code_of, open_office

SECRET, OTHER = "a secret of some length", "another secret of some length"
PUSH = json.dumps({"ref": "refs/heads/main", "repository": {"full_name": "a/b"}}).encode()
PAID = json.dumps({"id": "evt_1", "type": "invoice.paid", "data": {"object": {"total": 5}}}).encode()


def digest(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(body: bytes, event: str = "push", delivery: str = "d-1", secret: str = SECRET) -> dict[str, str]:
    return {
        "x-hub-signature-256": f"sha256={digest(body, secret)}",
        "x-github-event": event,
        "x-github-delivery": delivery,
    }


def gitlab(event: str = "Push Hook", number: str = "u-1", secret: str = SECRET) -> dict[str, str]:
    return {"x-gitlab-token": secret, "x-gitlab-event": event, "x-gitlab-event-uuid": number}


def stripe(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    moment = int(time.time() if at is None else at)
    return {"stripe-signature": f"t={moment},v1={'0' * 64},v1={digest(f'{moment}.'.encode() + body, secret)}"}


HOOKS = {
    "github": IncomingHook(types=("github:*",), scheme="github", secret_env="S"),
    "gitlab": IncomingHook(types=("gitlab:*",), scheme="gitlab", secret_env="S"),
    "stripe": IncomingHook(types=("stripe:*",), scheme="stripe", secret_env="NEW", old_secret_env="S"),
    "shop": IncomingHook(
        types=("shop:*",), scheme="hmac", secret_env="S", signature_header="X-Shop-Hmac", type="shop:order"
    ),
    "linear": IncomingHook(
        types=("issue",), scheme="hmac", secret_env="S", signature_header="linear-signature", type_header="Linear-Event"
    ),
}

Post = Callable[[str, bytes, dict[str, str]], Awaitable[httpx2.Response]]
Kept = Callable[[], Awaitable[list[dict[str, Any]]]]


@asynccontextmanager
async def taking(tmp_path: Path) -> AsyncIterator[tuple[Post, Kept]]:
    hooks = incoming_webhooks(HOOKS, {"S": SECRET, "NEW": OTHER})
    async with (
        open_office(tmp_path, incoming=hooks, settings=ServerSettings(failures_per_minute=100_000)) as office,
        httpx2.AsyncClient(transport=httpx2.ASGITransport(office.guard), base_url=ADDRESS) as sender,
    ):

        async def post(hook: str, body: bytes, headers: dict[str, str]) -> httpx2.Response:
            given = {"content-type": "application/json", **headers}
            return await sender.post(f"/v1/webhooks/{hook}", content=body, headers=given)

        async def kept() -> list[dict[str, Any]]:
            return list((await office.get("/v1/engine/signals/events")).json()["events"])

        yield post, kept


# Signed when they are sent: a signature of Stripe is good for five minutes, and a whole suite may take longer.
@pytest.mark.parametrize(
    ("hook", "body", "signed", "kind"),
    [
        ("github", PUSH, lambda: github(PUSH), "github:push"),
        ("gitlab", PUSH, lambda: gitlab(), "gitlab:push_hook"),
        ("stripe", PAID, lambda: stripe(PAID), "stripe:invoice.paid"),
        ("stripe", PAID, lambda: stripe(PAID, secret=OTHER), "stripe:invoice.paid"),
        ("shop", PUSH, lambda: {"x-shop-hmac": base64.b64encode(bytes.fromhex(digest(PUSH))).decode()}, "shop:order"),
        ("shop", PUSH, lambda: {"x-shop-hmac": digest(PUSH).upper()}, "shop:order"),
        ("linear", PUSH, lambda: {"linear-signature": f"sha256={digest(PUSH)}", "linear-event": "Issue"}, "issue"),
    ],
)
async def test_what_a_service_signs_becomes_a_broadcast_and_a_redelivery_is_200(
    tmp_path: Path, hook: str, body: bytes, signed: Callable[[], dict[str, str]], kind: str
) -> None:
    async with taking(tmp_path) as (post, kept):
        headers = signed()
        first = await post(hook, body, headers)
        assert first.status_code == 201, first.text
        again = await post(hook, body, headers)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
        (broadcast,) = await kept()
        assert (broadcast["type"], broadcast["source"]["id"]) == (kind, hook)
        assert broadcast["data"] == json.loads(body)


@pytest.mark.parametrize(
    ("hook", "body", "signed"),
    [
        ("github", PUSH, dict),
        ("github", PUSH, lambda: github(PUSH, secret=OTHER)),
        ("github", PUSH + b" ", lambda: github(PUSH)),
        ("github", PUSH, lambda: {**github(PUSH), "x-hub-signature-256": "sha256="}),
        ("github", PUSH, lambda: {"x-github-event": "push", "x-hub-signature": "sha1=00"}),
        ("gitlab", PUSH, lambda: gitlab(secret=SECRET + "x")),
        ("gitlab", PUSH, dict),
        ("stripe", PAID, lambda: stripe(PAID, at=time.time() - 3600)),
        ("stripe", PAID, lambda: stripe(PAID, at=time.time() + 3600)),
        ("stripe", PAID, lambda: {"stripe-signature": "t=1"}),
        ("stripe", PAID, lambda: {"stripe-signature": f"t=x,v1={digest(PAID)}"}),
        ("stripe", PAID, lambda: {"stripe-signature": f"t={int(time.time())},t=1,v1={digest(PAID)}"}),
        ("shop", PUSH, lambda: {"x-shop-hmac": "no base64!"}),
        ("shop", PUSH, dict),
    ],
)
async def test_what_is_not_signed_is_refused(
    tmp_path: Path, hook: str, body: bytes, signed: Callable[[], dict[str, str]]
) -> None:
    async with taking(tmp_path) as (post, kept):
        assert code_of(await post(hook, body, signed())) == (401, "wrong-key")
        assert await kept() == []


async def test_a_signed_body_cannot_be_sent_again_as_something_else(tmp_path: Path) -> None:
    """GitHub's headers are not signed: whoever got hold of a delivery could change them."""

    async with taking(tmp_path) as (post, kept):
        assert (await post("github", PUSH, github(PUSH))).status_code == 201
        changed = github(PUSH, event="release", delivery="d-2")
        assert (await post("github", PUSH, changed)).status_code == 200
        assert [each["type"] for each in await kept()] == ["github:push"]


async def test_a_type_that_is_not_allowed_or_not_said_is_refused(tmp_path: Path) -> None:
    async with taking(tmp_path) as (post, kept):
        signed = {"linear-signature": digest(PUSH)}
        assert code_of(await post("linear", PUSH, {**signed, "linear-event": "Comment"})) == (
            403,
            "webhook-type-not-allowed",
        )
        untyped = await post("linear", PUSH, signed)
        assert code_of(untyped) == (422, "bad-body")
        assert "linear-event" in untyped.json()["detail"]
        assert await kept() == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('scheme = "githup"', "it must be one of"),
        ('scheme = "hmac"', "signature_header goes with"),
        ('signature_header = "x-s"', "signature_header goes with"),
        ('scheme = "hmac"\nsignature_header = "x s"', "is not the name of a header"),
        ('type_header = "x-type"', "type_header goes with"),
        ('type = "a b\\u0000"', ".type: "),
        ('scheme = "hmac"\nsignature_header = "s"\ntype = "a"\ntype_header = "b"', "not both"),
    ],
)
def test_a_wrong_section_is_refused_with_its_reason(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text(f'[webhooks.x]\nsecret_env = "S"\ntypes = ["*"]\n{lines}\n', "utf-8")
    with pytest.raises(UsageError) as refused:
        read_settings(file)
    assert said in str(refused.value)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(UsageError, match="16 characters or more"):
        incoming_webhooks({"github": HOOKS["github"]}, {"S": "short"})
