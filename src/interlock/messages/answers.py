"""The form of a person's answer, if the question defines one.

Rule 1: choices, a pattern, or a part of JSON Schema: `type` (string, integer, number, boolean, array, object), `enum`,
`minimum`, `maximum`, `minLength`, `maxLength`, `pattern`, `format` (date), `items`, `minItems`, `maxItems`,
`properties`, `required`.
Any other keyword, and a keyword for another type, is refused, not ignored.
Rule 2: faults are written for the person who answers.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from interlock.limits import (
    ANSWER_CHARS_MAX,
    CHOICES_MAX,
    PATTERN_ANSWER_CHARS_MAX,
    SCHEMA_DEPTH_MAX,
    SCHEMA_NODES_MAX,
)
from interlock.messages.patterns import parse_pattern
from interlock.messages.reading import read_json
from interlock.messages.refusals import BadAnswer, BadQuestion
from interlock.messages.schema_words import schema_words


class AnswerRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules of an answer: at most one of the three; without any, every answer that is not blank is valid."""

    choices: tuple[str, ...] = ()
    pattern: str = ""
    schema: dict[str, Any] = {}

    @property
    def in_words(self) -> str:
        """The expected form in words, for the person who answers; empty if any text is valid."""
        if self.choices:
            return f"one of: {', '.join(self.choices)}"
        if self.pattern:
            return f"a text of the form {self.pattern}"
        return schema_words(self.schema) if self.schema else ""


def require_rules(rules: AnswerRules, *, formats: bool = True) -> None:
    """Raises `BadQuestion` if answers cannot be checked by the rules. Runs under older rules have no `format`."""
    if sum(map(bool, (rules.choices, rules.pattern, rules.schema))) > 1:
        raise BadQuestion("a question has choices, a pattern or a schema, and not two of them")
    if len(rules.choices) > CHOICES_MAX or any(not choice.strip() for choice in rules.choices):
        raise BadQuestion(f"choices are at most {CHOICES_MAX} texts, and none is blank")
    if len({choice.strip().casefold() for choice in rules.choices}) < len(rules.choices):
        raise BadQuestion("two choices differ by nothing but case or spaces")
    if rules.pattern:
        parse_pattern(rules.pattern)
    if rules.schema:
        _require_schema(rules.schema, _KEYWORDS if formats else _WITHOUT_FORMAT)


def require_use(schema: Mapping[str, Any]) -> None:
    """Raises `BadQuestion` if a keyword has no effect, or no answer could be valid."""
    kind = schema.get("type", "string")
    idle = [keyword for keyword in schema if keyword in _OF_TYPES and kind not in _OF_TYPES[keyword]]
    if idle:
        needs = " or ".join(_OF_TYPES[idle[0]])
        raise BadQuestion(f"'{idle[0]}' goes with type {needs}, and this schema is of type {kind}; say the type")
    if "enum" in schema and not any(map(_TYPES[kind], schema["enum"])):
        raise BadQuestion(f"none of 'enum' is of type {kind}; say the type of its values")
    for least, most in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if least in schema and most in schema and schema[least] > schema[most]:
            raise BadQuestion(f"'{least}' of a schema is more than its '{most}'")
    for inner in _inner_schemas(schema):
        require_use(inner)


def require_valid_answer(rules: AnswerRules, answer: str) -> str:
    """Returns the answer, in the spelling of its choice; raises `BadAnswer` with the fault."""
    text = answer.strip()
    if not text:
        raise BadAnswer("the answer is blank")
    if len(answer) > ANSWER_CHARS_MAX:
        raise BadAnswer(f"the answer has {len(answer):,} characters; at most {ANSWER_CHARS_MAX:,} are taken")
    if rules.choices:
        return _require_choice(rules.choices, text)
    if rules.pattern and (len(text) > PATTERN_ANSWER_CHARS_MAX or not parse_pattern(rules.pattern).matches(text)):
        raise BadAnswer(f"the answer is not {rules.in_words}")
    if rules.schema:
        fault = _fault(rules.schema, _value(rules.schema, text), "the answer")
        if fault:
            raise BadAnswer(fault)
    return text if rules.pattern or rules.schema else answer


def _require_choice(choices: Sequence[str], text: str) -> str:
    found = [choice for choice in choices if choice.strip().casefold() == text.casefold()]
    if not found:
        raise BadAnswer(f"'{text[:80]}' is none of the choices; answer with one of: {', '.join(choices)}")
    return found[0]


