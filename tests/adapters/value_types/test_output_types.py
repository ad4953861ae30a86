"""Types as outputs: what they describe is what they decode, whichever library knows them."""

import decimal
from typing import Any, NewType

import pytest

from interlock.adapters.value_types.output_types import OutputType, is_output_type
from interlock.adapters.value_types.schema_validator import JsonSchemaValidator, fault_in_schema
from interlock.crew.outputs.keywords import faults_in_schema
from tests.adapters.value_types.types_to_try import (
    Bounded,
    Cart,
    Cat,
    Crashing,
    Dog,
    Even,
    Item,
    Letter,
    Limited,
    Mixed,
    Owner,
    Parcel,
    Refund,
    Refusing,
    Small,
)

ITEM = {"sku": "lamp", "count": 2}

DECODED: list[tuple[Any, Any, Any]] = [
    (Item, ITEM, Item(sku="lamp", count=2)),
    (list[Item], [ITEM], [Item(sku="lamp", count=2)]),
    (Item | None, ITEM, Item(sku="lamp", count=2)),
    (Item | None, None, None),
    (dict[str, Item], {"a": ITEM}, {"a": Item(sku="lamp", count=2)}),
    (dict[int, Item], {"7": ITEM}, {7: Item(sku="lamp", count=2)}),
    (tuple[Item, Refund], [ITEM, {"order": "A", "amount": 1}], (Item(sku="lamp", count=2), Refund("A", 1.0))),
    (list[Refund | Item], [{"order": "A", "amount": 1}, ITEM], [Refund("A", 1.0), Item(sku="lamp", count=2)]),
    (Cart, {"items": [ITEM], "first": ITEM}, Cart([Item(sku="lamp", count=2)], Item(sku="lamp", count=2))),
    (Parcel, {"order": "A", "item": ITEM, "sizes": [1.0]}, Parcel("A", Item(sku="lamp", count=2), [1])),
    (
        Mixed,
        {"item": ITEM, "refund": {"order": "A", "amount": 1}},
        Mixed(Item(sku="lamp", count=2), Refund("A", 1.0)),
    ),
    (Letter, {"items": [ITEM]}, {"items": [Item(sku="lamp", count=2)]}),
    (Owner, {"pet": {"kind": "dog"}}, Owner(pet=Dog(kind="dog"))),
    (Cat | Dog | int, {"kind": "cat"}, Cat(kind="cat")),
    (int, 24.0, 24),
    (float, 24, 24.0),
    (set[int], [1, 1], {1}),
    (decimal.Decimal, 1.5, decimal.Decimal("1.5")),
    (NewType("Number", int), 3, 3),
]


@pytest.mark.parametrize(("hint", "value", "expected"), DECODED, ids=[str(each[0]) for each in DECODED])
def test_a_value_that_fits_the_schema_becomes_one_of_the_type(hint: Any, value: Any, expected: Any) -> None:
    type_ = OutputType(hint)
    assert is_output_type(hint)
    assert list(faults_in_schema(type_.schema)) == [] and fault_in_schema(type_.schema) == ""
    assert JsonSchemaValidator().fault_in(type_.schema, value) == ""
    decoded = type_.decode(value)
    assert decoded == expected and type(decoded) is type(expected)


@pytest.mark.parametrize(
    ("hint", "value", "fault"),
    [
        (Small, {"amount": 240}, "amount: Value error, too much"),
        (list[Small] | None, [{"amount": 240}], "0.amount: Value error, too much"),
        (Even, {"count": 3}, "Value error, it is odd"),
        (Limited, {"count": 10}, "more than nine"),
        (Refusing, {"count": 10}, "more than nine"),
        (Crashing, {"amount": 1}, "Crashing could not check it: KeyError: 'a bug of the program'"),
    ],
)
def test_what_a_type_demands_beyond_its_schema_is_a_fault_in_one_line(hint: Any, value: Any, fault: str) -> None:
    type_ = OutputType(hint)
    assert JsonSchemaValidator().fault_in(type_.schema, value) == ""
    assert fault in type_.fault_in(value) and "\n" not in type_.fault_in(value)


@pytest.mark.parametrize("hint", [complex, object, Bounded, list[complex], "Item"])
def test_a_type_that_json_cannot_represent_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError):
        OutputType(hint)


@pytest.mark.parametrize("value", [{"type": "integer"}, "Item", 3, None])
def test_what_is_not_a_type_is_not_taken_for_one(value: object) -> None:
    assert not is_output_type(value)
