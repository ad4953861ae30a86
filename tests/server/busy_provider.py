"""A provider that has too many calls at first: it tells its first caller to wait, and answers all later ones."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

_CHUNKS: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"content": "[END]"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
REPLY = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in _CHUNKS) + "data: [DONE]\n\n"


class BusyProvider:
    """Its address, and which models were called when, in seconds since the first call."""

    def __init__(self, wait_s: int) -> None:
        self.wait_s, self.url = wait_s, ""
        self.calls: list[tuple[str, float]] = []
        self._began_s = 0.0
        self._lock = Lock()

    def is_first(self, model: str) -> bool:
        with self._lock:
            self._began_s = self._began_s or time.monotonic()
            self.calls.append((model, time.monotonic() - self._began_s))
            return len(self.calls) == 1


@contextmanager
def busy_provider(wait_s: int) -> Iterator[BusyProvider]:
    provider = BusyProvider(wait_s)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if provider.is_first(asked["model"]):
                self.answer(429, b'{"error": {"message": "too many requests"}}', "application/json")
            else:
                self.answer(200, REPLY.encode(), "text/event-stream")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            if status != 200:
                self.send_header("retry-after", str(wait_s))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
            """Not logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
