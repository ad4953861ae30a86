"""Small parts of the server, each by itself."""

import asyncio
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from interlock import Interlock, UsageError, load_crew
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.files.served_folder import SERVER_KEY, ensure_server_key, hold_server_lock
from interlock.adapters.log.log_lines import JsonLines
from interlock.errors import FolderServed, RequestRefused, StoreFailed
from interlock.messages.reading import depth_of
from interlock.runtime.drain import drain_runner
from interlock.server.http.bodies import JSON_DEPTH_MAX, require_json
from interlock.server.http.protocol import SEND_BYTES_MIN, ConnectionLimits, LimitedProtocol
from interlock.server.http.rate_limits import BUCKETS_MAX, RateLimiter
from interlock.server.listening import UNACKNOWLEDGED_MS, is_loopback, open_listener, uvicorn_config
from interlock.server.serve import spawn_background_task
from interlock.server.streaming.positions import StreamPosition, event_id, parse_position
from interlock.testing import ManualClock
from tests.server.office import crew_file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def depth(value: Any) -> int:
    inner = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(JSON)
def test_the_depth_of_a_body_is_that_of_its_value(value: Any) -> None:
    assert depth_of(json.dumps(value)) == depth(value)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b"Infinity", b"1e999", b'"\xff"', b'"\\ud800"', b"{'a': 1}", b"[1,]", b"\x00", b'{"a": 1} x'],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        require_json(body)
    assert refused.value.code == "bad-json"


@pytest.mark.parametrize(
    "body", [b"[" * 65 + b"]" * 65, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 65 + b"1" + b"}" * 65]
)
def test_what_nests_without_end_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        require_json(body)
    assert refused.value.code == "too-deep"


