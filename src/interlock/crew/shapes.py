"""The shapes that values of a crew file may have, and how a value is read as one.

Rule 1: reading never raises; a value that does not fit becomes a problem with its place, and `MISSING`.
Rule 2: a shape knows nothing about crews; `keys` tells which key has which shape.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from interlock.crew.nodes import (
    ForeignValue,
    Mapping,
    Node,
    Path,
    Scalar,
    Sequence,
    location_of,
    plain_value,
    scalar_without_json,
    summary_of,
)
from interlock.crew.outputs.keywords import faults_in_schema
from interlock.crew.problem import Problems, Severity
from interlock.errors import closest
from interlock.signals.definition import is_signal_name


class Missing:
    """The value of a key that was not written or could not be read."""


MISSING: Final = Missing()
Read = Any  # the value in its Python form, or MISSING


@dataclass(frozen=True, slots=True)
class Text:
    """A string. `blank` allows an empty one (and null, which is the same); `loose` accepts numbers as written."""

    blank: bool = False
    loose: bool = False
    options: tuple[str, ...] = ()

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if not isinstance(node, Scalar):
            return _report_misfit(node, path, problems, self)
        if node.value is None and self.blank:
            return ""
        if isinstance(node.value, str):
            value = node.value
        elif self.loose and node.value is not None:
            value = node.text
        else:
            return _report_misfit(node, path, problems, self)
        if not value.strip() and not self.blank:
            return _report_misfit(node, path, problems, self)
        if self.options and value not in self.options:
            return _report_unknown_option(node, value, self.options, path, problems)
        return value

    def __str__(self) -> str:
        return f"one of {', '.join(self.options)}" if self.options else "text"


@dataclass(frozen=True, slots=True)
class SignalText:
    """The name of a signal."""

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            # `[END]` without quotes is a YAML list; say what happened instead of "must be text".
            hint = "write it in quotes: in YAML, plain [END] is a list" if isinstance(node, Sequence) else ""
            return _report_misfit(node, path, problems, self, fix=hint)
        if not is_signal_name(node.value):
            problems.add(
                "bad-format",
                f"signal '{node.value}' has invalid format - must match [NAME]",
                place=node.place,
                path=path,
                fix="use letters, digits, '_', '-' and single spaces between square brackets, such as \"[NEXT]\"",
            )
            return MISSING
        return node.value

    def __str__(self) -> str:
        return 'a signal such as "[NEXT]"'


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds; `whole` allows no fractions, `above` excludes the lower bound itself."""

    least: float = 0
    most: float = 1e12
    whole: bool = False
    above: bool = False

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _report_misfit(node, path, problems, self)
        if self.whole and value != int(value):
            return _report_misfit(node, path, problems, self)
        if not self.least <= value <= self.most or (self.above and value == self.least):
            fix = f"write at most {_number_text(self.most)}" if value > self.most else ""
            return _report_misfit(node, path, problems, self, fix=fix)
        return int(value) if self.whole else value

    def __str__(self) -> str:
        noun = "a whole number" if self.whole else "a number"
        if self.most >= 1e9:  # a guard against nonsense, not worth mentioning
            return f"{noun} above {self.least:g}" if self.above else f"{noun} from {self.least:g}"
        return f"{noun} {'above' if self.above else 'from'} {self.least:g} to {_number_text(self.most)}"


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        return _report_misfit(node, path, problems, self)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Share:
    """An amount of history: none, all, or the last N entries."""

    all_allowed: bool = True

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        value = node.value if isinstance(node, Scalar) else None
        if value == "none":
            return 0
        if value == "all" and self.all_allowed:
            return -1
        if not isinstance(value, bool) and isinstance(value, int | float) and value in range(100_001):
            return int(value)
        return _report_misfit(node, path, problems, self)

    def __str__(self) -> str:
        return "none, all or a number of entries" if self.all_allowed else "none or a number of entries"


@dataclass(frozen=True, slots=True)
class WordOrNumber:
    """One of a few words, or a number."""

    words: tuple[str, ...]
    number: Number
    noun: str

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value in self.words:
            return node.value
        found = self.number.read(node, path, Problems())
        return found if found is not MISSING else _report_misfit(node, path, problems, self)

    def __str__(self) -> str:
        return f"{', '.join(self.words)} or {self.noun}"


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Shape"

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if isinstance(node, Scalar) and node.value is None:
            return ()
        if not isinstance(node, Sequence):
            return _report_misfit(node, path, problems, self)
        items = [self.item.read(item, (*path, n), problems) for n, item in enumerate(node.items)]
        return tuple(item for item in items if item is not MISSING)

    def __str__(self) -> str:
        return f"a list of {_plural(self.item)}"


