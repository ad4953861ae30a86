"""Who hears what."""

import pytest

from interlock.broadcast.subscriptions import AgentSubscription, Subscriber, SubscriptionIndex, require_pattern
from interlock.errors import BadBroadcast


def directory(*rows: tuple[str, str, str, bool]) -> SubscriptionIndex:
    made = SubscriptionIndex()
    for crew, agent, pattern, silent in rows:
        made.add(AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=silent))
    return made


def test_an_agent_hears_a_broadcast_once_however_many_of_its_patterns_match() -> None:
    made = directory(("ci", "a", "build:*", True), ("ci", "a", "*:done", True), ("ci", "a", "build:done", True))
    assert made.subscribers_of("build:done") == (Subscriber("ci", "a", True),)


def test_one_pattern_that_is_not_silent_makes_it_heard_aloud() -> None:
    made = directory(("ci", "a", "build:*", True), ("ci", "a", "*:done", False))
    assert made.subscribers_of("build:done") == (Subscriber("ci", "a", False),)
    assert made.subscribers_of("build:failed") == (Subscriber("ci", "a", True),)
    other = directory(("ci", "a", "build:*", False), ("ci", "a", "*:done", True))
    assert other.subscribers_of("build:done") == (Subscriber("ci", "a", False),)


def test_nobody_hears_their_own_and_a_namesake_in_another_crew_does() -> None:
    made = directory(("ci", "a", "*", True), ("ci", "b", "*", True), ("ops", "a", "*", False))
    assert made.subscribers_of("x", crew="ci", agent="a") == (
        Subscriber("ci", "b", True),
        Subscriber("ops", "a", False),
    )
    assert len(made.subscribers_of("x")) == 3


def test_the_same_subscription_again_changes_how_it_is_heard() -> None:
    made = directory(("ci", "a", "x", True), ("ci", "a", "x", False))
    assert len(made) == 1
    assert made.subscribers_of("x") == (Subscriber("ci", "a", False),)
    assert made.remove(("ci", "a", "x")) and not made.remove(("ci", "a", "x"))
    assert made.subscribers_of("x") == ()


def test_types_that_nobody_hears_are_not_remembered_for_ever() -> None:
    made = directory(("ci", "a", "x", True))
    for n in range(3_000):
        made.subscribers_of(f"t{n}")
    assert len(made._answers) <= 1_002


@pytest.mark.parametrize("pattern", ["", " ", 7, None, "x" * 257, ":" * 16, "a\x00b", "a:\x1b[31m"])
def test_a_pattern_that_cannot_be_is_refused(pattern: object) -> None:
    with pytest.raises(BadBroadcast):
        require_pattern(pattern)


def test_a_pattern_is_kept_trimmed() -> None:
    assert require_pattern("  build:*:done ") == "build:*:done"
