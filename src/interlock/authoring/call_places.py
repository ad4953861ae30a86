"""Places in the user's Python code: of a call, of its arguments, and of entries in lists and dictionaries.

The source is read only to find lines. Without it (an interactive session) the line of the call is used.
"""

import ast
import itertools
import linecache
import sys
from functools import lru_cache
from types import CodeType

from interlock.crew.nodes import SourceLocation

Expression = ast.expr | ast.keyword


class CallPlace:
    """A call in the user's code."""

    __slots__ = ("_code", "_instruction", "_line")

    def __init__(self, code: CodeType, instruction: int, line: int) -> None:
        self._code, self._instruction, self._line = code, instruction, line

    @property
    def file(self) -> str:
        return self._code.co_filename

    def spot(self) -> "Spot":
        """The call, with the parts of its source if it can be read."""
        positions = itertools.islice(self._code.co_positions(), self._instruction // 2, None)
        line, end_line, _, end_column = next(positions, (None, None, None, None))
        whole = SourceLocation(self.file, line or self._line, 1)
        if end_line is None or end_column is None:
            return Spot(whole, None)
        call = _calls_in(self.file, _text_of(self.file)).get((end_line, end_column))
        return Spot.of(call, self.file) if call is not None else Spot(whole, None)


def place_of_caller(above: int = 0) -> CallPlace:
    """The call of the function that calls this one; `above` skips further frames of this package."""
    frame = sys._getframe(2 + above)
    return CallPlace(frame.f_code, frame.f_lasti, frame.f_lineno)


class Spot:
    """A place in the user's code. With the source at hand it knows the places of its parts."""

    __slots__ = ("_source", "place")

    def __init__(self, place: SourceLocation, source: Expression | None) -> None:
        self.place, self._source = place, source

    @classmethod
    def of(cls, source: Expression, file: str) -> "Spot":
        line = linecache.getline(file, source.lineno).encode()
        column = len(line[: source.col_offset].decode("utf-8", "replace")) + 1
        return cls(SourceLocation(file, source.lineno, column), source)

    def argument(self, name: str, position: int | None = None) -> tuple["Spot", "Spot"]:
        """The places of an argument's name and of its value, by name or else by position."""
        call = self._source
        if not isinstance(call, ast.Call):
            return self, self
        found = next((each for each in call.keywords if each.arg == name), None)
        if found is not None:
            return self._part(found), self._part(found.value)
        if position is None or position >= len(call.args) or _has_star(call.args):
            return self, self
        return self._part(call.args[position]), self._part(call.args[position])

    def items(self, count: int) -> list["Spot"]:
        """The places of the items of a list with this many items."""
        source = self._source
        if isinstance(source, ast.List | ast.Tuple) and len(source.elts) == count and not _has_star(source.elts):
            return [self._part(item) for item in source.elts]
        return [self] * count

    def positional(self, count: int) -> list["Spot"]:
        """The places of this many positional arguments of a call."""
        call = self._source
        if isinstance(call, ast.Call) and len(call.args) == count and not _has_star(call.args):
            return [self._part(item) for item in call.args]
        return [self] * count

    def entries(self, keys: list[object]) -> list[tuple["Spot", "Spot"]]:
        """The places of keys and values of a dictionary with these keys."""
        source = self._source
        if not isinstance(source, ast.Dict) or None in source.keys:
            return [(self, self)] * len(keys)
        pairs = [(key, value) for key, value in zip(source.keys, source.values, strict=True) if key is not None]
        if len(pairs) == len(keys):
            return [(self._part(key), self._part(value)) for key, value in pairs]
        written = {key.value: (key, value) for key, value in pairs if isinstance(key, ast.Constant)}
        found = [written.get(key) if isinstance(key, str | int) else None for key in keys]
        return [(self._part(pair[0]), self._part(pair[1])) if pair else (self, self) for pair in found]

    def double_keys(self) -> list[tuple[str, "Spot", int]]:
        """Keys that a dictionary has twice in the source, each with its second place and the line of the first.

        Python keeps the last one and says nothing.
        """
        if not isinstance(self._source, ast.Dict):
            return []
        first: dict[str, int] = {}
        found = []
        for key in self._source.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                if key.value in first:
                    found.append((key.value, self._part(key), first[key.value]))
                first.setdefault(key.value, key.lineno)
        return found

    def _part(self, source: Expression) -> "Spot":
        return Spot.of(source, self.place.file)


def _has_star(items: list[ast.expr]) -> bool:
    return any(isinstance(item, ast.Starred) for item in items)


def _text_of(file: str) -> str:
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


@lru_cache(maxsize=8)
def _calls_in(file: str, text: str) -> dict[tuple[int, int], ast.Call]:
    """All calls in a file, by the place of their closing bracket."""
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError):  # the file changed since it was imported
        return {}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {(call.end_lineno or 0, call.end_col_offset or 0): call for call in calls}
