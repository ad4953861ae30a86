"""JSON Schema of a type: one document, whatever libraries described its parts.

Rule 1: all definitions are in `$defs` of the document; two of the same name get different names.
Rule 2: it accepts what the decoder accepts: a number for a decimal, and repeated items for a set.
"""

from typing import Any

REF = "#/$defs/"


def merge_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions, and those within it, in one `$defs`."""
    found: dict[str, Any] = {}
    parts = {name: _lift(part, found) for name, part in definitions.items()}
    body = _lift(schema, found, taken=parts)
    every = {**parts, **found}
    return {**body, "$defs": every} if every else body


def _lift(part: Any, found: dict[str, Any], *, taken: dict[str, Any] | None = None) -> Any:
    """The part without `$defs` of its own; these are added to `found`."""
    if isinstance(part, list):
        return [_lift(each, found, taken=taken) for each in part]
    if not isinstance(part, dict):
        return part
    own = part.get("$defs")
    if isinstance(own, dict):
        names = {name: _free_name(name, body, {**(taken or {}), **found}) for name, body in own.items()}
        for name, body in own.items():
            found[names[name]] = _lift(_rename(body, names), found, taken=taken)
        part = _rename({key: value for key, value in part.items() if key != "$defs"}, names)
    lifted = {key: _lift(value, found, taken=taken) for key, value in part.items()}
    return _as_decoded(lifted)


def _free_name(name: str, body: Any, taken: dict[str, Any]) -> str:
    number, free = 1, name
    while free in taken and taken[free] != body:
        number += 1
        free = f"{name}_{number}"
    return free


def _rename(part: Any, names: dict[str, str]) -> Any:
    if isinstance(part, list):
        return [_rename(each, names) for each in part]
    if not isinstance(part, dict):
        return part
    renamed = {key: _rename(value, names) for key, value in part.items()}
    ref = part.get("$ref")
    if isinstance(ref, str) and ref.removeprefix(REF) in names:
        renamed["$ref"] = f"{REF}{names[ref.removeprefix(REF)]}"
    return renamed


def _as_decoded(part: dict[str, Any]) -> dict[str, Any]:
    """msgspec takes more than it says: numbers for decimals, and repeated items for sets."""
    if part.get("type") == "string" and part.get("format") == "decimal":
        rest = {key: value for key, value in part.items() if key not in ("type", "format")}
        return {"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}], **rest}
    if part.get("type") == "array" and part.get("uniqueItems") is True:
        return {key: value for key, value in part.items() if key != "uniqueItems"}
    return part
