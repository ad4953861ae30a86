"""A reply without its marks, while it streams: any pieces give the text of the whole."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.signals import mark_filter, matching
from interlock.signals.mark_filter import MarkFilter, text_without_marks
from interlock.signals.matching import SignalMatcher

NAMES = ("[NEXT]", "[ALL DONE]", "[END]", "[KẾT_THÚC]", "[N]")
MATCHER = SignalMatcher(NAMES)
WORDS = (
    "[NEXT]", "[end]", "[All-Done]", "[all\ndone]", "[ kết thúc ]", "[N]", "[", "]", "[x]", "NEXT]", "[NE", "(", ")",
    "](u)", "]:", "]: /u", "*", "**", "_", "~", "~~", "~~~", "`", "```", "<b>", "</b>", "<", "<b", "b>", "</", "<pre>",
    "</pre>", "<!--", "-->", "<code>", "</code>", "\\", ">", "- ", " ", "\t", "\n", "\r", "\r\n", "\n\n", "a", "word",
    "1", "é", "\u0301", "\u00a0", "<strong>", "</strong>", "<a href='", "'>", ":", '"',
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=24).map("".join)
NASTY = (
    "",
    "  [END]  ",
    "Well done. [END]",
    "Well done.\n\n**[END]**\n",
    "a <b>[NEXT]</b> c",
    "a <b>*[NEXT]*</b> c\nd",
    "*a* [END] *b*",
    "a* [END] *b",
    "x [see [END] here](u) y",
    "[\n~~~\n[END] x](url)",
    "~~~\n[\n~~~\n[END] x](url)\n[END] y",
    "~~~\n[\n~~~\nNEXT]\n[END]\nx",
    "<pre>\n[END]\n",
    "<pre>\n[END]\n</pre>\n[END] x",
    "`[END]` [END] `",
    "[END]: /url\n[END]: no",
    "[END](u) [END] (u)",
    "[END]  **  [NEXT] **",
    "[[END]]",
    "[END\n\n]",
    "> [END]\n[END]",
    "\\[END] [END]\\",
    "[END][NEXT]\n[END] *[NEXT]*",
    "**[ **[END]** ]",
    "<b[END]</b>",
    "<b><i> [END] </i></b>.",
    "  *[END]*",
    "x [END]*\n",
)


def streamed(pieces: list[str]) -> str:
    found = MarkFilter(MATCHER)
    return "".join([*map(found.feed, pieces), found.end()])


def splits(text: str) -> Iterator[list[str]]:
    yield [text]
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


@pytest.mark.parametrize("text", NASTY)
def test_any_pieces_give_the_text_of_the_whole(text: str) -> None:
    for pieces in splits(text):
        assert streamed(pieces) == text_without_marks(text, MATCHER), pieces


@settings(max_examples=600, deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
@example("~~~\n[\n~~~\n[END] x](url)", random.Random(1))
def test_any_reply_in_any_pieces_gives_the_text_of_the_whole(text: str, chance: random.Random) -> None:
    places = sorted(chance.choices(range(len(text) + 1), k=chance.randrange(8)))
    pieces = [text[a:b] for a, b in pairwise([0, *places, len(text)])]
    for each in (pieces, list(text)):
        assert streamed(each) == text_without_marks(text, MATCHER)


@settings(max_examples=600, deadline=None)
@given(TEXTS, st.integers(0, 40), st.integers(1, 30))
@example("a [END]\n  [NEXT]*", 3, 30)
def test_of_a_long_reply_only_the_beginning_and_the_last_line_are_read(text: str, read: int, last: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (mark_filter, matching):
            patch.setattr(module, "READ_CHARS_MAX", read)
        patch.setattr(matching, "LAST_LINE_CHARS_MAX", last)
        for pieces in (list(text), [text]):
            assert streamed(pieces) == text_without_marks(text, MATCHER)
