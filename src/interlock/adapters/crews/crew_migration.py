"""Migrates crew files of version 1.0 to 2.0: the text is edited where necessary, and every other character stays.

Rule 1: the meaning of a crew stays the same. Defaults of 1.0 that differ in 2.0 are written out: under `settings`,
as `is_terminal` of an agent that is a dead end, as the provider of a model.
Rule 2: the result is verified: the edited files are parsed, and must give the same crews.
Rule 3: a file that cannot be edited so is refused as a whole; nothing is guessed, and nothing is written in part.
"""

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from interlock.adapters.crews.crew_files import CrewFile, LoadedCrew, ReadFile, read_crew
from interlock.adapters.crews.yaml_layout import ValueSpan, layout_of
from interlock.crew.definition import DEFAULT_PROVIDERS, VERSION_1_SETTINGS, CrewDefinition
from interlock.crew.host import Host
from interlock.crew.problem import Problem, Severity
from interlock.crew.version_1 import as_meant
from interlock.errors import UsageError

OLD, NEW = "1.0", "2.0"

# Line breaks in YAML.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_INDENT = 2


class CannotMigrate(UsageError):
    """The crew file is written in a form that cannot be edited safely."""

    code = "cannot-migrate"

    def __init__(self, file: str) -> None:
        settings = " and ".join(f"'{key}: {value}'" for key, value in VERSION_1_SETTINGS.items())
        super().__init__(
            f"{file} is written in a way that cannot be edited safely; nothing was changed; "
            f"write 'version: \"{NEW}\"' yourself, and under settings {settings} where they are not there yet"
        )


class CrewMigration(NamedTuple):
    """All files that change, with their new bytes, and the errors of the new crew."""

    files: tuple[tuple[ReadFile, bytes], ...]
    errors: tuple[Problem, ...]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def migration_of(path: str | os.PathLike[str], loaded: LoadedCrew, host: Host | None = None) -> CrewMigration:
    """Plans the migration of a sound crew and its sub-crews; raises `CannotMigrate` if a file cannot be edited."""
    old = [file for file in loaded.files if file.crew.version == OLD]
    new = {file.real: (file, data) for crew_file in old for file, data in _new_contents(crew_file)}
    after = read_crew(path, host, instead={real: data for real, (_, data) in new.items()})
    crews = {file.real: file.crew for file in after.files}
    for file in loaded.files:
        if not _is_same_crew(file.crew, crews.get(file.real)):
            raise CannotMigrate(str(file.path))
    errors = tuple(problem for problem in after.problems if problem.severity is Severity.ERROR)
    return CrewMigration(tuple(new.values()), errors)


def _is_same_crew(before: CrewDefinition, after: CrewDefinition | None) -> bool:
    """True if an edited file gives the same crew.

    Things that 1.0 tolerates and 2.0 refuses are reported as errors: agents that are left out, and, with
    `signal_registration: required`, signals that only acknowledge.
    """
    if after is None or before.version != OLD:
        return after == before
    again = as_meant(msgspec.structs.replace(after, version=OLD))
    return after.version == NEW and _without_acknowledgements(again) == _without_acknowledgements(before)


def _without_acknowledgements(crew: CrewDefinition) -> CrewDefinition:
    routes = {
        agent: tuple(msgspec.structs.replace(route, acknowledges=False) for route in routes)
        for agent, routes in crew.routes.items()
    }
    return msgspec.structs.replace(crew, routes=routes)


def _new_contents(file: CrewFile) -> Iterator[tuple[ReadFile, bytes]]:
    """The crew's file, and the agent files that change."""
    yield file, _with_edits(file.data, lambda text: _edits(text, file.crew))
    for agent in file.agents:
        data = _with_edits(agent.data, lambda text: _agent_edits(text, layout_of(text)))
        if data != agent.data:
            yield agent, data


def _with_edits(written: bytes, edits_of: Callable[[str], Iterable[_Edit]]) -> bytes:
    data = written.removeprefix(codecs.BOM_UTF8)
    text = data.decode("utf-8")
    for edit in sorted(edits_of(text), reverse=True):  # from the end, so that indices stay true
        text = text[: edit.start] + edit.text + text[edit.end :]
    return written[: len(written) - len(data)] + text.encode("utf-8")


def _edits(text: str, crew: CrewDefinition) -> Iterator[_Edit]:
    root = layout_of(text)
    version = root.get("version")
    assert version is not None, "a sound crew says its version"
    yield _Edit(version[1].start, version[1].end, _as_new_version(text[version[1].start : version[1].end]))
    yield from _additions(text, root, version[1], _defaults_to_write(root, crew))
    agents = root.get("agents")
    for agent in agents[1].items if agents else ():
        yield from _agent_edits(text, agent)


def _agent_edits(text: str, agent: ValueSpan) -> Iterator[_Edit]:
    """Writes the default provider of 1.0 into a model without one."""
    for holder in (agent, *(entry[1] for name in ("primary", "backup") if (entry := agent.get(name)))):
        model = holder.get("model")
        if model is None or holder.get("provider") or ":" in model[1].name:
            continue
        value, quoted = model[1], text[model[1].start] in "'\""
        prefix = f"{DEFAULT_PROVIDERS[OLD]}:"
        if quoted or text[value.start : value.end] == value.name:
            yield _Edit(value.start + quoted, value.start + quoted, prefix)
        else:  # over several lines; the last line break of a block belongs to it
            written = text[value.start : value.end]
            ending = written[len(written.rstrip()) :]
            yield _Edit(value.start, value.end, f'"{prefix}{value.name.strip()}"{ending}')


