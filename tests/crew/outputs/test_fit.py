"""Which schemas fit which: a table of proofs, and a comparison with the validator on random schemas and values."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.value_types.schema_validator import JsonSchemaValidator
from interlock.crew.outputs.fit import misfit_of

TEXT, WHOLE, NUMBER, NULL = ({"type": kind} for kind in ("string", "integer", "number", "null"))


def an_object(*required: str, others: Any = True, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": others}


TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {"Tree": an_object("kids", kids={"type": "array", "items": {"$ref": "#/$defs/Tree"}})},
}
WIDER_TREE = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": an_object(kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
}

ONE = {"$ref": "#/$defs/one"}
NAMED_A = {"type": "object", "patternProperties": {"^a": ONE}}
LONG = {"minLength": 5}
CLOSED = {"anyOf": [{"unevaluatedProperties": False}]}


def with_one(schema: dict[str, Any], **one: Any) -> dict[str, Any]:
    """The schema with a definition that it refers to."""
    return {**schema, "$defs": {"one": one}}


FITS: list[tuple[Any, Any]] = [
    (TEXT, TEXT),
    (WHOLE, NUMBER),
    (TEXT, {}),
    (an_object("a", a=WHOLE), an_object("a", a=NUMBER)),
    (an_object("a", others=False, a=WHOLE), an_object("a", others=False, a=NUMBER, b=TEXT)),
    (an_object("a", "b", a=WHOLE), an_object("a", a=WHOLE)),
    ({"enum": ["a", "b"]}, TEXT),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}),
    ({"const": 3}, {"type": "integer", "minimum": 3}),
    ({"type": ["string", "null"]}, {"anyOf": [TEXT, NULL]}),
    ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [NUMBER, TEXT]}),
    (TEXT, {"oneOf": [TEXT, WHOLE]}),
    ({"type": "array", "items": WHOLE}, {"type": "array", "items": NUMBER}),
    ({"type": "integer", "minimum": 5}, {"type": "number", "exclusiveMinimum": 4}),
    ({"type": "string", "minLength": 2, "maxLength": 3}, {"type": "string", "maxLength": 4}),
    ({"type": "integer", "multipleOf": 4}, {"type": "integer", "multipleOf": 2}),
    ({"allOf": [TEXT, {"minLength": 1}]}, TEXT),
    (TEXT, {"allOf": [TEXT, {}]}),
    ({"not": TEXT}, {"not": TEXT}),
    ({"title": "A", "type": "string"}, {"title": "B", "type": "string", "description": "annotations do not count"}),
    (TREE, TREE),
    (TREE, WIDER_TREE),
]

MISFITS: list[tuple[Any, Any, str]] = [
    (NUMBER, WHOLE, "the value may be a number, and a whole number is taken"),
    (TEXT, WHOLE, "the value may be a text, and a whole number is taken"),
    ({}, TEXT, "the value may be of any type, and a text is taken"),
    (an_object(a=WHOLE), an_object("a", a=WHOLE), "the value may be without 'a'"),
    (an_object("a", a=TEXT), an_object("a", a=WHOLE), "'a' may be a text, and a whole number is taken"),
    (an_object(a=an_object(b=TEXT)), an_object(a=an_object(b=WHOLE)), "'b' of 'a' may be a text"),
    (an_object(), an_object(others=False), "another property of the value is not taken"),
    ({"enum": ["a", 1]}, TEXT, "the value may be 1, which is not taken"),
    (TEXT, {"enum": ["a"]}, "the value may be other than ['a']"),
    ({"anyOf": [TEXT, WHOLE]}, TEXT, "the value may be a whole number"),
    (TEXT, {"anyOf": [WHOLE, NULL]}, "fits none of the 2 cases"),
    ({"type": "array"}, {"type": "array", "items": WHOLE}, "an item of the value may be of any type"),
    ({"type": "array", "items": TEXT}, {"type": "array", "uniqueItems": True}, "may have equal items"),
    ({"type": "integer", "minimum": 5}, {"type": "number", "exclusiveMinimum": 5}, "may be below 5"),
    (WHOLE, {"type": "integer", "maximum": 9}, "may be above 9"),
    (TEXT, {"type": "string", "minLength": 1}, "may be shorter than minLength 1"),
    (TEXT, {"type": "string", "maxLength": 9}, "may be longer than maxLength 9"),
    (TEXT, {"type": "string", "format": "date"}, "may be without the format 'date'"),
    (WHOLE, {"type": "integer", "multipleOf": 2}, "a multiple of 2"),
    (WHOLE, {"not": TEXT}, "cannot be proven"),
    (TEXT, {"oneOf": [TEXT, {"type": "string", "maxLength": 3}]}, "cannot be proven"),
    (WIDER_TREE, TREE, "may be without 'kids'"),
    (WHOLE, {"oneOf": [WHOLE, NUMBER]}, "cannot be proven"),
    (with_one({"not": ONE}, const="a"), with_one({"not": ONE}, const="b"), "cannot be proven"),
    (with_one(NAMED_A, **WHOLE), with_one(NAMED_A, **TEXT), "cannot be proven"),
    ({"not": {"const": 1}}, {"not": {"const": True}}, "cannot be proven"),
    ({"const": [1, True]}, {"const": [1, 1]}, "may be [1, True]"),
    ({"const": {"a": True}}, {"enum": [{"a": 1}]}, "may be {'a': True}"),
    ({"const": 2}, {"enum": [1, 2], "const": 1}, "may be 2"),
    ({"const": 1}, {"enum": [1, 2], "minimum": 2}, "may be 1"),
    ({"then": LONG, "anyOf": [{"if": TEXT}]}, {"if": TEXT, "then": LONG}, "cannot be proven"),
    ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, CLOSED, "cannot be proven"),
]


@pytest.mark.parametrize(("source", "target"), FITS)
def test_each_value_of_the_source_is_taken(source: Any, target: Any) -> None:
    assert misfit_of(source, target) == ""


@pytest.mark.parametrize(("source", "target", "why"), MISFITS)
def test_a_misfit_says_what_may_not_be_taken(source: Any, target: Any, why: str) -> None:
    assert why in misfit_of(source, target)


def with_levels(levels: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """Each definition names the next one twice, so that there are two ways on at each level."""
    next_twice = [an_object(a={"$ref": f"#/$defs/{n + 1}"}, b={"$ref": f"#/$defs/{n + 1}"}) for n in range(levels)]
    return {"$ref": "#/$defs/0", "$defs": {str(n): each for n, each in enumerate((*next_twice, leaf))}}


def test_a_definition_that_is_used_in_many_places_is_compared_once() -> None:
    assert misfit_of(with_levels(60, WHOLE), with_levels(60, NUMBER)) == ""
    assert "may be a number" in misfit_of(with_levels(60, NUMBER), with_levels(60, WHOLE))


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    st.sampled_from([{}, TEXT, WHOLE, NUMBER, NULL, {"type": "boolean"}, {"type": ["string", "null"]}]),
    st.builds(lambda low, high: {"type": "integer", "minimum": low, "maximum": high}, *[st.integers(-2, 3)] * 2),
    st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, st.integers(-2, 3)),
    st.builds(lambda least: {"type": "string", "minLength": least}, st.integers(0, 2)),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 2)),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(["", "a", 1, 2.5, None]), min_size=1)),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, required, others: {
            "type": "object",
            "properties": properties,
            "required": sorted(required),
            "additionalProperties": others,
        },
        st.dictionaries(NAMES, inner, max_size=2),
        st.sets(NAMES, max_size=2),
        st.one_of(st.booleans(), inner),
    )


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(lambda each, least: {"type": "array", "items": each, "minItems": least}, inner, st.integers(0, 1)),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda each: {"allOf": each}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda each: {"oneOf": each}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.sampled_from([None, True, -1, 0, 1, 2, 2.5, 3, "", "a", "abc"]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=4,
)


@settings(derandomize=True, max_examples=600, deadline=None)
@given(source=SCHEMAS, target=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=12))
def test_what_is_proven_holds_for_the_validator(source: Any, target: Any, values: list[Any]) -> None:
    """The proof may refuse what fits; it may never pass what does not."""
    validator = JsonSchemaValidator()
    if misfit_of(source, target):
        return
    for value in values:
        if not validator.fault_in(source, value):
            assert validator.fault_in(target, value) == ""
