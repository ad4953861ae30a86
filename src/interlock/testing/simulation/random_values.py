"""Random JSON values after a schema, some of them wrong.

Rule 1: what a keyword says may be missed; it is the validator that decides.
"""

from random import Random
from typing import Any

import msgspec

from interlock.crew.outputs.keywords import resolve

TEXTS = ("", "A-17", "[END]", "tiếng Việt", "so it is")
WRONG = ("{", '{"value": NaN}', "[1, 2", '"[END]', "7 and more", '{"a": 1, "a": 2}', "null", "[]", "{}")

# A schema that contains itself ends at this depth.
DEPTH_MAX = 4


def random_value(schema: dict[str, Any], chance: Random) -> str:
    """A JSON text: mostly a value of the schema, sometimes another one or no JSON; sometimes in a code fence."""
    if chance.random() < 0.15:
        return chance.choice(WRONG)
    part = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    text = msgspec.json.encode(_value(part, schema, chance, 0)).decode()
    return f"```json\n{text}\n```" if chance.random() < 0.1 else text


def _value(part: Any, root: dict[str, Any], chance: Random, depth: int) -> Any:
    part = resolve(root, part)
    if not isinstance(part, dict):
        return chance.choice((None, 1, "any"))
    for keyword in ("anyOf", "oneOf"):
        if keyword in part:
            return _value(chance.choice(part[keyword]), root, chance, depth)
    if "const" in part or "enum" in part:
        return chance.choice(part.get("enum", [part.get("const")]))
    kind = part.get("type", "object" if "properties" in part or "required" in part else "string")
    return _value_of_type(chance.choice(kind) if isinstance(kind, list) else kind, part, root, chance, depth)


def _value_of_type(kind: str, part: dict[str, Any], root: dict[str, Any], chance: Random, depth: int) -> Any:
    match kind:
        case "object":
            return _object(part, root, chance, depth)
        case "array":
            most = 0 if depth >= DEPTH_MAX else 2
            count = max(part.get("minItems", 0), chance.randint(0, most))
            return [_value(part.get("items", {}), root, chance, depth + 1) for _ in range(count)]
        case "integer" | "number":
            low, high = part.get("minimum", -3), part.get("maximum", 100)
            return chance.randint(int(low), max(int(low), int(high)))
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return chance.choice(TEXTS)


def _object(part: dict[str, Any], root: dict[str, Any], chance: Random, depth: int) -> dict[str, Any]:
    required, properties = part.get("required", []), part.get("properties", {})
    names = [name for name in properties if name in required or (depth < DEPTH_MAX and chance.random() < 0.5)]
    names += [name for name in required if name not in properties]
    return {name: _value(properties.get(name, {}), root, chance, depth + 1) for name in names}
