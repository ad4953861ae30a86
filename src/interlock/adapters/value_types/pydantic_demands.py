"""Whether a type of pydantic may refuse a value that fits its JSON Schema, read from its core schema.

Rule 1: only parts and keys that are listed here are said by the JSON Schema. A validator, a pattern, a strict or
stripped text, or anything that a later version adds demands more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_PARTS = (
    "any", "bool", "dataclass", "dataclass-args", "dataclass-field", "default", "definition-ref", "definitions",
    "dict", "enum", "float", "int", "list", "literal", "model", "model-field", "model-fields", "none", "nullable",
    "set", "str", "tagged-union", "tuple", "typed-dict", "typed-dict-field", "union",
)  # fmt: skip

# Keys that hold other parts: one, a list of them, or parts by name.
_INNER = (
    "choices",
    "definitions",
    "fields",
    "items_schema",
    "keys_schema",
    "schema",
    "values_schema",
)

# Keys that the JSON Schema says too, or that take no value away.
_SAID = (
    "cls", "collect_init_only", "computed_fields", "dataclass_name", "default", "default_factory", "discriminator",
    "expected", "extra_behavior", "from_attributes", "frozen", "ge", "generic_origin", "gt", "init", "kw_only",
    "le", "lt", "max_length", "members", "metadata", "min_length", "mode", "model_name", "name", "ref", "required",
    "root_model", "schema_ref", "serialization", "serialization_alias", "slots", "sub_type", "total", "type",
    "validation_alias", "variadic_item_index",
)  # fmt: skip
_SAID_IN_CONFIG = ("extra_fields_behavior", "title")

# Keys with a value that the JSON Schema says only if it is a text: not a function, and not a path.
_TEXTS = ("discriminator", "validation_alias")


def core_demands_more(core: Mapping[str, Any]) -> bool:
    return any(map(_is_beyond_schema, _parts_in(core)))


def _parts_in(part: Any) -> Iterator[Mapping[str, Any]]:
    """All parts of a core schema. It is a tree: a type that contains itself is there as a reference."""
    if isinstance(part, list | tuple):
        for each in part:
            yield from _parts_in(each)
    elif isinstance(part, Mapping) and isinstance(part.get("type"), str):
        yield part
        for key in _INNER:
            yield from _parts_in(part.get(key))
    elif isinstance(part, Mapping):
        yield from _parts_in(tuple(part.values()))


def _is_beyond_schema(part: Mapping[str, Any]) -> bool:
    kind, config = part["type"], part.get("config") or {}
    if kind not in _PARTS or any(config[key] for key in config if key not in _SAID_IN_CONFIG):
        return True
    if kind == "dict" and not _is_any_text(part.get("keys_schema")):
        return True
    if kind == "set" and part.get("min_length") is not None:  # repeated items count for the schema only
        return True
    if any(not isinstance(part.get(key, ""), str) for key in _TEXTS):
        return True
    return any(value for key, value in part.items() if key not in _SAID and key not in (*_INNER, "config"))


def _is_any_text(keys: Any) -> bool:
    return keys is None or (set(keys) <= {"type", "metadata"} and keys["type"] in ("any", "str"))
