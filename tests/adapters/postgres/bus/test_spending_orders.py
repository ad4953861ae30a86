"""The function in SQL does what the rules of budgets in Python do; and one that did not would be found."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.postgres.bus.budget_walk import walk_on_budgets
from tests.adapters.postgres.bus.walking import Stores, require_found, two_stores


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    with two_stores() as found:
        yield found


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.randoms(use_true_random=False))
def test_memory_rules_and_function_agree_after_every_step(stores: Stores, rng: random.Random) -> None:
    walk_on_budgets(rng, *stores)


PLANTED = [
    ("has_room", "p_spent < p_most", "p_spent <= p_most"),
    ("has_room", "p_estimate > p_most or", ""),
    ("amount_of", "when 'calls' then 1", "when 'calls' then 2"),
    ("apply_spending", "v_start[v_counter] + 60000 - v_at", "v_start[v_counter] + 1000 - v_at"),
    ("apply_spending", "172800000", "86400000"),
    ("apply_spending", "if v_start[v_counter] > v_window then", "if false then"),
    ("apply_spending", "if v_limit.note = any (", "if 'x' = any ("),
    ("apply_spending", "l.alert is distinct from l.most", "true"),
    ("apply_spending", "greatest(v_order.at, v_start[v_order.newest])", "v_order.at"),
    ("apply_spending", "v_start[v_limit.counter] := v_at", "v_start[v_limit.counter] := v_start[v_limit.counter]"),
    ("apply_spending", "v_order.calls - 1", "v_order.calls"),
    ("apply_spending", "v_errors[v_counter] + 1 else 0 end", "v_errors[v_counter] + 1 else v_errors[v_counter] end"),
    ("apply_spending", "where o.place = any (p_applied)", ""),
    ("apply_spending", "v_used < v_limit.alert", "v_used <= v_limit.alert"),
    ("apply_spending", "v_used <= v_limit.most and", "v_used < v_limit.most and"),
    ("apply_spending", "if v_order.calls <> 0 then", "if true then"),
    ("apply_spending", "where l.\"then\" <> 'warn'", ""),
]


@pytest.mark.parametrize(("function", "old", "new"), PLANTED)
def test_a_function_that_differs_is_found(stores: Stores, function: str, old: str, new: str) -> None:
    require_found(walk_on_budgets, stores, function, old, new)
