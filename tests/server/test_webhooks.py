"""Webhooks out: what is told, how it is signed, tried again and given up; a real receiver on the loopback."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from interlock import UsageError
from interlock.adapters.config.host_file import read_settings
from interlock.adapters.config.server_settings import ServerKey, ServerSettings
from interlock.adapters.config.webhook_settings import OutgoingHook, secret_of
from interlock.adapters.webhooks.sender import WebhookNotSent, WebhookSender
from interlock.ports import WebhookDelivery
from interlock.server.webhooks import RETRY_DELAYS_MS, WebhookPublisher
from interlock.testing import ManualClock
from tests.loopback import listening
from tests.server.office import ALONE, Office, open_office
from tests.server.process import serving

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
WEAK = "ilk_" + "w" * 43
FURTHER = {"weak": ServerKey(sha256=hashlib.sha256(WEAK.encode()).hexdigest(), scopes=("read", "run", "answer"))}
LETTER = WebhookDelivery(hook="ops", key="run:3", body=b'{"type":"run.finished"}')


class Receiver:
    """Takes what is sent to it, and answers as it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[str] = []
        self.address = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        answer = self.answers.pop(0) if self.answers else "200 OK\r\n"
        writer.write(f"HTTP/1.1 {answer}content-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with listening(receiver.take) as port:
        receiver.address = f"http://127.0.0.1:{port}/hook?x=1"
        yield receiver


def hook_to(address: str, *on: str, **more: Any) -> OutgoingHook:
    chosen: dict[str, Any] = {"on": on} if on else {}
    return OutgoingHook(url=address, secret_env="S", allow_private=True, allow_http=True, **chosen, **more)


@asynccontextmanager
async def telling_of(folder: Path, *on: str) -> AsyncIterator[tuple[Office, Receiver, WebhookPublisher]]:
    clock, settings = ManualClock(), ServerSettings(keys=FURTHER)
    async with receiving() as receiver, open_office(folder, clock=clock, settings=settings) as office:
        hook = hook_to(receiver.address, *on)
        box = office.box
        telling = WebhookPublisher(
            box.store, box.signals.bus, box.clock, {"ops": hook}, {"ops": WebhookSender(hook, SECRET, box.clock)}
        )
        await telling.initialize_positions()
        yield office, receiver, telling


async def test_endings_and_questions_are_told_signed_and_once(tmp_path: Path) -> None:
    async with telling_of(tmp_path) as (office, receiver, telling):
        run = await office.finished("Which colour? [WAIT]")
        await telling.fill_and_send_outbox(ALONE)
        await office.post(f"/v1/runs/{run['id']}/resume", json={"input": "blue"})
        await office.box.runner.wait_until_settled(run["id"])
        await telling.fill_and_send_outbox(ALONE)
        await telling.fill_and_send_outbox(ALONE)
        bodies = [json.loads(body) for _, body in receiver.requests]
        assert [body["type"] for body in bodies] == ["question", "run.finished"]
        assert bodies[0]["data"]["question"] == "Which colour?"
        assert (bodies[1]["data"]["run"], bodies[1]["data"]["status"]) == (run["id"], "completed")
        assert bodies[1]["timestamp"].endswith("+00:00")


async def test_a_receiver_can_verify_what_it_gets_and_nothing_else() -> None:
    from interlock.adapters.clock import SystemClock

    async with receiving() as receiver:
        await WebhookSender(hook_to(receiver.address), SECRET, SystemClock()).send(LETTER)
    ((headers, body),) = receiver.requests
    assert headers["webhook-id"] == LETTER.key
    assert headers["host"] == receiver.address.removeprefix("http://").partition("/")[0]
    assert Webhook(SECRET).verify(body, headers) == {"type": "run.finished"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(b"t" * 32).decode()).verify(body, headers)


async def test_only_what_was_chosen_is_told_and_nothing_of_the_past(tmp_path: Path) -> None:
    async with telling_of(tmp_path, "question") as (office, receiver, telling):
        await office.finished("Which colour? [WAIT]")
        await office.finished()
        await telling.fill_and_send_outbox(ALONE)
        assert [json.loads(body)["type"] for _, body in receiver.requests] == ["question"]
        fresh = WebhookPublisher(
            office.box.store, office.box.signals.bus, office.box.clock, {"new": hook_to(receiver.address)}, {}
        )
        await fresh.initialize_positions()
        await fresh.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 1


async def test_a_receiver_that_fails_is_told_again_later_with_the_same_id_and_given_up_in_the_end(
    tmp_path: Path,
) -> None:
    async with telling_of(tmp_path, "run.finished") as (office, receiver, telling):
        clock = office.box.clock
        assert isinstance(clock, ManualClock)
        receiver.answers = ["500 No\r\n"] * 7
        await office.finished()
        for pause_ms in RETRY_DELAYS_MS:
            await telling.fill_and_send_outbox(ALONE)
            clock.advance(pause_ms - 1)
            await telling.fill_and_send_outbox(ALONE)
            tried = len(receiver.requests)
            clock.advance(1)
            assert tried == RETRY_DELAYS_MS.index(pause_ms) + 1
        await telling.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 7
        assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
        clock.advance(10**9)
        await telling.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 7
        (dead,) = await office.box.store.dead_letters(10)
        assert (dead.hook, dead.attempts, dead.error) == ("ops", 7, "the receiver answered 500")
        shown = (await office.get("/v1/engine/webhooks/dead")).json()["letters"]
        assert [(each["hook"], each["attempts"]) for each in shown] == [("ops", 7)]
        again = await office.post(f"/v1/engine/webhooks/dead/{shown[0]['number']}/retry")
        assert again.status_code == 200
        await telling.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 8
        assert (await office.get("/v1/engine/webhooks/dead")).json() == {"letters": [], "next": None}
        gone = await office.post(f"/v1/engine/webhooks/dead/{shown[0]['number']}/retry")
        assert (gone.status_code, gone.json()["code"]) == (404, "letter-not-found")


async def test_dead_letters_are_paged_shown_and_thrown_away(tmp_path: Path) -> None:
    async with telling_of(tmp_path, "run.finished") as (office, receiver, telling):
        receiver.answers = ["410 Gone\r\n"] * 5
        runs = [await office.finished() for _ in range(5)]
        await telling.fill_and_send_outbox(ALONE)
        pages = await pages_of(office, "/v1/engine/webhooks/dead", 2)
        assert [len(page) for page in pages] == [2, 2, 1]
        letters = [letter for page in pages for letter in page]
        assert [letter["body"]["data"]["run"] for letter in letters] == [run["id"] for run in reversed(runs)]
        first = letters[0]
        place = f"/v1/engine/webhooks/dead/{first['number']}"
        assert first["died_at"] == office.box.clock.now_ms()
        assert (await office.get(place)).json() == first
        assert (await office.delete(place)).status_code == 204
        for gone in (await office.get(place), await office.delete(place), await office.post(f"{place}/retry")):
            assert (gone.status_code, gone.json()["code"]) == (404, "letter-not-found")
        assert (await office.get("/v1/engine/webhooks/dead")).json()["letters"] == letters[1:]
        await telling.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 5


async def pages_of(office: Office, path: str, limit: int) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    cursor = None
    while not found or cursor is not None:
        page = (await office.get(path, params={"limit": limit, **({"cursor": cursor} if cursor else {})})).json()
        found.append(page["letters"])
        cursor = page["next"]
    return found


@pytest.mark.parametrize("cursor", ["x", "", "MQ==", "LTE", "MA", "eA", "MSAx", "77yR", "OTk5OTk5OTk5OTk5OTk5OTk5OQ"])
async def test_a_cursor_of_dead_letters_that_was_never_given_out_is_refused(tmp_path: Path, cursor: str) -> None:
    async with telling_of(tmp_path) as (office, _, _):
        answer = await office.get("/v1/engine/webhooks/dead", params={"cursor": cursor})
        expected = (200, None) if cursor == "MQ==" else (404, "cursor-not-found")
        assert (answer.status_code, answer.json().get("code")) == expected


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_dead_letters_are_for_those_who_may_everything(tmp_path: Path, method: str) -> None:
    async with telling_of(tmp_path) as (office, _, _):
        path = "/v1/engine/webhooks/dead/1" + ("/retry" if method == "POST" else "")
        weak = {"authorization": f"Bearer {WEAK}"}
        refused = await office.request(method, path, headers=weak)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing-scope")
        assert (await office.request(method, path)).json()["code"] == "letter-not-found"


async def test_of_dead_letters_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.sqlite.tables.server_tables.DEAD_LETTERS_MAX", 2)
    async with telling_of(tmp_path, "run.finished") as (office, receiver, telling):
        receiver.answers = ["410 Gone\r\n"] * 4
        runs = [await office.finished() for _ in range(4)]
        await telling.fill_and_send_outbox(ALONE)
        kept = await office.box.store.dead_letters(10)
        assert [letter.key.partition(":")[0] for letter in kept] == [run["id"] for run in runs[:1:-1]]


async def test_broadcasts_are_told_if_their_type_was_chosen(tmp_path: Path) -> None:
    async with telling_of(tmp_path, "broadcast:build:*:done") as (office, receiver, telling):
        for kind in ("build:x:done", "build:x:failed", "other:x:done"):
            assert (await office.post("/v1/engine/signals", json={"type": kind, "data": 7})).status_code == 201
        await telling.fill_and_send_outbox(ALONE)
        await telling.fill_and_send_outbox(ALONE)
        bodies = [json.loads(body) for _, body in receiver.requests]
        assert [(body["type"], body["data"]["type"]) for body in bodies] == [("broadcast", "build:x:done")]
        assert bodies[0]["data"]["data"] == 7


async def test_a_receiver_that_wants_no_more_is_not_told_again(tmp_path: Path) -> None:
    async with telling_of(tmp_path) as (office, receiver, telling):
        receiver.answers = ["410 Gone\r\n"]
        await office.finished()
        await telling.fill_and_send_outbox(ALONE)
        assert len(await office.box.store.dead_letters(10)) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("302 Found\r\nlocation: http://169.254.169.254/\r\n", "answered 302"),
        ("404 Not Found\r\n", "answered 404"),
        ("nonsense\r\n", "ProtocolError"),
    ],
)
async def test_what_is_no_success_is_none_and_redirects_are_not_followed(answer: str, why: str) -> None:
    async with receiving() as receiver:
        receiver.answers = [answer]
        with pytest.raises(WebhookNotSent, match=why):
            await WebhookSender(hook_to(receiver.address), SECRET, ManualClock()).send(LETTER)
    assert len(receiver.requests) == 1


