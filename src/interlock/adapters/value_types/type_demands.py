"""Whether a type may refuse a value that fits its schema.

Rule 1: only what is known to be said by the schema is trusted. Everything else demands more: code of the host, such
as `__post_init__`, and what JSON Schema cannot say or reads in its own way, such as dates, decimals and patterns.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from msgspec import inspect

from interlock.adapters.value_types.foreign_types import ForeignType, foreign_type_of

_PLAIN = (
    inspect.AnyType,
    inspect.NoneType,
    inspect.BoolType,
    inspect.LiteralType,
    inspect.EnumType,
    inspect.UUIDType,
    inspect.UnionType,
    inspect.ListType,
    inspect.VarTupleType,
    inspect.TupleType,
    inspect.CollectionType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
)
_SAID = ("title", "description", "examples")


def demands_more(type_: Any) -> bool:
    """Whether a type, as msgspec reads it, demands more of a value than its schema says."""
    return any(map(_is_beyond_schema, _nodes_in(inspect.type_info(type_), set())))


def _nodes_in(node: Any, seen: set[int]) -> Iterator[inspect.Type]:
    """The types that a type is made of, each once: a type may contain itself."""
    if isinstance(node, tuple):
        for each in node:
            yield from _nodes_in(each, seen)
    elif isinstance(node, inspect.Type | inspect.Field) and id(node) not in seen:
        seen.add(id(node))
        if isinstance(node, inspect.Type):
            yield node
        for name in node.__struct_fields__:
            yield from _nodes_in(getattr(node, name), seen)


def _is_beyond_schema(node: inspect.Type) -> bool:
    match node:
        case inspect.IntType() | inspect.FloatType():
            return node.multiple_of is not None
        case inspect.StrType():
            return node.pattern is not None
        case inspect.SetType() | inspect.FrozenSetType():
            return node.min_length is not None  # repeated items count for the schema, and not for the set
        case inspect.DictType(key_type=key):
            return not isinstance(key, inspect.AnyType) and key != inspect.StrType()
        case inspect.StructType() | inspect.DataclassType():
            return hasattr(node.cls, "__post_init__")
        case inspect.Metadata():
            return any(name not in _SAID for name in node.extra_json_schema or ())
        case inspect.CustomType():
            return _is_custom_beyond_schema(node.cls)
        case _:
            return not isinstance(node, _PLAIN)


def _is_custom_beyond_schema(class_: type) -> bool:
    if issubclass(class_, PurePath):
        return False
    described = class_ if issubclass(class_, ForeignType) else foreign_type_of(class_)
    return any(map(demands_more, described.members)) if described.members else described.demands_more()
