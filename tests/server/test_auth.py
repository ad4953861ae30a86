"""Who may ask: keys, scopes, codes and sessions, names and origins."""

import hashlib
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.server.auth import OWNER, Authenticator
from interlock.server.http.guard import CONTENT_POLICY
from interlock.testing import ManualClock
from tests.server.office import ADDRESS, KEY, PAGE, Office, code_of, open_office

OTHER = "ilk_" + "o" * 43


def further_key(*scopes: str) -> ServerSettings:
    return ServerSettings(keys={"ci": ServerKey(sha256=hashlib.sha256(OTHER.encode()).hexdigest(), scopes=scopes)})


async def status_with(office: Office, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Asks without the key that the office has."""
    async with stranger(office) as asking:
        answer = await asking.request(method, path, headers=headers)
    return (answer.status_code, "") if answer.status_code < 400 else code_of(answer)


def stranger(office: Office) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(office.guard), base_url=ADDRESS)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic dTpw"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer  "},
        {"cookie": "a=b"},
    ],
)
async def test_without_a_key_nothing_is_told(tmp_path: Path, headers: dict[str, str]) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/v1/runs", "/v1/crews", "/metrics", "/v1/engine/events", "/v1/session", "/nowhere"):
            assert await status_with(office, path, **headers) == (401, "no-key")
        async with stranger(office) as asking:
            answer = await asking.get("/v1/runs", headers=headers)
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("key", [KEY[:-1], KEY + "k", KEY.upper(), "k", "ké", OTHER])
async def test_a_wrong_key_is_refused(tmp_path: Path, key: str) -> None:
    async with open_office(tmp_path) as office:
        async with stranger(office) as asking:
            answer = await asking.get("/v1/runs", headers={b"authorization": f"Bearer {key}".encode()})
        assert code_of(answer) == (401, "wrong-key")


async def test_what_holds_nothing_is_there_for_everybody(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert await status_with(office, path) == (200, "")


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (("read",), {"read"}),
        (("run",), {"run"}),
        (("answer",), {"answer"}),
        (("read", "answer"), {"read", "answer"}),
        (("admin",), {"read", "run", "answer"}),
    ],
)
async def test_a_key_allows_what_its_scopes_say(tmp_path: Path, scopes: tuple[str, ...], allowed: set[str]) -> None:
    async with open_office(tmp_path, settings=further_key(*scopes)) as office:
        asks = {
            "read": ("GET", "/v1/runs"),
            "run": ("POST", "/v1/runs/x/cancel"),
            "answer": ("POST", "/v1/questions/x:1/answer"),
        }
        for scope, (method, path) in asks.items():
            async with stranger(office) as asking:
                answer = await asking.request(method, path, headers=bearer(OTHER), **body_of(scope))
            refused = answer.status_code == 403 and code_of(answer) == (403, "missing-scope")
            assert refused is (scope not in allowed), (scope, answer.text)


def body_of(scope: str) -> dict[str, Any]:
    return {"json": {"answer": "x"}} if scope == "answer" else {}


async def test_the_code_of_the_printed_address_works_once_and_opens_a_session(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        access = office.service.access
        assert access is not None
        code = access.issue_code()
        async with stranger(office) as page:
            opened = await page.post("/v1/session", json={"code": code}, headers=PAGE)
            assert opened.status_code == 200
            cookie = opened.headers["set-cookie"]
            assert cookie.startswith(f"{access.cookie}=")
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            again = await page.post("/v1/session", json={"code": code}, headers=PAGE)
            assert code_of(again) == (401, "wrong-key")
            assert (await page.get("/v1/runs", headers=PAGE)).status_code == 200
            who = (await page.get("/v1/session", headers={"sec-fetch-site": "same-origin"})).json()
            assert who == {"id": "owner", "scopes": ["admin", "answer", "approve", "metrics", "read", "run"]}
            closed = await page.delete("/v1/session", headers=PAGE)
            assert closed.status_code == 204
            assert code_of(await page.get("/v1/runs", headers=PAGE)) == (401, "no-key")


async def test_the_key_opens_a_session_too(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office, stranger(office) as page:
        assert (await page.post("/v1/session", json={"key": KEY})).json()["id"] == "owner"
        assert code_of(await page.post("/v1/session", json={"key": OTHER})) == (401, "wrong-key")
        assert code_of(await page.post("/v1/session", json={})) == (422, "bad-body")
        assert code_of(await page.post("/v1/session", json={"key": KEY, "code": "x"})) == (422, "bad-body")


@pytest.mark.parametrize(
    ("scopes", "told"),
    [
        (("read",), ["read"]),
        (("run",), ["run"]),
        (("answer", "read"), ["answer", "read"]),
        (("admin",), ["admin", "answer", "approve", "metrics", "read", "run"]),
    ],
)
async def test_a_session_of_a_further_key_may_what_the_key_may_and_is_told_so(
    tmp_path: Path, scopes: tuple[str, ...], told: list[str]
) -> None:
    async with open_office(tmp_path, settings=further_key(*scopes)) as office, stranger(office) as page:
        opened = await page.post("/v1/session", json={"key": OTHER}, headers=PAGE)
        assert opened.json() == {"id": "key:ci", "scopes": told}
        assert (await page.get("/v1/session", headers=PAGE)).json() == opened.json()
        listed = await page.get("/v1/runs", headers=PAGE)
        assert (listed.status_code == 200) is ("read" in told)
        cancelled = await page.post("/v1/runs/x/cancel", headers=PAGE)
        assert code_of(cancelled) == ((404, "run-not-found") if "run" in told else (403, "missing-scope"))
        assert (await page.delete("/v1/session", headers=PAGE)).status_code == 204


def test_a_session_ends_with_the_key_that_opened_it_and_takes_no_other_name() -> None:
    clock = ManualClock()
    keys = further_key("read").keys
    access = Authenticator(KEY, keys, clock, 1, port=8321)
    reader = access.caller_of_key(OTHER)
    assert reader is not None
    session = access.new_session_cookie(reader)
    assert access.caller_of_session(session) == msgspec.structs.replace(reader, has_session=True)
    assert Authenticator(KEY, {}, clock, 1, port=8321).caller_of_session(session) is None
    replaced = {"ci": ServerKey(sha256="0" * 64, scopes=("read",))}
    assert Authenticator(KEY, replaced, clock, 1, port=8321).caller_of_session(session) is None
    narrowed = {"ci": ServerKey(sha256=keys["ci"].sha256, scopes=("answer",))}
    after = Authenticator(KEY, narrowed, clock, 1, port=8321).caller_of_session(session)
    assert after is not None
    assert after.all_scopes == ["answer"]
    assert access.caller_of_session(session.replace(".key:ci.", ".owner.")) is None


@pytest.mark.parametrize(
    ("headers", "counts"),
    [
        ({"origin": ADDRESS}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"referer": f"{ADDRESS}/runs"}, True),
        ({}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"referer": "http://127.0.0.1:9999/"}, False),
        ({"referer": "http://[bad"}, False),
    ],
)
async def test_a_session_counts_only_from_our_own_page(tmp_path: Path, headers: dict[str, str], counts: bool) -> None:
    async with open_office(tmp_path) as office:
        access = office.service.access
        assert access is not None
        cookie = f"{access.cookie}={access.new_session_cookie(OWNER)}"
        found = await status_with(office, "/v1/runs", cookie=cookie, **headers)
        assert found == ((200, "") if counts else (401, "no-key"))


async def test_a_session_that_was_closed_is_over_for_every_copy_of_its_cookie_also_after_a_restart(
    tmp_path: Path,
) -> None:
    cookies: list[str] = []

    async def over(office: Office) -> None:
        assert await status_with(office, "/v1/runs", cookie=cookies[0], **PAGE) == (401, "wrong-key")
        assert (await status_with(office, "/v1/runs", cookie=cookies[1], **PAGE))[0] == 200

    async with open_office(tmp_path) as office:
        async with stranger(office) as page:
            for _ in range(2):
                opened = await page.post("/v1/session", json={"key": KEY}, headers=PAGE)
                cookies.append(opened.headers["set-cookie"].partition(";")[0])
                page.cookies.clear()
        for cookie in cookies:
            assert (await status_with(office, "/v1/runs", cookie=cookie, **PAGE))[0] == 200
        async with stranger(office) as page:
            assert (await page.delete("/v1/session", headers={**PAGE, "cookie": cookies[0]})).status_code == 204
        await over(office)
    async with open_office(tmp_path) as office:
        await over(office)


async def test_a_session_that_was_closed_is_kept_for_as_long_as_it_would_have_been_open(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        store = office.box.store
        await store.close_session("a", 100, 10)
        await store.close_session("b", 200, 10)
        assert await store.list_closed_sessions(99) == ["a", "b"]
        assert await store.list_closed_sessions(100) == ["b"]
        await store.close_session("c", 300, 150)
        assert await store.list_closed_sessions(0) == ["b", "c"]


def test_two_servers_of_one_machine_have_cookies_of_their_own() -> None:
    """A browser gives a cookie to every port."""
    clock = ManualClock()
    assert Authenticator(KEY, {}, clock, 1, port=1).cookie != Authenticator(KEY, {}, clock, 1, port=2).cookie


def test_a_session_that_is_forged_old_or_of_another_key_is_none() -> None:
    clock = ManualClock()
    access, other = Authenticator(KEY, {}, clock, 1, port=8321), Authenticator(OTHER, {}, clock, 1, port=8321)
    session = access.new_session_cookie(OWNER)
    assert access.caller_of_session(session) is not None
    assert other.caller_of_session(session) is None
    until, nonce, who, seal = session.split(".")
    assert until.startswith("ils_")
    longer, shorter = f"ils_{int(until[4:]) + 1}.{nonce}.{who}.{seal}", f"{until}.{nonce}.{who}.{seal[:-1]}"
    for forged in ("", ".", "..", "x.y.z", "x.y.owner.z", longer, shorter, "é.é.é"):
        assert access.caller_of_session(forged) is None
    clock.jump(3_600_001)
    assert access.caller_of_session(session) is None


def test_a_code_that_nobody_used_in_time_is_none() -> None:
    clock = ManualClock()
    access = Authenticator(KEY, {}, clock, 1, port=8321)
    assert access.redeem_code("") is None
    code = access.issue_code()
    assert access.redeem_code(code[:-1]) is None
    clock.advance(15 * 60 * 1000 + 1)
    assert access.redeem_code(code) is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[::1].evil:80", "0"])
async def test_a_name_that_is_not_ours_is_refused_whatever_the_key(tmp_path: Path, host: str) -> None:
    async with open_office(tmp_path) as office:
        answer = await office.get("/v1/runs", headers={"host": host})
        assert code_of(answer) == (403, "host-not-allowed")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8321", "[::1]:8321", "crew.example", "x.example"]
)
async def test_names_that_are_ours_are_answered(tmp_path: Path, host: str) -> None:
    settings = ServerSettings(hosts=("crew.example",), origins=("https://x.example",))
    async with open_office(tmp_path, settings=settings) as office:
        assert (await office.get("/v1/runs", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8321", "http://127.0.0.1"]
)
async def test_another_origin_is_refused_whatever_the_key_on_every_route(tmp_path: Path, origin: str) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/v1/runs", "/v1/engine/events", "/healthz", "/"):
            assert code_of(await office.get(path, headers={"origin": origin})) == (403, "origin-not-allowed")
        answer = await office.post("/v1/session", json={"key": KEY}, headers={"origin": origin})
        assert code_of(answer) == (403, "origin-not-allowed")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
async def test_what_a_form_could_send_is_refused(tmp_path: Path, kind: str) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/v1/runs", "/v1/runs/x/cancel", "/v1/session"):
            answer = await office.post(path, content=b"{}", headers={"content-type": kind})
            assert code_of(answer) == (415, "not-json")
        assert code_of(await office.post("/v1/runs", content=b"{}")) == (415, "not-json")
        encoded = {"content-type": "application/json", "content-encoding": "gzip"}
        assert code_of(await office.post("/v1/runs", content=b"{}", headers=encoded)) == (415, "not-json")


async def test_every_answer_carries_the_security_headers(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        for path in ("/", "/v1/runs", "/v1/runs/none", "/nowhere", "/static/none.js", "/openapi.json"):
            headers = (await office.get(path)).headers
            assert headers["content-security-policy"] == CONTENT_POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"]
        assert "unsafe" not in CONTENT_POLICY
        assert CONTENT_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")


async def test_without_keys_everybody_may_everything_but_not_from_other_pages(tmp_path: Path) -> None:
    async with open_office(tmp_path, with_keys=False) as office:
        assert (await office.get("/v1/runs")).status_code == 200
        assert (await office.post("/v1/session", json={"code": "any"})).json()["id"] == "anyone"
        answer = await office.get("/v1/runs", headers={"origin": "http://evil.example"})
        assert code_of(answer) == (403, "origin-not-allowed")
        assert code_of(await office.get("/v1/runs", headers={"host": "evil"})) == (403, "host-not-allowed")


async def test_too_many_requests_with_one_key_are_refused_and_another_key_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = ServerSettings(requests_per_second=2, keys=further_key("read").keys)
    async with open_office(tmp_path, settings=settings, clock=clock) as office:
        answers = [await office.get("/v1/crews") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429]
        assert code_of(answers[-1]) == (429, "too-many-requests")
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert await status_with(office, "/v1/runs", **bearer(OTHER)) == (200, "")
        clock.advance(1000)
        assert (await office.get("/v1/crews")).status_code == 200


async def test_whoever_guesses_keys_is_held_up_and_the_right_key_still_works(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(failures_per_minute=3), clock=ManualClock()) as office:
        found = [await status_with(office, "/v1/runs", **bearer("guess")) for _ in range(4)]
        assert found == [(401, "wrong-key")] * 3 + [(429, "too-many-failures")]
        assert (await office.get("/v1/runs")).status_code == 200
        async with stranger(office) as page:
            assert code_of(await page.post("/v1/session", json={"code": "guess"})) == (429, "too-many-failures")


def test_every_known_hash_is_compared_for_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes says nothing about which one was near."""
    compared: list[int] = []

    def noting(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return one == other

    access = Authenticator(KEY, further_key("read").keys, ManualClock(), 1, port=8321)
    monkeypatch.setattr("interlock.server.auth.hmac.compare_digest", noting)
    found = [access.caller_of_key(key) for key in (KEY, OTHER, "x")]
    assert [caller and caller.id for caller in found] == ["owner", "key:ci", None]
    assert compared == [64] * 6
