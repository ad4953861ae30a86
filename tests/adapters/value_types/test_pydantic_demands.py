"""The parts of pydantic's core schemas that its JSON Schemas do not say."""

from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter

from interlock.adapters.value_types.pydantic_demands import core_demands_more


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int


class Aliased(BaseModel):
    count: int = Field(validation_alias=AliasChoices("count", "number"))


class Named(BaseModel):
    count: int = Field(alias="number", default_factory=int)


class Initialised(BaseModel):
    count: int

    def model_post_init(self, context: Any) -> None:
        raise ValueError("never")


def test_a_part_or_a_key_that_is_not_known_demands_more() -> None:
    plain = {"type": "model-field", "schema": {"type": "int", "ge": 1}}
    assert not core_demands_more(plain)
    assert core_demands_more({"type": "something-new", "schema": {"type": "int"}})
    assert core_demands_more({"type": "model-field", "schema": {"type": "int", "something_new": True}})


@pytest.mark.parametrize(
    ("hint", "demands"), [(Strict, True), (Aliased, True), (Initialised, True), (Named, False), (dict[str, int], False)]
)
def test_settings_of_models_are_looked_at(hint: Any, demands: bool) -> None:
    assert core_demands_more(TypeAdapter(hint).core_schema) is demands
