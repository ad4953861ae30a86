"""Broadcast patterns: segments, one wildcard, nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.broadcast import matches
from interlock.broadcast.pattern import pattern_fault
from interlock.limits import BROADCAST_SEGMENTS_MAX, BROADCAST_TYPE_CHARS_MAX


@pytest.mark.parametrize("pattern", ["build:x:done", "build:*:done", "*:*:*", "build:x:*", "*:x:done"])
def test_a_star_stands_for_exactly_one_segment(pattern: str) -> None:
    assert matches(pattern, "build:x:done")


@pytest.mark.parametrize("pattern", ["*", "build:*", "*:*:*:*", "build:*:*:done", "build::done", "**"])
def test_the_number_of_segments_must_agree(pattern: str) -> None:
    assert not matches(pattern, "build:x:done")


@pytest.mark.parametrize(("pattern", "type_"), [("a:*", "a:"), ("*:b", ":b"), ("a:*:c", "a::c"), ("*:*", ":")])
def test_a_star_takes_an_empty_segment_too(pattern: str, type_: str) -> None:
    assert matches(pattern, type_)


@pytest.mark.parametrize("pattern", ["", " ", "\t\n"])
@pytest.mark.parametrize("type_", ["", " ", "build"])
def test_an_empty_pattern_never_matches(pattern: str, type_: str) -> None:
    assert not matches(pattern, type_)


@pytest.mark.parametrize("pattern", ["*", ":", "build"])
def test_an_empty_type_is_never_matched(pattern: str) -> None:
    assert not matches(pattern, "")
    assert not matches(pattern, "  ")


def test_both_sides_are_trimmed_and_segments_are_not() -> None:
    assert matches(" build:done\n", "\tbuild:done ")
    assert not matches("build: done", "build:done")
    assert matches("build: done", "build: done")


@pytest.mark.parametrize("pattern", ["bu*:done", "*d:done", "b?ild:done", "build:**", "build:>", "[b]uild:done"])
def test_there_are_no_other_wildcards(pattern: str) -> None:
    assert not matches(pattern, "build:done")
    assert matches(pattern, pattern)


def test_a_star_in_the_type_is_a_plain_segment() -> None:
    assert matches("build:*", "build:*")
    assert not matches("build:done", "build:*")


def test_case_and_script_are_kept() -> None:
    assert not matches("Build:done", "build:done")
    assert matches("xây:*", "xây:xong")


def naive(pattern: str, type_: str) -> bool:
    """One segment after the other, by cutting heads off."""
    pattern, type_ = pattern.strip(), type_.strip()
    if not pattern or not type_:
        return False
    while True:
        wanted, more_wanted, pattern = pattern.partition(":")
        given_, more_given, type_ = type_.partition(":")
        if (wanted != "*" and wanted != given_) or more_wanted != more_given:
            return False
        if not more_wanted:
            return True


@settings(max_examples=1_000, derandomize=True, deadline=None, database=None)
@given(st.text("ab:* ", max_size=8), st.text("ab:* ", max_size=8))
def test_patterns_agree_with_the_naive_reading(pattern: str, type_: str) -> None:
    assert matches(pattern, type_) == naive(pattern, type_)


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.text(min_size=1).filter(str.strip), st.data())
def test_replacing_any_segments_by_stars_still_matches(type_: str, data: st.DataObject) -> None:
    segments = type_.strip().split(":")
    starred = data.draw(st.lists(st.booleans(), min_size=len(segments), max_size=len(segments)))
    pattern = ":".join("*" if star else part for star, part in zip(starred, segments, strict=True))
    assert matches(pattern, type_)


def test_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    assert matches("*:" * 200_000, "a:" * 200_000 + " ")
    assert not matches("*:" * 200_000 + "b", "a:" * 200_000 + "a")


def test_a_sound_pattern_has_no_fault() -> None:
    assert pattern_fault("build:*:done") is None
    assert pattern_fault(":".join("*" * BROADCAST_SEGMENTS_MAX)) is None
    assert pattern_fault("x" * BROADCAST_TYPE_CHARS_MAX) is None


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("", "is empty and would never match"),
        (" \n", "is empty and would never match"),
        ("x" * 257, "has 257 characters, at most 256 are allowed"),
        (":" * 16, "has 17 segments, at most 16 are allowed"),
    ],
)
def test_a_pattern_that_cannot_be_subscribed_to_says_why(pattern: str, fault: str) -> None:
    assert pattern_fault(pattern) == fault
