"""Docstrings of tools: the text for the model, and a text for each argument.

Understood are the styles of Google (`Args:`), NumPy (`Parameters` over a line of dashes) and Sphinx (`:param x:`).

Rule 1: nothing raises. Where a docstring follows no style, all of it is the description.
Rule 2: sections about arguments, results and errors are not part of the description; all other text is.
"""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

_OF_ARGUMENTS = ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters")
_OF_RESULTS = ("returns", "return", "yields", "yield", "raises", "raise", "throws", "warns")

_UNDERLINE = re.compile(r"-{3,}\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*(?::(?!:)|\s-\s)(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_FIELD = re.compile(r"[:@](\w+)(?:\s+([^:]*?))?\s*:(?:\s+(.*)|\s*)")
_FIELDS_OF_ARGUMENTS = ("param", "parameter", "arg", "argument", "key", "keyword")
_FIELDS_OF_RESULTS = ("type", "return", "returns", "rtype", "raise", "raises", "except", "exception", "yield", "yields")


class Docstring(NamedTuple):
    """What a docstring says: in general, and of each argument by name."""

    description: str
    arguments: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    reader = _Reader(inspect.cleandoc(text or "").splitlines())
    reader.read()
    return Docstring(
        re.sub(r"\n{3,}", "\n\n", "\n".join(reader.kept)).strip(),
        {name: said for name, parts in reader.said.items() if (said := " ".join(" ".join(parts).split()))},
    )


class _Reader:
    """Reads line by line: `kept` is the description, `said` has the lines about each argument."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.kept: list[str] = []
        self.said: dict[str, list[str]] = {}

    def read(self) -> None:
        at = 0
        while at < len(self._lines):
            at = self._read_section(at)

    def _read_section(self, at: int) -> int:
        """Reads the section, field or line that begins here; gives the line after it."""
        line = self._lines[at]
        below = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        title = line.strip().rstrip(":").lower()
        if _UNDERLINE.fullmatch(below) and title in (*_OF_ARGUMENTS, *_OF_RESULTS):
            return self._read_numpy(at + 2, is_about_arguments=title in _OF_ARGUMENTS)
        if (field := _FIELD.fullmatch(line)) and field[1].lower() in (*_FIELDS_OF_ARGUMENTS, *_FIELDS_OF_RESULTS):
            return self._read_field(at, field)
        header, colon, rest = line.partition(":")
        if colon and header.lower() in _OF_ARGUMENTS and not rest.strip():
            return self._read_google(at + 1)
        if colon and header.lower() in _OF_RESULTS and _has_own_block(rest, below):
            return self._end_of_block(at + 1)
        self.kept.append(line)
        return at + 1

    def _read_google(self, at: int) -> int:
        end = self._end_of_block(at)
        block = self._lines[at:end]
        margin = min((_indent(line) for line in block if line.strip()), default=0)
        name = ""
        for line in block:
            entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == margin else None
            if entry is not None:
                name = entry[1]
                self._add(name, entry[2])
            elif name:
                self._add(name, line)
        return end

    def _read_numpy(self, at: int, *, is_about_arguments: bool) -> int:
        names: list[str] = []
        while at < len(self._lines) and not self._is_numpy_title(at):
            line = self._lines[at]
            if line.strip() and not _indent(line):
                entry = _NUMPY_ENTRY.fullmatch(line.strip())
                if is_about_arguments and entry is None:  # a sentence: the section is over
                    return at
                names = [name.strip(" *") for name in entry[1].split(",")] if entry is not None else []
            elif is_about_arguments:
                for name in names:
                    self._add(name, line)
            at += 1
        return at

    def _is_numpy_title(self, at: int) -> bool:
        return at + 1 < len(self._lines) and bool(_UNDERLINE.fullmatch(self._lines[at + 1]))

    def _read_field(self, at: int, field: "re.Match[str]") -> int:
        words = (field[2] or "").split()
        name = words[-1].lstrip("*") if words and field[1].lower() in _FIELDS_OF_ARGUMENTS else ""
        self._add(name, field[3] or "")
        for line in self._continuation(at + 1):
            self._add(name, line)
            at += 1
        return at + 1

    def _continuation(self, at: int) -> Iterator[str]:
        for line in self._lines[at:]:
            if not line.strip() or not _indent(line):
                return
            yield line

    def _add(self, name: str, text: str) -> None:
        if name:
            self.said.setdefault(name, []).append(text)

    def _end_of_block(self, at: int) -> int:
        """The first line that is not indented below a header."""
        while at < len(self._lines) and (not self._lines[at].strip() or _indent(self._lines[at])):
            at += 1
        return at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _has_own_block(rest: str, below: str) -> bool:
    """Whether `Returns:` begins a section: with a text beside it, or indented below it."""
    return bool(rest.strip()) or bool(below.strip() and _indent(below)) or not below.strip()
