"""Types of Python as schemas of outputs, and plain values as values of these types.

Rule 1: msgspec knows structs, dataclasses, typed dictionaries and builtin types. A pydantic model is asked itself, so
that pydantic is used only where a program uses it.
Rule 2: what a type demands beyond its schema is found when a value is converted.
"""

from typing import Any, get_origin

import msgspec

from interlock.errors import UsageError


def is_output_type(value: object) -> bool:
    """True for a type, or a builtin generic such as `list[int]`."""
    return isinstance(value, type) or get_origin(value) is not None


def schema_of_type(output: Any) -> dict[str, Any]:
    """The JSON Schema of the values of a type; raises `TypeError` for a type that has none."""
    if _is_pydantic_model(output):
        found: dict[str, Any] = output.model_json_schema()
        return found
    return msgspec.json.schema(output)


def as_typed_value(output: Any, value: Any) -> Any:
    """A plain value as a value of the type; raises `UsageError` if it is not one."""
    try:
        if _is_pydantic_model(output):
            return output.model_validate(value)
        return msgspec.convert(value, output)
    except ValueError as error:  # the errors of both libraries are of this class
        name = getattr(output, "__name__", str(output))
        message = f"the output fits its schema, but is not a {name}: {error}"
        raise UsageError(f"{message}; result.value of box.result(run) is the plain JSON") from error


def _is_pydantic_model(output: Any) -> bool:
    return isinstance(output, type) and hasattr(output, "model_json_schema") and hasattr(output, "model_validate")
