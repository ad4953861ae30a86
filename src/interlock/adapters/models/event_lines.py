"""Lines of an event stream out of bytes, however they are cut."""

DATA = b"data:"
BOM = b"\xef\xbb\xbf"  # may stand before the first line, and is no part of it


class EventLines:
    """Collects bytes, and gives the payload of every whole `data:` line; comments and other fields are passed over."""

    def __init__(self, line_bytes_max: int) -> None:
        self._pieces: list[bytes] = []
        self._size, self._max = 0, line_bytes_max

    def add(self, data: bytes) -> list[bytes]:
        if b"\r" in data:
            data = data.replace(b"\r", b"\n")
        *lines, rest = data.split(b"\n")
        if lines and self._pieces:
            lines[0] = self._taken() + lines[0]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        return _payloads(lines)

    @property
    def is_overlong(self) -> bool:
        return self._size > self._max

    def last(self) -> list[bytes]:
        """The line that the stream ended in, if it did not end in a line break."""
        return _payloads([self._taken()])

    def _taken(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return line


def _payloads(lines: list[bytes]) -> list[bytes]:
    plain = (line.removeprefix(BOM) for line in lines)
    found = [line[len(DATA) :].strip() for line in plain if line.startswith(DATA)]
    return [payload for payload in found if payload]
