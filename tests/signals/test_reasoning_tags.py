import re
from collections.abc import Iterator
from random import Random

import pytest

from interlock.signals.reasoning_tags import (
    TAGS,
    PartKind,
    ReasoningSplitter,
    ReplyPart,
    SplitText,
    split_reasoning,
)

# Between the channels of a reply of gpt-oss.
TURN = "<|end|><|start|>assistant"

SPLITS = [
    ("<think>[END]</think>\n\nSo. [NEXT]", "So. [NEXT]", "[END]"),
    ("<think>[END]</think>So. [NEXT]", "So. [NEXT]", "[END]"),
    ("So.\n<think>[END]</think>\n[NEXT]", "So.\n\n[NEXT]", "[END]"),
    ("  <thinking>a</thinking>b", "  b", "a"),
    ("<Reasoning>a</REASONING>b", "b", "a"),
    ("<think>a [END]", "", "a [END]"),
    ("<think>a</thinking>[END]", "", "a</thinking>[END]"),
    ("<think>a</think><think>b</think>c", "c", "a\n\nb"),
    ("<think>`</think>`c", "`c", "`"),
    ("<think>\n```\n</think>\nc", "c", "```"),
    ("hm [END]\n</think>\n\nSo. [NEXT]", "So. [NEXT]", "hm [END]"),
    ("hm [END]</think>So. [NEXT]", "So. [NEXT]", "hm [END]"),
    ("Sure. <think>\n[END]\n</think>\n[NEXT]", "[NEXT]", "Sure. <think>\n[END]"),
    ("<think>a<think>b</think>c [END]</think>d", "d", "a<think>bc [END]"),
    ("a\n```\nb\n```\n<think>[END]</think>c", "a\n```\nb\n```\nc", "[END]"),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "b", f"a{TURN}"),
    ("<!--\n```\n-->\n<think>[END]</think>c", "<!--\n```\n-->\nc", "[END]"),
    ("</think>a", "a", ""),
    ("<think></think>", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "text", "reasoning"), SPLITS)
def test_reasoning_is_split_off_the_text(reply: str, text: str, reasoning: str) -> None:
    assert split_reasoning(reply)[:2] == (text, reasoning)


@pytest.mark.parametrize(("opening", "closing"), TAGS.items())
def test_every_tag_of_the_table_opens_and_closes(opening: str, closing: str) -> None:
    assert split_reasoning(f"{opening}a{closing}b") == SplitText("b", "a")
    assert split_reasoning(f"{opening.upper()}a") == SplitText("", "a")
    assert split_reasoning(f"a{closing}b") == SplitText("b", "a", is_unopened=True)
    assert split_reasoning(f"see `{opening}` and `{closing}`").reasoning == ""


SPEAKS_OF_TAGS = (
    "I use <think> first. [END]",
    "I use <think> and </think>. [END]",
    "`<think>` [END]",
    "`</think>` [END]",
    "`` a ` </think> `` [END]",
    "` </think> [END]",
    "```\n<think>\n```\n[END]",
    "~~~\n</think>\n~~~\n[END]",
    "- ```\n  <think>\n  ```\n[END]",
    "> <think>\n[END]",
    "\\<think> and \\</think> [END]",
    "<thinker> < think> <think/> </ think> [END]",
    "<thin\nk>[END]",
    "a < b [END] <",
    "<think",
)


@pytest.mark.parametrize("reply", SPEAKS_OF_TAGS)
def test_a_tag_inside_a_line_or_in_code_is_text(reply: str) -> None:
    assert split_reasoning(reply) == SplitText(reply, "")


def test_text_is_shown_at_once_unless_it_may_begin_a_tag() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("a <b") == [ReplyPart(PartKind.TEXT, "a <b")]
    assert splitter.feed("> <th") == [ReplyPart(PartKind.TEXT, "> ")]
    assert splitter.feed("e end>") == [ReplyPart(PartKind.TEXT, "<the end>")]
    assert splitter.feed("\n<think>hm </") == [ReplyPart(PartKind.TEXT, "\n"), ReplyPart(PartKind.REASONING, "hm ")]
    assert splitter.feed("b></think>so") == [ReplyPart(PartKind.REASONING, "</b>"), ReplyPart(PartKind.TEXT, "so")]
    assert splitter.feed("</thi") == []
    assert splitter.end() == [ReplyPart(PartKind.TEXT, "</thi")]


def test_a_closing_tag_without_an_opening_one_takes_back_what_was_shown() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("hm\n") == [ReplyPart(PartKind.TEXT, "hm\n")]
    assert splitter.feed("</think> so") == [ReplyPart(PartKind.TAKEN_BACK), ReplyPart(PartKind.TEXT, "so")]