def _value(schema: Mapping[str, Any], text: str) -> Any:
    """The value of the text: the text itself if a string is expected, else JSON."""
    if schema.get("type", "string") == "string":
        return text
    try:
        return read_json(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        why = f"; it is no JSON: {error}" if schema["type"] in ("array", "object") else ""
        raise BadAnswer(f"the answer should be {schema_words(schema)}{why}") from error


# The Python types of values, by their name in JSON Schema. A boolean is not a number.
_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_count(value: object) -> bool:
    return _TYPES["integer"](value) and 0 <= value <= ANSWER_CHARS_MAX  # type: ignore[operator]


_Keywords = Mapping[str, Callable[[Any], bool]]

# The valid values of each keyword.
_WITHOUT_FORMAT: dict[str, Callable[[Any], bool]] = {
    "type": lambda value: isinstance(value, str) and value in _TYPES,
    "enum": lambda value: isinstance(value, list) and 0 < len(value) <= CHOICES_MAX,
    "minimum": _TYPES["number"],
    "maximum": _TYPES["number"],
    "minLength": _is_count,
    "maxLength": _is_count,
    "pattern": _TYPES["string"],
    "items": _TYPES["object"],
    "minItems": _is_count,
    "maxItems": _is_count,
    "properties": lambda value: isinstance(value, dict) and all(isinstance(body, dict) for body in value.values()),
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    "description": _TYPES["string"],
    "title": _TYPES["string"],
}
_KEYWORDS = {**_WITHOUT_FORMAT, "format": lambda value: value == "date"}


# The types that a keyword applies to.
_OF_TYPES: dict[str, tuple[str, ...]] = {
    "minimum": ("integer", "number"),
    "maximum": ("integer", "number"),
    "minLength": ("string",),
    "maxLength": ("string",),
    "pattern": ("string",),
    "format": ("string",),
    "items": ("array",),
    "minItems": ("array",),
    "maxItems": ("array",),
    "properties": ("object",),
    "required": ("object",),
}


def _require_schema(schema: Mapping[str, Any], keywords: _Keywords) -> None:
    nodes = 0
    level: list[Mapping[str, Any]] = [schema]
    for _ in range(SCHEMA_DEPTH_MAX):
        for each in level:
            _require_keywords(each, keywords)
        nodes += len(level)
        level = [inner for each in level for inner in _inner_schemas(each)]
    if level or nodes > SCHEMA_NODES_MAX:
        raise BadQuestion(f"a schema has at most {SCHEMA_DEPTH_MAX} levels and {SCHEMA_NODES_MAX} parts")


def _inner_schemas(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = [schema["items"]] if "items" in schema else []
    return [*items, *schema.get("properties", {}).values()]


def _require_keywords(schema: Mapping[str, Any], keywords: _Keywords) -> None:
    for keyword, value in schema.items():
        if keyword not in keywords:
            known = ", ".join(keywords)
            raise BadQuestion(f"'{keyword}' is not part of the schemas for answers; these are: {known}")
        if not keywords[keyword](value):
            raise BadQuestion(f"'{keyword}' of a schema cannot be {msgspec.json.encode(value).decode()[:80]}")
    if "pattern" in schema:
        parse_pattern(schema["pattern"])


def _fault(schema: Mapping[str, Any], value: Any, where: str) -> str:
    """The fault of a value, or empty."""
    kind = schema.get("type", "string")
    if not _TYPES[kind](value):
        return f"{where} should be {schema_words(schema)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} should be {schema_words(schema)}"
    if isinstance(value, str):
        return _fault_of_text(schema, value, where)
    if isinstance(value, list):
        return _fault_of_items(schema, value, where)
    if isinstance(value, dict):
        return _fault_of_properties(schema, value, where)
    return "" if isinstance(value, bool) else _fault_of_number(schema, value, where)


def _fault_of_number(schema: Mapping[str, Any], value: float, where: str) -> str:
    if "minimum" in schema and value < schema["minimum"]:
        return f"{where} should be at least {schema['minimum']:g}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{where} should be at most {schema['maximum']:g}"
    return ""


def _fault_of_text(schema: Mapping[str, Any], value: str, where: str) -> str:
    size = _fault_of_size(schema, len(value), "Length", where, "characters")
    if "format" in schema and not size and not _is_date(value):
        return f"{where} should be {schema_words(schema)}"
    if size or "pattern" not in schema:
        return size
    fits = len(value) <= PATTERN_ANSWER_CHARS_MAX and parse_pattern(schema["pattern"]).matches(value)
    return "" if fits else f"{where} should have the form {schema['pattern']}"


def _is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _fault_of_items(schema: Mapping[str, Any], value: list[Any], where: str) -> str:
    faults = [_fault_of_size(schema, len(value), "Items", where, "items")]
    faults += [
        _fault(schema["items"], item, f"item {n} of {where}") for n, item in enumerate(value, 1) if "items" in schema
    ]
    return next(filter(None, faults), "")


def _fault_of_properties(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> str:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{where} lacks {', '.join(missing)}"
    known = schema.get("properties", {})
    faults = (_fault(body, value[name], f"'{name}' of {where}") for name, body in known.items() if name in value)
    return next(filter(None, faults), "")


def _fault_of_size(schema: Mapping[str, Any], size: int, what: str, where: str, unit: str) -> str:
    if size < schema.get(f"min{what}", 0):
        return f"{where} should have at least {schema[f'min{what}']} {unit}"
    if size > schema.get(f"max{what}", size):
        return f"{where} should have at most {schema[f'max{what}']} {unit}"
    return ""
