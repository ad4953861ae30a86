"""Typed crews under faults: every run ends with a valid value or none, and the laws know why."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from interlock import END, Agent, Crew, Group, Pause, SubCrew, load_crew
from interlock.adapters.value_types.schema_validator import JsonSchemaValidator
from interlock.engine.events import Nudged, RunFinished
from interlock.ports.hooks import RunOutput
from interlock.testing import Simulation, simulate, simulate_many
from interlock.testing.simulation import laws
from interlock.testing.simulation.random_values import random_value
from interlock.testing.simulation.seeds import chance_of


class Order(msgspec.Struct):
    order: str
    lines: list[int]
    note: str | None = None


class Payment(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def require_even(cls, amount: int) -> int:
        if amount % 2:
            raise ValueError("it is odd")
        return amount


PAYMENTS = Crew("payments", [Agent("cashier", "Pay.", on={"[PAID]": END, "[HOLD]": Pause()})], output=Payment)
CLERK = Agent(
    "clerk",
    "Help.",
    on={
        "[LOOK]": Group("stock", "boss", name="both"),
        "[PAY]": SubCrew(PAYMENTS, return_to="clerk"),
        "[BOSS]": "boss",
        "[DONE]": END,
    },
)
STOCK = Agent("stock", "Count.", output={"type": "integer", "minimum": 0}, on={"[BACK]": "clerk"})
BOSS = Agent("boss", "Decide.", on={"[BACK]": "clerk", "[DONE]": END})
DESK = Crew("desk", [CLERK, STOCK, BOSS], output=Order, settings={"max_handoffs": 12})


class Halving:
    """A hook that replaces the value of every second run, by one that is not always valid."""

    name = "halving"

    def on_output(self, output: RunOutput) -> RunOutput | None:
        if output.value is None or len(output.value["lines"]) == 1:
            return None
        return msgspec.structs.replace(output, value={**output.value, "lines": output.value["lines"] and ["half"]})


def finished(simulations: list[Simulation]) -> list[RunFinished]:
    events = [record.events for each in simulations for record in each.records]
    return [event for events_ in events for event in events_ if isinstance(event, RunFinished)]


def test_typed_crews_keep_the_laws_under_faults() -> None:
    simulations = simulate_many(DESK, seeds=range(60))
    ends = finished(simulations)
    values = [event.value for event in ends if event.value is not msgspec.UNSET]
    assert len(values) > 3 and all(DESK.output_types["desk"].fault_in(value) == "" for value in values)
    assert Counter(event.reason for event in ends)["invalid_output"] > 0
    below = [
        event
        for each in simulations
        for records in each.below.values()
        for record in records
        for event in record.events
    ]
    paid = [event.value["amount"] for event in below if isinstance(event, RunFinished) and event.status == "completed"]
    assert paid and not any(amount % 2 for amount in paid)
    assert any("it is odd" in event.fault for event in below if isinstance(event, Nudged))


def test_a_hook_that_replaces_values_keeps_the_laws() -> None:
    ends = finished(simulate_many(DESK, seeds=range(60, 110), hooks=[Halving()]))
    assert any(event.reason == "hook_failed" and "not valid" in event.detail for event in ends)
    assert any(event.value is not msgspec.UNSET for event in ends)


def test_the_same_seed_gives_the_same_journal() -> None:
    assert simulate(DESK, seed=7).journal == simulate(DESK, seed=7).journal


def test_the_law_about_values_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A validator that takes everything is found out by the law, which asks another one."""
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: one\nentry_point: a\noutput: {type: integer}\nagents: [{id: a, is_terminal: true}]\n'
    )
    monkeypatch.setattr(laws, "_SCHEMAS", JsonSchemaValidator())
    monkeypatch.setattr("interlock.adapters.value_types.output_validator.JsonSchemaValidator", Careless)
    found = [each for seed in range(80) for each in simulate(load_crew(tmp_path), seed=seed).violations]
    assert {each.law for each in found} == {"values are what was asked for"}


class Careless:
    def fault_in(self, schema: object, value: object) -> str:
        return ""


def test_random_values_mostly_fit_and_are_the_same_for_the_same_seed() -> None:
    schema = DESK.output_types["desk"].schema
    made = [random_value(schema, chance_of(n, "x")) for n in range(200)]
    assert made == [random_value(schema, chance_of(n, "x")) for n in range(200)]
    plain = [text.removeprefix("```json\n").removesuffix("\n```") for text in made]
    fitting = 0
    for text in plain:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        fitting += JsonSchemaValidator().fault_in(schema, value) == ""
    assert 120 < fitting < 200
