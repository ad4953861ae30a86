"""A small reverse proxy below a prefix, as nginx or Traefik would be: it keeps the prefix in the path or strips it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = ("connection", "transfer-encoding", "keep-alive")


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    upstream = ""
    prefix = ""
    strips = True


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy

    def do_any(self) -> None:
        if not self.path.startswith(self.server.prefix):
            self.send_error(404)
            return
        path = self.path[len(self.server.prefix) :] if self.server.strips else self.path
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        host = urlsplit(self.server.upstream)
        connection = http.client.HTTPConnection(str(host.hostname), host.port, timeout=60)
        try:
            connection.request(self.command, path or "/", body or None, dict(self.headers.items()))
            self._pass_on(connection.getresponse())
        finally:
            connection.close()

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()
        while piece := answer.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True

    do_GET = do_POST = do_DELETE = do_any  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """It says nothing."""


@contextmanager
def proxied(prefix: str, *, strips: bool) -> Iterator[_Proxy]:
    """A proxy on a free port; its `upstream` is set once that is known."""
    with _Proxy(("127.0.0.1", 0), _Handler) as proxy:
        proxy.prefix, proxy.strips = prefix, strips
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
