"""What each agent has cost, by the journal: together it is what the run says it has cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.adapters.files import run_files
from interlock.engine.budgets.usage import CacheSavings, savings_by_agent, usage_below, usage_by_agent
from interlock.engine.events import Event, ModelFailed, ModelReplied, RunStarted, Usage, WentStale

JOURNALS = sorted((Path(__file__).parents[2] / "golden").glob("*.journal"))


def reply(agent: str, tokens: int) -> ModelReplied:
    return ModelReplied(call="1", agent=agent, text="", usage=Usage(input_tokens=tokens, cost_micros=tokens * 3))


def test_agents_come_in_the_order_of_their_first_call_and_failed_calls_count() -> None:
    transitions: list[Sequence[Event]] = [
        (RunStarted(crew="c", input="", rules=1),),
        (reply("b", 1),),
        (ModelFailed(call="2", agent="a", error="busy"),),
        (reply("a", 5),),
        (reply("b", 2),),
    ]
    spent = usage_by_agent(transitions)
    assert list(spent.items()) == [
        ("b", Usage(calls=2, input_tokens=3, cost_micros=9)),
        ("a", Usage(calls=2, input_tokens=5, cost_micros=15)),
    ]


def test_an_answer_that_nobody_waited_for_is_not_accounted_for() -> None:
    assert usage_by_agent([(reply("a", 1), WentStale(about="model.replied"))]) == {}


def cached(agent: str, cost: int, without: int = 0, unpriced: int = 0) -> Sequence[Event]:
    usage = Usage(input_tokens=10, cache_read_tokens=9, cost_micros=cost, unpriced_calls=unpriced)
    return (ModelReplied(call="1", agent=agent, text="", usage=usage, uncached_micros=without),)


def test_what_caching_saved_is_the_difference_to_the_price_without_it() -> None:
    saved = savings_by_agent([cached("a", 3, 20), cached("b", 30, 20), cached("a", 4, 20), (reply("c", 5),)])
    assert saved == {"a": CacheSavings(saved_micros=33), "b": CacheSavings(saved_micros=-10)}


def test_what_a_call_of_unknown_price_saved_is_unknown_and_a_free_one_saved_nothing() -> None:
    saved = savings_by_agent([cached("said", 3), cached("dark", 0, unpriced=1), cached("free", 0)])
    unknown = CacheSavings(unknown_calls=1)
    assert saved == {"said": unknown, "dark": unknown, "free": CacheSavings()}


def test_an_answer_that_nobody_waited_for_saved_nothing() -> None:
    assert savings_by_agent([(*cached("a", 3, 20), WentStale(about="model.replied"))]) == {}


@pytest.mark.parametrize("file", JOURNALS, ids=lambda file: file.stem)
def test_the_parts_are_the_whole(file: Path) -> None:
    found = run_files.decode_run_file(file.read_bytes(), file.name)
    transitions = [record.events for record in run_files.unseal_records(found)]
    spent = [*usage_by_agent(transitions).values(), *usage_below(transitions).values()]
    assert sum(spent, Usage()) == found.row.usage


def test_the_journals_hold_answers_in_vain() -> None:
    """Otherwise the test above could not fail by them."""
    opened = [run_files.unseal_records(run_files.decode_run_file(file.read_bytes(), file.name)) for file in JOURNALS]
    transitions = [record.events for records in opened for record in records]
    assert [1 for each in transitions if isinstance(each[0], ModelReplied) and isinstance(each[-1], WentStale)]
