"""Validation by jsonschema-rs. It is loaded with the first schema: most crews have none.

Rule 1: nothing is fetched: a schema is complete in itself.
Rule 2: formats count. A pattern that needs too many steps is a fault, so that no value can block the process.
Rule 3: what is wrong is said to the model with its place, a few faults at once.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

# Steps of one pattern on one text; a few milliseconds.
_BACKTRACKS_MAX = 100_000

# Compiled schemas that are kept; when there are more, the cache is emptied.
_SCHEMAS_MAX = 1_000

# Faults of one value that the model is told at once.
_FAULTS_MAX = 3

# Of one fault; a message may quote the value.
_FAULT_CHARS_MAX = 200


class JsonSchemaValidator:
    """Validates values against schemas, which are compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[bytes, Draft202012Validator] = {}

    def fault_in(self, schema: Mapping[str, Any], value: Any) -> str:
        try:
            return "; ".join(islice(self._faults(schema, value), _FAULTS_MAX))
        except Exception as error:  # a schema that cannot be used lets nothing through
            return f"the schema cannot be used: {_short(error)}"

    def _faults(self, schema: Mapping[str, Any], value: Any) -> Iterator[str]:
        for error in self._validator(schema).iter_errors(value):
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            yield f"{place.removeprefix('.')}: {_short(error.message)}" if place else _short(error.message)

    def _validator(self, schema: Mapping[str, Any]) -> "Draft202012Validator":
        key = msgspec.json.encode(schema, order="deterministic")
        if key not in self._compiled:
            if len(self._compiled) >= _SCHEMAS_MAX:
                self._compiled.clear()
            self._compiled[key] = compile_schema(schema)
        return self._compiled[key]


def compile_schema(schema: Mapping[str, Any]) -> "Draft202012Validator":
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions

    return Draft202012Validator(
        dict(schema),
        validate_formats=True,
        pattern_options=FancyRegexOptions(backtrack_limit=_BACKTRACKS_MAX),
        offline=True,
    )


def fault_in_schema(schema: Mapping[str, Any]) -> str:
    """Why values cannot be checked against the schema; empty if they can."""
    try:
        compile_schema(schema)
    except Exception as error:  # the library's errors have several classes
        return _short(error)
    return ""


def _short(error: object) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _FAULT_CHARS_MAX else f"{text[: _FAULT_CHARS_MAX - 3]}..."
