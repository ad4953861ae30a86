"""Budgets over windows: what is held, what is settled, what expires; on the ledger that a memory store keeps."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.adapters.store_rules.budget_rules import COOL_DOWN_MS, BudgetCounter, OpenReservation, spend
from interlock.engine.budgets.inherited_limits import STOP, WAIT, WARN, WindowLimit
from interlock.engine.events import Usage
from interlock.ports import Grant, Reservation, Settlement

NOON = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 43_200_000
MINUTE, DAY = 60_000, 86_400_000


class Dicts:
    def __init__(self) -> None:
        self.counters: dict[tuple[str, str, str], BudgetCounter] = {}
        self.holds: dict[str, OpenReservation] = {}

    def counter(self, crew: str, scope: str, window: str) -> BudgetCounter:
        kept = self.counters.get((crew, scope, window), BudgetCounter())
        return msgspec.structs.replace(kept)

    def put_counter(self, crew: str, scope: str, window: str, counter: BudgetCounter) -> None:
        self.counters[crew, scope, window] = counter

    def open_reservation(self, key: str) -> OpenReservation | None:
        return self.holds.get(key)

    def add_reservation(self, held: OpenReservation) -> None:
        self.holds[held.key] = held

    def remove_reservation(self, key: str) -> None:
        del self.holds[key]

    def remove_reservations_before(self, at: int) -> None:
        self.holds = {key: held for key, held in self.holds.items() if held.at >= at}


class Till:
    """One crew that spends, at times that the test names."""

    def __init__(self, *limits: WindowLimit) -> None:
        self.ledger, self.limits = Dicts(), limits

    def reserve(self, key: str, at: int = NOON, agent: str = "a", tokens: int = 10, cost: int = 0) -> Grant:
        order = Reservation(key=key, crew="c", agent=agent, at=at, tokens=tokens, cost_micros=cost, limits=self.limits)
        grant = spend(self.ledger, order)
        assert grant is not None
        return grant

    def settle(self, key: str, at: int = NOON, *, failed: bool = False, usage: Usage | None = None) -> None:
        given = Usage(calls=1) if usage is None else usage
        assert spend(self.ledger, Settlement(key=key, crew="c", agent="a", at=at, usage=given, failed=failed)) is None

    def lose(self, key: str) -> None:
        spend(self.ledger, Settlement(key=key, crew="c", agent="a", at=NOON, usage=None))


def limit(what: str, window: str, most: int, **more: Any) -> WindowLimit:
    return WindowLimit(
        name=f"max_{what}_per_{window}" if window else f"max_{what}", what=what, window=window, most=most, **more
    )


def test_calls_under_way_count_before_they_are_over() -> None:
    till = Till(limit("calls", "minute", 2))
    assert [till.reserve(key).refused for key in "xyz"] == ["", "", "max_calls_per_minute"]


def test_the_next_window_has_room_again_and_a_refusal_says_when_it_begins() -> None:
    till = Till(limit("calls", "minute", 1, then=WAIT))
    till.reserve("x", NOON + 20_000)
    assert till.reserve("y", NOON + 20_000) == Grant(
        refused="max_calls_per_minute", what="calls", then=WAIT, wait_ms=40_000, most=1, used=1
    )
    assert till.reserve("y", NOON + 20_000 + 40_000).refused == ""


def test_a_reservation_is_made_once_however_often_it_is_asked_for() -> None:
    till = Till(limit("calls", "day", 1))
    assert till.reserve("x").refused == till.reserve("x").refused == ""
    assert till.reserve("y").refused == "max_calls_per_day"


def test_what_a_call_cost_takes_the_place_of_what_was_held_for_it() -> None:
    till = Till(limit("tokens", "day", 100))
    till.reserve("x", tokens=90)
    assert till.reserve("y", tokens=20).refused == "max_tokens_per_day"
    till.settle("x", usage=Usage(calls=1, input_tokens=30, output_tokens=20))
    till.settle("x", usage=Usage(calls=1, input_tokens=1_000))  # a second settlement changes nothing
    assert till.reserve("y", tokens=50).refused == ""
    assert till.reserve("z", tokens=1).refused == "max_tokens_per_day"


def test_a_call_that_is_not_made_gives_everything_back() -> None:
    till = Till(limit("calls", "day", 1))
    till.reserve("x")
    till.settle("x", usage=Usage())
    assert till.reserve("y").refused == ""


def test_a_call_whose_cost_nobody_knows_counts_as_it_was_held() -> None:
    till = Till(limit("tokens", "day", 100))
    till.reserve("x", tokens=60)
    till.lose("x")
    assert till.reserve("y", tokens=60).refused == "max_tokens_per_day"


def test_a_reservation_that_is_never_settled_expires_with_its_window() -> None:
    till = Till(limit("tokens", "minute", 100))
    till.reserve("x", tokens=100)
    assert till.reserve("y", NOON + MINUTE, tokens=100).refused == ""
    till.settle("x", NOON + MINUTE, usage=Usage(calls=1))  # too late to change the window that is over
    assert till.reserve("z", NOON + MINUTE, tokens=1).refused == "max_tokens_per_minute"


def test_what_nobody_settles_is_forgotten_when_it_counts_no_more() -> None:
    till = Till(limit("tokens", "day", 100))
    till.reserve("x")
    till.reserve("y", NOON + 3 * DAY)
    assert list(till.ledger.holds) == ["y"]


def test_a_budget_smaller_than_one_estimate_lets_calls_through_while_anything_is_left() -> None:
    till = Till(limit("tokens", "day", 30))
    till.reserve("x", tokens=500)
    till.settle("x", usage=Usage(calls=1, input_tokens=17))
    assert till.reserve("y", tokens=500).refused == ""
    till.settle("y", usage=Usage(calls=1, input_tokens=17))
    assert till.reserve("z", tokens=500).refused == "max_tokens_per_day"


def test_windows_do_not_come_back_when_the_clock_is_set_back() -> None:
    till = Till(limit("calls", "day", 2))
    till.reserve("x", NOON)
    till.settle("x", NOON)
    assert till.reserve("y", NOON - 3 * DAY).refused == ""
    refusal = till.reserve("z", NOON - 3 * DAY)
    assert (refusal.refused, refusal.wait_ms <= DAY) == ("max_calls_per_day", True)


def test_limits_of_an_agent_hold_for_that_agent_alone() -> None:
    till = Till(limit("tokens", "day", 50, scope="a"))
    till.reserve("x", tokens=50)
    assert till.reserve("y", tokens=1).refused == "max_tokens_per_day of a"
    till.limits = (limit("tokens", "day", 50, scope="b"),)
    assert till.reserve("y", agent="b", tokens=50).refused == ""


def test_a_limit_that_only_warns_says_at_its_share_and_at_its_end_that_it_is_there_once_a_window() -> None:
    till = Till(limit("tokens", "day", 25, scope="a", then=WARN, alert=15))
    grants = [till.reserve(str(n)) for n in range(4)]
    assert [grant.refused for grant in grants] == [""] * 4
    assert [bool(grant.alerts) for grant in grants] == [False, True, False, False]
    assert [grant.exceeded for grant in grants] == [(), (), ("max_tokens_per_day of a",), ()]
    assert till.reserve("2").exceeded == ("max_tokens_per_day of a",), "the same answer again"


def test_an_alert_is_given_once_a_window_by_the_call_that_crosses_it() -> None:
    till = Till(limit("cost", "day", 100, alert=50))
    seen = [till.reserve(str(n), cost=20).alerts for n in range(5)]
    assert seen == [(), (), ("max_cost_per_day",), (), ()]
    assert till.reserve("2", cost=20).alerts == ("max_cost_per_day",), "the same answer again"


def test_a_limit_that_only_warns_refuses_nothing() -> None:
    till = Till(limit("tokens", "day", 15, scope="a", then=WARN, alert=15))
    grants = [till.reserve(str(n), tokens=10) for n in range(3)]
    assert [grant.refused for grant in grants] == ["", "", ""]
    assert [bool(grant.alerts) for grant in grants] == [False, True, False]


def test_errors_of_an_hour_close_the_door_until_the_hour_is_over() -> None:
    till = Till(limit("errors", "hour", 2))
    for key in "xy":
        till.reserve(key)
        till.settle(key, failed=True)
    assert till.reserve("z").refused == "max_errors_per_hour"
    assert till.reserve("z", NOON + 60 * MINUTE).refused == ""


def test_errors_in_a_row_open_the_circuit_and_one_trial_after_a_while_may_close_it() -> None:
    till = Till(limit("errors", "", 2, then=STOP))
    for key in "xy":
        till.reserve(key)
        till.settle(key, failed=True)
    assert till.reserve("z", NOON + 1_000) == Grant(
        refused="max_errors", what="errors", then=STOP, wait_ms=COOL_DOWN_MS - 1_000, most=2, used=2
    )
    later = NOON + COOL_DOWN_MS
    assert till.reserve("trial", later).refused == ""
    assert till.reserve("another", later).refused == "max_errors", "one trial at a time"
    till.settle("trial", later)
    assert till.reserve("another", later).refused == ""


def test_a_success_between_errors_keeps_the_circuit_closed() -> None:
    till = Till(limit("errors", "", 2))
    for key, failed in (("a", True), ("b", False), ("c", True)):
        till.reserve(key)
        till.settle(key, failed=failed)
    assert till.reserve("d").refused == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["reserve", "settle", "lose"]), st.integers(0, 9), st.integers(0, 40)), max_size=60
    )
)
@pytest.mark.parametrize("most", [1, 35, 100])
def test_settled_and_held_together_never_pass_a_limit_by_more_than_replies_say(
    most: int, orders: list[tuple[str, int, int]]
) -> None:
    """An independent sum of what each call counts for; a grant needs room in it."""
    till = Till(limit("tokens", "day", most))
    counts: dict[str, int] = {}
    open_keys: set[str] = set()
    for serial, (order, key, tokens) in enumerate(orders):
        if order == "reserve":
            name, spent = f"{key}.{serial}", sum(counts.values())
            grant = till.reserve(name, tokens=tokens)
            assert (grant.refused == "") == (spent < most and (tokens > most or spent + tokens <= most))
            if not grant.refused:
                counts[name] = tokens
                open_keys.add(name)
        elif open_keys:
            name = sorted(open_keys)[key % len(open_keys)]
            open_keys.remove(name)
            if order == "settle":
                till.settle(name, usage=Usage(calls=1, output_tokens=tokens))
                counts[name] = tokens
            else:
                till.lose(name)


def test_errors_in_a_row_are_counted_by_provider() -> None:
    """One that is down opens its own circuit, and the backup's stays closed."""
    ledger = Dicts()
    limit = WindowLimit(name="max_consecutive", what="errors", window="", most=2, scope="a")

    def grant(key: str, provider: str, *, failed: bool) -> Grant | None:
        reserved = Reservation(
            key=key, crew="c", agent="a", at=NOON, tokens=1, cost_micros=0, limits=(limit,), provider=provider
        )
        answer = spend(ledger, reserved)
        settled = Settlement(
            key=key, crew="c", agent="a", at=NOON, usage=Usage(calls=1), failed=failed, provider=provider
        )
        spend(ledger, settled)
        return answer

    assert grant("1", "openai", failed=True) == grant("2", "openai", failed=True) == Grant()
    assert grant("3", "ollama", failed=False) == Grant()
    refused = grant("4", "openai", failed=False)
    assert refused is not None
    assert refused.refused == "max_consecutive of a"
