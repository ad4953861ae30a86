"""What a broadcast may hold, and who it can be from."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.broadcast.naming import (
    AT_A_PLACE_MAX,
    PLACES_MAX,
    crew_type,
    id_in_series,
    is_broadcast_id,
    place_in_series,
    series_name,
    sleep_type,
    stable_id,
    wake_type,
)
from interlock.broadcast.record import (
    PROCESS,
    SYSTEM,
    UNSET,
    Broadcast,
    Source,
    decode_broadcast,
    encode_broadcast,
    require_broadcast_data,
    require_broadcast_type,
    require_own_source,
    require_source_id,
    source_label,
)
from interlock.errors import BadBroadcast
from interlock.limits import BROADCAST_DATA_BYTES_MAX

AGENT = Source(type="agent", id="writer")


def deep(levels: int) -> Any:
    return [] if levels == 0 else [deep(levels - 1)]


def test_a_record_is_one_compact_line_with_the_keys_of_the_protocol() -> None:
    made = Broadcast(id="abc", type="build:x:done", source=AGENT, data={"ok": True}, created_at=7)
    line = (
        b'{"id":"abc","type":"build:x:done","source":{"type":"agent","id":"writer"},"data":{"ok":true},"createdAt":7}'
    )
    assert encode_broadcast(made) == line
    assert decode_broadcast(line) == made


def test_without_data_there_is_no_key_and_null_is_data() -> None:
    bare = Broadcast(id="abc", type="x", source=SYSTEM, created_at=7)
    assert encode_broadcast(bare) == b'{"id":"abc","type":"x","source":{"type":"system"},"createdAt":7}'
    null = Broadcast(id="abc", type="x", source=SYSTEM, data=None, created_at=7)
    assert decode_broadcast(encode_broadcast(null)).data is None
    assert decode_broadcast(encode_broadcast(bare)).data is UNSET


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=8,
    )
)  # fmt: skip
def test_whatever_passes_comes_back_as_it_was(data: Any) -> None:
    made = Broadcast(id="abc", type="x", source=PROCESS, data=require_broadcast_data(data), created_at=1)
    line = encode_broadcast(made)
    assert b"\n" not in line
    assert decode_broadcast(line) == made


@pytest.mark.parametrize(
    "data",
    [
        float("nan"), float("inf"), {"a": [float("-inf")]}, {1: 2}, {"a": object()}, {1, 2}, b"x", 2**64,
        "\ud800", deep(65), "x" * BROADCAST_DATA_BYTES_MAX,
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_data_that_cannot_be_kept_whole_is_refused(data: Any) -> None:
    with pytest.raises(BadBroadcast):
        require_broadcast_data(data)


def test_data_at_its_bounds_passes() -> None:
    for data in (deep(63), "x" * (BROADCAST_DATA_BYTES_MAX - 2), UNSET):
        assert require_broadcast_data(data) is data


@pytest.mark.parametrize("kind", ["", "  ", None, 7, "x" * 257, "é" * 129, ":" * 16, "a\nb", "a\x1bb", "x" * 10**6])
def test_a_type_that_cannot_be_is_refused(kind: object) -> None:
    with pytest.raises(BadBroadcast):
        require_broadcast_type(kind)


def test_a_type_is_kept_trimmed() -> None:
    assert require_broadcast_type(" build:x:done\n") == "build:x:done"
    assert require_broadcast_type("build:*") == "build:*"


@pytest.mark.parametrize("claimed", [None, UNSET, AGENT, {"type": "agent"}, {"type": "agent", "id": "writer"}])
def test_a_caller_may_name_their_own_source(claimed: Any) -> None:
    assert require_own_source(claimed, AGENT) == AGENT


@pytest.mark.parametrize(
    "claimed",
    [{"type": "system"}, {"type": "agent", "id": "boss"}, {"type": "god"}, "agent", 7, {"type": "process"}, {}],
)
def test_a_source_that_is_not_the_callers_own_is_refused(claimed: Any) -> None:
    with pytest.raises(BadBroadcast):
        require_own_source(claimed, AGENT)


def test_a_source_says_itself_and_a_name_has_bounds() -> None:
    assert (source_label(AGENT), source_label(SYSTEM)) == ("agent writer", "system")
    assert require_source_id("nightly build") == "nightly build"
    for name in ("x" * 65, "a\nb"):
        with pytest.raises(BadBroadcast):
            require_source_id(name)


def test_ids_of_a_series_have_the_form_of_a_cuid2_differ_and_stand_in_order() -> None:
    places = [(place, n) for place in (0, 1, 9, 10, 15, 16, 10**6, PLACES_MAX - 1) for n in (0, 1, AT_A_PLACE_MAX - 1)]
    name = series_name("run at work")
    ids = [id_in_series(name, place, n) for place, n in places]
    assert all(is_broadcast_id(each) and len(each) == 24 for each in ids)
    assert ids == sorted(set(ids))
    assert [place_in_series(each) for each in ids] == [place for place, _ in places]
    assert place_in_series("b1") == place_in_series("x" * 24) == 0
    assert {id_in_series(series_name("run taken up"), *each) for each in places}.isdisjoint(ids)
    for beyond in ((PLACES_MAX, 0), (0, AT_A_PLACE_MAX)):
        with pytest.raises(AssertionError):
            id_in_series(name, *beyond)


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(st.text(), st.text())
def test_derived_ids_have_the_form_of_a_cuid2_and_follow_from_the_key(one: str, other: str) -> None:
    assert is_broadcast_id(stable_id(one)) and len(stable_id(one)) == 24
    assert (stable_id(one) == stable_id(other)) is (one == other)


def test_derived_ids_never_change() -> None:
    """Journals hold them: another way to derive them would make old journals diverge."""
    assert stable_id("01a1:12.0") == "leift017e66egyrjhpvzrkdy"


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("[DONE]", "crew:ci:done"),
        ("[BUILD DONE]", "crew:ci:build_done"),
        ("[KẾT_THÚC]", "crew:ci:kết_thúc"),
        ("[Xa\u0302y]", "crew:ci:xây"),
        ("[A-1]", "crew:ci:a-1"),
    ],
)
def test_the_type_of_a_crews_mark(signal: str, expected: str) -> None:
    assert crew_type("ci", signal) == expected


def test_the_types_of_a_lifecycle() -> None:
    assert (wake_type("writer"), sleep_type("writer")) == ("agent:writer:wake", "agent:writer:sleep")
