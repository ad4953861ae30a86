"""Who a task needs: named by a model, never everybody because nobody asked."""

from collections.abc import Callable
from typing import Any

import pytest

from interlock.messages import AgentSelector, BadVerdict
from interlock.messages.selection import ChildSummary

CREW = [
    ChildSummary("flights", "finds flights"),
    ChildSummary("hotels", description="books\nhotels"),
    ChildSummary("museums"),
]


def saying(*answers: Any) -> tuple[Callable[[str], Any], list[str]]:
    asked: list[str] = []
    left = list(answers)

    def model(prompt: str) -> Any:
        asked.append(prompt)
        return left.pop(0)

    return model, asked


def test_only_those_that_are_named_are_selected_in_the_order_of_the_crew() -> None:
    model, asked = saying('["hotels", "flights", "hotels"]')
    assert AgentSelector(model).select_agents("Italy", CREW) == CREW[:2]
    assert "- flights: finds flights\n- hotels: books hotels\n- museums\n" in asked[0]
    assert '<said kind="task">\nItaly\n</said>' in asked[0]


def test_an_answer_may_be_given_as_a_value() -> None:
    assert AgentSelector().select_agents("Italy", CREW, answer=["museums"]) == CREW[2:]
    assert AgentSelector().select_agents("Italy", CREW, answer="[]") == []


def test_without_anybody_to_ask_nobody_is_selected() -> None:
    assert AgentSelector().select_agents("Italy", CREW) == []


def test_where_there_is_no_choice_nobody_is_asked() -> None:
    model, asked = saying()
    assert AgentSelector(model).select_agents("Italy", []) == []
    assert asked == []


def test_a_bad_answer_is_repaired_once() -> None:
    model, asked = saying("flights!", '["flights"]')
    assert AgentSelector(model).select_agents("Italy", CREW) == CREW[:1]
    assert 'Your answer could not be used:\n<said kind="fault">\nthis is no JSON' in asked[1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [("[1]", "no list of ids"), ("{}", "no list of ids"), ('["hotel"]', "did you mean 'hotels'"), (None, "no list")],
)
def test_after_the_second_bad_answer_it_says_so(answer: Any, why: str) -> None:
    model, asked = saying(answer, answer)
    with pytest.raises(BadVerdict, match=why):
        AgentSelector(model).select_agents("Italy", CREW)
    assert len(asked) == 2


def test_the_method_of_the_seed_can_be_replaced() -> None:
    class Picky(AgentSelector):
        def llm_select(self, prompt: str) -> Any:
            return ["museums"]

    assert Picky().select_agents("Italy", CREW) == CREW[2:]
