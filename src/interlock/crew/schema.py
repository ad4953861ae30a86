"""The JSON Schema of crew files and agent files, for editors. Made from the same tables as the reader."""

from collections.abc import Iterator
from typing import Any, assert_never

from interlock.crew.definition import CrewSettings
from interlock.crew.keys import AGENT, CREW, KEYS_OF_BEHAVIOR, SETTINGS, STRICT_SETTINGS
from interlock.crew.shapes import (
    Anything,
    Either,
    Flag,
    JsonMap,
    Key,
    ListOf,
    MapOf,
    Number,
    SchemaText,
    Section,
    Shape,
    Share,
    SignalText,
    Text,
    WordOrNumber,
)
from interlock.limits import MARK_CHARS_MAX
from interlock.signals.definition import SignalBehavior

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Words of letters, digits, '_' and '-' with single spaces between them, at least one letter or digit among them.
# For editors, letters of other scripts are all characters that are not ASCII.
_WORD = r"[^\x00-\x2c\x2e\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]+"
_LETTER = r"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]"
_SIGNAL_PATTERN = rf"^\[(?=[^\]]*{_LETTER}){_WORD}(?: {_WORD})*\]$(?!\n)"


def crew_schema() -> Schema:
    return _document(CREW, "Interlock crew file")


def agent_schema() -> Schema:
    return _document(AGENT, "Interlock agent file")


def _document(section: Section, title: str) -> Schema:
    definitions: dict[str, Schema] = {}
    body = _section(section, definitions)
    return {"$schema": DIALECT, "title": title, **body, "$defs": dict(sorted(definitions.items()))}


def _section(section: Section, definitions: dict[str, Schema]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {key.name: _key(key, section, definitions) for key in section.keys},
        "additionalProperties": False,
    }
    required = [key.name for key in section.keys if key.required]
    return {**schema, **({"required": required} if required else {}), **_RULES.get(section.title, {})}


def _if(key: str, value: str, then: Schema) -> Schema:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


def _route_rules() -> Iterator[Schema]:
    """The keys that the type of a route requires and excludes."""
    yield _if("type", "sub_crew", {"required": ["target_crew"]})
    yield _if("type", "terminate", {"properties": {"target": {"enum": ["", None]}}})
    for behavior in SignalBehavior:
        idle = [key for key, behaviors in KEYS_OF_BEHAVIOR.items() if behavior not in behaviors and key != "target"]
        yield _if("type", behavior, {"properties": dict.fromkeys(idle, False)})


# Rules about several keys, by the section's title.
_RULES: dict[str, Schema] = {
    "a route": {"allOf": list(_route_rules())},
    "settings": {"allOf": [_if("config_mode", "strict", {"required": list(STRICT_SETTINGS)})]},
}


def _key(key: Key, section: Section, definitions: dict[str, Schema]) -> Schema:
    if key.legacy:
        return {"description": f"Has no effect: {key.legacy}.", "deprecated": True}
    schema = {**_shape(key.shape, definitions), "description": key.doc}
    if section.title in ("a crew", "a parallel group") and key.name == "agents":
        schema |= {"type": "array", "minItems": 1}
    if section is CREW and key.name == "agents":
        schema |= {"type": "array", "minItems": 1}
    default = getattr(CrewSettings(), key.name, None) if section is SETTINGS else None
    return {**schema, "default": default} if default is not None else schema


def _shape(shape: Shape, definitions: dict[str, Schema]) -> Schema:
    match shape:
        case Text():
            return _text(shape)
        case SignalText():
            return {"type": "string", "pattern": _SIGNAL_PATTERN, "maxLength": MARK_CHARS_MAX}
        case Number():
            return _number(shape)
        case Flag():
            return {"type": "boolean"}
        case Share():
            words = ["none", "all"] if shape.all_allowed else ["none"]
            return {"anyOf": [{"enum": words}, {"type": "integer", "minimum": 0, "maximum": 100_000}]}
        case SchemaText():
            return {"type": ["object", "string"]}
        case WordOrNumber():
            return {"anyOf": [{"enum": list(shape.words)}, _number(shape.number)]}
        case JsonMap():
            return {"type": "object"}
        case Anything():
            return {}
        case _:
            return _container(shape, definitions)


def _container(shape: ListOf | MapOf | Section | Either, definitions: dict[str, Schema]) -> Schema:
    match shape:
        case ListOf():
            return {"type": ["array", "null"], "items": _shape(shape.item, definitions)}
        case MapOf():
            return {"type": ["object", "null"], "additionalProperties": _shape(shape.value, definitions)}
        case Section():
            return _reference(shape, definitions)
        case Either():  # a file may use its name as the id, an inline definition may not
            section = {**_reference(shape.section, definitions), "type": "object", "required": ["id"]}
            return {"anyOf": [_text(shape.text), section]}
        case _:
            assert_never(shape)


def _reference(section: Section, definitions: dict[str, Schema]) -> Schema:
    name = section.title.removeprefix("a ").removeprefix("an ").replace(" ", "_")
    if name not in definitions:
        definitions[name] = {}  # reserved before the section's own keys are read
        body = _section(section, definitions)
        definitions[name] = body if "required" in body else {**body, "type": ["object", "null"]}
    return {"$ref": f"#/$defs/{name}"}


def _text(shape: Text) -> Schema:
    if shape.options and shape.loose:  # `version: 1.0` without quotes is a number to an editor
        return {"enum": [*shape.options, *(float(option) for option in shape.options)]}
    if shape.options:
        return {"enum": list(shape.options)}
    return {"type": ["string", "null"]} if shape.blank else {"type": "string", "pattern": r"\S"}


def _number(shape: Number) -> Schema:
    schema: Schema = {"type": "integer" if shape.whole else "number"}
    schema["exclusiveMinimum" if shape.above else "minimum"] = shape.least
    return {**schema, "maximum": shape.most}
