"""Whether every value of one schema is a value of another: the proof behind `takes` and `output`.

Rule 1: it is conservative. A fit is proven, or it is not one; what cannot be proven is a misfit that says so.
Rule 2: equal schemas always fit, whatever keywords they use. Annotations do not count.
Rule 3: nothing is validated here: enumerated values are compared by the keywords that this module knows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from interlock.crew.outputs.keywords import ANNOTATIONS, INNER_LIST, INNER_MAP, INNER_SCHEMA, TYPES, Schema, resolve

_NAMES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}

# Keywords of a target that are proven by equality alone.
_OPAQUE = (
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)

_LEAST = {"minItems": "array", "minLength": "string", "minProperties": "object"}
_MOST = {"maxItems": "array", "maxLength": "string", "maxProperties": "object"}


def misfit_of(source: Schema, target: Schema) -> str:
    """Why a value of `source` may not be a value of `target`; empty if each one is."""
    return next(_Comparison(source, target).misfits(source, target, "the value"), "")


class _Comparison:
    """The comparison of two whole schemas. A pair that is being compared fits, so that recursion ends."""

    def __init__(self, source: Schema, target: Schema) -> None:
        self._source, self._target = source, target
        self._open: set[tuple[str, str]] = set()
        # Pairs that fit without the help of an open one: definitions that are used in many places are compared once.
        self._fitting: set[tuple[str, str]] = set()
        self._assumed = 0

    def misfits(self, source: Any, target: Any, where: str) -> Iterator[str]:
        bare_source, bare_target = _plain(resolve(self._source, source)), _plain(resolve(self._target, target))
        pair = (repr(bare_source), repr(bare_target))
        if bare_source is False or bare_target in (True, {}) or pair in self._fitting or self._is_same(*pair):
            return
        if pair in self._open:
            self._assumed += 1
            return
        self._open.add(pair)
        before, fits = self._assumed, True
        try:
            for misfit in self._misfits(bare_source, bare_target, where):
                fits = False
                yield misfit
            if fits and before == self._assumed:
                self._fitting.add(pair)
        finally:
            self._open.discard(pair)

    def _is_same(self, source: str, target: str) -> bool:
        """Equal texts mean the same if they have no references, or both schemas have the same definitions."""
        if source != target:
            return False
        return "'$ref'" not in source or repr(_definitions(self._source)) == repr(_definitions(self._target))

    def _misfits(self, source: Any, target: Any, where: str) -> Iterator[str]:
        if target is False:
            yield f"{where} is not taken"
            return
        source = {} if source is True else source
        if "$ref" in source:  # beside other keywords, which only narrow it
            yield from self.misfits({"$ref": source["$ref"]}, target, where)
            return
        parts = self._alternatives(source)
        if parts is None:
            yield from self._misfits_of_one(source, target, where)
            return
        for part in parts:
            yield from self.misfits(part, target, where)

    def _alternatives(self, source: dict[str, Any]) -> list[Any] | None:
        """The cases of a schema, which together hold each of its values; None if it has no cases."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in source:
                rest = _beside(source, keyword)
                return [self._with_keywords(rest, each) for each in source[keyword]]
        if isinstance(source.get("type"), list):
            return [{**source, "type": each} for each in source["type"]]
        return None

    def _with_keywords(self, rest: dict[str, Any], case: Any) -> Any:
        """One case with the keywords beside it, where none of them is in both."""
        whole = _plain(resolve(self._source, case))
        if not isinstance(whole, dict) or not rest or set(rest) & set(whole) or "$ref" in whole:
            return whole
        if set(rest) & set(_OPAQUE):  # some of them mean something only beside another, such as 'then'
            return {"allOf": [rest, whole]}
        return {**rest, **whole}

    def _misfits_of_one(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        if "$ref" in target or "allOf" in target:
            rest = {name: value for name, value in target.items() if name not in ("$ref", "allOf")}
            wholes = [*target.get("allOf", ()), *([{"$ref": target["$ref"]}] if "$ref" in target else ())]
            for whole in (*wholes, rest):
                yield from self.misfits(source, whole, where)
            return
        if "allOf" in source:
            yield from self._misfits_of_all(source, target, where)
        elif "const" in source or "enum" in source:
            for value in source.get("enum", [source.get("const")]):
                if self._accepts(target, value) is not True:
                    yield f"{where} may be {_short(value)}, which is not taken"
        elif "anyOf" in target or "oneOf" in target:
            yield from self._misfits_of_cases(source, target, where)
        elif "const" in target or "enum" in target:
            yield f"{where} may be other than {_short(target.get('enum', target.get('const')))}"
        else:
            yield from self._misfits_of_types(source, target, where)

    def _misfits_of_all(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        """Each part holds all of the values, so it is enough that one of them fits."""
        rest = _beside(source, "allOf")
        found = [next(self.misfits(part, target, where), "") for part in (*source["allOf"], rest)]
        if all(found):
            yield found[0]

    def _misfits_of_cases(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        keyword = "anyOf" if "anyOf" in target else "oneOf"
        rest = {name: value for name, value in target.items() if name != keyword}
        yield from self.misfits(source, rest, where)
        cases = target[keyword]
        found = [next(self.misfits(source, case, where), "") for case in cases]
        if all(found):
            yield found[0] if len(found) == 1 else f"{where} fits none of the {len(found)} cases; {found[0]}"
        elif keyword == "oneOf" and not self._are_apart(cases):
            yield f"{where} is taken by exactly one of several cases, which cannot be proven"

    def _are_apart(self, cases: list[Any]) -> bool:
        """True if no two cases share a type, so that no value fits two of them. A whole number is a number."""
        wholes = [_types(_plain(resolve(self._target, case))) for case in cases]
        kinds = [{"number" if kind == "integer" else kind for kind in whole} for whole in wholes]
        return all(not (a & b) for n, a in enumerate(kinds) for b in kinds[n + 1 :])

    def _misfits_of_types(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        takes = _types(target)
        for kind in sorted(_types(source) - takes):
            if not (kind == "integer" and "number" in takes):
                may = "of any type" if "type" not in source else _NAMES[kind]
                yield f"{where} may be {may}, and {_list_of(takes)} is taken"
                return
        opaque = [name for name in _OPAQUE if name in target]
        given, taken = (repr({name: each.get(name) for name in _OPAQUE}) for each in (source, target))
        if opaque and (not self._is_same(given, taken) or opaque[-1].startswith("unevaluated")):
            yield f"{where} is checked by '{opaque[0]}', which cannot be proven"
        yield from _limit_misfits(source, target, where)
        if "array" in _types(source):
            yield from self._misfits_of_items(source, target, where)
        if "object" in _types(source):
            yield from self._misfits_of_properties(source, target, where)

    def _misfits_of_items(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        firsts, taken = source.get("prefixItems", []), target.get("prefixItems", [])
        for n in range(max(len(firsts), len(taken))):
            mine = firsts[n] if n < len(firsts) else source.get("items", True)
            theirs = taken[n] if n < len(taken) else target.get("items", True)
            yield from self.misfits(mine, theirs, f"{where}[{n}]")
        yield from self.misfits(source.get("items", True), target.get("items", True), f"an item of {where}")
        if target.get("uniqueItems") and not source.get("uniqueItems"):
            yield f"{where} may have equal items"

    def _misfits_of_properties(self, source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
        mine, theirs = source.get("properties", {}), target.get("properties", {})
        others, taken = source.get("additionalProperties", True), target.get("additionalProperties", True)
        for name in target.get("required", ()):
            if name not in source.get("required", ()):
                yield f"{where} may be without '{name}'"
        if source.get("patternProperties") and (theirs or taken is not True):
            yield f"{where} has names by pattern, which cannot be proven"
        for name in dict.fromkeys((*mine, *theirs)):
            part = f"'{name}'" if where == "the value" else f"'{name}' of {where}"
            yield from self.misfits(mine.get(name, others), theirs.get(name, taken), part)
        yield from self.misfits(others, taken, f"another property of {where}")

    def _accepts(self, target: Any, value: Any) -> bool | None:
        """Whether one value is a value of the target; None if that cannot be told."""
        target = _plain(resolve(self._target, target))
        if isinstance(target, bool):
            return target
        if set(target) & {*_OPAQUE, "$ref", "format", "multipleOf", "oneOf", "pattern", "prefixItems", "uniqueItems"}:
            return None
        kind = _type_of(value)
        if kind not in _types(target) and not (kind == "integer" and "number" in _types(target)):
            return False
        if not all(any(_is_equal(value, each) for each in listed) for listed in _lists_of_values(target)):
            return False
        sized = {"minimum": value, "maximum": value} if kind in ("integer", "number") else {}
        if kind in ("string", "array"):
            noun = "Length" if kind == "string" else "Items"
            sized = {f"min{noun}": len(value), f"max{noun}": len(value)}
        if any(_limit_misfits({**sized, "type": kind}, target, "")):
            return False
        return _all_of([*self._accepts_parts(target, value), *self._accepts_cases(target, value)])

    def _accepts_cases(self, target: dict[str, Any], value: Any) -> Iterator[bool | None]:
        yield from (self._accepts(part, value) for part in target.get("allOf", ()))
        if "anyOf" in target:
            found = [self._accepts(part, value) for part in target["anyOf"]]
            yield True if True in found else None if None in found else False

    def _accepts_parts(self, target: dict[str, Any], value: Any) -> Iterator[bool | None]:
        if isinstance(value, list):
            yield from (self._accepts(target.get("items", True), item) for item in value)
        if isinstance(value, dict):
            yield all(name in value for name in target.get("required", ()))
            known, others = target.get("properties", {}), target.get("additionalProperties", True)
            yield from (self._accepts(known.get(name, others), inner) for name, inner in value.items())


def _limit_misfits(source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
    """Bounds of the target that the source does not keep, among those for its types."""
    kinds = _types(source)
    if kinds & {"integer", "number"}:
        yield from _number_misfits(source, target, where)
    for keyword, kind in _LEAST.items():
        if keyword in target and kind in kinds and source.get(keyword, 0) < target[keyword]:
            yield f"{where} may be shorter than {keyword} {target[keyword]}"
    for keyword, kind in _MOST.items():
        if keyword in target and kind in kinds and source.get(keyword, float("inf")) > target[keyword]:
            yield f"{where} may be longer than {keyword} {target[keyword]}"
    for keyword in ("pattern", "format"):
        if keyword in target and "string" in kinds and source.get(keyword) != target[keyword]:
            yield f"{where} may be without the {keyword} '{target[keyword]}'"


def _number_misfits(source: dict[str, Any], target: dict[str, Any], where: str) -> Iterator[str]:
    low, high = _lower(source), _upper(source)
    if low < _lower(target):
        yield f"{where} may be below {_lower(target)[0]:g}"
    if high > _upper(target):
        yield f"{where} may be above {_upper(target)[0]:g}"
    step = target.get("multipleOf")
    own = source.get("multipleOf", 1 if source.get("type") == "integer" else None)
    if step is not None and (own is None or own % step):
        yield f"{where} may be other than a multiple of {step:g}"


def _lower(schema: dict[str, Any]) -> tuple[float, int]:
    """The lower bound, and 1 after it if the bound itself is excluded: the greater one is tighter."""
    infinite = -float("inf")
    return max((schema.get("minimum", infinite), 0), (schema.get("exclusiveMinimum", infinite), 1))


def _upper(schema: dict[str, Any]) -> tuple[float, int]:
    infinite = float("inf")
    return min((schema.get("maximum", infinite), 0), (schema.get("exclusiveMaximum", infinite), -1))


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set(TYPES) if schema else set()
    written = schema.get("type")
    if written is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        return set(TYPES) - {"integer"} if values is None else {_type_of(value) for value in values}
    return set(written) if isinstance(written, list) else {written}


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds = ((str, "string"), (int, "integer"), (list, "array"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _beside(source: dict[str, Any], keyword: str) -> dict[str, Any]:
    """What a source demands beside a keyword. What is unevaluated depends on that keyword, so it counts for nothing."""
    return {name: each for name, each in source.items() if name != keyword and not name.startswith("unevaluated")}


def _lists_of_values(schema: Mapping[str, Any]) -> Iterator[list[Any]]:
    """What `enum` and `const` allow; a value must be in each of the lists."""
    if "enum" in schema:
        yield schema["enum"]
    if "const" in schema:
        yield [schema["const"]]


def _is_equal(one: Any, other: Any) -> bool:
    """Equality of JSON: 1 is 1.0, and true is not 1, at any depth."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(each, other[name]) for name, each in one.items())
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _all_of(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def _plain(schema: Any) -> Any:
    """The schema without annotations, definitions and `x-…`, its lists of names in one order."""
    if not isinstance(schema, Mapping):
        return schema
    plain: dict[str, Any] = {}
    for keyword in sorted(schema):
        value = schema[keyword]
        if keyword in ANNOTATIONS or keyword in ("$defs", "$id", "definitions") or keyword.startswith("x-"):
            continue
        if keyword in INNER_SCHEMA:
            plain[keyword] = _plain(value)
        elif keyword in INNER_LIST:
            plain[keyword] = [_plain(each) for each in value]
        elif keyword in INNER_MAP:
            plain[keyword] = {name: _plain(value[name]) for name in sorted(value)}
        else:
            plain[keyword] = sorted(value) if keyword in ("required", "type") and isinstance(value, list) else value
    return plain


def _definitions(schema: Schema) -> Any:
    """What references lead to."""
    kept = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return _plain(schema), {name: {key: _plain(each) for key, each in part.items()} for name, part in kept.items()}


def _list_of(kinds: set[str]) -> str:
    return " or ".join(_NAMES[kind] for kind in sorted(kinds)) or "nothing"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
