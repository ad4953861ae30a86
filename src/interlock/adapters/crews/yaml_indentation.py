"""Finds a line of YAML whose indentation matches none of its neighbours."""

from typing import NamedTuple


class Level(NamedTuple):
    """An indentation, and the last line that has it; items of lists begin with a dash."""

    indent: int
    line: int
    is_item: bool


def indentation_fault(text: str, line: int) -> tuple[str, str]:
    """The fault of a line's indentation, and the fix; both empty if it matches others.

    `line` counts from 1, as in an editor.
    """
    lines = text.splitlines()
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return "", ""
    levels = _levels_above(lines[: line - 1])
    indent, is_item = _indent_of(lines[line - 1]), _is_item(lines[line - 1])
    if not levels or any(level.indent == indent and level.is_item == is_item for level in levels):
        return "", ""
    alike = [level for level in levels if level.is_item == is_item]
    if not alike:
        return "", ""
    near = min(reversed(alike), key=lambda level: abs(level.indent - indent))
    message = f"line {line} is indented by {_spaces(indent)}, its neighbour in line {near.line} by {near.indent}"
    return message, f"indent line {line} by {_spaces(near.indent)}, or line {near.line} by {_spaces(indent)}"


def _levels_above(lines: list[str]) -> list[Level]:
    """The levels that are open after these lines, the outermost first."""
    levels: list[Level] = []
    block: int | None = None  # the indent of a key with a block text in the deeper lines after it
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (block is not None and _indent_of(line) > block):
            continue
        block = None
        if line.lstrip().startswith("#"):
            continue
        for level in _levels_of(line, number):
            levels = [each for each in levels if each.indent < level.indent or _is_list_of(each, level)]
            levels.append(level)
        if line.split(" #")[0].rstrip().rstrip("+-0123456789").endswith(("|", ">")):
            block = _indent_of(line)
    return levels


def _levels_of(line: str, number: int) -> list[Level]:
    """The level of a line, and that of the text after its dash."""
    indent, found = _indent_of(line), []
    while _is_item(line):
        found.append(Level(indent, number, True))
        rest = line.lstrip()[1:]
        indent += 1 + _indent_of(rest)
        line = " " * indent + rest.lstrip()
    if line.strip():
        found.append(Level(indent, number, False))
    return found


def _is_list_of(key: Level, item: Level) -> bool:
    """True for items of a list at the same indentation as its key, which YAML allows."""
    return item.is_item and not key.is_item and key.indent == item.indent


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(line: str) -> bool:
    return line.lstrip(" ").startswith("- ") or line.strip() == "-"


def _spaces(count: int) -> str:
    return f"{count} space{'' if count == 1 else 's'}"
