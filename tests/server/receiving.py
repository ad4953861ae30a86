"""A receiver of webhooks that gives all of them the same answer until it is changed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, NamedTuple

SECRET = "RECEIVER_SECRET"
SECRET_VALUE = "whsec_" + "c2VjcmV0" * 4


class Taken(NamedTuple):
    """A webhook as it came."""

    id: str
    body: dict[str, Any]


class Receiver:
    """Where it is, what it answers, what it was sent and how often it was asked."""

    def __init__(self, status: int) -> None:
        self.status, self.asked, self.address = status, 0, ""
        self.taken: list[Taken] = []
        self._changed = Condition()

    def took(self, id: str, body: bytes) -> None:  # noqa: A002 - as it is called there
        with self._changed:
            self.asked += 1
            self.taken.append(Taken(id, json.loads(body)))
            self._changed.notify_all()

    def require(self, count: int) -> None:
        """It is asked so often, sooner or later, and not more."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked >= count, timeout=60), self.asked
            assert self.asked == count

    def as_toml(self, *on: str) -> str:
        """Lets a server send to it; the secret has to be in the server's environment."""
        lines = f'url = "{self.address}"\nsecret_env = "{SECRET}"\nallow_http = true\nallow_private = true\n'
        return f"[webhooks.receiver]\n{lines}on = {list(on)}\n"


@contextmanager
def receiving(status: int) -> Iterator[Receiver]:
    receiver = Receiver(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.took(self.headers["webhook-id"], body)
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
            """Not logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_port}/"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