async def test_nothing_is_sent_to_this_machine_unless_it_is_allowed_nor_by_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as receiver:
        monkeypatch.setenv("HTTP_PROXY", receiver.address)
        monkeypatch.setenv("ALL_PROXY", receiver.address)
        closed = OutgoingHook(url=receiver.address, secret_env="S", allow_http=True)
        with pytest.raises(WebhookNotSent, match="not public"):
            await WebhookSender(closed, SECRET, ManualClock()).send(LETTER)
        nowhere = hook_to("http://127.0.0.1:1/", timeout_seconds=5)
        with pytest.raises(WebhookNotSent, match="ConnectError"):
            await WebhookSender(nowhere, SECRET, ManualClock()).send(LETTER)
        assert receiver.requests == []


async def test_a_receiver_that_does_not_answer_is_not_waited_for() -> None:
    left = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()

    async with listening(say_nothing) as port:
        address = f"http://127.0.0.1:{port}/"
        with pytest.raises(WebhookNotSent, match=r"no answer within 0\.05 s"):
            await WebhookSender(hook_to(address, timeout_seconds=0.05), SECRET, ManualClock()).send(LETTER)
        await left.wait()


async def test_a_receiver_that_does_not_answer_holds_up_no_other(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    clock = ManualClock()
    async with (
        listening(say_nothing) as port,
        receiving() as receiver,
        open_office(tmp_path, clock=clock) as asking,
        asyncio.timeout(60),
    ):
        hooks = {
            "a": hook_to(f"http://127.0.0.1:{port}/", "run.finished", timeout_seconds=600),
            "b": hook_to(receiver.address, "run.finished"),
        }
        senders = {name: WebhookSender(hook, SECRET, clock) for name, hook in hooks.items()}
        telling = WebhookPublisher(asking.box.store, asking.box.signals.bus, clock, hooks, senders)
        await telling.initialize_positions()
        asking.box.watch(telling.on_record_stored)
        running = asyncio.create_task(telling.run(ALONE))
        for count in (1, 2, 3):
            await asking.finished()
            while len(receiver.requests) < count:
                await asyncio.sleep(0)
        assert not running.done(), "the other one is still waited for"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(receiver.requests) == 3


class Faulty:
    """A sender with a fault of ours."""

    async def send(self, letter: WebhookDelivery) -> None:
        raise ZeroDivisionError(letter.key)


async def test_a_fault_of_ours_puts_off_one_letter_and_silences_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with telling_of(tmp_path, "run.finished") as (office, receiver, telling):
        sound = telling._senders
        telling._senders = {"ops": Faulty()}  # type: ignore[dict-item]
        await office.finished()
        await telling.fill_and_send_outbox(ALONE)
        assert "ZeroDivisionError" in caplog.text
        clock = office.box.clock
        assert isinstance(clock, ManualClock)
        clock.advance(RETRY_DELAYS_MS[0])
        telling._senders = sound
        await office.finished()
        await telling.fill_and_send_outbox(ALONE)
        assert len(receiver.requests) == 2


async def test_letters_of_a_webhook_that_is_set_up_no_more_are_dead(tmp_path: Path) -> None:
    async with telling_of(tmp_path, "run.finished") as (office, receiver, telling):
        receiver.answers = ["500 No\r\n"]
        await office.finished()
        await telling.fill_and_send_outbox(ALONE)
        clock = office.box.clock
        assert isinstance(clock, ManualClock)
        clock.advance(RETRY_DELAYS_MS[0])
        await WebhookPublisher(office.box.store, office.box.signals.bus, clock, {}, {}).fill_and_send_outbox(ALONE)
        (dead,) = await office.box.store.dead_letters(10)
        assert (dead.hook, dead.error) == ("ops", "webhook 'ops' no longer exists")


async def test_what_was_not_told_before_the_server_died_is_told_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    async with receiving() as receiver:
        toml = (
            f'[webhooks.ops]\nurl = "{receiver.address}"\nsecret_env = "HOOK_SECRET"\n'
            'allow_private = true\nallow_http = true\non = ["run.finished"]\n'
        )
        dead = toml.replace(receiver.address, "http://127.0.0.1:1/")
        await asyncio.to_thread(_run_once, tmp_path, dead)
        assert receiver.requests == []
        with serving(tmp_path, toml=toml) as server, server.asking() as client:
            await asyncio.to_thread(client.post, "/v1/runs", json={"crew": "office"})
            while not receiver.requests:
                await asyncio.sleep(0)
            log = server.log
        assert SECRET not in log
        assert SECRET.removeprefix("whsec_") not in log


def _run_once(folder: Path, toml: str) -> None:
    with serving(folder, toml=toml) as server, server.asking() as client:
        client.post("/v1/runs", json={"crew": "office"})
        while "did not accept" not in server.log:
            client.get("/healthz")
        server.process.kill()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('url = "https://a.example/"', "secret_env"),
        ('url = "http://a.example/"\nsecret_env = "S"', "unencrypted"),
        ('url = "ftp://a.example/"\nsecret_env = "S"', "is not an address"),
        ('url = "https:///x"\nsecret_env = "S"', "is not an address"),
        ('url = "https://a:b@c.example/"\nsecret_env = "S"', "contains no secrets"),
        ('url = "https://@c.example/"\nsecret_env = "S"', "contains no secrets"),
        ('url = "https://a.example:x/"\nsecret_env = "S"', "is not an address"),
        ('url = "https://a..b/"\nsecret_env = "S"', "is not an address"),
        ('url = "https://."\nsecret_env = "S"', "is not an address"),
        (f'url = "https://{"a" * 64}.example/"\nsecret_env = "S"', "is not an address"),
        ('url = "https://müller.example/"\nsecret_env = "S"', "xn--"),
        ('url = "https://a.example/a b"\nsecret_env = "S"', "ASCII characters"),
        ('url = "https://a.example/\\u007f"\nsecret_env = "S"', "ASCII characters"),
        (f'url = "https://a.example/{"a" * 2000}"\nsecret_env = "S"', "at most 2,000"),
        ('url = "https://a.example/"\nsecret = "S"', "contains no secrets"),
        ('url = "https://a.example/"\nsecret_env = "S"\non = ["everything"]', "there is no 'everything'"),
        ('url = "https://a.example/"\nsecret_env = "S"\non = ["broadcast:"]', "pattern"),
        ('types = ["a"]', "secret_env"),
        ('types = ["a"]\nsecret_env = "S"\ntoken_env = "T"', "secret_env"),
        ('types = ["a"]\ntoken_env = "T"\nold_secret_env = "S"', "old_secret_env goes with"),
        ('types = []\nsecret_env = "S"', "types is empty"),
        ('types = [""]\nsecret_env = "S"', "types"),
        ('secret_env = "S"', "types"),
        ('url = "https://a.example/"\nsecret_env = "S"\ntimeout_seconds = 0', "above 0"),
        ('url = "https://a.example/"\nsecret_env = "S"\nretries = 3', "retries"),
    ],
)
def test_a_section_that_is_wrong_says_what(tmp_path: Path, entry: str, why: str) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text(f"[webhooks.ops]\n{entry}\n", "utf-8")
    with pytest.raises(UsageError, match=why):
        read_settings(file)


@pytest.mark.parametrize("value", ["", "  ", "short", "whsec_", "whsec_c2hvcnQ=", "!!!"])
def test_a_secret_that_is_blank_or_none_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="variable S"):
        secret_of("ops", "S", {"S": value} if value else {})
    assert secret_of("ops", "S", {"S": f" {SECRET}\n"}) == SECRET
