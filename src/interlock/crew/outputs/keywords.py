"""The part of JSON Schema (draft 2020-12) that outputs may use.

Rule 1: an unknown keyword is a fault, not an annotation: a misspelled one would check nothing. `x-…` is allowed.
Rule 2: a schema is complete in itself: `$ref` leads to a part of the same schema, so nothing is ever fetched.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from interlock.errors import closest
from interlock.limits import OUTPUT_SCHEMA_BYTES_MAX, OUTPUT_SCHEMA_DEPTH_MAX

Schema = Mapping[str, Any]
Place = tuple[str, ...]
Fault = tuple[Place, str]

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
DRAFT = "https://json-schema.org/draft/2020-12/schema"

ANNOTATIONS = frozenset(
    (
        "$comment",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    )
)

# Keywords that hold one schema, a list of schemas, and schemas by name.
INNER_SCHEMA = (
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
# Those that are about the value itself, and not about a part of it.
_SAME_VALUE = ("else", "if", "not", "then")
INNER_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
INNER_MAP = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and (value == "#" or value.startswith("#/"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_Test = Callable[[Any], bool]

_TESTS: dict[str, tuple[_Test, str]] = {
    "$id": (_is_text, "text"),
    "$ref": (_is_reference, "a part of this schema, such as '#/$defs/Item'"),
    "const": (lambda _: True, "a value"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "lists of names by name",
    ),
    "enum": (_is_list, "a list of values"),
    "exclusiveMaximum": (_is_number, "a number"),
    "exclusiveMinimum": (_is_number, "a number"),
    "format": (_is_text, "text"),
    "maxContains": (_is_count, "a whole number from 0"),
    "maxItems": (_is_count, "a whole number from 0"),
    "maxLength": (_is_count, "a whole number from 0"),
    "maxProperties": (_is_count, "a whole number from 0"),
    "maximum": (_is_number, "a number"),
    "minContains": (_is_count, "a whole number from 0"),
    "minItems": (_is_count, "a whole number from 0"),
    "minLength": (_is_count, "a whole number from 0"),
    "minProperties": (_is_count, "a whole number from 0"),
    "minimum": (_is_number, "a number"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "pattern": (_is_pattern, "a regular expression"),
    "required": (_is_names, "a list of names"),
    "type": (_is_type, f"one or more of {', '.join(TYPES)}"),
    "uniqueItems": (_is_flag, "true or false"),
}

KEYWORDS = (*sorted(ANNOTATIONS), *_TESTS, *INNER_SCHEMA, *INNER_LIST, *INNER_MAP)


def faults_in_schema(schema: Any) -> Iterator[Fault]:
    """Every fault of a schema, each with its place in it."""
    if not isinstance(schema, Mapping):
        yield (), "a schema is a mapping of keywords"
        return
    if schema.get("$schema", DRAFT).rstrip("#") != DRAFT:
        yield ("$schema",), f"only {DRAFT} is read"
    if len(repr(schema)) > OUTPUT_SCHEMA_BYTES_MAX:
        yield (), f"the schema is larger than {OUTPUT_SCHEMA_BYTES_MAX // 1024} kB"
        return
    yield from _faults(schema, (), schema)


def _faults(schema: Any, place: Place, root: Schema) -> Iterator[Fault]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield place, "a schema is a mapping of keywords, or true or false"
        return
    if len(place) > OUTPUT_SCHEMA_DEPTH_MAX:
        yield place, f"the schema is nested deeper than {OUTPUT_SCHEMA_DEPTH_MAX} levels"
        return
    for keyword, value in schema.items():
        yield from _faults_of_keyword(str(keyword), value, place, root)


def _faults_of_keyword(keyword: str, value: Any, place: Place, root: Schema) -> Iterator[Fault]:
    here = (*place, keyword)
    if keyword in _TESTS:
        if fault := _fault_in_value(keyword, value, place, root):
            yield here, fault
    elif keyword in INNER_SCHEMA:
        yield from _faults(value, here, root)
    elif keyword in (*INNER_LIST, *INNER_MAP):
        yield from _faults_in_schemas(keyword, value, here, root)
    elif keyword not in ANNOTATIONS and not keyword.startswith("x-"):
        near = closest(keyword, KEYWORDS)
        yield here, f"unknown keyword '{keyword}'" + (f"; did you mean '{near}'?" if near else "")


def _fault_in_value(keyword: str, value: Any, place: Place, root: Schema) -> str:
    is_valid, form = _TESTS[keyword]
    if not is_valid(value):
        return f"'{keyword}' must be {form}"
    if keyword == "$ref" and part_at(root, value) is None:
        return f"'{value}' is not in this schema"
    if keyword == "$ref" and _leads_back(root, value, {}):
        return f"'{value}' leads back to itself"
    return "'$id' is read at the top of a schema only" if keyword == "$id" and place else ""


def _faults_in_schemas(keyword: str, value: Any, here: Place, root: Schema) -> Iterator[Fault]:
    if keyword in INNER_LIST:
        if not _is_list(value):
            yield here, f"'{keyword}' must be a list of schemas"
            return
        inner = [(str(n), each) for n, each in enumerate(value)]
    else:
        if not isinstance(value, Mapping):
            yield here, f"'{keyword}' must be schemas by name"
            return
        inner = [(str(name), each) for name, each in value.items()]
    for name, each in inner:
        yield from _faults(each, (*here, name), root)
        if keyword == "patternProperties" and not _is_pattern(name):
            yield (*here, name), f"'{name}' is not a regular expression"


def part_at(root: Schema, reference: str) -> Any:
    """The part of a schema that a `$ref` names; None if there is none."""
    part: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping) and name in part:
            part = part[name]
        elif isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part if isinstance(part, Mapping | bool) else None


def _leads_back(root: Schema, reference: str, seen: dict[str, bool]) -> bool:
    """True if a value would be checked by the same part for ever: the way never goes into a part of the value.

    `seen` has each reference on the way or done with; it is True until its end is known.
    """
    if reference not in seen:
        seen[reference] = True
        others = dict.fromkeys(_references_in_place(part_at(root, reference)))
        seen[reference] = any(_leads_back(root, each, seen) for each in others)
    return seen[reference]


def _references_in_place(schema: Any) -> Iterator[str]:
    """The references that are about the same value as the schema is, and not about a part of it."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    inner = [schema.get(keyword) for keyword in _SAME_VALUE]
    inner += [each for keyword in ("allOf", "anyOf", "oneOf") for each in _list_at(schema, keyword)]
    dependent = schema.get("dependentSchemas")
    inner += dependent.values() if isinstance(dependent, Mapping) else ()
    for each in inner:
        yield from _references_in_place(each)


def _list_at(schema: Schema, keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def resolve(root: Schema, schema: Any) -> Any:
    """The schema that a chain of references without other keywords leads to; None if it leads back to itself."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and "$ref" in schema and set(schema) - ANNOTATIONS == {"$ref"}:
        if schema["$ref"] in seen:
            return None
        seen.add(schema["$ref"])
        schema = part_at(root, schema["$ref"])
    return schema
