"""Standing approvals: which calls they cover."""

import msgspec
import pytest

from interlock.approvals.standing import StandingApproval, approval_id, as_revoked

GIVEN = StandingApproval(
    id="ap-1", tool="pay", pattern="pay:n <= 50", crew="desk", asked_in="r1~2.0", by="key:boss", at=1
)


@pytest.mark.parametrize(
    ("crew", "run", "tool", "arguments", "covers"),
    [
        ("desk", "r9", "pay", '{"n": 50}', True),
        ("desk", "r9", "pay", '{"n": 51}', False),
        ("desk", "r9", "pay", "{}", False),
        ("desk", "r9", "pay", '{"n": "5"}', False),
        ("desk", "r9", "payout", '{"n": 50}', False),
        ("office", "r9", "pay", '{"n": 50}', False),
    ],
)
def test_an_approval_covers_calls_of_its_tool_and_crew_that_clearly_fit(
    crew: str, run: str, tool: str, arguments: str, covers: bool
) -> None:
    assert GIVEN.covers(crew, run, tool, arguments) is covers


def test_one_for_a_run_covers_that_run_and_those_below_it() -> None:
    given = msgspec.structs.replace(GIVEN, run="r1")
    covered = [run for run in ("r1", "r1~2.0", "r2", "r11") if given.covers("desk", run, "pay", '{"n": 5}')]
    assert covered == ["r1", "r1~2.0"]


@pytest.mark.parametrize("pattern", ["p*", "*", "send", "pay:", "", "pay:n <= "])
def test_a_damaged_or_wide_pattern_covers_nothing(pattern: str) -> None:
    assert not msgspec.structs.replace(GIVEN, pattern=pattern).covers("desk", "r1", "pay", '{"n": 5}')


def test_an_answer_gives_the_same_id_whenever_it_is_stored() -> None:
    assert approval_id("r1:4.0") == approval_id("r1:4.0") != approval_id("r1:4.1")


def test_a_revoked_approval_covers_nothing_and_says_who_revoked_it() -> None:
    ended = as_revoked(GIVEN, "user:bob", 9)
    assert GIVEN.covers("desk", "r9", "pay", '{"n": 5}')
    assert not ended.covers("desk", "r9", "pay", '{"n": 5}')
    assert (ended.id, ended.by, ended.revoked_by, ended.revoked_at) == ("ap-1", "key:boss", "user:bob", 9)
