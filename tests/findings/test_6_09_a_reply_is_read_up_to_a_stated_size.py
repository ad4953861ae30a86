"""Finding 6.9: however much hostile Markdown there is, it is cut off at a stated size, and read in one pass before."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest

from interlock import Interlock
from interlock.compose.crews import load_definition
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.limits import LAST_LINE_CHARS_MAX, READ_CHARS_MAX
from interlock.signals import SignalMatcher
from interlock.signals.matching import marks
from interlock.signals.page import element_left_open
from interlock.testing import ScriptedModel

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


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_behind_the_stated_size_is_hardly_any_work(shape: str) -> None:
    """The last line may be looked at, and the fences before it, if there are few of them."""
    matcher, text = SignalMatcher(["[END]"]), f"{text_of(shape, 1_000_000)}\n[END]"
    stated = calls_of(lambda: matcher.find(text[:READ_CHARS_MAX]))
    assert calls_of(lambda: matcher.find(text)) <= stated * 1.01 + 2_000


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_ten_times_the_stream_is_ten_times_the_work(shape: str, size: int) -> None:
    def heard(text: str) -> None:
        listener = ReplyScanner(table(), "a")
        for at in range(0, len(text), size):
            if listener.feed(text[at : at + size]):
                break
        assert listener.decision is not None

    short, long = (text_of(shape, length) for length in (2_000, 20_000))
    assert calls_of(lambda: heard(long)) <= 11 * calls_of(lambda: heard(short)) + 500


@cache
def table() -> RoutingTable:
    with TemporaryDirectory() as folder:
        (Path(folder) / "crew.yaml").write_text(CREW, "utf-8")
        return RoutingTable(load_definition(folder))


CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


@pytest.mark.parametrize(
    ("end", "outcome"),
    [("[END]", ("completed", "signal:[END]")), ("```\n[END]", ("failed", "no_signal"))],
)
async def test_a_reply_beyond_that_ends_by_its_last_line_and_the_journal_says_what_was_read(
    end: str, outcome: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew, reply = load_definition(tmp_path), "words\n" * 60_000 + end

    model = ScriptedModel({"a": [reply] * 3})
    async with Interlock(tmp_path / "data", models=model, durability="normal") as box:
        run = await box.start(crew, "go")
        warned = [event async for event in run.events() if event["type"] == "warning"]
        told = [event["message"] for event in warned if event["code"] == "long-reply"]
        result = await run.result()
        found, text = (result.status, result.reason), result.text
    assert found == outcome
    assert told[0] == (
        f"the reply of a has {len(reply):,} characters; its signals are looked for in the first 300,000 and on its "
        "last line"
    )
    assert (end in text) == (outcome[0] == "failed")


@pytest.mark.parametrize("shape", ["marks", "comments left open", "lines", "fences on a line"])
def test_of_ten_megabytes_no_more_is_read_than_is_stated(shape: str) -> None:
    read: list[int] = []
    text = text_of(shape, 10_000_000)

    def wanted(inner: str) -> bool:
        read.append(len(inner))
        return len(read) < 10

    found = marks(text, wanted)
    assert len(read) * 2 <= READ_CHARS_MAX + LAST_LINE_CHARS_MAX
    assert all(mark.end <= READ_CHARS_MAX for mark in found)
    assert marks(text[:READ_CHARS_MAX], lambda inner: len(inner) < 0) == []


def test_a_line_of_a_stream_is_looked_at_once_for_html() -> None:
    assert element_left_open("a <pre> <!-- </pre> <code>", "") == "code"
    assert element_left_open("no end", "code") == "code"
    assert element_left_open("</code> `<pre>` \\<pre> <b>", "code") == ""
