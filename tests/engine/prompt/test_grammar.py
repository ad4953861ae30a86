"""Constrained endings: what the grammar lets through, and what an answer under the schema becomes."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.prompt.grammar import ReplyEnding, ending_in, ending_of
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.errors import ModelUnavailable
from tests.engine.gbnf import Grammar

NAMES = ("[NEXT]", "[KẾT THÚC]", "[完了]")
CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b, is_terminal: true}]
signals: [{name: "[ALERT]", behavior: external}]
routing:
  signals:
    a:
      - {signal: "[NEXT]", target: b}
      - {signal: "[KẾT THÚC]", type: terminate}
      - {signal: "[完了]", type: terminate}
      - {signal: "[ALERT]"}
      - {signal: "[ALL]", type: parallel, target: both}
      - {signal: "[FEW]", type: parallel, target: few}
  parallel_groups: {both: {agents: [a, b], next_agent: a}, few: {agents: [a]}}
settings: {signal_mode: constrained, signal_position: POSITION}
"""


def crew(folder: Path, position: str = "last_line") -> CrewDefinition:
    (folder / "crew.yaml").write_text(CREW.replace("POSITION", position), "utf-8")
    return load_definition(folder)


@cache
def table(position: str) -> RoutingTable:
    with TemporaryDirectory() as folder:
        return RoutingTable(crew(Path(folder), position))


LEGAL = (
    "Well.\n[NEXT]",
    "Xong rồi.\n[KẾT THÚC]",
    "終わり\n\n[完了]",
    "Two lines,\n  `code`, ``more`` and ~this~.\n[NEXT]",
    "```py\nx = 1\n\n~~~\n```\nThat is it.\n[NEXT]",
    "Say:\n```\nx[0]\n```\n[NEXT]",
    "`a` first\n[NEXT]",
    "A list:\n- one\n- two\n\n> quoted\n[NEXT]",
)
ILLEGAL = (
    "",
    "[NEXT]",
    "Well.",
    "Well.\n",
    "Well. [NEXT]",
    "Well.\n[NEXT]\n",
    "Well.\n[NEXT] [NEXT]",
    "Well.\n[NEXT]\n[NEXT]",
    "Well.\n[next]",
    "Well.\n[STOP]",
    "Well.\n [NEXT]",
    "Well.\n[KẾT THÚC",
    "```\nx\n[NEXT]",
    "- ```\nx\n[NEXT]",
    "~~~\nx\n[NEXT]",
    " \n[NEXT]",
    "\n\n[NEXT]",
)


@pytest.mark.parametrize("last_line", [True, False])
@pytest.mark.parametrize("text", LEGAL)
def test_text_and_one_legal_mark_match(text: str, last_line: bool) -> None:
    assert Grammar(ending_in(NAMES, last_line=last_line).grammar).matches(text)


@pytest.mark.parametrize("last_line", [True, False])
@pytest.mark.parametrize("text", ILLEGAL)
def test_anything_else_does_not(text: str, last_line: bool) -> None:
    assert not Grammar(ending_in(NAMES, last_line=last_line).grammar).matches(text)


def test_marks_may_be_mentioned_before_only_where_they_do_not_count() -> None:
    text = "I could say [NEXT], and do not.\n[完了]"
    assert Grammar(ending_in(NAMES).grammar).matches(text)
    assert not Grammar(ending_in(NAMES, last_line=False).grammar).matches(text)


def test_a_brief_reply_is_a_few_sentences_and_a_mark() -> None:
    brief = Grammar(ending_in(NAMES).brief(2))
    for text in ("What is 2 + 2?\n[NEXT]", "Hay. Xong rồi!\n[KẾT THÚC]", "終。\n[完了]", "x" * 159 + ".\n[NEXT]"):
        assert brief.matches(text)
    for text in ("One. Two. Three.\n[NEXT]", "One\n[NEXT]", "One.\n[STOP]", "One. [NEXT]", "x" * 160 + ".\n[NEXT]"):
        assert not brief.matches(text)


PARTS = st.sampled_from((
    "[NEXT]", "[完了]", "[KẾT THÚC]", "[STOP]", "[", "]", "\n", "\n", "\n", "`", "``", "```", "~", "~~~", " ",
    "> ", "- ", "word", "\\", "(x)", ": http://x", "\n```\nx\n```\n", "\r",
))  # fmt: skip


@settings(max_examples=3_000, deadline=None)
@given(
    parts=st.lists(PARTS, max_size=12),
    mark=st.sampled_from(NAMES),
    position=st.sampled_from(["last_line", "own_line", "anywhere"]),
)
def test_what_the_grammar_lets_through_steers_by_its_one_mark(parts: list[str], mark: str, position: str) -> None:
    text = "so " + "".join(parts) + "\n" + mark
    ending = ending_of(table(position).crew, "a")
    assert ending is not None
    if Grammar(ending.grammar).matches(text):
        decision = table(position).decide(OwnReply("a", text))
        assert (decision.signal, [c.signal for c in decision.candidates]) == (mark, [mark])
    answer = json.dumps({"text": "".join(parts), "signal": mark})
    assert table(position).decide(OwnReply("a", ending.reply_of(answer))).signal == mark


def ending() -> ReplyEnding:
    return ending_in(NAMES)


def test_the_schema_allows_the_marks_and_nothing_else() -> None:
    assert ending().schema["properties"]["signal"]["enum"] == list(NAMES)
    assert list(ending().schema["properties"]) == ending().schema["required"] == ["text", "signal"]
    assert ending().schema["additionalProperties"] is False


DEEP = f'{{"text": "x", "signal": "[NEXT]", "more": {"[" * 5_000}{"]" * 5_000}}}'


@pytest.mark.parametrize(
    "answer", ["", '{"text": "x"}', '{"text": "x", "signal": "[STOP]"}', "Well. [NEXT]", "\ud800", DEEP], ids=range(6)
)
def test_an_answer_that_breaks_the_schema_is_a_failed_call(answer: str) -> None:
    with pytest.raises(ModelUnavailable, match="the reply"):
        ending().reply_of(answer)


def test_an_open_fence_is_closed_before_the_mark() -> None:
    answer = json.dumps({"text": "See:\n````\n```\nx = 1", "signal": "[NEXT]"})
    assert ending().reply_of(answer) == "See:\n````\n```\nx = 1\n````\n[NEXT]"


def test_only_marks_that_steer_end_a_reply_and_only_where_they_can(tmp_path: Path) -> None:
    loaded = crew(tmp_path)
    talk = Conversation(loaded, RoutingTable(loaded))
    steering = ("[NEXT]", "[KẾT THÚC]", "[完了]", "[ALL]", "[FEW]")
    assert [talk.ending("a"), talk.ending("a", "few")] == [ending_in(steering)] * 2
    assert talk.ending("b") is None
    assert talk.ending("a", "both") is None, "next_agent says what follows, not a mark"
