"""What providers refuse in the schema of a reply, as strict stand-ins.

From the providers' pages, in our own words:
- OpenAI, chat completions and Responses, `strict`: the top is an object and no union; every object lists all of its
  properties as required and has `additionalProperties: false`; a recursion by `$ref` is taken; `allOf`, `not`, `if`,
  `dependentRequired`, `patternProperties` are not. Bounds and formats are refused by some of the models.
- Anthropic, structured outputs: objects are closed; no recursion; no bounds of numbers, texts and lists.
- Gemini, `responseJsonSchema`: a required recursion is refused; `allOf`, `not`, `if`, `patternProperties` are unknown.
- DeepSeek: no schema, `json_object` only, and the word "json" is somewhere in the prompt.
- llama.cpp: the schema becomes a grammar; every part needs something to generate, so nothing is untyped.
"""

from collections.abc import Iterator
from typing import Any

_COMPOUND = ("allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "patternProperties", "then")
_BOUNDS = ("exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maximum", "minItems",
           "minLength", "minimum", "multipleOf", "pattern", "uniqueItems")  # fmt: skip


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and every one inside it."""
    yield schema
    for keyword in ("items", "not"):
        if isinstance(schema.get(keyword), dict):
            yield from parts_of(schema[keyword])
    for keyword in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(keyword, ()):
            yield from parts_of(inner)
    for keyword in ("properties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from parts_of(inner)


def _refusals_of_objects(schema: dict[str, Any]) -> Iterator[str]:
    for part in parts_of(schema):
        if part.get("type") == "object":
            if part.get("additionalProperties") is not False:
                yield "additionalProperties is required to be false"
            if sorted(part.get("required", ())) != sorted(part.get("properties", ())):
                yield "required must list every key of properties"
            if not part.get("properties"):
                yield "an object has properties"
        if not {"type", "enum", "anyOf", "$ref"} & set(part):
            yield "a schema has a type"


def _has_recursion(schema: dict[str, Any]) -> bool:
    """Definitions are used for recursive schemas only, here and in what is sent."""
    return any("$ref" in part for part in parts_of(schema))


def _used(schema: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    return [name for part in parts_of(schema) for name in names if name in part]


def refusals_of_openai(schema: dict[str, Any]) -> list[str]:
    found = list(_refusals_of_objects(schema))
    if schema.get("type") != "object" or "anyOf" in schema:
        found.append("the top is an object")
    found += [f"{name} is not permitted" for name in _used(schema, (*_COMPOUND, *_BOUNDS, "oneOf", "const"))]
    for part in parts_of(schema):
        if "$ref" in part and part["$ref"].removeprefix("#/$defs/") not in schema.get("$defs", {}):
            found.append("the reference leads nowhere")
    return found


def refusals_of_anthropic(schema: dict[str, Any]) -> list[str]:
    found = [each for each in _refusals_of_objects(schema) if "every key" not in each]
    found += [
        f"{name} is not supported" for part in parts_of(schema) for name in (*_COMPOUND, *_BOUNDS) if name in part
    ]
    return [*found, *(["recursion is not supported"] if _has_recursion(schema) else [])]


def refusals_of_gemini(schema: dict[str, Any]) -> list[str]:
    found = [f"unknown name {name}" for name in _used(schema, (*_COMPOUND, "const"))]
    return [*found, *(["recursion is not supported"] if _has_recursion(schema) else [])]


def refusals_of_llama(schema: dict[str, Any]) -> list[str]:
    return [each for each in _refusals_of_objects(schema) if each == "a schema has a type"]


def refusals_of_deepseek(body: dict[str, Any]) -> list[str]:
    found = [] if body.get("response_format") == {"type": "json_object"} else ["response_format type is unavailable"]
    prompt = " ".join(str(message.get("content")) for message in body["messages"]).lower()
    return found if "json" in prompt else [*found, "the prompt must contain the word json"]


def instance_of(schema: dict[str, Any], *, with_nulls: bool, top: dict[str, Any] | None = None) -> Any:
    """A value of a wire form: the shortest, with null wherever it may be, or with no null where there is a choice."""
    top = schema if top is None else top
    if "$ref" in schema:
        return instance_of(top["$defs"][schema["$ref"].removeprefix("#/$defs/")], with_nulls=with_nulls, top=top)
    if "anyOf" in schema:
        cases = [case for case in schema["anyOf"] if (case.get("type") == "null") == with_nulls] or schema["anyOf"]
        return instance_of(cases[0], with_nulls=with_nulls, top=top)
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            inner = schema["properties"].items()
            return {name: instance_of(each, with_nulls=with_nulls, top=top) for name, each in inner}
        case "array":
            return []
        case kind:
            return {"string": "words", "integer": 3, "number": 2.5, "boolean": True, "null": None}[kind]
