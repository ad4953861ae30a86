"""Schemas for answers, in words for the person who answers."""

from collections.abc import Mapping
from typing import Any

import msgspec

_NUMBERS = {"integer": "a whole number", "number": "a number"}


def schema_words(schema: Mapping[str, Any]) -> str:
    """The schema in words, such as 'a whole number from 1 to 30'. Lists and objects are answered in JSON."""
    kind = schema.get("type", "string")
    if "enum" in schema:
        return f"one of: {', '.join(str(value) if kind == 'string' else _json(value) for value in schema['enum'])}"
    if kind in _NUMBERS:
        return f"{_NUMBERS[kind]}{_bounds(schema)}"
    if kind == "boolean":
        return "true or false"
    if schema.get("format") == "date":
        return "a date such as 2026-11-30"
    if kind == "string":
        form = f" of the form {schema['pattern']}" if "pattern" in schema else ""
        return f"a text{_sizes(schema, 'Length', 'characters')}{form}"
    if kind == "array":
        items = f", each {schema_words(schema['items'])}" if "items" in schema else ""
        return f"a JSON list{_sizes(schema, 'Items', 'items')}{items}"
    return f"a JSON object of the form {_json(schema)}"


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f" from {_json(least)} to {_json(most)}"
    if least is not None:
        return f", at least {_json(least)}"
    return f", at most {_json(most)}" if most is not None else ""


def _sizes(schema: Mapping[str, Any], what: str, unit: str) -> str:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if least is not None and most is not None:
        return f" of {least} to {most} {unit}"
    if least is not None:
        return f" of at least {least} {unit}"
    return f" of at most {most} {unit}" if most is not None else ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
