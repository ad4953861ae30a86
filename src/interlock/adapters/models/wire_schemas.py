"""Schemas of values as providers take them. A value is always checked against the schema of the crew.

Rule 1: the wire form is strict: objects are closed and name all their properties; one that may be missing may be null
instead, and such a null is taken out of the answer again.
Rule 2: what a provider does not take is left out, and told in the description. What cannot be said at all in the strict
form (open objects, values of any type, tuples, a recursion where it is refused) has no wire form: then the value is
asked for by a tool or in the prompt.
Rule 3: references are written out; only a recursive schema keeps its definitions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.crew.outputs.keywords import INNER_LIST, INNER_MAP, INNER_SCHEMA, part_at, resolve

Schema = Mapping[str, Any]

# Parts of one wire form; providers refuse larger ones.
PARTS_MAX = 1_000

_BOUNDS = (
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
)
_DROPPED = (*_BOUNDS, "contains", "maxContains", "maxProperties", "minContains", "minProperties", "not", "uniqueItems")
_UNSAYABLE = (
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)


class SchemaDialect(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider takes: bounds of values, and recursion."""

    name: str
    bounds: bool = False
    recursion: bool = False


# Strict mode closes objects, requires all properties, and knows references; bounds are not taken by every model.
OPENAI = SchemaDialect(name="openai", recursion=True)
# Servers that turn the schema into a grammar.
GRAMMAR_SERVERS = SchemaDialect(name="grammar", bounds=True, recursion=True)
# Structured outputs: closed objects, no recursion, no bounds.
ANTHROPIC = SchemaDialect(name="anthropic")
# A recursion is followed to a small depth only, so it counts as refused.
GEMINI = SchemaDialect(name="gemini")


class WireForm(msgspec.Struct, frozen=True):
    schema: dict[str, Any]
    definitions: dict[str, Any]


class _NoForm(Exception):
    """The schema cannot be said in this dialect."""


def wire_form(schema: Schema, dialect: SchemaDialect) -> WireForm | None:
    """The strict form of a schema; None if there is none."""
    is_recursive = _is_recursive(schema)
    if is_recursive and not dialect.recursion:
        return None
    try:
        writer = _Writer(schema, dialect, is_recursive)
        return WireForm(writer.strict(schema), writer.definitions)
    except _NoForm:
        return None


class _Writer:
    def __init__(self, root: Schema, dialect: SchemaDialect, is_recursive: bool) -> None:
        self._root, self._dialect, self._keeps_references = root, dialect, is_recursive
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._parts = 0

    def strict(self, schema: Any) -> dict[str, Any]:
        self._parts += 1
        if not isinstance(schema, Mapping) or self._parts > PARTS_MAX or any(name in schema for name in _UNSAYABLE):
            raise _NoForm
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        written = self._description(schema)
        if "const" in schema or "enum" in schema:
            return written | _enumeration(schema.get("enum", [schema.get("const")]))
        cases = schema.get("anyOf", schema.get("oneOf"))
        if cases is not None:
            return written | {"anyOf": [self.strict(case) for case in cases]}
        if len(schema.get("allOf", ())) == 1:
            return self.strict(schema["allOf"][0])
        kind = schema.get("type")
        if isinstance(kind, list):
            return written | {"anyOf": [self.strict({**_bare(schema), "type": each}) for each in kind]}
        if kind is None or "allOf" in schema:
            raise _NoForm
        return written | self._of_type(schema, kind)

    def _of_type(self, schema: Schema, kind: str) -> dict[str, Any]:
        bounds = {name: schema[name] for name in _BOUNDS if name in schema} if self._dialect.bounds else {}
        if kind == "object":
            return self._strict_object(schema)
        if kind == "array":
            return {"type": kind, "items": self.strict(schema.get("items")), **bounds}
        return {"type": kind, **bounds}

    def _strict_object(self, schema: Schema) -> dict[str, Any]:
        properties = schema.get("properties", {})
        if not properties or isinstance(schema.get("additionalProperties"), Mapping):
            raise _NoForm
        required = schema.get("required", ())
        written = {
            name: self.strict(inner) if name in required else self._or_null(inner) for name, inner in properties.items()
        }
        return {"type": "object", "properties": written, "required": list(written), "additionalProperties": False}

    def _or_null(self, schema: Any) -> dict[str, Any]:
        written = self.strict(schema)
        if _takes_null(self._root, schema):
            return written
        cases = written["anyOf"] if set(written) == {"anyOf"} else [written]
        return {"anyOf": [*cases, {"type": "null"}]}

    def _reference(self, reference: str) -> dict[str, Any]:
        if not self._keeps_references:
            return self.strict(part_at(self._root, reference))
        if reference not in self._names:
            name = self._names[reference] = f"part_{len(self._names) + 1}"
            self.definitions[name] = {}  # reserved, since it may lead back here
            self.definitions[name] = self.strict(part_at(self._root, reference))
        return {"$ref": f"#/$defs/{self._names[reference]}"}

    def _description(self, schema: Schema) -> dict[str, Any]:
        """The description, with the rules that are left out."""
        kept = _BOUNDS if self._dialect.bounds else ()
        rules = {name: schema[name] for name in _DROPPED if name in schema and name not in kept}
        words = [str(schema["description"])] if schema.get("description") else []
        words += [msgspec.json.encode(rules).decode()] if rules else []
        return {"description": " ".join(words)} if words else {}


