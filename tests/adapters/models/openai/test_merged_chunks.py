"""Chunks of one read become one, and what the client reads out of them stays the same, wherever the bytes are cut."""

import itertools

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.models.openai.merged_chunks import ChunkMerger

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def heard(reads: list[bytes]) -> tuple[list[str], bytes, int]:
    """What h11 makes of reads: the kinds of events, the body, and in how many pieces it came."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "here")]))
    connection.send(h11.EndOfMessage())
    kinds: list[str] = []
    pieces: list[bytes] = []
    try:
        for data in (*reads, b""):
            connection.receive_data(data)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Data):
                    pieces.append(bytes(event.data))
                else:
                    kinds.append(type(event).__name__)
                if isinstance(event, h11.ConnectionClosed):
                    break
    except h11.RemoteProtocolError:
        kinds.append("refused")
    return kinds, b"".join(pieces), len(pieces)


def merged(reads: list[bytes]) -> list[bytes]:
    merger = ChunkMerger()
    return [passed for data in reads if (passed := merger.add(data))]


def test_four_hundred_chunks_of_one_read_are_one_piece() -> None:
    body = [b"data: %d\n\n" % n for n in range(400)]
    reads = [HEAD + chunked(*body[:200]), chunked(*body[200:]) + END]
    assert heard(reads)[2] == 400
    assert heard(merged(reads)) == (*heard(reads)[:2], 2)


STREAMS = {
    "chunks": HEAD + chunked(b"data: a\n\n", b"b" * 300, b"\r\n\r\n5\r\n") + END,
    "extensions and trailers": HEAD + b"3;name=x\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
    "spaces after the size": HEAD + b"3  \r\nabc\r\n" + END,
    "informational before": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + chunked(b"abc", b"def") + END,
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n3\r\nabc\r\n0\r\n",
    "until it closes": b"HTTP/1.1 200 OK\r\n\r\n" + chunked(b"abc"),
    "a head with plain breaks": b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n" + chunked(b"abc", b"d") + END,
    "a head inside a body": b"HTTP/1.1 200 OK\nContent-Length: 90\n\n" + HEAD + chunked(b"abc"),
    "no size": HEAD + chunked(b"abc") + b"xyz\r\nabc\r\n" + END,
    "no break after a chunk": HEAD + b"3\r\nabc3\r\nabc\r\n" + END,
    "another encoding": HEAD.replace(b"chunked", b"gzip, chunked") + chunked(b"abc") + END,
    "cut off in a chunk": HEAD + chunked(b"abc") + b"10\r\nabc",
    "cut off in a size": HEAD + chunked(b"abc") + b"1",
    "a size without end": HEAD + b"0" * 5_000,
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_client_reads_the_same_with_and_without_merging_wherever_the_bytes_are_cut(name: str) -> None:
    stream = STREAMS[name]
    kinds, body, _ = heard([stream])
    for cut in range(min(len(stream), 600) + 1):
        reads = [part for part in (stream[:cut], stream[cut:]) if part]
        assert heard(merged(reads))[:2] == (kinds, body), cut
    assert heard(merged([stream[n : n + 1] for n in range(len(stream))]))[:2] == (kinds, body)


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=20),
    cuts=st.lists(st.integers(min_value=0, max_value=1_000), max_size=10),
)
def test_any_body_arrives_whole_and_no_byte_waits_for_a_later_read(pieces: list[bytes], cuts: list[int]) -> None:
    stream = HEAD + chunked(*pieces) + END
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reads = [stream[start:end] for start, end in itertools.pairwise(places)]
    for count in range(len(reads) + 1):
        plain, through = heard(reads[:count]), heard(merged(reads[:count]))
        assert through[:2] == plain[:2]
        assert through[2] <= count


def test_each_response_of_a_connection_begins_anew() -> None:
    merger = ChunkMerger()
    first = merger.add(HEAD + chunked(b"a", b"b") + END)
    merger.begin_response()
    assert merger.add(HEAD + chunked(b"a", b"b") + END) == first == HEAD + chunked(b"ab") + END
