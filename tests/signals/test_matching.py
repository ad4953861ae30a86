"""Recognition: which signals a text carries, how exactly, and where."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.limits import FENCE_SIGNS_MAX, LAST_LINE_CHARS_MAX, MARK_CHARS_MAX, READ_CHARS_MAX
from interlock.signals import Match, MatchMethod, SignalError, SignalMatcher, is_signal_name
from interlock.signals.matching import marks, normal_form

EXACT, CASELESS, NORMALIZED = MatchMethod
quick = settings(max_examples=300, derandomize=True, deadline=None, database=None)


def methods(name: str, text: str) -> list[MatchMethod]:
    return [match.method for match in SignalMatcher([name]).find(text)]


# Levels


@pytest.mark.parametrize(
    ("name", "text", "method"),
    [
        ("[END]", "Task complete. [END]", EXACT),
        ("[KẾT_THÚC]", "[KẾT_THÚC]", EXACT),
        ("[KẾT THÚC THI]", "[KẾT THÚC THI]", EXACT),
        ("[__END__]", "[__END__]", EXACT),
        ("[END]", "Task complete. [end]", CASELESS),
        ("[end]", "[END]", CASELESS),
        ("[END]", "[eNd]", CASELESS),
        ("[ĐẠT]", "[đạt]", CASELESS),
        ("[STRASSE]", "[straße]", CASELESS),
        ("[ΤΕΛΟΣ]", "[τελος]", CASELESS),
        ("[ΤΕΛΟΣ]", "[τελοσ]", CASELESS),
        ("[KẾT_THÚC]", "[ Kết Thúc ]", NORMALIZED),
        ("[KẾT_THÚC]", unicodedata.normalize("NFD", "[KẾT_THÚC]"), NORMALIZED),
        (unicodedata.normalize("NFD", "[KẾT_THÚC]"), "[kết thúc]", NORMALIZED),
        ("[END]", "[ END ]", NORMALIZED),
        ("[END]", "[\tEND\u00a0]", NORMALIZED),
        ("[END]", "[\nEND\n]", NORMALIZED),
        ("[END EXAM]", "[END\nEXAM]", NORMALIZED),
        ("[END EXAM]", "[END\r\n  EXAM]", NORMALIZED),
        ("[END EXAM]", "[END  EXAM]", NORMALIZED),
        ("[END EXAM]", "[END\u3000EXAM]", NORMALIZED),
        ("[END_EXAM]", "[END-EXAM]", NORMALIZED),
        ("[END_EXAM]", "[end exam]", NORMALIZED),
        ("[END_EXAM]", "[END_-_EXAM]", NORMALIZED),
        ("[END_EXAM]", "[-END_EXAM-]", NORMALIZED),
        ("[GO-ON]", "[GO ON]", NORMALIZED),
    ],
)
def test_recognition_is_tolerant_and_says_how_much(name: str, text: str, method: MatchMethod) -> None:
    assert methods(name, text) == [method]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("[END]", "[EN D]"),
        ("[END]", "[END.]"),
        ("[END]", "[END!]"),
        ("[END]", "[THE END]"),
        ("[END]", "[ENDE]"),
        ("[END_EXAM]", "[ENDEXAM]"),
        ("[ROUTE_A]", "[ROUTE_AB]"),
        ("[CÂU_HỎI]", "[CAU_HOI]"),
        ("[END]", "[\u200bEND]"),
        ("[END]", "END"),
        ("[END]", "[END"),
        ("[END]", "END]"),
        ("[END]", "[]"),
        ("[END]", "(END) {END} <END>"),
        ("[END]", "⟦END⟧ ［END］"),
        ("[END]", ""),
    ],
)
def test_anything_else_is_not_the_signal(name: str, text: str) -> None:
    assert methods(name, text) == []


@pytest.mark.parametrize("text", ["*[END]*", "**[END]**", "_[END]_", "__[END]__", "~~[END]~~", "***[END]***"])
def test_emphasis_around_the_brackets_changes_nothing(text: str) -> None:
    assert methods("[END]", text) == [EXACT]
    assert methods("[END]", text.lower()) == [CASELESS]


@pytest.mark.parametrize(
    "text", ["[*END*]", "[**END**]", "[_END_]", "[__END__]", "[~~END~~]", "[***END***]", "[**_END_**]", "[ ** END ** ]"]
)
def test_emphasis_just_inside_the_brackets_is_normalized(text: str) -> None:
    assert methods("[END]", text) == [NORMALIZED]
    assert methods("[END]", f"**{text}**") == [NORMALIZED]


def test_emphasis_amid_the_name_is_not_trimmed() -> None:
    assert methods("[END EXAM]", "[END **EXAM** NOW] [END *- EXAM]") == []


# Identity


def test_identity_is_exact() -> None:
    matcher = SignalMatcher(["[END]", "[end]"])
    assert matcher.find("[END]") == [Match("[END]", EXACT, 0, 5)]
    assert matcher.find("[end]") == [Match("[end]", EXACT, 0, 5)]


def test_a_mark_that_two_signals_claim_equally_is_given_for_each_in_file_order() -> None:
    matcher = SignalMatcher(["[END]", "[end]"])
    assert matcher.find("[End]") == [Match("[END]", CASELESS, 0, 5), Match("[end]", CASELESS, 0, 5)]


def test_the_most_exact_level_that_knows_the_mark_decides() -> None:
    matcher = SignalMatcher(["[GO ON]", "[GO_ON]", "[go-on]"])
    assert [match.signal for match in matcher.find("[GO_ON]")] == ["[GO_ON]"]
    assert [match.signal for match in matcher.find("[GO-ON]")] == ["[go-on]"]
    assert [match.signal for match in matcher.find("[GO - ON]")] == ["[GO ON]", "[GO_ON]", "[go-on]"]


def test_a_name_given_twice_is_one_name() -> None:
    matcher = SignalMatcher(["[END]", "[END]"])
    assert matcher.names == ("[END]",)
    assert matcher.find("[end]") == [Match("[END]", CASELESS, 0, 5)]


@pytest.mark.parametrize("name", ["END", "[END", "", "[]", "[a[b]", "[ END]"])
def test_a_matcher_refuses_a_malformed_name(name: str) -> None:
    with pytest.raises(SignalError, match="has invalid format"):
        SignalMatcher(["[END]", name])


def test_without_names_nothing_is_found() -> None:
    assert SignalMatcher([]).find("[END]") == []


# Marks


def test_every_mark_is_found_in_the_order_of_the_text() -> None:
    found = SignalMatcher(["[END]", "[NEXT]"]).find("[NEXT] a [end] b [NEXT][ End ]")
    assert [(match.signal, match.method) for match in found] == [
        ("[NEXT]", EXACT),
        ("[END]", CASELESS),
        ("[NEXT]", EXACT),
        ("[END]", NORMALIZED),
    ]


def test_a_match_knows_where_it_stands() -> None:
    text = "Xong rồi. [ Kết\nThúc ] và hết."
    (match,) = SignalMatcher(["[KẾT_THÚC]"]).find(text)
    assert text[match.start : match.end] == "[ Kết\nThúc ]"


@pytest.mark.parametrize(("text", "start"), [("[[END]", 1), ("[a [END]]", 3), ("[[[END]]]", 2), ("[\n[END]", 2)])
def test_a_mark_begins_at_the_last_bracket_before_its_end(text: str, start: int) -> None:
    (match,) = SignalMatcher(["[END]"]).find(text)
    assert (match.start, match.end) == (start, start + 5)


def test_end_and_next_side_by_side_are_two_marks() -> None:
    found = SignalMatcher(["[END]", "[NEXT]"]).find("[END][NEXT]")
    assert [(match.start, match.end) for match in found] == [(0, 5), (5, 11)]


def test_a_mark_may_have_two_hundred_characters_and_no_more() -> None:
    blanks = " " * (MARK_CHARS_MAX - 5)
    assert methods("[END]", f"[END{blanks}]") == [NORMALIZED]
    assert methods("[END]", f"[END{blanks} ]") == []


def test_a_name_may_have_two_hundred_characters_and_no_more() -> None:
    longest = f"[{'X' * (MARK_CHARS_MAX - 2)}]"
    assert methods(longest, longest) == [EXACT]
    with pytest.raises(SignalError):
        SignalMatcher([f"[{'X' * (MARK_CHARS_MAX - 1)}]"])


def test_marks_gives_every_wanted_pair_of_brackets_that_is_visible() -> None:
    asked: list[str] = []

    def wanted(inner: str) -> bool:
        asked.append(inner)
        return inner != "b"

    assert [mark.inner for mark in marks("[a] [b] `[c]` [d e]", wanted)] == ["a", "d e"]
    assert asked == ["a", "b", "c", "d e"]


# Properties

LETTERS = "ABZabz019ĐđƠẾếÅçßΣσςЯж한漢あअ٣"
names = (
    st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=4)
    .flatmap(lambda words: st.sampled_from("_- ").map(lambda sign: f"[{sign.join(words)}]"))
    .filter(is_signal_name)
)
blanks = st.text(" \t\n\u00a0", max_size=3)


@quick
@given(names, st.data())
def test_any_spelling_of_a_name_is_recognised_as_that_name(name: str, data: st.DataObject) -> None:
    words = name[1:-1].replace("_", " ").replace("-", " ").split()
    between = st.text("_- \t\n", min_size=1, max_size=3)
    respelled = words[0] + "".join(data.draw(between) + word for word in words[1:])
    recased = data.draw(st.sampled_from([str.upper, str.lower, str.swapcase, str.title, str.casefold]))(respelled)
    decomposed = unicodedata.normalize("NFD", recased) if data.draw(st.booleans()) else recased
    emphasis = data.draw(st.sampled_from(["", "*", "**", "_", "__", "~~", "**_"]))
    inner = f"{data.draw(blanks)}{emphasis}{decomposed}{emphasis[::-1]}{data.draw(blanks)}"
    (match,) = SignalMatcher([name, "[SOMETHING ELSE]"]).find(f"Well. [{inner}] So.")
    assert (match.signal, match.start, match.end) == (name, 6, 8 + len(inner))


@quick
@given(names, st.sampled_from([str.upper, str.lower, str.swapcase]))
def test_changing_case_alone_is_at_least_case_insensitive(name: str, recase: type[str]) -> None:
    assert methods(name, recase(name)) in ([EXACT], [CASELESS])


@quick
@given(names, names)
def test_what_a_level_takes_for_equal_every_lower_level_does_too(one: str, other: str) -> None:
    for name, text in ((one, other), (one, one), (one, one.swapcase()), (one, f"[ {other[1:-1]} ]")):
        inner, mark = name[1:-1], text[1:-1]
        levels = [inner == mark, inner.casefold() == mark.casefold(), normal_form(inner) == normal_form(mark)]
        assert levels == sorted(levels)
        expected = MatchMethod.EXACT if levels[0] else CASELESS if levels[1] else NORMALIZED if levels[2] else None
        assert methods(name, text) == ([expected] if expected else [])


@quick
@given(st.text(LETTERS + "_-*~ \t\n", max_size=30))
def test_normalizing_twice_changes_nothing(inner: str) -> None:
    once = normal_form(inner)
    assert normal_form(once) == once


@quick
@given(st.text())
def test_any_text_can_be_searched(text: str) -> None:
    matcher = SignalMatcher(["[END]", "[KẾT_THÚC]", "[A]"])
    told = f"[kết thúc]\n\n{text}"
    found = matcher.find(told)
    assert (found[0].signal, found[0].start) == ("[KẾT_THÚC]", 0)
    for match in found:
        assert normal_form(told[match.start + 1 : match.end - 1]) == normal_form(match.signal[1:-1])


@quick
@given(st.text(st.characters(exclude_categories=()), max_size=30), st.text("[]`\\()>\n~ENDx:/", max_size=40))
def test_lone_surrogates_and_control_characters_do_no_harm(strange: str, signs: str) -> None:
    matcher = SignalMatcher(["[END]"])
    for harm in (strange + signs, f"[{strange}]{signs}"):
        assert matcher.find(f"[END]\n\n{harm}")[0].start == 0, "what was said before is found"
        matcher.find(harm)


@quick
@given(st.lists(st.sampled_from(["[END]", "[next]", "[ Wait ]", "word", "`x`", "[a](b)", "\n"]), max_size=20))
def test_a_matcher_for_many_finds_what_matchers_for_one_find(pieces: list[str]) -> None:
    signals, text = ["[END]", "[NEXT]", "[WAIT]"], " ".join(pieces)
    apart = [match for signal in signals for match in SignalMatcher([signal]).find(text)]
    assert SignalMatcher(signals).find(text) == sorted(apart, key=lambda match: match.start)


# Cost. Whatever is quadratic in these does not end before pytest's timeout.

HOSTILE = {
    "opening brackets": "[",
    "closing brackets": "]",
    "pairs": "[]",
    "open marks": "[END ",
    "marks": "[END]",
    "links": "[END](x)",
    "unclosed links": "[END](",
    "links in links": "[a](b[END](",
    "ends of links": "](",
    "closed ends of links": "](x)",
    "opened parentheses": "(",
    "mixed parentheses": "](()",
    "escapes": "\\",
    "escaped brackets": "\\[",
    "backticks": "`",
    "growing runs of backticks": "`a``b```c",
    "fences": "```\n",
    "tilde fences that do not close": "~~~x\n",
    "both fences": "```\n~~~\n",
    "backticks that are no fences": "x ```\n",
    "lists": "- ",
    "numbered lists": "1. ",
    "quotes": "> [END]\n",
    "blanks": " ",
    "lines": "\n",
    "carriage returns": "\r",
    "broken marks": "[END\nEXAM]",
    "broken links": "[END\nEXAM](x)\n",
    "open brackets over lines": "[\n](x",
    "definitions": "[END]: http://x\n",
    "definitions without an end": "[END]: <",
    "titles without an end": '[x]: /y "',
    "decomposed letters": "[e\u0301",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_two_hundred_kilobytes_of_anything_are_searched_in_one_pass(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    matcher = SignalMatcher(["[END]", "[END EXAM]"])
    for whole in (text, f"{text}\n[END]", f"{text}[END]", f"[END]{text}"):
        matcher.find(whole)
    assert matcher.find(f"[END]\n\n{text}")[0].start == 0


def test_a_megabyte_of_mixed_signs_is_searched() -> None:
    text = "".join(HOSTILE.values()) * 6_000
    SignalMatcher(["[END]"]).find(text)
    assert len(text) > 1_000_000


def test_a_text_is_read_up_to_a_stated_size() -> None:
    matcher, before = SignalMatcher(["[END]"]), "[" * (READ_CHARS_MAX - 4)
    assert [(match.start, match.end) for match in matcher.find(f"{before}END]")] == [
        (READ_CHARS_MAX - 5, READ_CHARS_MAX)
    ]
    assert matcher.find(f"{before}[END] x\nmore") == []
    assert matcher.find("x" * 10_000_000 + "[END]" + "x" * LAST_LINE_CHARS_MAX) == []


LONG = "words\n" * 60_000


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        (f"{LONG}[END]", True),
        (f"{LONG}All done. [END] \n\n", True),
        (f"{LONG}\r[END]\r\n", True),
        ("x" * READ_CHARS_MAX + "[END]", True),
        (f"```\n{LONG}```\n{LONG}[END]", True),
        (f"{LONG}```\nx\n```\n[END]", True),
        (f"{LONG}[END]\nmore", False),
        (f"{LONG}```\n[END]", False),
        (f"~~~\n{LONG}[END]", False),
        (f"```\r{LONG}\r[END]", False),
        (f"{LONG}````\n```\n[END]", False),
        (f"{LONG}```py\n```js\n```\n```\n[END]", False),
        (f"{LONG}> [END]", False),
        (f"{LONG}`[END]`", False),
        (f"{LONG}\\[END]", False),
        (f"{LONG}<pre>\n[END]</pre>", False),
        (f"{LONG}<!--\n[END] -->", False),
        (f"{LONG}[END](x)", False),
        ("x" * READ_CHARS_MAX + "`[END]`", False),
        ("```\n```\n" * FENCE_SIGNS_MAX + f"{LONG}[END]", False),
    ],
)
def test_of_a_longer_text_the_last_line_is_read_too(text: str, visible: bool) -> None:
    assert len(text) > READ_CHARS_MAX
    found = SignalMatcher(["[END]"]).find(text)
    assert [text[match.start : match.end] for match in found] == ["[END]"] * visible


def test_the_number_of_signals_does_not_change_the_number_of_lookups() -> None:
    class Counting(SignalMatcher):
        asked = 0

        def recognizes(self, inner: str) -> bool:
            self.asked += 1
            return super().recognizes(inner)

    text = "prose [1] and [see docs](u) and [nope] " * 50
    few, many = (Counting([f"[S{n}]" for n in range(size)]) for size in (10, 1_000))
    assert few.find(text) == many.find(text) == []
    assert few.asked == many.asked == 150
