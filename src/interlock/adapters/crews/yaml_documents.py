"""Reads YAML as crew files use it: one document, plain values, each with its line and column.

Rule 1: aliases, anchors and tags are refused, not followed: nothing expands and nothing is constructed.
Rule 2: booleans and numbers are those of YAML 1.2; `no`, `on` and `12:30` are text.
Rule 3: a duplicate key is a problem; nothing is dropped silently.
"""

import codecs
import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from interlock.adapters.crews.yaml_indentation import indentation_fault
from interlock.crew.nodes import Mapping, Node, Path, Scalar, Sequence, SourceLocation
from interlock.crew.problem import Problems
from interlock.limits import YAML_DEPTH_MAX, YAML_NODES_MAX

# The parser in C if PyYAML has it; the one in Python is slower.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?\Z")
# Characters that YAML does not allow; the parser refuses them too, but does not tell where.
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class _DocumentRefused(Exception):
    """The document exceeds the limits of a crew file; reading stops."""

    def __init__(self, message: str, place: SourceLocation, fix: str) -> None:
        super().__init__(message)
        self.place, self.fix = place, fix


@dataclass(slots=True)
class _OpenContainer:
    """A container that is still open."""

    place: SourceLocation
    is_mapping: bool
    items: list[Node] = field(default_factory=list)


def read_yaml(data: bytes, file: str, problems: Problems) -> Node | None:
    """Reads the document; None if it is not YAML. Its faults are added to `problems`."""
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        byte = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
        _add_bad_yaml(problems, byte, _place_after(before, file), "save the file as UTF-8")
        return None
    try:
        _refuse_control_characters(text, file)
        return _Builder(file, problems).build(text)
    except _DocumentRefused as refusal:
        _add_bad_yaml(problems, str(refusal), refusal.place, refusal.fix)
    except yaml.MarkedYAMLError as error:
        _add_bad_yaml(problems, *_explain_error(error, text, file))
    except (yaml.YAMLError, ValueError) as error:
        _add_bad_yaml(
            problems, _one_line(error), SourceLocation(file, 1, 1), "remove the characters that YAML does not allow"
        )
    return None


class _Builder:
    """Builds nodes from the parser's events, so that nothing is expanded before it is checked."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file, self.problems = file, problems
        self.open: list[_OpenContainer] = []
        self.root: Node | None = None
        self.count = 0

    def build(self, text: str) -> Node:
        for event in yaml.parse(text, Loader=_Loader):
            self._on_event(event)
        return self.root if self.root is not None else Scalar(None, "", SourceLocation(self.file, 1, 1))

    def _on_event(self, event: yaml.Event) -> None:
        place = _place(self.file, event.start_mark)
        match event:
            case yaml.AliasEvent():
                self._refuse_feature("an alias", place)
                self._add(Scalar(None, "", place))
            case yaml.ScalarEvent():
                self._refuse_decoration(event, place)
                self._add(_scalar(event, place))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_decoration(event, place)
                self._begin(place, isinstance(event, yaml.MappingStartEvent))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._add(self._close_container(self.open.pop()))
            case yaml.DocumentStartEvent() if self.root is not None:
                raise _DocumentRefused(
                    "a crew file contains one document", place, "remove everything after the second '---'"
                )
            case _:
                return

    def _begin(self, place: SourceLocation, is_mapping: bool) -> None:
        if len(self.open) >= YAML_DEPTH_MAX:
            raise _DocumentRefused(f"nested deeper than {YAML_DEPTH_MAX} levels", place, "flatten the file")
        self.open.append(_OpenContainer(place, is_mapping))

    def _add(self, node: Node) -> None:
        self.count += 1
        if self.count > YAML_NODES_MAX:
            raise _DocumentRefused(f"more than {YAML_NODES_MAX} values", node.place, "split the crew into sub-crews")
        if self.open:
            self.open[-1].items.append(node)
        else:
            self.root = node

    def _close_container(self, container: _OpenContainer) -> Node:
        if not container.is_mapping:
            return Sequence(tuple(container.items), container.place)
        entries = []
        seen: dict[str, int] = {}
        for key, value in zip(container.items[::2], container.items[1::2], strict=True):
            if not isinstance(key, Scalar):
                _add_bad_yaml(self.problems, "a key must be text", key.place, "write the key as text")
            elif key.text in seen:
                self.problems.add(
                    "duplicate-key",
                    f"key '{key.text}' is there twice, first in line {seen[key.text]}",
                    place=key.place,
                    path=(*self._path(), key.text),
                    fix="remove one of the two",
                )
            else:
                seen[key.text] = key.place.line
                entries.append((key, value))
        return Mapping(tuple(entries), container.place)

    def _refuse_decoration(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: SourceLocation) -> None:
        if event.anchor is not None:
            self._refuse_feature("an anchor", place)
        if event.tag is not None:
            self._refuse_feature(f"a tag ({event.tag})", place)

    def _refuse_feature(self, what: str, place: SourceLocation) -> None:
        _add_bad_yaml(
            self.problems, f"{what} is not allowed in crew files", place, "write the value itself", self._path()
        )

    def _path(self) -> Path:
        """The path of the parser's position."""
        return tuple(_step(container) for container in self.open)


