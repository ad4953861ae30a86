"""Writes of one connection."""

from typing import Any

from interlock.server.http.guard import HEADERS
from interlock.server.http.protocol import HeldWrites


class Wire:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return 7


def on_wire() -> tuple[HeldWrites, Wire]:
    writes, wire = HeldWrites(), Wire()
    given: Any = wire
    writes.transport = given
    return writes, wire


def test_held_writes_are_made_at_once_and_in_order() -> None:
    writes, wire = on_wire()
    writes.write(b"1")
    writes.hold()
    writes.write(b"2")
    writes.write(b"3")
    assert wire.written == [b"1"]
    writes.release()
    writes.write(b"4")
    writes.release()
    assert wire.written == [b"1", b"23", b"4"]


def test_closing_loses_nothing_and_the_rest_is_that_of_the_transport() -> None:
    writes, wire = on_wire()
    writes.hold()
    writes.write(b"last words")
    assert writes.get_write_buffer_size() == 7
    writes.close()
    assert wire.written == [b"last words"]
    assert wire.is_closed


def test_the_security_headers_are_added_to_the_next_head_alone() -> None:
    writes, wire = on_wire()
    writes.add_headers()
    writes.hold()
    writes.write(b"HTTP/1.1 200 OK\r\na: 1\r\n\r\n")
    writes.write(b"body\r\n\r\n")
    writes.release()
    own = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()).encode()
    assert wire.written == [b"HTTP/1.1 200 OK\r\na: 1\r\n" + own + b"\r\nbody\r\n\r\n"]
