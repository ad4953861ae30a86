"""The signature of a function for models: its arguments, as a type to decode them and as JSON Schema.

Rule 1: every argument has a name and a type that JSON can represent; other functions are refused.
Rule 2: an argument that the model leaves out gets the function's own default.
Rule 3: what describes an argument, in order: `Annotated` or `Field`, then the docstring.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from interlock.adapters.tools.tool_callables import innermost_function, names_given_by
from interlock.adapters.value_types.foreign_types import decode_json, prepare_type, require_decodable, schemas_of
from interlock.adapters.value_types.schema_definitions import merge_definitions
from interlock.errors import UsageError

_NAMELESS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)
_NO_TOOL = "begin the function's name with _ if it is not a tool"


class Argument(NamedTuple):
    """An argument that the model gives. `default` makes its value if the model leaves it out and the function cannot.

    `shown` is the default as JSON, if it has one.
    """

    name: str
    type: Any
    is_required: bool
    default: Callable[[], Any] | None = None
    shown: Any = UNSET


class Signature(NamedTuple):
    """The arguments of a tool. `contexts` are the parameters that the model does not fill."""

    arguments: type[msgspec.Struct]
    parameters: dict[str, Any]
    contexts: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]

    def decode(self, text: str) -> dict[str, Any]:
        """The arguments that the model gave, and defaults that the function has not; raises `ValueError`."""
        decoded = decode_json(text, self.arguments)
        values = {name: getattr(decoded, name) for name in decoded.__struct_fields__}
        given = {name: value for name, value in values.items() if value is not UNSET}
        return {**{name: make() for name, make in self.defaults.items() if name not in given}, **given}


def read_signature(
    tool: str,
    function: Callable[..., Any],
    context_type: type,
    *,
    texts: Mapping[str, str] | None = None,
    local_names: Mapping[str, Any] | None = None,
) -> Signature:
    """Reads a signature. `texts` describe arguments, `local_names` are those of the function around this one."""
    names = {**getattr(innermost_function(function), "__globals__", {}), **(local_names or {})}
    arguments: list[Argument] = []
    contexts: list[str] = []
    for parameter in _parameters(tool, function):
        if _is_context(hint := _hint(tool, parameter, names, context_type), context_type):
            contexts.append(parameter.name)
            continue
        _require_named(tool, parameter)
        arguments.append(_argument(tool, parameter, hint))
    fields: list[Any] = [(each.name, each.type, *(() if each.is_required else (UNSET,))) for each in arguments]
    decoder = msgspec.defstruct(f"{tool}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    defaults = {each.name: each.default for each in arguments if each.default is not None}
    return Signature(decoder, _schema(arguments, texts or {}), tuple(contexts), defaults)


# Types


def _hint(tool: str, parameter: inspect.Parameter, names: dict[str, Any], context_type: type) -> Any:
    """The type of a parameter; without one it is text."""
    if parameter.annotation is parameter.empty:
        return str
    try:
        holder: Any = SimpleNamespace(__annotations__={"it": parameter.annotation})
        return get_type_hints(holder, globalns=names, localns={}, include_extras=True)["it"]
    except Exception as error:  # annotations are code of the host and may fail in any way
        if re.match(rf"([\w.]+\.)?{context_type.__name__}\b", str(parameter.annotation)):
            return context_type  # it was imported for type checkers only
        raise UsageError(
            f"the types of tool '{tool}' cannot be read: {type(error).__name__}: {error} (parameter "
            f"'{parameter.name}'); define or import what it names at the top of its module"
        ) from error


def _is_context(hint: Any, context_type: type) -> bool:
    """Whether the type is the context's, also within `Optional`, `Annotated` and with its own arguments."""
    if hint is context_type or get_origin(hint) is context_type:
        return True
    return any(_is_context(each, context_type) for each in get_args(hint) if get_origin(hint) not in (list, dict))


def _parameters(tool: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(function).parameters.values()
    except Exception as error:  # a signature may be made by code of the host
        raise UsageError(f"tool '{tool}' has no signature that can be read: {error}") from error
    bound = names_given_by(function)
    return [parameter for parameter in found if parameter.name not in bound]


def _require_named(tool: str, parameter: inspect.Parameter) -> None:
    if parameter.kind in _NAMELESS:
        raise UsageError(
            f"tool '{tool}': parameter '{parameter}' takes values without a name; a model names each argument. "
            f"Give it a name and a type, or {_NO_TOOL}"
        )


def _argument(tool: str, parameter: inspect.Parameter, hint: Any) -> Argument:
    if _is_pydantic_field(parameter.default):
        return _argument_of_field(tool, parameter, hint)
    kind = _json_type(tool, parameter, hint)
    if parameter.default is parameter.empty:
        return Argument(parameter.name, kind, is_required=True)
    kind = kind | None if parameter.default is None else kind
    return Argument(parameter.name, kind, is_required=False, shown=_json_default(parameter.default))


def _argument_of_field(tool: str, parameter: inspect.Parameter, hint: Any) -> Argument:
    """An argument whose default is pydantic's `Field(...)`."""
    from interlock.adapters.value_types.pydantic_types import default_of, is_required, with_field

    kind, field = _json_type(tool, parameter, with_field(hint, parameter.default)), parameter.default
    if is_required(field):
        return Argument(parameter.name, kind, is_required=True)
    return Argument(parameter.name, kind, is_required=False, default=partial(default_of, field))


def _is_pydantic_field(default: Any) -> bool:
    if type(default).__module__.partition(".")[0] != "pydantic":
        return False
    from interlock.adapters.value_types.pydantic_types import is_field

    return is_field(default)


def _json_type(tool: str, parameter: inspect.Parameter, hint: Any) -> Any:
    try:
        kind = prepare_type(hint)
        require_decodable(kind)
    except Exception as error:  # types of the host may fail in any way when they are inspected
        why = (
            "" if "\n" in str(error) or not str(error) else f": {error}"
        )  # longer texts only help users of the library
        raise UsageError(
            f"tool '{tool}': a model cannot be told the type of parameter '{parameter.name}' ({hint}){why}. "
            f"Use a type that JSON can represent, such as str, or {_NO_TOOL}"
        ) from error
    return kind


# Schema


def _schema(arguments: list[Argument], texts: Mapping[str, str]) -> dict[str, Any]:
    described, definitions = schemas_of([argument.type for argument in arguments])
    properties: dict[str, dict[str, Any]] = {}
    for argument, own in zip(arguments, described, strict=True):
        body = properties[argument.name] = dict(own)
        if argument.shown is not UNSET:
            body["default"] = argument.shown
        if argument.name in texts and not _has_description(body):
            body["description"] = texts[argument.name]
    return merge_definitions(
        {
            "type": "object",
            "properties": properties,
            "required": [argument.name for argument in arguments if argument.is_required],
            "additionalProperties": False,
        },
        definitions,
    )


def _has_description(body: dict[str, Any]) -> bool:
    """Whether an annotation describes the argument; within `Optional` it is a level deeper."""
    if "description" in body:
        return True
    return any("description" in each for each in body.get("anyOf", ()))


def _json_default(default: Any) -> Any:
    """The default as JSON; one that JSON cannot represent is left out, and the function uses it."""
    try:
        return msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return UNSET