# The content of a key: more keys, or a value.
_Tree = dict[str, "_Tree | str | bool"]


def _defaults_to_write(root: ValueSpan, crew: CrewDefinition) -> _Tree:
    """The defaults of 1.0, by the path where 2.0 needs them."""
    settings = root.get("settings")
    known = [key.name for key, _ in settings[1].entries or ()] if settings else []
    tree: _Tree = {}
    missing: _Tree = {name: value for name, value in VERSION_1_SETTINGS.items() if name not in known}
    if missing:
        tree["settings"] = missing
    endings: _Tree = {agent: {"is_terminal": True} for agent in _implicit_terminals(root, crew)}
    if endings:
        tree["routing"] = {"agent_behaviors": endings}
    return tree


def _implicit_terminals(root: ValueSpan, crew: CrewDefinition) -> Iterator[str]:
    """Agents that are terminal because they are dead ends, without being marked so in the file."""
    behaviors = _value_at(root, "routing", "agent_behaviors")
    for agent, behavior in crew.behaviors.items():
        ending = _value_at(behaviors, agent, "is_terminal")
        if behavior.is_terminal and (ending is None or ending.name.lower() != "true"):
            yield agent


def _value_at(value: ValueSpan | None, *names: str) -> ValueSpan | None:
    for name in names:
        entry = value.get(name) if value is not None else None
        value = entry[1] if entry is not None else None
    return value


def _additions(text: str, holder: ValueSpan, before: ValueSpan, tree: _Tree) -> Iterator[_Edit]:
    """The edits that write a tree into a mapping; new lines are added below the line of `before`."""
    new = {name: inner for name, inner in tree.items() if holder.get(name) is None}
    for name, inner in tree.items():
        entry = holder.get(name)
        if entry is not None:
            yield from _edits_under_key(text, holder, *entry, inner)
    if not new:
        return
    if holder.flow:
        yield _into_flow(text, holder, ", ".join(_in_flow(new, holder, text)))
    else:
        yield _after_line(text, before.end, holder.column, list(_in_block(new, holder, text)))


def _edits_under_key(
    text: str, holder: ValueSpan, key: ValueSpan, value: ValueSpan, inner: "_Tree | str | bool"
) -> Iterator[_Edit]:
    """The edits that write a tree, or a value, under an existing key."""
    if not isinstance(inner, dict):
        yield _Edit(value.start, value.end, _value(inner, holder, text))
    elif value.entries or value.flow:
        yield from _additions(text, value, key, inner)
    elif value.start == value.end and not holder.flow:
        yield _after_line(text, key.end, holder.column + _INDENT, list(_in_block(inner, holder, text)))
    else:
        space = " " if value.start == value.end and not text[value.start - 1].isspace() else ""
        yield _Edit(value.start, value.end, f"{space}{{{', '.join(_in_flow(inner, holder, text))}}}")


def _as_new_version(written: str) -> str:
    """The version's value in its own quotes; in plain quotes if it has escapes."""
    before, old, after = written.rpartition(OLD)  # the last one: before it there may be a comment
    return f"{before}{NEW}{after}" if old else f'"{NEW}"'


def _into_flow(text: str, mapping: ValueSpan, words: str) -> _Edit:
    """The edit right after the opening brace: anything may follow there, even a comment or a last comma."""
    follows = "" if not mapping.entries else "," if text[mapping.end : mapping.end + 1].isspace() else ", "
    return _Edit(mapping.end, mapping.end, words + follows)


def _after_line(text: str, index: int, column: int, lines: list[str]) -> _Edit:
    """Lines below the line of the index, with the same line break."""
    lines = [" " * column + line for line in lines]
    end = _BREAK.search(text, index)
    if end is not None:
        return _Edit(end.end(), end.end(), "".join(line + end[0] for line in lines))
    usual = _BREAK.search(text)
    ending = usual[0] if usual else "\n"
    return _Edit(len(text), len(text), "".join(ending + line for line in lines))


def _in_block(tree: _Tree, beside: ValueSpan, text: str) -> Iterator[str]:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            yield f"{_in_quotes_like(name, beside, text)}:"
            yield from (" " * _INDENT + line for line in _in_block(inner, beside, text))
        else:
            yield f"{_in_quotes_like(name, beside, text)}: {_value(inner, beside, text)}"


def _in_flow(tree: _Tree, beside: ValueSpan, text: str) -> Iterator[str]:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            words = f"{{{', '.join(_in_flow(inner, beside, text))}}}"
        else:
            words = _value(inner, beside, text)
        yield f"{_in_quotes_like(name, beside, text)}: {words}"


def _value(inner: str | bool, beside: ValueSpan, text: str) -> str:
    return str(inner).lower() if isinstance(inner, bool) else _in_quotes_like(inner, beside, text)


def _in_quotes_like(word: str, mapping: ValueSpan, text: str) -> str:
    """The name in the same quotes as the keys of the mapping: a crew in JSON stays JSON."""
    quote = text[mapping.entries[0][0].start] if mapping.entries else ""
    return f"{quote}{word}{quote}" if quote in ("'", '"') else word
