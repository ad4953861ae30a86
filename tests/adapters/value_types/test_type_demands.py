"""Which types may refuse a value that fits their schema: a run with such an output is driven only where the type is."""

import datetime
import decimal
import random
import uuid
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta

from interlock.adapters.value_types.output_types import OutputType
from interlock.adapters.value_types.schema_validator import JsonSchemaValidator
from tests.adapters.value_types.types_to_try import (
    Bag,
    Box,
    Cart,
    Cat,
    Checked,
    Closed,
    Coded,
    Color,
    Crashing,
    Even,
    Item,
    Letter,
    Limited,
    Mixed,
    Owner,
    Parcel,
    Patterned,
    Refund,
    Refusing,
    Small,
    SmallCart,
    Stripped,
    Tree,
)

SAID_BY_SCHEMA: tuple[Any, ...] = (
    Bag, Cart, Cat, Closed, Color, Item, Letter, Mixed, Owner, Parcel, Path, Refund, Tree,
    bool, int, float, str, uuid.UUID, list[int], dict[str, float], set[int], tuple[int, str],
    Item | None, list[Item], dict[str, Item], list[Refund | Item], Annotated[int, Meta(ge=1, le=9)],
)  # fmt: skip
DEMANDING: tuple[Any, ...] = (
    Box, Checked, Coded, Crashing, Even, Limited, Patterned, Refusing, Small, SmallCart, Stripped,
    bytes, datetime.date, datetime.datetime, decimal.Decimal, dict[int, str], list[Small], Small | None,
    dict[str, Limited], list[Refusing | Item], Annotated[set[int], Meta(min_length=2)],
)  # fmt: skip


@pytest.mark.parametrize("hint", SAID_BY_SCHEMA, ids=str)
def test_a_type_whose_schema_says_all_demands_no_more(hint: Any) -> None:
    assert not OutputType(hint).demands_more


@pytest.mark.parametrize("hint", DEMANDING, ids=str)
def test_code_of_the_host_and_what_a_schema_cannot_say_demand_more(hint: Any) -> None:
    assert OutputType(hint).demands_more


def value_of(schema: Any, root: dict[str, Any], chance: random.Random, depth: int = 0) -> Any:
    """A value made after the schema, often a wrong one."""
    if "$ref" in schema:
        return value_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root, chance, depth)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return value_of(chance.choice(choices), root, chance, depth)
    kind = chance.choice(["integer", "string", "null"]) if chance.random() < 0.05 else schema.get("type", "string")
    if "enum" in schema or "const" in schema:
        return chance.choice([*schema.get("enum", [schema.get("const")]), "other"])
    match kind:
        case "object":
            names = schema.get("properties", {})
            made = {name: value_of(names[name], root, chance, depth + 1) for name in names if chance.random() < 0.9}
            extra = schema.get("additionalProperties")
            return made | ({"k": value_of(extra, root, chance, depth + 1)} if isinstance(extra, dict) else {})
        case "array":
            items = schema.get("items") or {}
            inner = schema.get("prefixItems") or [items] * chance.randrange(1 if depth > 3 else 3)
            return [value_of(each, root, chance, depth + 1) for each in inner if isinstance(each, dict)]
        case "integer" | "number":
            return chance.choice([-1, 0, 1, 5, 2.0, 2.5, 10**12])
        case "boolean":
            return chance.choice([True, False])
        case "null":
            return None
        case _:
            return chance.choice(["", " ", "lamp", "7", "3f2b1c7e-8a51-4f3e-9c0d-0123456789ab"])


@pytest.mark.parametrize("hint", SAID_BY_SCHEMA, ids=str)
def test_every_value_that_fits_such_a_schema_is_one_of_the_type(hint: Any) -> None:
    type_, validator, chance = OutputType(hint), JsonSchemaValidator(), random.Random(18)
    fitting = 0
    for _ in range(300):
        value = value_of(type_.schema, type_.schema, chance)
        if not validator.fault_in(type_.schema, value):
            fitting += 1
            assert type_.fault_in(value) == "", value
    assert fitting > 5
