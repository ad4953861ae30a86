"""Signals for later: rules of the queue."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.broadcast.delayed import (
    DelayedBroadcast,
    after_dispatch,
    after_failure,
    dead_letter_of,
    delivery_order,
    emission_of,
    replaces,
    require_repeat_key,
    require_time,
    view_of,
)
from interlock.broadcast.naming import is_broadcast_id
from interlock.broadcast.record import PROCESS
from interlock.broadcast.schedules import Schedule
from interlock.errors import BadBroadcast
from interlock.limits import DELIVERY_PAUSES_MS, HORIZON_MS

NOW = 1_800_000_000_000


def entry(**changes: Any) -> DelayedBroadcast:
    fields: dict[str, Any] = {
        "id": "aaa",
        "type": "x:y",
        "source": PROCESS,
        "deliver_at": NOW,
        "created_at": 1,
        "updated_at": 1,
    }
    return DelayedBroadcast(**(fields | changes))


@pytest.mark.parametrize(
    "at", [0, -1, 2**63, float("nan"), 1e300, True, "soon", None, 253402300799000, NOW + HORIZON_MS + 1, 1_800_000_000]
)
def test_an_absurd_time_is_refused(at: object) -> None:
    with pytest.raises(BadBroadcast):
        require_time(at, NOW)


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.integers() | st.floats() | st.text() | st.none())
def test_whatever_passes_as_a_time_is_within_ten_years(at: object) -> None:
    try:
        passed = require_time(at, NOW)
    except BadBroadcast:
        return
    assert passed > 0 and abs(passed - NOW) <= HORIZON_MS


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", 7])
def test_a_repeat_key_has_bounds(key: object) -> None:
    with pytest.raises(BadBroadcast):
        require_repeat_key(key)
    assert require_repeat_key(None) is None and require_repeat_key("daily") == "daily"


def test_only_the_same_type_and_repeat_key_replace() -> None:
    old = entry(repeat_key="k")
    assert replaces(entry(id="bbb", repeat_key="k"), old)
    assert replaces(entry(id="aaa"), old), "the very same entry again"
    assert not replaces(entry(id="bbb", repeat_key="other"), old)
    assert not replaces(entry(id="bbb", type="x:z", repeat_key="k"), old)
    assert not replaces(entry(id="bbb"), entry(id="ccc")), "no key replaces nothing"


def test_a_signal_keeps_its_id_on_every_try() -> None:
    tried, ids = entry(), []
    for _ in DELIVERY_PAUSES_MS:
        ids.append(emission_of(tried, NOW).broadcast.id)
        tried = after_failure(tried, NOW) or tried
    assert set(ids) == {"aaa"}


def test_a_failure_waits_longer_each_time_and_then_it_is_dead() -> None:
    tried: DelayedBroadcast | None = entry()
    waits = []
    while tried is not None and (again := after_failure(tried, NOW)) is not None:
        assert again.due_at == again.try_at
        waits.append(again.try_at - NOW)
        tried = again
    assert tuple(waits) == DELIVERY_PAUSES_MS
    assert tried is not None
    dead = dead_letter_of(tried, "nobody is there", NOW)
    assert (dead.id, dead.attempts, dead.reason) == ("aaa", len(DELIVERY_PAUSES_MS) + 1, "nobody is there")


def test_what_goes_out_once_leaves_the_queue() -> None:
    assert after_dispatch(entry(), NOW) is None


def test_each_time_of_a_schedule_has_an_id_of_its_own_that_never_changes() -> None:
    first = entry(schedule=Schedule(every_ms=60_000))
    second = after_dispatch(first, NOW)
    assert second is not None and second.id == first.id and second.deliver_at == NOW + 60_000
    one, two = emission_of(first, NOW).broadcast.id, emission_of(second, NOW).broadcast.id
    assert one != two and is_broadcast_id(one)
    assert emission_of(first, NOW + 5).broadcast.id == one


def test_times_that_were_missed_come_once_and_the_beat_is_kept() -> None:
    three_days = 3 * 24 * 3600 * 1000
    late = after_dispatch(entry(schedule=Schedule(every_ms=60_000)), NOW + three_days + 1)
    assert late is not None and late.deliver_at == NOW + three_days + 60_000


def test_a_clock_that_was_set_back_brings_no_time_twice() -> None:
    again = after_dispatch(entry(schedule=Schedule(at="09:00", zone="UTC")), NOW - 7_200_000)
    assert again is not None and again.deliver_at > NOW


def test_order_is_by_time_then_type_then_id() -> None:
    entries = [entry(id="b"), entry(id="a"), entry(id="a", deliver_at=NOW - 1), entry(id="z", type="a")]
    assert [each.id for each in sorted(entries, key=delivery_order)] == ["a", "z", "a", "b"]


def test_what_is_shown_has_the_keys_of_the_file_and_no_inner_ones() -> None:
    shown = view_of(entry(repeat_key="k", crew="ci", hops=3, try_at=9, data={"a": 1}))
    assert list(shown) == [
        "id", "type", "source", "deliverAt", "createdAt", "updatedAt", "data", "repeatKey", "attempts",
    ]  # fmt: skip
    assert "repeatKey" not in view_of(entry()) and "data" not in view_of(entry())
    assert msgspec.json.decode(msgspec.json.encode(entry(repeat_key="k")), type=DelayedBroadcast) == entry(
        repeat_key="k"
    )
