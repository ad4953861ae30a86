"""Crew files of version 1.0 as 2.0: the text is edited where it must be, and every other character stays.

Rule 1: a crew means the same afterwards. What 1.0 took for granted and 2.0 does not is written out under `settings`.
Rule 2: nothing is believed: the edited files are read as if they were there, and must give the same crews.
Rule 3: what cannot be edited so is refused as a whole; nothing is guessed, and nothing is written in part.
"""

import codecs
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from interlock.adapters.crew_files import CrewFile, LoadedCrew, read_crew
from interlock.adapters.yaml_layout import Written, layout_of
from interlock.crew.definition import VERSION_1_SETTINGS, Crew
from interlock.crew.host import Host
from interlock.crew.problem import Problem, Severity
from interlock.errors import UsageError

OLD, NEW = "1.0", "2.0"

# What YAML takes as the end of a line.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_INDENT = 2


class CannotMigrate(UsageError):
    """A crew file that is written in a way which cannot be edited safely."""

    code = "cannot-migrate"

    def __init__(self, file: str) -> None:
        settings = " and ".join(f"'{key}: {value}'" for key, value in VERSION_1_SETTINGS.items())
        super().__init__(
            f"{file} is written in a way that cannot be edited safely; nothing was changed; "
            f"write 'version: \"{NEW}\"' yourself, and under settings {settings} where they are not there yet"
        )


class Migration(NamedTuple):
    """Every file that changes, with its new bytes, and what keeps the new crew from being sound."""

    files: tuple[tuple[CrewFile, bytes], ...]
    errors: tuple[Problem, ...]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def migration_of(path: str | os.PathLike[str], loaded: LoadedCrew, host: Host | None = None) -> Migration:
    """What makes a sound crew and all crews inside it 2.0. `CannotMigrate` where a file cannot be edited."""
    old = [file for file in loaded.files if file.crew.version == OLD]
    new = {file.real: _migrated(file) for file in old}
    after = read_crew(path, host, instead=new)
    crews = {file.real: file.crew for file in after.files}
    for file in loaded.files:
        if crews.get(file.real) != as_version_2(file.crew):
            raise CannotMigrate(str(file.path))
    errors = tuple(problem for problem in after.problems if problem.severity is Severity.ERROR)
    return Migration(tuple((file, new[file.real]) for file in old), errors)


def as_version_2(crew: Crew) -> Crew:
    return msgspec.structs.replace(crew, version=NEW)


def _migrated(file: CrewFile) -> bytes:
    data = file.data.removeprefix(codecs.BOM_UTF8)
    text = data.decode("utf-8")
    edits = sorted(_edits(text), reverse=True)  # from the end, so that indices stay true
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    return file.data[: len(file.data) - len(data)] + text.encode("utf-8")


def _edits(text: str) -> Iterator[_Edit]:
    root = layout_of(text)
    version = root.get("version")
    assert version is not None, "a sound crew says its version"
    yield _Edit(version[1].start, version[1].end, _as_new(text[version[1].start : version[1].end]))
    settings = root.get("settings")
    known = [key.name for key, _ in settings[1].entries or ()] if settings else []
    missing = {name: value for name, value in VERSION_1_SETTINGS.items() if name not in known}
    if not missing:
        return
    if settings is None:
        yield _new_settings(text, root, version, missing)
    else:
        yield _more_settings(text, root, *settings, missing)


def _as_new(written: str) -> str:
    """The version's value in its own quotes; where it is spelled with escapes, in plain ones."""
    before, old, after = written.rpartition(OLD)  # the last one: before it there may be a comment
    return f"{before}{NEW}{after}" if old else f'"{NEW}"'


def _new_settings(text: str, root: Written, version: tuple[Written, Written], missing: dict[str, str]) -> _Edit:
    """Beside the version: the one place of which it is known that a line may follow."""
    key, lines = _like("settings", root, text), _lines(missing, root, text)
    if root.flow:
        return _into_flow(text, root, f"{key}: {{{', '.join(lines)}}}")
    block = [f"{key}:", *(" " * _INDENT + line for line in lines)]
    return _after_line(text, version[1].end, root.column, block)


def _more_settings(text: str, root: Written, key: Written, value: Written, missing: dict[str, str]) -> _Edit:
    lines, was_empty = _lines(missing, value if value.entries else root, text), value.start == value.end
    if value.flow:
        return _into_flow(text, value, ", ".join(lines))
    if value.entries:
        return _after_line(text, key.end, value.column, lines)
    if was_empty and not root.flow:
        return _after_line(text, key.end, root.column + _INDENT, lines)
    space = " " if was_empty and not text[value.start - 1].isspace() else ""
    return _Edit(value.start, value.end, f"{space}{{{', '.join(lines)}}}")


def _into_flow(text: str, mapping: Written, words: str) -> _Edit:
    """Right behind the opening brace: what follows may be anything, a comment or a last comma included."""
    follows = "" if not mapping.entries else "," if text[mapping.end : mapping.end + 1].isspace() else ", "
    return _Edit(mapping.end, mapping.end, words + follows)


def _after_line(text: str, index: int, column: int, lines: list[str]) -> _Edit:
    """Lines below the one that holds the index, ended as that one is."""
    lines = [" " * column + line for line in lines]
    end = _BREAK.search(text, index)
    if end is not None:
        return _Edit(end.end(), end.end(), "".join(line + end[0] for line in lines))
    usual = _BREAK.search(text)
    ending = usual[0] if usual else "\n"
    return _Edit(len(text), len(text), "".join(ending + line for line in lines))


def _lines(missing: dict[str, str], beside: Written, text: str) -> list[str]:
    return [f"{_like(name, beside, text)}: {_like(value, beside, text)}" for name, value in missing.items()]


def _like(word: str, mapping: Written, text: str) -> str:
    """In the quotes of the keys of the mapping: a crew that is JSON stays JSON."""
    quote = text[mapping.entries[0][0].start] if mapping.entries else ""
    return f"{quote}{word}{quote}" if quote in ("'", '"') else word
