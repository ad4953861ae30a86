"""Events out of bytes: by the standard, wherever the bytes are cut."""

import pytest

from interlock.adapters.models.openai.event_lines import EventLines

STREAMS = {
    b"data: a\n\ndata:b\n\n": [b"a", b"b"],
    b'data: {\ndata: "x": 1}\n\ndata: c\n\n': [b'{\n"x": 1}', b"c"],
    b": alive\n\nevent: piece\nid: 7\ndata: a\nretry: 5\ndata: b\n\n": [b"a\nb"],
    b"\xef\xbb\xbfdata: a\n\n\n\n": [b"a"],
    b"data:\n\ndata: \n\ndata: a\n\n": [b"a"],
    b"datum: a\ndata\n data: b\n\n": [],
    b"data: a\n\ndata: no end": [b"a", b"no end"],
    b"data: a\ndata: b\n": [b"a\nb"],
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("line_break", [b"\n", b"\r\n", b"\r"])
def test_the_lines_of_an_event_are_its_payload_however_they_end_and_are_cut(stream: bytes, line_break: bytes) -> None:
    told = stream.replace(b"\n", line_break)
    for cut in range(len(told) + 1):
        lines = EventLines(100)
        found = [*lines.add(told[:cut]), *lines.add(b""), *lines.add(told[cut:]), *lines.last()]
        assert found == STREAMS[stream], cut


def test_breaks_of_every_kind_may_be_mixed_and_come_byte_by_byte() -> None:
    lines = EventLines(100)
    found: list[bytes] = []
    for byte in b"data: a\r\n\ndata: b\r\rdata: c\n\r\ndata: d\r\n\r\n":
        found += lines.add(bytes([byte]))
    assert found == [b"a", b"b", b"c", b"d"]


def test_a_line_or_an_event_without_end_is_overlong() -> None:
    for piece in (b"x" * 40, b"data: " + b"x" * 34 + b"\n"):
        lines = EventLines(100)
        for _ in range(2):
            lines.add(piece)
            assert not lines.is_overlong
        lines.add(piece)
        assert lines.is_overlong


def test_what_was_given_out_no_longer_counts() -> None:
    lines = EventLines(100)
    for _ in range(10):
        assert lines.add(b"data: " + b"x" * 40) == []
        assert lines.add(b"\n\n") == [b"x" * 40]
        assert not lines.is_overlong
