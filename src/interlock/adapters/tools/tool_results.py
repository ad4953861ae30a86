"""What a tool returns, as text for the model: text as it is, other values as JSON."""

import inspect
from pathlib import PurePath
from typing import Any

import msgspec

from interlock.errors import ToolFailed

# The model is told that the call was carried out.
NO_RESULT = "done, without a result"


def as_text(tool: str, value: Any) -> str:
    """The value as text; raises `ToolFailed` if it has no such form."""
    if value is None:
        return NO_RESULT
    if isinstance(value, str):
        return str.__str__(value)  # of an enum, its value
    kind = type(value).__name__
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise ToolFailed(f"tool '{tool}' returned a {kind}; a tool returns one value, such as a list")
    try:
        return msgspec.json.encode(value, enc_hook=_encode_other).decode()
    except Exception as error:  # values of the host may fail in any way when they are encoded
        raise ToolFailed(f"tool '{tool}' returned a {kind} that cannot be shown: {error}") from error


def plain_value(value: Any) -> Any:
    """The value made of what JSON has; raises `ToolFailed` if it has no such form."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
    except Exception as error:  # as above
        raise ToolFailed(f"a {type(value).__name__} cannot be kept: {error}") from error


def _encode_other(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(type(value), "__pydantic_serializer__"):
        from interlock.adapters.value_types.pydantic_types import dump_model

        return dump_model(value)
    raise TypeError(f"JSON has no form for a {type(value).__name__}")
