"""Reasoning between tags never steers: 500 blocks with marks in every place, for every split into pieces."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from interlock.compose.crews import load_definition
from interlock.engine.events import ReasoningBlock, ToolRequest
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.errors import ModelRefused
from interlock.ports import Delta, ModelReply, ReasoningDelta
from interlock.runtime.calls.reply_stream import StreamedReply, read_reply, require_sound
from interlock.signals.reasoning_tags import TAGS

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]}}
settings: {signal_position: POSITION, on_no_signal: complete}
"""

THOUGHTS = (
    "[END]", "so [END] it is", "\n[END]\n", "a\n\n[NEXT]", "`x` [END]", "```\n[END]\n```\n[NEXT]", "> [END]", "[end]\n",
    "```\n[END]", "**[END]**", "<b>[END]</b>", "[END][NEXT]", "- [END]", "<code>\n[END]", "~~~\n", "`[END]", "\\[END]",
)  # fmt: skip
TEXTS = ("", "Fine.", "Fine.\nSo.", "A `<think>` here.", "```\n<think>\n```\nSo.")

# Where the block is: before, between or after the text, with an end or without.
FORMS: tuple[Callable[[str, str, str, str], str], ...] = (
    lambda opening, closing, thought, text: f"{opening}{thought}{closing}{text}",
    lambda opening, closing, thought, text: f"\n{opening}\n{thought}\n{closing}\n\n{text}",
    lambda opening, closing, thought, text: f"{text}\n{opening}{thought}{closing}\n{text}",
    lambda opening, closing, thought, text: f"{text}\n  {opening}{thought}{closing}",
    lambda opening, closing, thought, text: f"{text}\n{opening}{thought}",
    lambda opening, closing, thought, text: f"{opening}{thought}{closing}{opening}{thought}{closing}{text}",
)
# A closing tag in code is text, so the thought before it leaves no code open.
UNOPENED: tuple[Callable[[str, str, str, str], str], ...] = (
    lambda _, closing, thought, text: f"{thought.replace('```', '').replace('~~~', '')}\n{closing}\n{text}",
    lambda _, closing, thought, text: f"{thought.replace('`', '').replace('~~~', '')}{closing}{text}",
)


def thinking_replies(count: int, forms: tuple[Callable[[str, str, str, str], str], ...] = FORMS) -> Iterator[str]:
    chance = Random(19)
    for number in range(count):
        opening, closing = chance.choice(list(TAGS.items()))
        thought, text = chance.choice(THOUGHTS), chance.choice(TEXTS)
        yield forms[number % len(forms)](opening, closing, thought, text)


def pieces_of(reply: ModelReply, texts: list[str]) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
    async def pieces() -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        for text in texts:
            yield Delta(text)
        yield reply

    return pieces()


class Follower:
    """What a follower of the run has seen."""

    def __init__(self) -> None:
        self.text = self.reasoning = ""

    def tell(self, text: str) -> None:
        self.text += text

    def tell_reasoning(self, text: str, *, takes_back: bool = False) -> None:
        if takes_back:
            self.reasoning, self.text = self.reasoning + self.text, ""
        self.reasoning += text


async def read(
    text: str, pieces: list[str], table: RoutingTable | None = None, *, holds_text: bool = False
) -> tuple[StreamedReply, Follower]:
    """With a table, the reply is cut at its first line of signals."""
    follower = Follower()
    listen = None if table is None else partial(ReplyScanner, table, "a")
    stream = pieces_of(ModelReply(text=text), pieces)
    streamed = await read_reply(stream, follower.tell, follower.tell_reasoning, listen, holds_text=holds_text)
    return streamed, follower


