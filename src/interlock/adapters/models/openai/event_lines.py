"""Events of a stream from bytes in any pieces.

Rule: an event ends with a blank line, and all its `data:` lines together are its payload, as the standard says.
"""

DATA = b"data:"
BOM = b"\xef\xbb\xbf"  # may be before the first line, and is not part of it


class EventLines:
    """Collects bytes and returns the payload of every complete event; comments and other fields are skipped."""

    def __init__(self, event_bytes_max: int) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._size, self._max = 0, event_bytes_max
        self._ended_in_cr = False

    def add(self, data: bytes) -> list[bytes]:
        if self._ended_in_cr or b"\r" in data:
            return self._add_lines(data)
        found: list[bytes] = []
        if self._pieces or self._data:
            rest, blank, data = data.partition(b"\n\n")
            found = self._add_lines(rest + blank)
        *events, rest = data.split(b"\n\n")
        for event in events:
            if not event.startswith(DATA) or b"\n" in event:
                found += self._add_lines(event + b"\n\n")
            elif payload := event[len(DATA) :].strip():  # nearly all are one line of data
                found.append(payload)
        return found + self._add_lines(rest) if rest else found

    def _add_lines(self, data: bytes) -> list[bytes]:
        *lines, rest = self._with_plain_breaks(data).split(b"\n")
        if lines and self._pieces:
            lines[0] = self._pop_partial_line() + lines[0]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        return [payload for line in lines if (payload := self._payload_ended_by(line))]

    @property
    def is_overlong(self) -> bool:
        return self._size > self._max

    def last(self) -> list[bytes]:
        """The last event, if the stream did not end with a blank line."""
        payloads = [self._payload_ended_by(line) for line in (self._pop_partial_line(), b"")]
        return [payload for payload in payloads if payload]

    def _with_plain_breaks(self, data: bytes) -> bytes:
        """The bytes with LF as line break: a line ends in CR, LF or both, and the two may be in two pieces."""
        if not data:
            return data
        rest = data.removeprefix(b"\n") if self._ended_in_cr else data
        self._ended_in_cr = data.endswith(b"\r")
        return rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in rest else rest

    def _pop_partial_line(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], self._size - len(line)
        return line

    def _payload_ended_by(self, line: bytes) -> bytes:
        """The payload that this line completes; empty if it does not."""
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