def _enumeration(values: list[Any]) -> dict[str, Any]:
    """Enumerated values with their type; several types are several cases."""
    kinds = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
    if any(type(value) not in kinds for value in values):
        raise _NoForm
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        by_kind.setdefault(kinds[type(value)], []).append(value)
    cases = [{"type": kind} if kind == "null" else {"type": kind, "enum": found} for kind, found in by_kind.items()]
    return cases[0] if len(cases) == 1 else {"anyOf": cases}


def _bare(schema: Schema) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in ("description", "type")}


def _takes_null(root: Schema, schema: Any, depth: int = 0) -> bool:
    """True if null is a value of the schema, as far as its cases and types tell."""
    schema = resolve(root, schema)
    if not isinstance(schema, Mapping) or depth > 8:
        return bool(schema)
    if "$ref" in schema:
        return _takes_null(root, {"$ref": schema["$ref"]}, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return any(_takes_null(root, case, depth + 1) for case in schema[keyword])
    if "const" in schema or "enum" in schema:
        return None in schema.get("enum", [schema.get("const")])
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def _is_recursive(root: Schema) -> bool:
    """True if a reference leads to a part that holds it."""

    def leads_back(schema: Any, trail: tuple[str, ...]) -> bool:
        return any(
            reference in trail or leads_back(part_at(root, reference), (*trail, reference))
            for reference in _references(schema)
        )

    return any(reference == "#" for reference in _references(root)) or leads_back(_without_definitions(root), ())


def _references(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield schema["$ref"]
    for keyword, value in schema.items():
        if keyword in INNER_SCHEMA:
            yield from _references(value)
        elif keyword in INNER_LIST or (keyword in INNER_MAP and keyword not in ("$defs", "definitions")):
            for inner in value.values() if isinstance(value, Mapping) else value:
                yield from _references(inner)


def _without_definitions(root: Schema) -> dict[str, Any]:
    return {name: value for name, value in root.items() if name not in ("$defs", "definitions")}


def without_added_nulls(root: Schema, value: Any, schema: Any = None) -> Any:
    """The value without nulls that stand for missing properties."""
    parts = list(_cases(root, root if schema is None else schema))
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        return [without_added_nulls(root, each, {"anyOf": items}) for each in value] if items else value
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        known = [part["properties"][name] for part in parts if name in part.get("properties", {})]
        is_required = any(name in part.get("required", ()) for part in parts)
        if inner is None and known and not is_required and not any(_takes_null(root, each) for each in known):
            continue
        kept[name] = without_added_nulls(root, inner, {"anyOf": known}) if known else inner
    return kept


def _cases(root: Schema, schema: Any, depth: int = 0) -> Iterator[Schema]:
    """The schema and its cases."""
    schema = resolve(root, schema)
    if isinstance(schema, Mapping) and depth < 8:
        yield schema
        inner = [case for keyword in ("anyOf", "oneOf", "allOf") for case in schema.get(keyword, ())]
        inner += [{"$ref": schema["$ref"]}] if "$ref" in schema else []
        for case in inner:
            yield from _cases(root, case, depth + 1)


# Of a text and a list in a brief form. A small model under a grammar may never close them by itself.
BRIEF_CHARS_MAX = 120
BRIEF_ITEMS_MAX = 4


def with_brief_bounds(schema: Any) -> Any:
    """The wire form with bounds for each text and list that has none."""
    if isinstance(schema, list):
        return [with_brief_bounds(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {name: value if name == "enum" else with_brief_bounds(value) for name, value in schema.items()}
    if schema.get("type") == "string" and not {"enum", "format", "pattern"} & set(schema):
        return {"maxLength": BRIEF_CHARS_MAX, **inner}
    return {"maxItems": BRIEF_ITEMS_MAX, **inner} if schema.get("type") == "array" else inner
