"""Agents that wake each other are stopped, and others are not."""

from interlock.broadcast.rate_limits import MINUTE_MS, TOO_MANY_HOPS, TOO_OFTEN, check_rate_limits, describe_refusal
from interlock.limits import BROADCAST_HOPS_MAX, BROADCASTS_PER_MINUTE_MAX


class Counted:
    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], tuple[int, int]] = {}

    def announcement_count(self, crew: str, agent: str) -> tuple[int, int]:
        return self.numbers.get((crew, agent), (0, 0))

    def set_announcement_count(self, crew: str, agent: str, start: int, number: int) -> None:
        self.numbers[crew, agent] = (start, number)


def ask(books: Counted, at: int, *, agent: str = "a", hops: int = 0) -> str:
    return check_rate_limits(books, crew="ci", agent=agent, hops=hops, at=at)


def test_so_many_hops_pass_and_one_more_does_not() -> None:
    books = Counted()
    assert ask(books, 10**12, hops=BROADCAST_HOPS_MAX) == ""
    assert ask(books, 10**12, hops=BROADCAST_HOPS_MAX + 1) == TOO_MANY_HOPS


def test_an_agent_that_says_too_much_in_a_minute_is_not_heard_and_others_are() -> None:
    books, now = Counted(), 10**12
    said = [ask(books, now + n) for n in range(BROADCASTS_PER_MINUTE_MAX + 3)]
    assert said == [""] * BROADCASTS_PER_MINUTE_MAX + [TOO_OFTEN] * 3
    assert ask(books, now + 500, agent="b") == ""
    assert ask(books, now + MINUTE_MS) == ""


def test_a_clock_that_was_set_back_silences_nobody() -> None:
    books, now = Counted(), 10**12
    for n in range(BROADCASTS_PER_MINUTE_MAX):
        ask(books, now + n)
    assert ask(books, now - 7_200_000) == ""


def test_what_is_from_no_agent_has_no_rate() -> None:
    books = Counted()
    assert all(ask(books, 10**12, agent="") == "" for _ in range(BROADCASTS_PER_MINUTE_MAX + 5))
    assert books.numbers == {}


def test_people_are_told_why() -> None:
    assert "16" in describe_refusal(TOO_MANY_HOPS) and "120" in describe_refusal(TOO_OFTEN)
