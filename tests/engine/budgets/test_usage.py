"""What each agent has cost, by the journal: together it is what the run says it has cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.adapters.files import run_files
from interlock.engine.budgets.usage import usage_below, usage_by_agent
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
