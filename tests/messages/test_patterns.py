"""Patterns: the same answers as Python's own, in bounded time."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.messages import BadQuestion, patterns
from interlock.messages.patterns import parse_pattern

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\s", r"\.", "-"])
REPEATS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,}", "{0,2}"])


def group(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.tuples(st.sampled_from(["(", "(?:"]), inner, st.just(")"), REPEATS).map("".join)
    return st.one_of(one, st.tuples(inner, st.just("|"), inner).map("".join), st.tuples(inner, inner).map("".join))


PATTERNS = st.recursive(st.tuples(ATOMS, REPEATS).map("".join), group, max_leaves=6)


@given(PATTERNS, st.text("abc1 .-", max_size=8))
def test_it_decides_as_the_regular_expressions_of_python_do(text: str, answer: str) -> None:
    try:
        ours = parse_pattern(text)
    except BadQuestion as refused:
        assert "4 deep" in str(refused)
        return
    assert ours.matches(answer) is (re.fullmatch(text, answer) is not None)


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+b",
        "(a|a)*b",
        "(a*)*b",
        "((a*)*)*b",
        ".*.*.*.*.*b",
        "(a?){100}a{100}b",
        "(((a{0,1000}){0,1000}){1000}){1000}b",
        "((((a*b|a)*b|a)*b|a)*b|a)*b",
        "((((a{1000}|a){1000}|a){1000}|a){1000}|a){1000}",
        "(.*b?){9}" * 21 + "b",
    ],
)
def test_patterns_that_never_end_elsewhere_are_decided_with_few_looks(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in looks from places of the answer, because time is no measure on a busy machine."""
    looks, look = 0, patterns._from

    def counted(places: int, ends: Sequence[int]) -> int:
        nonlocal looks
        looks += places.bit_count()
        return look(places, ends)

    monkeypatch.setattr(patterns, "_from", counted)
    assert not parse_pattern(text).matches("a" * 199 + "c")
    assert 0 < looks < 20_000_000


@pytest.mark.parametrize(
    ("text", "answer"), [("^a$", "a"), (r"a\$", "a$"), (r"[\]\-]", "]"), ("[-a]", "-"), ("a|", "")]
)
def test_ends_and_escapes(text: str, answer: str) -> None:
    assert parse_pattern(text).matches(answer)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "not closed"),
        (")", "closes nothing"),
        ("a)", "closes nothing"),
        ("[", "ends too early"),
        ("[]", "empty"),
        ("*", "nothing can be repeated"),
        ("a**", "repeats a repeat"),
        ("a+?", "repeats a repeat"),
        ("a{x}", "in braces"),
        ("a{2,1}", "few to many"),
        ("a{2000}", "at most 1000"),
        (r"(a)\1", r"'\\1' is not part"),
        (r"\b", "is not part"),
        ("(?=a)", "look ahead"),
        ("(?P<n>a)", "have a name"),
        ("[b-a]", "no span"),
        ("a^b", "begun"),
        ("\\", "ends too early"),
        ("(((((a)))))", "4 deep"),
        ("a" * 201, "at most 200"),
    ],
)
def test_what_is_not_part_of_it_is_refused_with_what_is(text: str, why: str) -> None:
    with pytest.raises(BadQuestion, match=why):
        parse_pattern(text)
