"""What a watched run shows of its questions."""

from typing import Any

from interlock.cli.view.progress import Progress

ASKED: dict[str, Any] = {
    "type": "input.requested",
    "run": "r",
    "seq": 1,
    "at": 1_000,
    "agent": "a",
    "question": 'a wants to use pay with {"amount":40}',
    "token": "r:1.0",
    "expects": "yes or no",
    "deadline_ms": 20_000,
    "context": "",
    "again_of": "",
}
AGAIN: dict[str, Any] = {**ASKED, "seq": 2, "at": 9_000, "token": "r:2.0", "again_of": "r:1.0"}
EXPIRED: dict[str, Any] = {"type": "input.expired", "run": "r", "seq": 3, "at": 21_000, "token": "r:1.0"}


def progress_of(*events: dict[str, Any]) -> Progress:
    progress = Progress()
    for event in events:
        progress.apply_event(event)
    return progress


def test_a_question_says_until_when_it_can_be_answered_counted_from_when_it_was_first_asked() -> None:
    (first,) = progress_of(ASKED).questions.values()
    assert first.text.splitlines() == ["a → pay(amount=40)", "(yes or no)", "(until 1970-01-01 00:00:21 UTC)"]
    again = progress_of(ASKED, AGAIN).questions["r:2.0"]
    assert "(until 1970-01-01 00:00:21 UTC)" in again.text


def test_a_decision_that_was_not_made_in_time_is_not_asked_any_more() -> None:
    assert progress_of(ASKED, EXPIRED).questions == {}
    given = {"type": "input.given", "run": "r", "seq": 2, "at": 9_000, "token": "r:1.0"}
    assert progress_of(ASKED, given, AGAIN, EXPIRED).questions == {}
