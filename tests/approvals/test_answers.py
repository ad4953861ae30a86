"""Answers of people to approvals."""

import pytest

from interlock.approvals.answers import ApprovalAnswer, HoldsFor, asks_to_hold, fault_in_pattern, read_approval_answer

YES = ApprovalAnswer(is_yes=True)
RUN = ApprovalAnswer(is_yes=True, holds=HoldsFor.RUN)
ALWAYS = ApprovalAnswer(is_yes=True, holds=HoldsFor.ALWAYS)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", YES),
        (" Y ", YES),
        ("OK", YES),
        ("no", ApprovalAnswer(is_yes=False)),
        ("No: too much: really", ApprovalAnswer(is_yes=False, reason="too much: really")),
        ("for this run", RUN),
        ("For  This run", RUN),
        ("always", ALWAYS),
        (" ALWAYS ", ALWAYS),
        ("always: pay:n < 5", ApprovalAnswer(is_yes=True, holds=HoldsFor.ALWAYS, pattern="pay:n < 5")),
        ("for this run:pay", ApprovalAnswer(is_yes=True, holds=HoldsFor.RUN, pattern="pay")),
        ('{"n": 5}', ApprovalAnswer(is_yes=True, arguments='{"n":5}')),
        ("{}", ApprovalAnswer(is_yes=True, arguments="{}")),
        *(
            (text, None)
            for text in ("", " ", "perhaps", "yes: but", "always:", "for this run:", "run", "[1]", "5", "{")
        ),
    ],
)
def test_an_answer_is_understood_or_not(text: str, answer: ApprovalAnswer | None) -> None:
    assert read_approval_answer(text) == answer


def test_only_answers_that_hold_for_longer_need_a_right() -> None:
    answers = ("yes", "no", "{}", "always", "for this run", "always: x", "what?")
    assert list(filter(asks_to_hold, answers)) == ["always", "for this run", "always: x"]


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("pay", ""),
        ("pay:n = 5", ""),
        ("pay:n <= 9", ""),
        ("", "say for which calls"),
        ("pay:", "has no operator"),
        ("p*", "must begin with 'pay'"),
        ("*", "must begin with 'pay'"),
        ("send", "must begin with 'pay'"),
        ("pay:n > 5", "does not fit this call"),
        ("pay:m > 5", "does not fit this call"),
        ('pay:n = "5"', "does not fit this call"),
    ],
)
def test_an_answer_holds_for_calls_of_this_tool_like_this_one(pattern: str, fault: str) -> None:
    found = fault_in_pattern(pattern, "pay", '{"n": 5}')
    assert fault in found
    assert bool(fault) == bool(found)
