"""What a call costs by the prices of its agent, and what is reserved for it."""

import msgspec
import pytest

from interlock.crew.definition import AgentDefinition, CostLimits, ModelSettings, Prices
from interlock.engine.budgets.limits import cost_at, cost_of, cost_without_cache, most_of_prompt, with_cost
from interlock.engine.events import Usage

PRICES = Prices(input=2, output=10, cache_read=0.2, cache_write=2.5)
CACHED = Usage(input_tokens=1_000, cache_read_tokens=900, cache_write_tokens=60, output_tokens=5)


def agent(**prices: float) -> AgentDefinition:
    given = {f"{bucket}_token_price_per_million": price for bucket, price in prices.items()}
    return AgentDefinition(id="a", name="a", cost_limits=msgspec.convert(given, CostLimits))


def test_each_bucket_costs_its_own_price() -> None:
    assert cost_at(PRICES, CACHED) == 40 * 2 + 900 * 0.2 + 60 * 2.5 + 5 * 10


def test_what_has_no_price_of_its_own_costs_as_other_input() -> None:
    assert cost_at(Prices(input=2, output=10), CACHED) == cost_at(PRICES, Usage(input_tokens=1_000, output_tokens=5))
    assert cost_at(Prices(input=2, cache_read=0), CACHED) == 100 * 2  # 0 is a price


def test_a_prompt_is_at_least_as_long_as_its_cached_parts() -> None:
    """A provider that does not count what it read as input gets no money back."""
    assert cost_at(PRICES, Usage(input_tokens=10, cache_read_tokens=1_000)) == 200


def test_prices_of_the_file_are_those_of_all_buckets() -> None:
    assert cost_of(agent(input=2, output=10, cache_read=0.2, cache_write=2.5), CACHED) == cost_at(PRICES, CACHED)
    assert agent(cache_read=0.2).has_prices and not agent().has_prices
    assert cost_of(agent(), CACHED) == 0


def test_a_crew_without_prices_of_caches_is_stored_as_before() -> None:
    stored = msgspec.to_builtins(agent(input=2).cost_limits)
    assert not [key for key in stored if key.startswith("cache_")]


@pytest.mark.parametrize(("cache", "micros"), [("on", 2_500), ("1h", 2_500), ("off", 2_000)])
def test_a_prompt_is_reserved_at_the_most_that_it_can_cost(cache: str, micros: int) -> None:
    """All of it may be written to the cache, unless nothing is to be cached. Reading would be cheaper."""
    dear = agent(input=2, cache_read=0.2, cache_write=2.5)
    asked = msgspec.structs.replace(dear, model_settings=ModelSettings(cache=cache))
    assert most_of_prompt(asked, 1_000, cost_of) == micros


def test_a_prompt_of_unknown_price_reserves_no_money() -> None:
    assert most_of_prompt(agent(), 1_000, lambda _agent, _usage: None) == 0


def test_what_a_call_would_have_cost_without_a_cache() -> None:
    priced = agent(input=2, output=10, cache_read=0.2, cache_write=2.5)
    assert cost_without_cache(priced, CACHED, cost_of) == 2_050
    assert with_cost(priced, CACHED, cost_of).cost_micros == 460
    assert cost_without_cache(priced, CACHED, lambda _agent, _usage: None) == 0
    # The prices of a provider that reports its cost are not known here.
    assert cost_without_cache(priced, msgspec.structs.replace(CACHED, cost_micros=9), cost_of) == 0
