"""A few hundred of the trials that `make campaign` makes for minutes."""

from collections import Counter
from zlib import crc32

import pytest

from campaign import fuzz
from interlock.adapters.files import run_files


def test_bad_input_is_answered_rightly_or_refused() -> None:
    outcomes = [fuzz.fault_of(seed) for seed in range(1_500)]
    assert [fault for _, fault in outcomes if fault] == []
    counts = Counter(word for word, _ in outcomes)
    for word in (
        "a crew file: problems",
        "a crew file: refused",
        "a crew file: sound, and run to its end",
        "a host file: read",
        "a reply of an agent: steers",
        "a reply of an agent: does not steer",
        "a script file: refused",
        "an exported run: refused",
    ):
        assert counts[word] > 0, f"no seed led to this: {word}"


def test_a_sum_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _, _ = fuzz._exported().removesuffix(b"\n").rpartition(b"\n")
    sum_of_the_whole = crc32(text + b"\n")
    monkeypatch.setattr(run_files, "crc32", lambda _: sum_of_the_whole)
    assert any(fuzz.fault_of(seed)[1] for seed in range(4, 5_000, 5))