@pytest.mark.parametrize(
    "piece", ["<think></think>", "</think>", "`</think>", "<", "<thin", "`", "\\<", "\n<think>", "a\n", "<code>\n"]
)
def test_the_cost_is_linear_in_the_reply(piece: str) -> None:
    """Counted in parts, not in time: a quadratic splitter would not end."""
    reply = piece * (40_000 // len(piece))
    text, reasoning, _ = split_reasoning(reply)
    assert len(text) + len(reasoning) <= 3 * len(reply)


# Against a second reading of the rule, written without looking at the first: whole text, one character at a time.

WORDS = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "<THINK>", "</Think>"),
    *("[END]", "[NEXT]", "so", " ", "  ", "\n", "\n", "\r\n", "`", "``", "```", "\n```\n", "~~~", "\\", "<", ">", "</"),
    *("<b>", "think>", "- ", "> "),
)


def read_naively(reply: str) -> tuple[str, str]:
    """The text and the reasoning; without white space, which is not at stake here."""
    text, everything, position = "", "", 0
    while position < len(reply):
        tag = next((tag for tag in (*TAGS, *TAGS.values()) if reply[position:].lower().startswith(tag)), "")
        line = re.split(r"[\n\r]", text)[-1]
        if not tag or is_in_code(text, line):
            text, everything, position = text + reply[position], everything + reply[position], position + 1
            continue
        position += len(tag)
        if tag in TAGS and not line.strip():
            end = reply.lower().find(TAGS[tag], position)
            block = reply[position:] if end < 0 else reply[position:end]
            everything, position = everything + block, len(reply) if end < 0 else end + len(TAGS[tag])
        elif tag in TAGS or is_open_in(line, tag):
            written = reply[position - len(tag) : position]
            text, everything = text + written, everything + written
        else:
            text = ""
    return "".join(text.split()), "".join(everything.split())


def is_open_in(line: str, closing: str) -> bool:
    """Whether the line has the opening tag, as text, after the last closing tag."""
    opening = next(opening for opening, its in TAGS.items() if its == closing)
    shown = without_code(line).lower()
    return shown.rfind(opening) > shown.rfind(closing)


def without_code(line: str) -> str:
    """The line up to here, without its code spans and escaped signs; from an open backtick on there is nothing."""
    line = re.sub(r"\\.", "", line) if "`" not in line else line
    shown, position = "", 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] == "`":
            ticks = re.match("`+", line[position:])
            assert ticks is not None
            closing = re.search(rf"(?<!`){ticks[0]}(?!`)", line[position + len(ticks[0]) :])
            if closing is None:
                return f"{shown}\0"
            position += len(ticks[0]) + closing.end()
        else:
            shown, position = shown + line[position], position + 1
    return f"{shown}\0" if line.endswith("\\") and not re.search(r"(?<!\\)(\\\\)+$", line) else shown


def is_in_code(text: str, line: str) -> bool:
    fence = ""
    for each in re.split(r"[\n\r]", text)[:-1]:
        if fence:
            closing = re.fullmatch(r"[ \t]*(`{3,}|~{3,})[ \t]*", each)
            fence = "" if closing and closing[1].startswith(fence) else fence
        else:
            opening = re.match(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})", each)
            fence = opening[1] if opening else ""
    return bool(fence) or without_code(line).endswith("\0")


def random_replies(count: int) -> Iterator[tuple[str, Random]]:
    for seed in range(count):
        chance = Random(seed)
        yield "".join(chance.choices(WORDS, k=chance.randint(1, 14))), chance


def test_a_second_reading_of_the_rule_gives_the_same() -> None:
    for reply, _ in random_replies(1_500):
        text, everything = read_naively(reply)
        split = split_reasoning(reply)
        assert "".join(split.text.split()) == text, reply
        if not text:
            assert "".join(split.reasoning.split()) == everything, reply


def parts_of(pieces: list[str]) -> tuple[str, str]:
    """What a follower has seen at the end."""
    splitter = ReasoningSplitter()
    text = reasoning = ""
    for part in [part for piece in pieces for part in splitter.feed(piece)] + splitter.end():
        if part.kind is PartKind.TAKEN_BACK:
            text, reasoning = "", "taken back"
        elif part.kind is PartKind.TEXT:
            text += part.text
        else:
            reasoning += part.text
    return text, reasoning


def test_every_split_into_two_and_into_characters_gives_the_same() -> None:
    replies = [reply for reply, _ in random_replies(150)] + [each[0] for each in SPLITS] + list(SPEAKS_OF_TAGS)
    for reply in replies:
        whole = parts_of([reply])
        assert whole[0] == split_reasoning(reply).text
        assert parts_of(list(reply)) == whole, reply
        for at in range(1, len(reply)):
            assert parts_of([reply[:at], reply[at:]]) == whole, (reply, at)


def test_random_chunks_give_the_same() -> None:
    for reply, chance in random_replies(1_000):
        places = sorted(chance.choices(range(len(reply) + 1), k=3))
        pieces = [reply[a:b] for a, b in zip([0, *places], [*places, len(reply)], strict=True)]
        assert parts_of(pieces) == parts_of([reply]), (reply, pieces)
