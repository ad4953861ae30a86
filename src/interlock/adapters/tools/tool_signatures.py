"""The signature of a function for models: its arguments, as a type to decode them and as JSON Schema.

Rule 1: every argument has a name and a type that JSON can represent; other functions are refused.
Rule 2: an argument that the model leaves out gets the function's own default.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from interlock.errors import UsageError

_NAMELESS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class Signature(NamedTuple):
    """The arguments of a tool. `context` is the parameter that the model does not fill."""

    arguments: type[msgspec.Struct]
    parameters: dict[str, Any]
    context: str | None


def read_signature(tool: str, function: Callable[..., Any], context_type: type) -> Signature:
    hints = _hints(tool, function)
    fields: list[Any] = []
    defaults: dict[str, Any] = {}
    context = None
    for parameter in _parameters(tool, function):
        hint = hints.get(parameter.name, str)
        if hint is context_type or context_type in get_args(hint):
            context = parameter.name
            continue
        fields.append(_field(tool, parameter, _with_description(hint)))
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
    arguments = msgspec.defstruct(f"{tool}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return Signature(arguments, _schema(arguments, defaults), context)


def arguments_of(decoded: msgspec.Struct) -> dict[str, Any]:
    """The arguments that the model gave."""
    values = {name: getattr(decoded, name) for name in decoded.__struct_fields__}
    return {name: value for name, value in values.items() if value is not UNSET}


def _hints(tool: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:  # annotations are code of the host and may fail in any way
        raise UsageError(f"the types of tool '{tool}' cannot be read: {type(error).__name__}: {error}") from error


def _parameters(tool: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"tool '{tool}' has no signature that can be read: {error}") from error
    for parameter in found:
        if parameter.kind in _NAMELESS:
            raise UsageError(
                f"tool '{tool}': parameter '{parameter}' takes values without a name; a model names each argument. "
                "Give it a name and a type, or begin the function's name with _ if it is not a tool"
            )
    return found


def _field(tool: str, parameter: inspect.Parameter, hint: Any) -> tuple[Any, ...]:
    try:
        msgspec.json.schema(hint)
        msgspec.json.Decoder(hint)
    except Exception as error:  # types of the host may fail in any way when they are inspected
        why = "" if "\n" in str(error) else f": {error}"  # longer texts are only useful to users of the library
        raise UsageError(
            f"tool '{tool}': a model cannot be told the type of parameter '{parameter.name}' ({hint}){why}. "
            "Use a type that JSON can represent, such as str, or begin the function's name with _ if it is not a tool"
        ) from error
    if parameter.default is parameter.empty:
        return parameter.name, hint
    if parameter.default is None:
        hint = hint | None
    return parameter.name, hint | UnsetType, UNSET


def _with_description(hint: Any) -> Any:
    """`Annotated[int, "how many"]` describes a parameter to the model."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *extras = get_args(hint)
    metadata = [msgspec.Meta(description=extra) if isinstance(extra, str) else extra for extra in extras]
    return Annotated[inner, *metadata]


def _schema(arguments: type[msgspec.Struct], defaults: dict[str, Any]) -> dict[str, Any]:
    schema = msgspec.json.schema(arguments)
    body: dict[str, Any] = schema["$defs"].pop(schema["$ref"].rpartition("/")[2])
    body.pop("title", None)
    for name, default in defaults.items():
        shown = _json_default(default)
        if shown is not UNSET:
            body["properties"][name]["default"] = shown
    return {**body, "$defs": schema["$defs"]} if schema["$defs"] else body


def _json_default(default: Any) -> Any:
    """The default as JSON; one that JSON cannot represent is left out, and the function uses it."""
    try:
        return msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return UNSET
