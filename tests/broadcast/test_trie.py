"""Many patterns at once answer as each would alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.broadcast import matches
from interlock.broadcast.trie import ANSWERS_MAX, PatternTrie

PATTERNS = st.lists(st.text("ab:* ", max_size=7), max_size=12)


@settings(max_examples=1_000, derandomize=True, deadline=None, database=None)
@given(PATTERNS, st.lists(st.text("ab:* ", max_size=7), max_size=6), st.data())
def test_the_trie_answers_as_a_naive_reader_of_every_pattern_does(
    patterns: list[str], kinds: list[str], data: st.DataObject
) -> None:
    trie: PatternTrie[int] = PatternTrie()
    for n, pattern in enumerate(patterns):
        trie.add(pattern, n)
    gone = data.draw(st.sets(st.integers(0, max(0, len(patterns) - 1)))) if patterns else set()
    for kind in (*kinds, *kinds):  # the second time from what is remembered
        assert sorted(trie.match(kind)) == [n for n, pattern in enumerate(patterns) if matches(pattern, kind)]
    for n in gone:
        assert trie.remove(patterns[n], n) is bool(patterns[n].strip())
    for kind in kinds:
        left = [n for n, pattern in enumerate(patterns) if n not in gone and matches(pattern, kind)]
        assert sorted(trie.match(kind)) == left


def test_a_value_is_kept_once_a_pattern_and_what_is_not_there_is_not_removed() -> None:
    trie: PatternTrie[str] = PatternTrie()
    assert trie.add("a:*", "x") and not trie.add(" a:* ", "x") and trie.add("a:b", "x")
    assert len(trie) == 2
    assert trie.match("a:b") == ("x", "x")
    assert not trie.remove("a:*", "y") and not trie.remove("a:b:c", "x") and not trie.remove("", "x")
    assert not trie.add(" ", "x")


def test_patterns_that_come_and_go_leave_nothing_behind() -> None:
    trie: PatternTrie[int] = PatternTrie()
    for n in range(100):
        trie.add(f"a:{n}:*:b", n)
        trie.remove(f"a:{n}:*:b", n)
    assert trie._root == {} and len(trie) == 0


def test_answers_are_remembered_up_to_a_bound() -> None:
    trie: PatternTrie[int] = PatternTrie()
    trie.add("*", 1)
    for n in range(ANSWERS_MAX + 5):
        assert trie.match(str(n)) == (1,)
    assert len(trie._answers) == 5
