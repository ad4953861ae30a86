"""Which schemas are allowed: complete, known keywords only, nothing to fetch."""

from typing import Any

import pytest

from interlock.crew.outputs.keywords import faults_in_schema, part_at
from interlock.limits import OUTPUT_SCHEMA_BYTES_MAX, OUTPUT_SCHEMA_DEPTH_MAX

FAULTS: list[tuple[Any, str, str]] = [
    ({"type": "text"}, "type", "'type' must be one or more of"),
    ({"type": []}, "type", "'type' must be"),
    ({"propertes": {}}, "propertes", "unknown keyword 'propertes'; did you mean 'properties'?"),
    ({"properties": {"a": {"typ": "string"}}}, "properties/a/typ", "unknown keyword 'typ'"),
    ({"properties": [1]}, "properties", "must be schemas by name"),
    ({"anyOf": []}, "anyOf", "must be a list of schemas"),
    ({"anyOf": [{"minimum": "1"}]}, "anyOf/0/minimum", "must be a number"),
    ({"items": 7}, "items", "a schema is a mapping of keywords, or true or false"),
    ({"minLength": -1}, "minLength", "a whole number from 0"),
    ({"minLength": True}, "minLength", "a whole number from 0"),
    ({"multipleOf": 0}, "multipleOf", "a number above 0"),
    ({"pattern": "("}, "pattern", "a regular expression"),
    ({"patternProperties": {"(": {}}}, "patternProperties/(", "is not a regular expression"),
    ({"required": "a"}, "required", "a list of names"),
    ({"enum": []}, "enum", "a list of values"),
    ({"uniqueItems": 1}, "uniqueItems", "true or false"),
    ({"dependentRequired": {"a": "b"}}, "dependentRequired", "lists of names by name"),
    ({"$ref": "https://example.com/schema.json"}, "$ref", "a part of this schema"),
    ({"$ref": "other.json#/a"}, "$ref", "a part of this schema"),
    ({"$ref": "#/$defs/Nothing"}, "$ref", "is not in this schema"),
    ({"$ref": "#"}, "$ref", "leads back to itself"),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "$ref", "leads back to itself"),
    ({"allOf": [{"$ref": "#"}]}, "allOf/0/$ref", "leads back to itself"),
    ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, "properties/a/not/$ref", "leads back to itself"),
    ({"$dynamicRef": "#a"}, "$dynamicRef", "unknown keyword"),
    ({"properties": {"a": {"$id": "x"}}}, "properties/a/$id", "at the top of a schema only"),
    ({"$schema": "http://json-schema.org/draft-07/schema#"}, "$schema", "is read"),
    ([], "", "a schema is a mapping of keywords"),
    ({"description": "x" * OUTPUT_SCHEMA_BYTES_MAX}, "", "is larger than 64 kB"),
]


@pytest.mark.parametrize(("schema", "place", "message"), FAULTS)
def test_a_fault_has_its_place(schema: Any, place: str, message: str) -> None:
    (found_place, found), *_ = faults_in_schema(schema)
    assert "/".join(found_place) == place
    assert message in found


def test_a_schema_has_a_greatest_depth() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(OUTPUT_SCHEMA_DEPTH_MAX + 2):
        schema = {"items": schema}
    assert any("nested deeper" in fault for _, fault in faults_in_schema(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "x-order": 1},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}},
        {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
        {"items": True, "contains": False, "discriminator": {"propertyName": "kind"}},
    ],
)
def test_what_can_be_checked_has_no_fault(schema: dict[str, Any]) -> None:
    assert list(faults_in_schema(schema)) == []


def test_a_reference_leads_into_lists_too() -> None:
    assert part_at({"anyOf": [{"type": "string"}]}, "#/anyOf/0") == {"type": "string"}
    assert part_at({"anyOf": [{"type": "string"}]}, "#/anyOf/1") is None
