"""Clients that do not behave: raw sockets against a real server, whose bounds are small."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import Served, serving

TOML = """\
[server]
requests_per_second = 100000
header_timeout_seconds = 0.3
body_timeout_seconds = 0.3
connections_max = 20
stream_send_timeout_seconds = 0.3
stream_buffer_kb = 64
"""
BIG = "replies: {clerk: [" + json.dumps("x" * 400_000 + " [DONE]") + "]}\n"
HANGING = "replies: {clerk: [{text: 'x [DONE]', delay_seconds: 600}]}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("sockets"), script=BIG, toml=TOML) as served:
        yield served


def told(connection: socket.socket) -> bytes:
    """All that the server says, until it closes the connection."""
    said = b""
    try:
        while piece := connection.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def answer_to(server: Served, request: bytes) -> bytes:
    with server.connected() as connection:
        connection.sendall(request)
        return told(connection)


def head(server: Served, *lines: str, method: str = "POST", path: str = "/v1/runs") -> bytes:
    fixed = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.key}", *lines]
    return ("\r\n".join(fixed) + "\r\n\r\n").encode()


def still_serves(server: Served) -> bool:
    with server.asking() as client:
        return client.get("/healthz").status_code == 200


def test_headers_that_do_not_come_are_not_waited_for(server: Served) -> None:
    for begun in (b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
        said = answer_to(server, begun)
        assert code_in(said, 408) == "headers-too-slow"
    assert still_serves(server)


def test_headers_that_drip_after_an_answer_are_not_waited_for_either(server: Served) -> None:
    with server.connected() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        first = connection.recv(65536)
        assert first.startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert told(connection).endswith(b'"code":"headers-too-slow"}')


def test_a_connection_that_is_idle_after_an_answer_is_closed(server: Served) -> None:
    with server.connected() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert told(connection).endswith(b'{"status":"ok"}')


def test_a_client_that_closes_its_half_is_let_go_of(server: Served) -> None:
    for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost: "):
        with server.connected() as connection:
            connection.sendall(begun)
            connection.shutdown(socket.SHUT_WR)
            assert told(connection) == b""


def test_an_answer_that_nobody_takes_is_not_kept(tmp_path: Path) -> None:
    with serving(tmp_path, script=BIG, toml=TOML) as server, server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "office"}).json()["id"]
        while client.get(f"/v1/runs/{run}").json()["status"] == "running":
            pass
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, _, port = server.address.removeprefix("http://").partition(":")
            connection.connect((host, int(port)))
            connection.sendall(head(server, method="GET", path=f"/v1/runs/{run}/events") * 20)
            while not is_kept(connection):
                assert client.get("/healthz").status_code == 200
            while is_kept(connection):
                assert client.get("/healthz").status_code == 200
        assert server.stopped() == 0


def is_kept(connection: socket.socket) -> bool:
    """Whether a process still has the other end, as the system says: what is closed has no inode any more."""
    other_end = f":{connection.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return any(line[2].endswith(other_end) and line[9] != "0" for line in lines)


def test_headers_without_end_are_cut_off(server: Served) -> None:
    bomb = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 100) for n in range(400))
    for endless in (bomb, b"GET /" + b"a" * 100_000):
        said = answer_to(server, endless)
        assert b"HTTP/1.1 200 " not in said  # it may be cut off before it can read why
        assert not said or code_in(said, 400) == "bad-request"
    assert still_serves(server)


def test_headers_that_are_too_large_are_refused_also_when_they_come_at_once(server: Served) -> None:
    said = answer_to(server, head(server, f"X: {'y' * 20_000}", "Connection: close", method="GET", path="/healthz"))
    assert code_in(said, 431) == "headers-too-large"


def code_in(said: bytes, status: int) -> str:
    """The code of a refusal, which must look like one."""
    top, _, body = said.partition(b"\r\n\r\n")
    first, *lines = top.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    problem = json.loads(body)
    assert first.startswith(f"HTTP/1.1 {status} ")
    assert headers["content-type"] == "application/problem+json"
    assert headers["x-content-type-options"] == "nosniff"
    assert (problem["status"], bool(problem["title"]), bool(problem["detail"])) == (status, True, True)
    return str(problem["code"])


def test_asking_for_a_websocket_is_answered_as_any_request_and_not_logged(server: Served) -> None:
    upgrade = ("Connection: Upgrade, close", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    assert answer_to(server, head(server, *upgrade, method="GET", path="/healthz")).startswith(b"HTTP/1.1 200 ")
    assert "WebSocket" not in server.log


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n Folded: x\r\nBad Header: y\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not even http\r\n\r\n",
    ],
    ids=["two hosts", "no host", "two lengths", "bad header", "tls"],
)
def test_a_request_that_is_none_is_refused(server: Served, request_: bytes) -> None:
    assert code_in(answer_to(server, request_), 400) == "bad-request"


def test_an_old_request_without_a_host_is_refused_by_name(server: Served) -> None:
    said = answer_to(server, b"GET /v1/runs HTTP/1.0\r\n\r\n")
    assert b" 403 " in said.partition(b"\r\n")[0]
    assert b"host-not-allowed" in said


def test_a_body_of_a_hundred_megabytes_is_refused_before_it_is_read(server: Served) -> None:
    with server.connected() as connection:
        connection.sendall(head(server, "Content-Type: application/json", f"Content-Length: {100 * 1024 * 1024}"))
        said = told(connection)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"body-too-large" in said


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 30, "-1", "1e3", "\u00b2"])
def test_a_length_that_is_none_is_refused(server: Served, length: str) -> None:
    request = head(server, "Content-Type: application/json", f"Content-Length: {length}")
    assert answer_to(server, request).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))


def test_little_of_a_body_is_read_for_somebody_without_a_key(server: Served) -> None:
    lines = b"HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    assert b"body-too-large" in answer_to(server, b"POST /v1/session " + lines)
    assert b"webhook-not-found" in answer_to(server, b"POST /v1/webhooks/none " + lines)


@pytest.mark.parametrize("path", ["../app.py", "%2e%2e/app.py", "..%2fapp.py", "....//app.py", "/etc/passwd", "."])
def test_nothing_but_the_page_is_in_its_folder(server: Served, path: str) -> None:
    said = answer_to(server, f"GET /static/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 404 ")
    assert b'"code":"not-found"' in said


def test_an_address_with_a_nul_is_refused(server: Served) -> None:
    said = answer_to(server, b"GET /static/%00 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400 ") and b"NUL (%00)" in said


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "NONSENSE"])
def test_a_method_that_nothing_takes_is_refused(server: Served, method: str) -> None:
    said = answer_to(server, head(server, "Connection: close", method=method, path="/v1/runs"))
    assert said.startswith(b"HTTP/1.1 405 ")
    assert b"allow: GET, POST" in said


def test_a_body_of_unknown_length_is_cut_off_where_it_gets_too_large(server: Served) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with server.connected() as connection:
        connection.sendall(head(server, "Content-Type: application/json", "Transfer-Encoding: chunked"))
        sending = threading.Thread(target=_send_all, args=(connection, chunk, 1600), daemon=True)
        sending.start()
        said = told(connection)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert still_serves(server)


def _send_all(connection: socket.socket, chunk: bytes, times: int) -> None:
    try:
        for _ in range(times):
            connection.sendall(chunk)
    except OSError:
        pass


def test_a_body_that_does_not_come_is_not_waited_for(server: Served) -> None:
    said = answer_to(server, head(server, "Content-Type: application/json", "Content-Length: 10") + b'{"')
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"body-too-slow" in said


def test_nothing_of_a_body_is_read_for_somebody_without_a_key(server: Served) -> None:
    request = b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
    said = answer_to(server, request)
    assert said.startswith(b"HTTP/1.1 401 ")


def test_connections_beyond_the_bound_are_told_so_and_closed(server: Served) -> None:
    def hold(count: int) -> list[socket.socket]:
        return [server.connected() for _ in range(count)]

    held = hold(60)
    said = [told(connection) for connection in held]
    for connection in held:
        connection.close()
    refused = [each for each in said if b"too-many-connections" in each]
    assert all(each.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in each for each in refused)
    assert len(refused) >= 40
    assert still_serves(server)


def test_a_reader_that_takes_nothing_is_let_go_of(tmp_path: Path) -> None:
    with serving(tmp_path, script=BIG, toml=TOML) as server, server.asking() as client:
        for _ in range(20):
            assert client.post("/v1/runs", json={"crew": "office"}).status_code == 201
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, _, port = server.address.removeprefix("http://").partition(":")
            connection.connect((host, int(port)))
            connection.sendall(head(server, method="GET", path="/v1/engine/events?after=0"))
            while streams_open(client) == 0:
                pass
            while streams_open(client) == 1:
                pass
        assert server.stopped() == 0


def streams_open(client: Any) -> int:
    lines = client.get("/metrics").text.splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("interlock_streams_open ")))


def test_a_client_that_leaves_frees_its_stream(tmp_path: Path) -> None:
    with serving(tmp_path, script=HANGING, toml=TOML) as server, server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "office"}).json()["id"]
        with server.connected() as connection:
            request = head(server, "Accept: text/event-stream", method="GET", path=f"/v1/runs/{run}/events")
            connection.sendall(request)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        while streams_open(client):
            pass


def test_a_log_line_cannot_be_forged_by_a_request(tmp_path: Path) -> None:
    """Whatever is in a request, a line of the log is one JSON object, and its message a field."""
    forged = b'GET /x%0a[SIGNAL-EVENT]%1b[31m"}\xff HTTP/1.1\r\nHost: evil"\x1b[2J\r\n\r\n'
    with serving(tmp_path, toml=TOML) as server:
        answer_to(server, forged)
        answer_to(server, b"GET / HTTP/1.1\r\n[SIGNAL-EVENT] forged\r\n\r\n")
        assert server.stopped() == 0
        lines = server.log.splitlines()
        assert lines
        assert all(set(json.loads(line)) >= {"at", "level", "logger", "message"} for line in lines)
        assert server.log.isascii()
        assert "\x1b" not in server.log
