"""Outputs as types: each kind of type becomes a schema, is proven like one in a file, and comes back as a value."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from interlock import END, Agent, Crew, Interlock, Route, UnsoundCrew, UsageError
from interlock.crew.problem import Severity
from interlock.testing import ScriptedModel


class Refund(msgspec.Struct):
    order: str
    amount: float
    note: str | None = None


@dataclass
class Parcel:
    order: str
    amount: float


class Letter(TypedDict):
    order: str
    amount: float


class Payment(BaseModel):
    order: str
    amount: float

    @field_validator("amount")
    @classmethod
    def require_small(cls, amount: float) -> float:
        if amount > 100:
            raise ValueError("too much")
        return amount


SAID = '{"order": "A-17", "amount": 24.5}'


def a_crew(output: Any) -> Crew[Any]:
    return Crew("desk", [Agent("clerk", "Pay.", on={"[DONE]": END})], output=output)


async def value_of(crew: Crew[Any], folder: Path, said: str) -> Any:
    async with Interlock(folder, models=ScriptedModel({"clerk": [f"{said}\n[DONE]"] * 3})) as box:
        run = await box.start(crew, "My lamp never came")
        return crew.as_typed_result(await run.result()).value


@pytest.mark.parametrize(
    ("output", "said", "value"),
    [
        (Refund, SAID, Refund("A-17", 24.5)),
        (Parcel, SAID, Parcel("A-17", 24.5)),
        (Letter, SAID, {"order": "A-17", "amount": 24.5}),
        (Payment, SAID, Payment(order="A-17", amount=24.5)),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int, "24", 24),
        ({"type": "string"}, '"text"', "text"),
    ],
    ids=str,
)
async def test_a_value_comes_back_as_its_type(tmp_path: Path, output: Any, said: str, value: Any) -> None:
    assert await value_of(a_crew(output), tmp_path, said) == value


async def test_what_a_type_demands_beyond_its_schema_is_refused_when_the_value_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fits its schema, but is not a Payment"):
        await value_of(a_crew(Payment), tmp_path, '{"order": "A-17", "amount": 240}')


def test_a_type_without_a_schema_is_a_problem_with_its_line() -> None:
    with pytest.raises(UnsoundCrew) as refused:
        a_crew(complex)
    (problem,) = (each for each in refused.value.problems if each.severity is Severity.ERROR)
    assert (problem.code, problem.path) == ("bad-value", "output") and problem.file == __file__ and problem.line > 1


def test_an_output_that_a_route_does_not_take_is_a_problem() -> None:
    cashier = Agent("cashier", "Pay.", is_terminal=True)
    clerk = Agent("clerk", "Help.", output=Refund, on={"[PAY]": Route(cashier, takes=Parcel)})
    assert Crew("desk", [clerk, cashier]).definition.routes["clerk"][0].takes is not msgspec.UNSET
    wrong = Agent("clerk", "Help.", output=list[str], on={"[PAY]": Route(cashier, takes=Refund)})
    with pytest.raises(UnsoundCrew, match="does not take the output of agent 'clerk'"):
        Crew("desk", [wrong, cashier])


def test_a_typed_crew_is_written_with_its_schema(tmp_path: Path) -> None:
    a_crew(Refund).save(tmp_path / "desk")
    assert Crew.from_yaml(tmp_path / "desk").definition.output == a_crew(Refund).definition.output


def test_a_schema_in_a_file_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nentry_point: a\noutput: s.json\nagents: [{id: a, is_terminal: true}]\n'
    )
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    text = Crew.from_yaml(tmp_path).to_yaml()
    assert "s.json" not in text and "integer" in text