@pytest.fixture(params=["anywhere", "last_line"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> RoutingTable:
    (tmp_path / "crew.yaml").write_text(CREW.replace("POSITION", request.param), "utf-8")
    return RoutingTable(load_definition(tmp_path))


def chunkings(reply: str, chance: Random) -> list[list[str]]:
    at = chance.randint(0, len(reply))
    return [[], [reply], list(reply), [reply[:at], reply[at:]]]


def signals_of(table: RoutingTable, streamed: StreamedReply) -> list[str]:
    return [each.signal for each in table.decide(OwnReply("a", streamed.reply.text)).candidates]


@pytest.mark.parametrize("cuts", [False, True])
async def test_no_block_of_reasoning_steers(table: RoutingTable, cuts: bool) -> None:
    chance = Random(0)
    for reply in thinking_replies(500):
        results = set()
        for pieces in chunkings(reply, chance):
            streamed, follower = await read(reply, pieces, table if cuts else None)
            assert signals_of(table, streamed) == [], (reply, pieces)
            assert not streamed.cut
            assert streamed.reply.reasoning, "what was split off is kept"
            assert follower.text == (streamed.reply.text if pieces else "")
            results.add((streamed.reply.text, streamed.reply.reasoning))
        assert len(results) == 1, reply


async def test_no_unopened_block_steers(table: RoutingTable) -> None:
    chance = Random(0)
    for reply in thinking_replies(200, UNOPENED):
        for pieces in chunkings(reply, chance):
            streamed, follower = await read(reply, pieces)
            assert signals_of(table, streamed) == [], (reply, pieces)
            assert streamed.is_unopened
            assert follower.text == (streamed.reply.text if pieces else "")


async def test_a_model_that_begins_in_reasoning_is_not_cut_before_the_first_tag(
    table: RoutingTable,
) -> None:
    for reply in thinking_replies(200, UNOPENED):
        streamed, follower = await read(reply, list(reply), table, holds_text=True)
        assert (signals_of(table, streamed), streamed.cut) == ([], False)
        assert "[" not in follower.text


SPEAKS_OF_TAGS = (
    "I use <think> first.\n[END]",
    "`</think>` is a tag.\n[END]",
    "```\n<think>\n```\n[END]",
    "a <think> b </think>\n[END]",
)


@pytest.mark.parametrize("reply", SPEAKS_OF_TAGS)
@pytest.mark.parametrize("cuts", [False, True])
async def test_a_reply_that_speaks_of_tags_steers_as_before(table: RoutingTable, reply: str, cuts: bool) -> None:
    for at in range(len(reply) + 1):
        streamed, _ = await read(f"{reply}\n", [reply[:at], f"{reply[at:]}\n"], table if cuts else None)
        assert signals_of(table, streamed) == ["[END]"]
        assert (streamed.reply.text.strip(), streamed.cut, streamed.reply.reasoning) == (reply, cuts, ())


async def test_a_reply_is_cut_after_its_reasoning(table: RoutingTable) -> None:
    reply = "<think>\n[NEXT]\n</think>\nSo.\n[END]\nand on <think> and on"
    for pieces in ([], [reply], list(reply)):
        streamed, follower = await read(reply, pieces, table)
        assert (streamed.reply.text, streamed.cut) == ("So.\n[END]", True)
        assert streamed.reply.reasoning == (ReasoningBlock(text="[NEXT]"),)
        assert follower.text == ("So.\n[END]" if pieces else "")


async def test_the_search_for_a_line_of_signals_begins_again_after_what_is_taken_back(table: RoutingTable) -> None:
    reply = "hm [NEXT]</think>\nSo.\n[END]\nand on"
    for pieces in ([], [reply], list(reply)):
        streamed, _ = await read(reply, pieces, table)
        assert (streamed.reply.text, streamed.reply.reasoning) == ("So.\n[END]", (ReasoningBlock(text="hm [NEXT]"),))


async def test_a_reply_that_calls_tools_is_not_cut_but_split(table: RoutingTable) -> None:
    follower = Follower()
    reply = ModelReply(text="<think>a</think>[END]\nb", tool_calls=(ToolRequest(id="1", name="t", arguments="{}"),))
    listen = partial(ReplyScanner, table, "a")
    streamed = await read_reply(pieces_of(reply, []), follower.tell, follower.tell_reasoning, listen)
    assert (streamed.reply.text, streamed.cut) == ("[END]\nb", False)


@pytest.mark.parametrize("cuts", [False, True])
async def test_reasoning_of_a_provider_is_shown_and_stays_first(table: RoutingTable, cuts: bool) -> None:
    block = ReasoningBlock(provider="p", text="first", data="signed")

    async def pieces() -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        yield ReasoningDelta("first")
        yield Delta("<think>then</think>So.")
        yield ModelReply(text="<think>then</think>So.", reasoning=(block,))

    follower = Follower()
    listen = partial(ReplyScanner, table, "a") if cuts else None
    streamed = await read_reply(pieces(), follower.tell, follower.tell_reasoning, listen)
    assert streamed.reply.reasoning == (block, ReasoningBlock(text="then"))
    assert (streamed.reply.text, follower.text, follower.reasoning) == ("So.", "So.", "firstthen")


@pytest.mark.parametrize("blocks", [("a text",), (ReasoningBlock(text=5),)])  # type: ignore[arg-type]
def test_reasoning_of_a_wrong_type_is_refused(blocks: tuple[ReasoningBlock, ...]) -> None:
    with pytest.raises(ModelRefused, match="it must be a ReasoningBlock of four texts"):
        require_sound(ModelReply(text="", reasoning=blocks))