def test_as_deep_as_allowed_is_fine_and_brackets_in_texts_are_words() -> None:
    require_json(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    require_json(json.dumps({"a": "[" * 1000 + '"' + "{" * 1000}).encode())


@given(st.integers(1, 10**12), st.integers(1, 20))
def test_an_id_names_what_was_seen_and_nothing_else(position: int, count: int) -> None:
    for n in range(count):
        place = parse_position(event_id(position, n, count))
        assert [k for k in range(count) if not place.has_seen(position, k)] == list(range(n + 1, count))
        assert place.has_seen(position - 1, 0)
        assert not place.has_seen(position + 1, 0)
        assert parse_position(str(place)) == place


def test_a_place_before_everything_has_seen_nothing() -> None:
    assert not StreamPosition(0).has_seen(1, 0)
    assert str(StreamPosition(0)) == "0"


def test_a_bucket_is_filled_at_its_rate_and_never_beyond_its_burst() -> None:
    clock = ManualClock()
    rates = RateLimiter(clock, per_second=2, burst=3)
    assert [rates.take_token_or_wait_ms("a") for _ in range(4)] == [0, 0, 0, 500]
    assert rates.take_token_or_wait_ms("b") == 0
    clock.advance(499)
    assert rates.take_token_or_wait_ms("a") > 0
    clock.advance(1)
    assert rates.take_token_or_wait_ms("a") == 0
    clock.advance(1_000_000)
    assert [rates.take_token_or_wait_ms("a") for _ in range(4)].count(0) == 3


def test_buckets_of_strangers_do_not_grow_without_end() -> None:
    rates = RateLimiter(ManualClock(), per_second=1, burst=1)
    for n in range(BUCKETS_MAX + 100):
        rates.take_token_or_wait_ms(str(n))
    assert len(rates._left) == BUCKETS_MAX


def test_a_log_line_is_one_object_and_holds_no_key() -> None:
    key = "ilk_" + "x" * 43
    try:
        raise ValueError(f"wrong {key}")
    except ValueError:
        info = sys.exc_info()
    message = f'one\ntwo\r\x1b[31m [SIGNAL-EVENT] {key} "}}\u2028'
    record = logging.LogRecord("interlock", logging.ERROR, "f", 1, message, (), info)
    line = JsonLines(KnownSecrets([key])).format(record)
    assert "\n" not in line
    assert line.isascii()
    assert key not in line
    told = json.loads(line)
    assert told["message"].startswith("one\ntwo\r\x1b[31m [SIGNAL-EVENT] [redacted]")
    assert "ValueError: wrong [redacted]" in told["error"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_the_loopback_is_known(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_listener_names_its_protocol_so_that_small_answers_are_sent_at_once() -> None:
    with open_listener("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("host", ["no.such.host.invalid", "8.8.8.8"])
def test_an_address_that_is_not_ours_cannot_be_listened_on(host: str) -> None:
    with pytest.raises(UsageError, match="cannot listen"), open_listener(host, 0):
        pass


def test_a_folder_has_one_server_at_a_time(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        hold_server_lock(data),
        pytest.raises(FolderServed, match="data folder is served by pid "),
        hold_server_lock(data),
    ):
        pass
    with hold_server_lock(tmp_path / "data"):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreFailed, match="could not open the data folder"),
        hold_server_lock(tmp_path / "file" / "data"),
    ):
        pass


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    key = ensure_server_key(tmp_path)
    assert ensure_server_key(tmp_path) == key
    assert (tmp_path / SERVER_KEY).stat().st_mode & 0o777 == 0o600
    assert len(key) == 47
    with pytest.raises(StoreFailed, match="could not write"):
        ensure_server_key(tmp_path / "nowhere")


async def test_draining_waits_for_what_is_under_way_and_lets_nothing_new_begin(tmp_path: Path) -> None:
    """The call in progress comes back and is stored; the one after it is not made."""
    go_on = asyncio.Event()
    asked: list[str] = []

    async def model(request: Any) -> str:
        asked.append(request.agent)
        await go_on.wait()
        return "Over to you. [NEXT]"

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(load_crew(crew_file(tmp_path)), "go")
        while not asked:
            await asyncio.sleep(0)
        draining = asyncio.create_task(drain_runner(box.runner))
        await asyncio.sleep(0)
        assert not draining.done()
        go_on.set()
        await draining
        records = await box.journal.records(run.id)
        types = [event.__struct_config__.tag for record in records for event in record.events]
        assert types.count("model.replied") == 1
        assert types[-1] == "model.called"
        assert asked == ["clerk"]


def test_a_connection_to_a_client_that_is_gone_without_a_word_ends(tmp_path: Path) -> None:
    """What was sent to it must be acknowledged in time; every connection has that from the listener."""
    with open_listener("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        taken, _ = listener.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNACKNOWLEDGED_MS


class Waiting:
    """A transport that has so much left to send each time it is asked, and a loop that waits for nothing."""

    def __init__(self, *left: int) -> None:
        self._left, self.aborted, self.later = list(left), False, list[Any]()

    def get_write_buffer_size(self) -> int:
        return self._left.pop(0)

    def abort(self) -> None:
        self.aborted = True

    def call_later(self, _seconds: float, call: Any, *given: Any) -> "Waiting":
        self.later.append(lambda: call(*given))
        return self

    def cancel(self) -> None:
        self.later.clear()


@pytest.mark.parametrize(
    ("left", "aborted"),
    [
        ((10 * SEND_BYTES_MIN,) * 2, True),
        ((10 * SEND_BYTES_MIN, 9 * SEND_BYTES_MIN + 1), True),
        ((10 * SEND_BYTES_MIN, 9 * SEND_BYTES_MIN, 9 * SEND_BYTES_MIN), False),
    ],
)
def test_who_takes_too_little_of_an_answer_in_time_is_cut_off(left: tuple[int, ...], aborted: bool) -> None:
    config = uvicorn_config(None, ServerSettings())
    config.load()
    waiting: Any = Waiting(*left)
    protocol = LimitedProtocol(config, ServerState(), {}, waiting, bounds=ConnectionLimits(1, 1, 1))
    protocol.transport, protocol.flow = waiting, FlowControl(waiting)
    protocol.pause_writing()
    waiting.later.pop(0)()
    assert (waiting.aborted, len(waiting.later)) == (aborted, 0 if aborted else 1)
    protocol.resume_writing()
    assert waiting.later == []


@pytest.mark.parametrize(("fault", "told"), [(ZeroDivisionError("insides"), True), (asyncio.CancelledError(), False)])
async def test_work_that_a_fault_of_ours_ended_is_told_at_once(
    caplog: pytest.LogCaptureFixture, fault: BaseException, told: bool
) -> None:
    async def fail() -> None:
        raise fault

    await asyncio.gather(spawn_background_task("webhooks", fail()), return_exceptions=True)
    assert ("webhooks stopped working" in caplog.text) is told
    assert ("ZeroDivisionError" in caplog.text) is told
