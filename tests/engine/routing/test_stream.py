"""A reply that streams: any chunking gives the decision and the cut of the whole."""

import itertools
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.compose.crews import load_definition
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.signals.matching import marks

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
signals: [{name: "[ALERT]", behavior: external}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[ALL DONE]", type: terminate}, {signal: "[ALERT]"}]
    b: [{signal: "[RETRY]", target: a}]
settings: {signal_position: POSITION, signal_mode: MODE}
"""
POSITIONS = ("last_line", "own_line", "anywhere")
NASTY = (
    "",
    "well\n[NEXT]\nand more",
    "[NEXT]\r\nmore",
    "[NEXT]\rmore\n[ALL DONE]",
    "[all\ndone]\n",
    "x [all\n\r\ndone]\n[NEXT]\n",
    "`[all\ndone]\n[NEXT]",
    "**[NEXT]** [All-Done]\nmore",
    "[NEXT] [ALERT]\n[ALERT]\n[NEXT] x\n[ NEXT ]\n",
    "```\n[NEXT]\n```\n[NEXT]\nmore",
    "```\n[NEXT]\n~~~\n[NEXT]\n",
    "~~~~ x\n[NEXT]\n~~~\n[NEXT]\n~~~~\n[NEXT]\nmore",
    "- ```py\n[NEXT]\n```\n[NEXT]\n",
    "``` a`\n[NEXT]\nmore",
    "[\n~~~\nNEXT]\n~~~\n[NEXT]\nx",
    "~~~\n[\n~~~\nNEXT]\n[ALL DONE]\nx",
    "> [NEXT]\n\\[NEXT]\n[NEXT](x)\n[NEXT]: http://x\n[NEXT][NEXT]\nmore",
    "[[NEXT]]\n[NEXT\n[NEXT]\nx",
    "[NEXTT]\n[STOP]\n[RETRY]\n[NEXT]\n",
    "[" + "x" * 250 + "\nNEXT]\n[NEXT]\n",
    "[ALL" + "\n" * 190 + "DONE]\nmore",
    "[ALL" + "\n" * 200 + "DONE]\nmore",
    "\n\n [NEXT]\t\n\n",
    "<!--\n[NEXT]\n-->\n[NEXT]\nmore",
    "<!-- x\n[NEXT]\nnobody closes it",
    "<pre>\n[NEXT]\n</pre> <code>\n[NEXT]\n</code>\n[ALL DONE]\nx",
    "`<pre>`\n[NEXT]\nx",
    "\\<pre>\n[NEXT]\nx",
    "> <pre>\n[NEXT]\nx",
    "<b>[NEXT]</b>\n<a title='[NEXT]'>\n[NEXT]\nx",
    "<pre>\n```\n</pre>\n[NEXT]\nx",
    "```\n<pre>\n```\n[NEXT]\nx",
)


@cache
def table(position: str = "last_line", mode: str = "text") -> RoutingTable:
    with TemporaryDirectory() as folder:
        text = CREW.replace("POSITION", position).replace("MODE", mode)
        (Path(folder) / "crew.yaml").write_text(text, "utf-8")
        return RoutingTable(load_definition(folder))


def heard(pieces: list[str], position: str = "last_line") -> ReplyScanner:
    listener = ReplyScanner(table(position), "a")
    for piece in pieces:
        if listener.feed(piece):
            break
    return listener


def cut_of(text: str) -> int | None:
    """By the definition: the first line break before which the line is visible steering marks, blanks, emphasis."""
    steering = {"next", "all done"}
    for end, char in enumerate(text):
        if char not in "\r\n":
            continue
        before = text[:end]
        if is_in_html(before):
            continue
        start = max(before.rfind("\n"), before.rfind("\r")) + 1
        line, found = before[start:], False
        for mark in reversed(list(marks(before, lambda _: True))):
            words = " ".join(mark.inner.lower().replace("-", " ").replace("_", " ").split()).strip("*~ ")
            if mark.end - 1 >= start and words in steering:
                line = line[: max(mark.start - start, 0)] + line[mark.end - start :]
                found = True
        if found and not line.strip("*_~ \t\r"):
            return end
    return None


def is_in_html(before: str) -> bool:
    """Whether a mark that would come next could still be hidden, if only its element is closed."""
    probe = f"{before}\n[NEXT]\n"
    closed = [f"{probe}{closing}" for closing in ("-->", "</pre>", "</code>")]
    return any(not _shows(text, len(before) + 1) for text in closed) and _shows(probe, len(before) + 1)


def _shows(text: str, place: int) -> bool:
    return any(mark.start == place for mark in marks(text, lambda _: True))


def splits(text: str) -> Iterator[list[str]]:
    yield [text]
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("text", NASTY)
def test_any_chunking_gives_the_decision_and_the_cut_of_the_whole(position: str, text: str) -> None:
    whole = heard([text], position)
    for pieces in splits(text):
        listener = heard(pieces, position)
        assert (listener.cut, listener.text) == (whole.cut, whole.text)
        assert listener.decision == whole.decision
    assert whole.decision == table(position).decide(OwnReply("a", whole.text))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("text", ["a\n[NEXT]\nb", "`[NEXT]`\r\n", "[[Next]]\n[", "> [next]\nx"])
def test_every_split_of_a_text_gives_the_decision_of_the_whole(position: str, text: str) -> None:
    """All of them, not some: each place between two letters is cut or not."""
    whole = heard([text], position)
    for cuts in itertools.product((False, True), repeat=len(text) - 1):
        places = [0, *(at for at, is_cut in enumerate(cuts, 1) if is_cut), len(text)]
        listener = heard([text[a:b] for a, b in itertools.pairwise(places)], position)
        assert (listener.cut, listener.text, listener.decision) == (whole.cut, whole.text, whole.decision)


@pytest.mark.parametrize("text", NASTY)
def test_the_cut_is_the_end_of_the_first_line_of_nothing_but_steering_marks(text: str) -> None:
    listener = heard([text])
    assert listener.cut == cut_of(text)
    assert listener.text == text[: listener.cut]


PARTS = st.sampled_from((
    "[NEXT]", "[ALL DONE]", "[all", "done]", "[ALERT]", "[STOP]", "\n", "\n", "\r\n", "\r", "```", "~~~", "`",
    "[", "]", "> ", "- ", "*", "\\", "(x)", ": http://x", " ", "word", "[NEXT]\n", "\n[NEXT]\n",
    "<!--", "-->", "<pre>", "</pre>", "<b>",
))  # fmt: skip


@settings(max_examples=1_500, deadline=None)
@given(parts=st.lists(PARTS, max_size=14), seed=st.integers(0, 9), position=st.sampled_from(POSITIONS))
@example(parts=["[", "\n", "~~~", "\n", "NEXT", "]", "\n"], seed=0, position="last_line")
def test_whatever_is_said_in_whatever_pieces_is_heard_alike(parts: list[str], seed: int, position: str) -> None:
    text, chance = "".join(parts), random.Random(seed)
    assert heard([text]).cut == cut_of(text)
    places = sorted(chance.sample(range(len(text) + 1), min(len(text), chance.randint(0, 6))))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    listener, said = ReplyScanner(table(position), "a"), ""
    for piece in pieces:
        said += piece
        complete = listener.feed(piece)
        said = said[: listener.cut]
        assert listener.text == said
        assert listener.decision == table(position).decide(OwnReply("a", said))
        if complete:
            break
    assert listener.cut == heard([text]).cut


def test_what_ends_in_a_cut_decides_by_the_marks_of_its_last_line() -> None:
    listener = heard(list("First [ALL DONE] is said, then\n[NEXT]\nand [ALL DONE]"))
    assert (listener.decision.signal, listener.text) == ("[NEXT]", "First [ALL DONE] is said, then\n[NEXT]")


def test_where_marks_in_text_are_ignored_nothing_is_cut() -> None:
    listener = ReplyScanner(table("last_line", "tool"), "a")
    assert not listener.feed("[NEXT]\nmore")


@pytest.mark.parametrize("unit", ["word ", "[NEXT] x\n", "```\n[NEXT]\n```\n", "`[\nNEXT]\n", "[x\n", "[NEXT] "])
def test_the_cost_grows_with_the_text_and_not_with_its_square(unit: str) -> None:
    """Counted in lines looked at and characters handed on, not in time: ten times the text, ten times the work."""
    looked = {}
    for size in (1_000, 10_000):
        listener, counted = ReplyScanner(table(), "a"), [0]
        counting = CountingTable(counted)
        listener._table = counting  # type: ignore[assignment]
        for char in unit * (size // len(unit)):
            listener.feed(char)
        looked[size] = counted[0]
        assert listener.cut is None
    assert looked[10_000] <= 11 * looked[1_000] + 300


class CountingTable:
    """Asks the real one, and counts the characters it was asked about."""

    reading = 3

    def __init__(self, counted: list[int]) -> None:
        self._counted = counted

    def is_steering_line(self, agent: str, text: str) -> bool:
        self._counted[0] += len(text)
        return table().is_steering_line(agent, text)
