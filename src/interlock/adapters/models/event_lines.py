"""Events of a stream out of bytes, however they are cut.

Rule: an event ends with a blank line, and all its `data:` lines together are its payload, as the standard says.
"""

DATA = b"data:"
BOM = b"\xef\xbb\xbf"  # may stand before the first line, and is no part of it


class EventLines:
    """Collects bytes, and gives the payload of every whole event; comments and other fields are passed over."""

    def __init__(self, event_bytes_max: int) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._size, self._max = 0, event_bytes_max
        self._ended_in_cr = False

    def add(self, data: bytes) -> list[bytes]:
        *lines, rest = self._with_plain_breaks(data).split(b"\n")
        if lines and self._pieces:
            lines[0] = self._taken() + lines[0]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        return [payload for line in lines if (payload := self._ended_by(line))]

    @property
    def is_overlong(self) -> bool:
        return self._size > self._max

    def last(self) -> list[bytes]:
        """The event that the stream ended in, if it did not end in a blank line."""
        payloads = [self._ended_by(line) for line in (self._taken(), b"")]
        return [payload for payload in payloads if payload]

    def _with_plain_breaks(self, data: bytes) -> bytes:
        """A line ends in CR, LF or both, and the two may come in two pieces."""
        if not data:
            return data
        told = data.removeprefix(b"\n") if self._ended_in_cr else data
        self._ended_in_cr = data.endswith(b"\r")
        return told.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in told else told

    def _taken(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], self._size - len(line)
        return line

    def _ended_by(self, line: bytes) -> bytes:
        """The payload that this line completes; nothing if it does not."""
        if line:
            plain = line.removeprefix(BOM)
            if plain.startswith(DATA):
                self._data.append(plain[len(DATA) :].removeprefix(b" "))
                self._size += len(self._data[-1])
            return b""
        payload = b"\n".join(self._data).strip()
        self._size -= sum(map(len, self._data))
        self._data = []
        return payload
