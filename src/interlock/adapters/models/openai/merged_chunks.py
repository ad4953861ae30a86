"""Merges the chunks of a body that arrive with one read of the socket.

A model server sends each event as a chunk of its own, and the HTTP client passes each chunk through all of its layers.
Rule 1: only the framing changes, and only that of a body with `Transfer-Encoding: chunked`. Every byte of the body is
passed on with the read in which it arrived. The client still parses and checks all that it gets.
Rule 2: what is not understood is passed on as it came, with all that follows it: the client decides what it is.
"""

import re
from typing import Any

# A longer line is passed on; lines of chunks have a few characters.
CHUNK_LINE_MAX = 1024

# What the client gets in place of bytes after a chunk that are not its end: it refuses this as well.
NO_CHUNK = b"malformed chunk footer\r\n"

_BLANK_LINE = re.compile(rb"\n\r?\n")
_ENCODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)
_INFORMATIONAL = re.compile(rb"HTTP/1\.[01] 1\d\d")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[^\r\n]*)?\r\n")


class ChunkMerger:
    """Takes the bytes of one connection, and returns them with merged chunks."""

    def __init__(self) -> None:
        self.begin_response()

    def begin_response(self) -> None:
        self._head: bytes | None = b""  # None after its end
        self._is_chunked = False
        self._left = 0  # bytes of a chunk that are still to come
        self._has_ended_chunk = False  # its line break is still to come
        self._framing = b""  # a part of a line break, or of the line before a chunk

    def add(self, data: bytes) -> bytes:
        """What to pass on; empty if it is only a part of the framing."""
        if self._head is None:
            return self._merge_chunks(data) if self._is_chunked else data
        self._head += data
        end = _BLANK_LINE.search(self._head)
        if end is None:
            return data
        head, body = self._head[: end.end()], self._head[end.end() :]
        before = data[: len(data) - len(body)]
        self._head = b"" if _INFORMATIONAL.match(head) else None
        self._is_chunked = [each.lower() for each in _ENCODING.findall(head)] == [b"chunked"]
        return before + self.add(body) if body else before

    def _merge_chunks(self, data: bytes) -> bytes:
        data, self._framing = self._framing + data, b""
        pieces: list[bytes] = []
        at, end = self._take_whole_chunks(data, pieces), len(data)
        while at < end:
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
                self._has_ended_chunk = not self._left
            elif self._has_ended_chunk:
                if data[at:] == b"\r":
                    self._framing = b"\r"
                    break
                if not data.startswith(b"\r\n", at):
                    return self._pass_on(pieces, NO_CHUNK)
                at, self._has_ended_chunk = at + 2, False
            else:
                line = _CHUNK_LINE.match(data, at)
                if line is None and end - at < CHUNK_LINE_MAX and data.find(b"\n", at) < 0:
                    self._framing = data[at:]
                    break
                if line is None or not (size := int(line[1], 16)):
                    return self._pass_on(pieces, data[at:])
                at, self._left = line.end(), size
        return _as_chunk(pieces)

    def _take_whole_chunks(self, data: bytes, pieces: list[bytes]) -> int:
        """Takes the chunks that are there with their line breaks, as nearly all are; returns where the rest begins."""
        at = 0
        while not (self._left or self._has_ended_chunk) and (line := _CHUNK_LINE.match(data, at)) is not None:
            begin = line.end()
            end = begin + int(line[1], 16)
            if end == begin or data[end : end + 2] != b"\r\n":
                break
            pieces.append(data[begin:end])
            at = end + 2
        return at

    def _pass_on(self, pieces: list[bytes], rest: bytes) -> bytes:
        """At the end of the body, or of what is understood."""
        self._is_chunked = False
        return _as_chunk(pieces) + rest


def _as_chunk(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return b"%x\r\n%b\r\n" % (len(body), body) if body else b""


class MergingStream:
    """A connection of the HTTP client whose reads are merged."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._merger = stream, ChunkMerger()
        self.aclose, self.get_extra_info = stream.aclose, stream.get_extra_info

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while data := await self._stream.read(max_bytes, timeout):
            if merged := self._merger.add(data):
                return merged
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._merger.begin_response()
        await self._stream.write(buffer, timeout)

    async def start_tls(self, *args: Any, **options: Any) -> "MergingStream":
        return MergingStream(await self._stream.start_tls(*args, **options))


class MergingBackend:
    """What the HTTP client opens its connections with."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.sleep = backend.sleep

    async def connect_tcp(self, *args: Any, **options: Any) -> MergingStream:
        return MergingStream(await self._backend.connect_tcp(*args, **options))

    async def connect_unix_socket(self, *args: Any, **options: Any) -> MergingStream:
        return MergingStream(await self._backend.connect_unix_socket(*args, **options))
