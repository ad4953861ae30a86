"""Finding 6.9: however much hostile Markdown there is, it is cut off at a stated size, and read in one pass before."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from interlock.limits import READ_CHARS_MAX
from interlock.signals import SignalMatcher
from interlock.signals.matching import marks
from interlock.signals.page import element_left_open

SHAPES = {
    "opening brackets": "[",
    "marks": "[END]",
    "links": "[END](x)",
    "links left open": "[END](",
    "backticks": "`",
    "code spans": "`[END]``",
    "quotes": "> [END]\n",
    "nested quotes": "> > > [END]\n",
    "emphasis": "**[END]** _",
    "comments left open": "<!-- [END] ",
    "comments": "<!-- [END] -->",
    "comments left open on lines": "<!-- [END]\n",
    "pre left open": "<pre>[END]",
    "pre over lines": "<pre>\n[END]</pre>",
    "angles": "<[END]",
    "attributes": "<a b='[END]' ",
    "attributes in attributes": "<a b=\"<c d='[END]",
    "lines": "[END]\n",
    "fences": "```\n[END]\n```\n",
    "fences on a line": "``` x ``` [END]\n",
    "backslashes": "\\[END]",
    "definitions": "[END]: http://x\n",
    "nested brackets": "[[[[END](",
    "lists": "- 1. - [END]\n",
    "tildes": "~~~ [END]\n",
    "parentheses": "[END]((((",
    "tags": "</a><b>[END]",
    "addresses": "<ht:[END]>",
    "code and backticks": "<code>`[END]",
}


def text_of(shape: str, size: int) -> str:
    return (SHAPES[shape] * (size // len(SHAPES[shape]) + 1))[:size]


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions are called, of Python and of C: the work that is done, whatever the machine."""
    count = 0

    def counted(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_times_the_text_is_ten_times_the_work(shape: str) -> None:
    matcher = SignalMatcher(["[END]"])
    short, long = (text_of(shape, size) for size in (2_000, 20_000))
    assert calls_of(lambda: matcher.find(long)) <= 11 * calls_of(lambda: matcher.find(short)) + 200


@pytest.mark.parametrize("shape", ["marks", "comments left open", "lines", "fences on a line"])
def test_of_ten_megabytes_no_more_is_read_than_is_stated(shape: str) -> None:
    read: list[int] = []
    text = text_of(shape, 10_000_000)

    def wanted(inner: str) -> bool:
        read.append(len(inner))
        return len(read) < 10

    found = marks(text, wanted)
    assert len(read) * 2 <= READ_CHARS_MAX and all(mark.end <= READ_CHARS_MAX for mark in found)
    assert marks(text[:READ_CHARS_MAX], lambda inner: len(inner) < 0) == []


def test_a_line_of_a_stream_is_looked_at_once_for_html() -> None:
    assert element_left_open("a <pre> <!-- </pre> <code>", "") == "code"
    assert element_left_open("no end", "code") == "code"
    assert element_left_open("</code> `<pre>` \\<pre> <b>", "code") == ""