@dataclass(frozen=True, slots=True)
class MapOf:
    """Names chosen by the author, each with a value of one shape."""

    value: "Shape"
    keys: str

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if isinstance(node, Scalar) and node.value is None:
            return {}
        if not isinstance(node, Mapping):
            return _report_misfit(node, path, problems, self)
        found = {name: self.value.read(inner, (*path, name), problems) for name, _, inner in node}
        return {name: value for name, value in found.items() if value is not MISSING}

    def __str__(self) -> str:
        return f"a mapping from {self.keys} to {self.value}"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section. `legacy` is the reason why it has no effect."""

    name: str
    shape: "Shape"
    doc: str
    required: bool = False
    legacy: str = ""


class Values(dict[str, Any]):
    """The values of a section, with its path."""

    def __init__(self, values: dict[str, Any], path: Path) -> None:
        super().__init__(values)
        self.path = path


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with a fixed set of keys. An unknown key is a problem."""

    title: str
    keys: tuple[Key, ...]

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if isinstance(node, Scalar) and node.value is None and not any(key.required for key in self.keys):
            return Values({}, path)
        if not isinstance(node, Mapping):
            return _report_misfit(node, path, problems, self)
        known = {key.name: key for key in self.keys}
        values: dict[str, Any] = {}
        for name, scalar, inner in node:
            if name not in known:
                self._report_unknown_key(name, scalar, path, problems)
            elif known[name].legacy:
                _report_legacy_key(known[name], scalar, path, problems)
            else:
                values[name] = known[name].shape.read(inner, (*path, name), problems)
        self._report_missing_keys(node, path, problems)
        return Values({name: value for name, value in values.items() if value is not MISSING}, path)

    def _report_unknown_key(self, name: str, scalar: Scalar, path: Path, problems: Problems) -> None:
        names = [key.name for key in self.keys]
        home, near = self._section_for_key(name), closest(name, names)
        advice = f"; did you mean '{near}'?" if near else ""
        if home:
            advice = f"; it belongs under '{home}'"
        problems.add(
            "unknown-key",
            f"{self.title} has no key '{name}'{advice}",
            place=scalar.place,
            path=(*path, name),
            fix=_advice(name, names, home, near),
        )

    def _section_for_key(self, name: str) -> str | None:
        """The section below this one that has the key."""
        inner = ((key.name, key.shape.keys) for key in self.keys if isinstance(key.shape, Section))
        return next((home for home, keys in inner if any(key.name == name for key in keys)), None)

    def _report_missing_keys(self, node: Mapping, path: Path, problems: Problems) -> None:
        for key in self.keys:
            if key.required and node.get(key.name) is None:
                problems.add(
                    "missing-key",
                    f"{self.title} needs '{key.name}': {key.doc}",
                    place=node.place,
                    path=(*path, key.name),
                    fix=f"add '{key.name}:' ({key.shape})",
                )

    def __str__(self) -> str:
        return f"a mapping ({self.title})"


@dataclass(frozen=True, slots=True)
class Either:
    """A name, or an inline definition."""

    text: Text
    section: Section

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        shape = self.section if isinstance(node, Mapping) else self.text
        return shape.read(node, path, problems)

    def __str__(self) -> str:
        return f"{self.text} or {self.section}"


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A JSON Schema in place. The name of a file beside the crew is replaced by its content before it is read."""

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        if not isinstance(node, Mapping):
            return _report_misfit(node, path, problems, self)
        schema, faults = plain_value(node), 0
        for place, message in faults_in_schema(schema):
            where = tuple(int(part) if part.isdigit() else part for part in place)
            problems.add(
                "bad-schema",
                f"{path[-1]} is not a schema that can be checked: {message}",
                place=location_of(node, where) if place else node.place,
                path=(*path, *where),
                fix="correct it; JSON Schema 2020-12 has the keywords",
            )
            faults += 1
        return MISSING if faults else schema

    def __str__(self) -> str:
        return "a JSON Schema, or the name of a file with one"


@dataclass(frozen=True, slots=True)
class JsonMap:
    """Names with any values that JSON has."""

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        misfit = scalar_without_json(node) if isinstance(node, Mapping) else node
        return plain_value(node) if misfit is None else _report_misfit(misfit, path, problems, self)

    def __str__(self) -> str:
        return "a mapping from names to JSON values"


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that is never read: the shape of legacy keys."""

    def read(self, node: Node, path: Path, problems: Problems) -> Read:
        return MISSING

    def __str__(self) -> str:
        return "anything"


Single = Text | SignalText | SchemaText | JsonMap | Number | Flag | Share | WordOrNumber | Anything
Shape = Single | ListOf | MapOf | Section | Either


def _number_text(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _advice(name: str, names: list[str], home: str | None, near: str | None) -> str:
    if home:
        return f"move it under '{home}:'"
    return f"write '{near}'" if near else f"remove it; the keys are {', '.join(names)}"


def _report_misfit(node: Node, path: Path, problems: Problems, shape: Shape, *, fix: str = "") -> Missing:
    what = path[-1] if path and isinstance(path[-1], str) else "this value"
    if isinstance(shape, Text) and not shape.options and _has_spelling(node):
        fix = fix or f'put it in quotes: "{node.text}"'
    problems.add(
        "bad-value",
        f"{what} must be {shape}, got {summary_of(node)}",
        place=node.place,
        path=path,
        fix=fix or f"write {shape}",
    )
    return MISSING


def _has_spelling(node: Node) -> TypeGuard[Scalar]:
    """True for a value that would be text if it had quotes."""
    return isinstance(node, Scalar) and node.value not in (None, "") and not isinstance(node.value, ForeignValue)


def _report_unknown_option(
    node: Scalar, value: str, options: tuple[str, ...], path: Path, problems: Problems
) -> Missing:
    near = closest(value, options)
    problems.add(
        "bad-value",
        f"{path[-1]} must be one of {', '.join(options)}, got '{value}'"
        + (f"; did you mean '{near}'?" if near else ""),
        place=node.place,
        path=path,
        fix=f"write {near}" if near else f"write one of {', '.join(options)}",
    )
    return MISSING


def _report_legacy_key(key: Key, scalar: Scalar, path: Path, problems: Problems) -> None:
    problems.add(
        "legacy-key",
        f"'{key.name}' has no effect: {key.legacy}",
        place=scalar.place,
        path=(*path, key.name),
        fix="remove it",
        severity=Severity.NOTE,
    )


def _plural(shape: Shape) -> str:
    return {Text: "texts", SignalText: "signals", Number: "numbers"}.get(type(shape), str(shape))