def _step(container: _OpenContainer) -> str | int:
    """The path part of the next node in an open container: its last key, or the next index."""
    if not container.is_mapping:
        return len(container.items)
    last = container.items[-1] if len(container.items) % 2 else None
    return last.text if isinstance(last, Scalar) else "?"


def _scalar(event: yaml.ScalarEvent, place: SourceLocation) -> Scalar:
    text = event.value
    if event.style:  # quoted or a block: always text
        return Scalar(text, text, place)
    if text in _WORDS:
        return Scalar(_WORDS[text], text, place)
    if _INTEGER.match(text):
        return Scalar(int(text), text, place)
    if _FLOAT.match(text) and math.isfinite(float(text)):
        return Scalar(float(text), text, place)
    return Scalar(text, text, place)


def is_text_without_quotes(text: str) -> bool:
    """True if a plain scalar with this spelling is text, not a number or a word such as null."""
    return text not in _WORDS and not _INTEGER.match(text) and not _FLOAT.match(text)


def _explain_error(error: yaml.MarkedYAMLError, text: str, file: str) -> tuple[str, SourceLocation, str]:
    mark = error.problem_mark or error.context_mark
    place = _place(file, mark)
    if mark and text.startswith("//", mark.index):
        return "'//' does not start a comment in YAML", place, "start comments with '#'"
    if "\\t" in str(error.problem) or "tab" in str(error.problem) or (mark and text.startswith("\t", mark.index)):
        return "a tab cannot indent YAML", place, "indent with spaces"
    message, fix = indentation_fault(text, place.line)
    if message:
        return message, SourceLocation(file, place.line, 1), fix
    if error.problem == "mapping values are not allowed in this context":
        return "a text with ': ' in it has no quotes", place, "put quotes around the whole text"
    message = " ".join(str(part) for part in (error.context, error.problem) if part)
    return message, place, f"look at line {place.line} and the one above it: quotes, brackets, colons and dashes"


def _place(file: str, mark: Any) -> SourceLocation:
    return SourceLocation(file, mark.line + 1, mark.column + 1) if mark else SourceLocation(file, 1, 1)


def _place_after(before: str, file: str) -> SourceLocation:
    """The place after this text."""
    start = before.rfind("\n") + 1
    return SourceLocation(file, before.count("\n") + 1, len(before) - start + 1)


def _refuse_control_characters(text: str, file: str) -> None:
    found = _CONTROL.search(text)
    if found is not None:
        place = _place_after(text[: found.start()], file)
        raise _DocumentRefused(f"character U+{ord(found[0]):04X} is not allowed in YAML", place, "remove the character")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _add_bad_yaml(problems: Problems, message: str, place: SourceLocation, fix: str, path: Path = ()) -> None:
    problems.add("bad-yaml", message, place=place, path=path, fix=fix)
