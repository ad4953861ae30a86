"""Lines of an event stream out of bytes, however they are cut."""

from collections.abc import Iterator

DATA = b"data:"


class EventLines:
    """Collects bytes, and gives the payload of every whole `data:` line; comments and other fields are passed over."""

    def __init__(self, line_bytes_max: int) -> None:
        self._pieces: list[bytes] = []
        self._size, self._max = 0, line_bytes_max

    def add(self, data: bytes) -> Iterator[bytes]:
        *lines, rest = data.replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._pieces.append(line)
            yield from self._payload()
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)

    @property
    def is_overlong(self) -> bool:
        return self._size > self._max

    def last(self) -> Iterator[bytes]:
        """The line that the stream ended in, if it did not end in a line break."""
        return self._payload()

    def _payload(self) -> Iterator[bytes]:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if line.startswith(DATA):
            payload = line[len(DATA) :].strip()
            if payload:
                yield payload
