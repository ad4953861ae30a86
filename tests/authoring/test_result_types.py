"""What type checkers know of results: mypy reads this file with all others, pyright by `python -m docs.programs`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

from interlock import END, Agent, Crew, Interlock, Result, Route, SubCrew
from interlock.testing import ScriptedModel


class Payment(BaseModel):
    amount: float


class Refund(msgspec.Struct):
    amount: float


@dataclass
class Basket:
    payments: list[Payment]


class Bundle(TypedDict):
    payments: list[Payment]


CLERK = Agent("clerk", "Pay.", on={"[DONE]": END})
SAID = '{"amount": 24.5}'


def said(text: str) -> ScriptedModel:
    return ScriptedModel({"clerk": [f"{text}\n[DONE]"]})


def test_the_type_of_a_value_is_that_of_the_output(tmp_path: Path) -> None:
    one = Crew("desk", [CLERK], output=Payment)
    assert_type(one, Crew[Payment])
    assert assert_type(one.run_sync("x", data=tmp_path, models=said(SAID)), Result[Payment]).value == Payment(
        amount=24.5
    )
    several = Crew("desk", [CLERK], output=list[Payment]).run_sync("x", data=tmp_path, models=said(f"[{SAID}]"))
    assert assert_type(several.value, list[Payment] | None) == [Payment(amount=24.5)]
    named = Crew("desk", [CLERK], output=dict[str, Payment]).run_sync("x", data=tmp_path, models=said("{}"))
    assert assert_type(named.value, dict[str, Payment] | None) == {}
    basket = Crew("desk", [CLERK], output=Basket).run_sync("x", data=tmp_path, models=said('{"payments": []}'))
    assert assert_type(basket.value, Basket | None) == Basket([])
    bundle = Crew("desk", [CLERK], output=Bundle).run_sync("x", data=tmp_path, models=said('{"payments": []}'))
    assert assert_type(bundle.value, Bundle | None) == {"payments": []}


def test_a_union_is_named_in_the_type_of_the_crew(tmp_path: Path) -> None:
    maybe: Crew[Payment | None] = Crew("desk", [CLERK], output=Payment | None)
    value = assert_type(maybe.run_sync("x", data=tmp_path, models=said("null")).value, Payment | None)
    assert value is None
    either = Crew[Refund | list[Payment]]("desk", [CLERK], output=Refund | list[Payment])
    result = either.run_sync("x", data=tmp_path, models=said(SAID))
    assert assert_type(result.value, Refund | list[Payment] | None) == Refund(24.5)


def test_agents_routes_and_sub_crews_take_types_of_every_form() -> None:
    cashier = Agent("cashier", "Pay.", is_terminal=True)
    letters = Crew("letters", [Agent("writer", "Write.", is_terminal=True)], output=Payment | None)
    call = SubCrew(letters, return_to="clerk", output=Payment | None)
    pay = Route(cashier, takes=Payment | None)
    clerk = Agent("clerk", "Help.", output=Payment | None, on={"[PAY]": pay, "[LETTER]": call})
    assert Crew("desk", [clerk, cashier]).name == "desk"


async def test_a_result_without_a_type_is_plain_json(tmp_path: Path) -> None:
    crew = Crew("desk", [CLERK], output={"type": "integer"})
    result = await crew.run("x", data=tmp_path, models=said("24"))
    assert assert_type(result.value, Any | None) == 24
    async with Interlock(tmp_path / "other", models=said(SAID)) as box:
        typed = Crew("desk", [CLERK], output=Payment)
        plain = await (await box.start(typed, "x")).result()
        assert assert_type(plain.value, Any | None) == {"amount": 24.5}
        assert assert_type(typed.as_typed_result(plain).value, Payment | None) == Payment(amount=24.5)
