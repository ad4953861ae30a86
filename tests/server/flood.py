"""Many connections at once, from a process of its own: `python -m tests.server.flood PORT COUNT BOUND`.

It opens them, reads what the server says until no more than the bound are left, prints one line of JSON with what
became of them, and leaves when its standard input is closed.

Rule: every fourth connection says nothing, every fourth half a header, every fourth asks for more than it ever reads,
and every fourth closes its own half at once.
"""

import json
import resource
import selectors
import socket
import sys
from collections import Counter

REFUSED = b"HTTP/1.1 503 "
SILENT, HALF_A_HEADER, NEVER_READS, HALF_CLOSED = range(4)
SAYS = {
    SILENT: b"",
    HALF_A_HEADER: b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    NEVER_READS: b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 8,
    HALF_CLOSED: b"",
}
# At once on their way: what the system lets wait for a server.
UNDER_WAY_MAX = 200
# Nothing was said for so long: the server does not keep its bound.
PATIENCE_SECONDS = 100.0


class Flood:
    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._selector = selectors.DefaultSelector()
        self._under_way = 0
        self.outcomes: Counter[str] = Counter()
        self.held: set[socket.socket] = set()

    def open(self, count: int) -> None:
        for n in range(count):
            while self._under_way >= UNDER_WAY_MAX:
                self._look(None)
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(self._address)
            self._under_way += 1
            self._selector.register(connection, selectors.EVENT_WRITE, n % len(SAYS))

    def settle(self, bound: int) -> None:
        while (self._under_way or len(self.held) > bound) and self._look(PATIENCE_SECONDS):
            pass

    def _look(self, timeout: float | None) -> bool:
        ready = self._selector.select(timeout)
        for key, _ in ready:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if key.events & selectors.EVENT_WRITE:
                self._connected(connection, key.data)
            else:
                self._heard(connection)
        return bool(ready)

    def _connected(self, connection: socket.socket, kind: int) -> None:
        self._under_way -= 1
        self.held.add(connection)
        self._selector.modify(connection, selectors.EVENT_READ, kind)
        try:
            connection.send(SAYS[kind])
            if kind == HALF_CLOSED:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused already, and what the server said is read

    def _heard(self, connection: socket.socket) -> None:
        """An answer of the server is looked at, and not taken out, unless it is a refusal or the end."""
        try:
            said = connection.recv(len(REFUSED), socket.MSG_PEEK)
        except OSError:
            said = b""
        if said and said != REFUSED:
            self._selector.unregister(connection)
            return
        self.outcomes["refused" if said else "closed"] += 1
        self._selector.unregister(connection)
        self.held.discard(connection)
        connection.close()


def main(port: int, count: int, bound: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = Flood(port)
    flood.open(count)
    flood.settle(bound)
    sys.stdout.write(json.dumps({"held": len(flood.held), **flood.outcomes}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
