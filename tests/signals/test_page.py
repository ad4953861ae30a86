"""Which brackets of a text a reader of Markdown would take for plain text. Every row says one thing."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.signals.matching import SignalMatcher, marks
from interlock.signals.page import MarkdownPage

MATCHER = SignalMatcher(["[END]", "[NEXT]", "[END EXAM]"])

VISIBLE = {
    "plain prose": "Well done. [END]",
    "inside a word": "foo[END]bar",
    "after an exclamation": "Done![END]",
    "alone": "[END]",
    "in double brackets": "[[END]]",
    "after a stray opening bracket": "[ [END]",
    "before a stray closing bracket": "[END] ]",
    "behind a closed code span": "`x` [END]",
    "between code spans": "`x` [END] `y`",
    "behind a double-backtick span that holds a backtick": "``a ` b`` [END]",
    "on the line after an unclosed backtick": "it`s\n[END]",
    "a code span does not go on to the next line": "`a\n[END] b`",
    "behind an escaped backtick": "\\`[END]",
    "behind two backslashes": "\\\\[END]",
    "behind four backslashes": "\\\\\\\\[END]",
    "behind a backslash and a space": "\\ [END]",
    "on the line after a backslash": "\\\n[END]",
    "behind a closed fence": "```\nx\n```\n[END]",
    "behind a closed tilde fence": "~~~\nx\n~~~\n[END]",
    "behind a fence closed by a longer one": "```\nx\n`````\n[END]",
    "behind a fence closed with blanks": "```\nx\n```  \t\n[END]",
    "behind a fence closed with indentation": "- ```\n  x\n  ```\n[END]",
    "behind two fences": "```\n```\n~~~\n~~~\n[END]",
    "between two fences": "```\nx\n```\n[END]\n```\ny\n```",
    "backticks on one line are a span and no fence": "```x``` [END]",
    "and do not hide the next line": "```x```\n[END]",
    "backticks within a line open no fence": "see ```\n[END]",
    "tildes within a line open no fence": "see ~~~\n[END]",
    "two tildes are no fence": "~~\n[END]",
    "a quoted fence ends with its quote": "> ```\n[END]",
    "the line after a quote": "> quoted\n[END]",
    "the line before a quote": "[END]\n> quoted",
    "an arrow is no quote": "-> [END]",
    "greater-than in prose is no quote": "a > [END]",
    "an escaped quote sign": "\\> [END]",
    "behind a link": "[docs](http://x) [END]",
    "before a link": "[END] [docs](http://x)",
    "a space between mark and parenthesis": "[END] (see below)",
    "an unclosed parenthesis makes no link": "[END](see below",
    "a parenthesis closed on the next line makes no link": "[END](see\nbelow)",
    "an escaped parenthesis makes no link": "[END]\\(x)",
    "an escaped closing parenthesis closes none": "[END](x\\)",
    "in parentheses": "(see [END])",
    "in parentheses behind an escaped bracket": "\\[x\\](see [END])",
    "in parentheses behind a bracket that was never opened": "x](see [END])",
    "two marks side by side": "[END][NEXT]",
    "a mark followed by a colon and words": "[END]: we are through",
    "a mark followed by a colon": "[END]:",
    "a mark followed by a colon and a word with one": "[END]: note: all done",
    "a mark followed by a time of day": "[END]: 12:30",
    "a mark followed by a drive letter": "[END]: c:x",
    "within the line a colon makes no definition": "So [END]: http://x",
    "behind a definition": "[docs]: http://x\n[END]",
    "behind a definition on the same line": '[docs]: http://x "title" [END]',
    "behind a footnote": "[^1]: a note [END]",
    "in a task list": "- [x] first\n- [ ] second [END]",
    "in a list": "- [END]",
    "in a numbered list": "1. [END]",
    "in a table": "| a | [END] |",
    "in a heading": "## [END]",
    "in bold": "**[END]**",
    "in italics": "*[END]* _[NEXT]_",
    "struck through": "~~[END]~~",
    "indented by four": "    [END]",
    "before a carriage return and line feed": "x\r\n[END]\r\ny",
    "behind a fence with carriage returns": "```\r\nx\r\n```\r\n[END]",
    "behind a lone carriage return after a quote": "> x\r[END]",
    "behind formulas": "\\[ a + b \\] [END]",
    "in a broken mark": "x [END\nEXAM]",
    "in a broken mark with a carriage return": "x [END\r\nEXAM]",
}

HIDDEN = {
    "code span": "`[END]`",
    "code span with more around": "say `x [END] y` now",
    "double-backtick span": "``[END]``",
    "double-backtick span that holds a backtick": "``a ` [END]``",
    "runs of other lengths do not close": "`a `` [END]",
    "unclosed backtick": "it`s [END]",
    "unclosed double backtick": "it``s [END] ` x",
    "a backslash does not close a code span early": "`\\` `[END]`",
    "a backslash escapes one backtick of a run": "\\``[END]`",
    "three backticks on one line": "```[END]```",
    "three backticks within a line": "see ```[END]```",
    "fence": "```\n[END]\n```",
    "tilde fence": "~~~\n[END]\n~~~",
    "fence with an info string": "```text title=x\n[END]\n```",
    "in the info string of a fence": "```[END]\nx\n```",
    "in the info string of a tilde fence": "~~~ [END] ~~~\nx",
    "tilde fence with backticks in its info string": "~~~ a`b\n[END]\n~~~",
    "indented fence": "   ```\n   [END]\n   ```",
    "fence indented by a tab": "\t```\n[END]",
    "fence in a list": "- ```\n  [END]\n  ```",
    "fence in a numbered list": "1. ```\n   [END]\n   ```",
    "fence in a nested list": "- 2) ~~~\n[END]",
    "unclosed fence": "```\nx\n\n[END]",
    "unclosed tilde fence": "~~~\n\n\n[END]",
    "a shorter fence does not close": "````\n```\n[END]",
    "the other sign does not close": "```\n~~~\n[END]",
    "a fence with words does not close": "```\n``` x\n[END]",
    "fence with carriage returns": "```\r\n[END]\r\n```",
    "fence opened after a quote": "> x\n```\n[END]\n```",
    "fence begun by a list of another": "```\n- ```\n[END]",
    "block quote": "> [END]",
    "block quote without a blank": ">[END]",
    "indented block quote": "  > [END]",
    "nested block quote": "> > [END]",
    "block quote in a list": "- > [END]",
    "block quote in a numbered list": "12. > [END]",
    "second line of a block quote": "> a\n> [END]",
    "block quote after a lone carriage return": "x\r> [END]",
    "quoted fence": "> ```\n> [END]\n> ```",
    "link": "[END](http://x)",
    "link with nothing in it": "[END]()",
    "image": "![END](x.png)",
    "link with words in parentheses": "[END](http://x/(a)/b)",
    "link with an escaped parenthesis": "[END](a\\)b)",
    "link with a long address": f"[END]({'x' * 5_000})",
    "in the text of a link": "[see [END] there](x)",
    "deep in the text of a link": "[a [b [END] c] d](x)",
    "beside another bracket in the text of a link": "[[a] [END]](x)",
    "in the address of a link": "[x](see [END])",
    "in the title of a link": '[x](y "[END]")',
    "in the text of a link broken over lines": "[see\nthe [END]](x)",
    "image in a link": "[![END](a.png)](b)",
    "definition": "[END]: http://x",
    "definition of a mail address": "[END]: mailto:a@b",
    "definition of a path": "[END]: /x",
    "definition of a fragment": "[END]: #x",
    "definition of a relative path": "[END]: ./x",
    "definition in angle brackets": "[END]: <x y>",
    "definition without a blank": "[END]:http://x",
    "indented definition": "  [END]: http://x",
    "definition in a list": "- [END]: http://x",
    "in the address of a definition": "[x]: http://x/[END]",
    "in the angle brackets of a definition": "[x]: <a [END] b>",
    "in the title of a definition": '[x]: /y "[END]"',
    "behind a backslash": "\\[END]",
    "behind three backslashes": "\\\\\\[END]",
    "both brackets escaped": "\\[END\\]",
    "formula": "\\[ END \\]",
    "closing bracket escaped": "[END\\]",
    "code in the text of a link": "[`[END]`](x)",
    "broken mark that is a link": "[END\nEXAM](x)",
    "broken mark that began in a quote": "> [END\nEXAM]",
    "broken mark that ends behind a backtick": "[END\n`EXAM]",
    "broken mark behind a backslash": "\\[END\nEXAM]",
    "broken mark that runs into a fence": "[END\n~~~]",
}


@pytest.mark.parametrize("text", VISIBLE.values(), ids=VISIBLE)
def test_a_mark_is_seen(text: str) -> None:
    assert MATCHER.find(text)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_a_mark_is_hidden(text: str) -> None:
    assert MATCHER.find(text) == []


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_hides_one_mark_does_not_hide_one_written_above_it(text: str) -> None:
    found = MATCHER.find(f"[NEXT]\n\n{text}")
    assert [(match.signal, match.start) for match in found] == [("[NEXT]", 0)]


@pytest.mark.parametrize("text", VISIBLE.values(), ids=VISIBLE)
def test_carriage_returns_change_nothing_but_positions(text: str) -> None:
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    windows = unix.replace("\n", "\r\n")
    assert len(MATCHER.find(unix)) == len(MATCHER.find(windows)) == len(MATCHER.find(text))


def test_positions_are_those_of_the_text_as_it_was_given() -> None:
    text = "a\r\nb\r[END]\r\n"
    (match,) = MATCHER.find(text)
    assert text[match.start : match.end] == "[END]"


def test_questions_may_skip_any_number_of_lines() -> None:
    text = "[END]\n\n> x\n\n[END] `[END]`\n```\n[END]\n```\n[END]"
    assert [match.start for match in MATCHER.find(text)] == [0, 12, 40]


def test_a_page_answers_for_two_lines_of_one_mark() -> None:
    page = MarkdownPage("`x` [END\nEXAM] `[A]`")
    assert page.shows(4, 13)
    assert not page.shows(16, 18)


# The oracle: the rules of DESIGN section 6 once more, character by character and without regard to cost.


def visible_marks(text: str) -> list[tuple[int, int]]:
    hidden, fenced = hidden_characters(text)
    found = []
    for last, char in enumerate(text):
        first = text.rfind("[", 0, last)
        if char != "]" or first < 0 or "]" in text[first:last] or last - first < 2:
            continue
        if not (hidden[first] or hidden[last] or any(fenced[first : last + 1])):
            found.append((first, last + 1))
    return found


def hidden_characters(text: str) -> tuple[list[bool], list[bool]]:
    hidden, fenced = [False] * len(text), [False] * len(text)
    fence, start, after_html = "", 0, 0
    for line in text.split("\n"):
        end = start + len(line)
        bare = line.strip(" \t")
        if after_html > start:
            begin = min(after_html, end)
            if begin < end:
                after_html = hide_inline(text, begin, end, hidden, fenced)
        elif fence:
            fenced[start:end] = [True] * len(line)
            if len(bare) >= len(fence) and set(bare) == {fence[0]}:
                fence = ""
        elif fence := opening_fence(bare):
            fenced[start:end] = [True] * len(line)
        elif bare.startswith(">"):
            hidden[start:end] = [True] * len(line)
        else:
            after_html = hide_inline(text, start, end, hidden, fenced)
        start = end + 1
    return hidden, fenced


def opening_fence(bare: str) -> str:
    for sign in "`~":
        run = bare[: len(bare) - len(bare.lstrip(sign))]
        if len(run) >= 3 and not (sign == "`" and "`" in bare[len(run) :]):
            return run
    return ""


def hide_inline(text: str, start: int, end: int, hidden: list[bool], fenced: list[bool]) -> int:
    """Gives where HTML ends that goes on beyond the line."""
    before = text[:start]
    opened = [start] if before.rfind("[") > before.rfind("]") else []
    at = start
    while at < end:
        first, after = at, at + 1
        if text[at] == "[":
            opened.append(at)
        elif text[at] == "\\":
            after = min(at + 2, end)
        elif text[at] == "`":
            after = after_code_span(text, at, end)
        elif text[at] == "]" and opened:
            first = opened.pop()
            after = after_parentheses(text, at + 1, end) or at + 1
        elif text[at] == "<":
            after = after_html_sign(text, at, end)
        if text[at] in "\\`" or after > at + 1:
            hidden[first:after] = [True] * (after - first)
        if text[at] == "<" and after > end:
            fenced[at:after] = [True] * (after - at)
        at = after
    return at


def after_html_sign(text: str, at: int, end: int) -> int:
    for empty in ("<!-->", "<!--->"):
        if text.startswith(empty, at):
            return at + len(empty)
    for opening, closing in (("<!--", "-->"), ("<pre>", "</pre>"), ("<code>", "</code>")):
        if text.startswith(opening, at):
            place = text.find(closing, at + len(opening))
            return place + len(closing) if place >= 0 else end
    tag = next((tag for tag in ("<b>", "</b>", "</pre>", "</code>") if text.startswith(tag, at)), "<")
    return at + len(tag)


def after_code_span(text: str, at: int, end: int) -> int:
    runs: list[tuple[int, int]] = []
    for place in range(at, end):
        if text[place] != "`":
            continue
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    opening = runs[0][1] - runs[0][0]
    return next((after for first, after in runs[1:] if after - first == opening), end)


def after_parentheses(text: str, at: int, end: int) -> int | None:
    depth = 0
    while at < end and (depth or text[at] == "("):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 2 if text[at] == "\\" else 1
        if depth == 0:
            return at
    return None


def seen(text: str) -> list[tuple[int, int]]:
    return [(mark.start, mark.end) for mark in marks(text, lambda _: True)]


CHARACTERS = "[]`\\()>\nEND ~"
HTML = (
    "<!--",
    "-->",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<b>",
    "\n",
    "\n",
    "[E]",
    "`",
    "```",
    "> ",
    "\\",
    "](x)",
    "[",
    "<",
)
PIECES = ("[E]", "[", "]", "](", "(", ")", "`", "``", "```", "~~~", "\\", ">", "\n", " ", "E")


def test_every_text_of_up_to_three_pieces_is_read_as_the_oracle_reads_it() -> None:
    for pieces in itertools.product(PIECES, repeat=3):
        for text in ("".join(pieces) + "[E]", "[E" + "".join(pieces) + "]", "[E]" + "".join(pieces) + "[N]"):
            assert seen(text) == visible_marks(text), text


@settings(max_examples=1_000, derandomize=True, deadline=None, database=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_texts_of_pieces_are_read_as_the_oracle_reads_them(text: str) -> None:
    assert seen(text) == visible_marks(text)


def test_every_text_of_up_to_three_pieces_of_html_is_read_as_the_oracle_reads_it() -> None:
    for pieces in itertools.product(dict.fromkeys(HTML), repeat=3):
        for text in ("".join(pieces) + "[E]", "<!--" + "".join(pieces) + "[N]", "<pre>\n" + "".join(pieces) + "[N]"):
            assert seen(text) == visible_marks(text), text


@settings(max_examples=3_000, derandomize=True, deadline=None, database=None)
@given(st.lists(st.sampled_from(HTML), max_size=40).map("".join))
def test_texts_with_html_are_read_as_the_oracle_reads_them(text: str) -> None:
    assert seen(text) == visible_marks(text)


@settings(max_examples=1_000, derandomize=True, deadline=None, database=None)
@given(st.text(CHARACTERS, max_size=60))
def test_texts_of_signs_are_read_as_the_oracle_reads_them(text: str) -> None:
    assert seen(text) == visible_marks(text)
