"""Crew files of version 1.0 as 2.0: the text is edited where it must be, and every other character stays.

Rule 1: a crew means the same afterwards. What 1.0 took for granted and 2.0 does not is written out: under `settings`,
as `is_terminal` of an agent with no way on, as the provider of a model.
Rule 2: nothing is believed: the edited files are read as if they were there, and must give the same crews.
Rule 3: what cannot be edited so is refused as a whole; nothing is guessed, and nothing is written in part.
"""

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from interlock.adapters.crew_files import CrewFile, LoadedCrew, ReadFile, read_crew
from interlock.adapters.yaml_layout import Written, layout_of
from interlock.crew.definition import DEFAULT_PROVIDERS, VERSION_1_SETTINGS, Crew
from interlock.crew.host import Host
from interlock.crew.problem import Problem, Severity
from interlock.crew.version_1 import as_meant
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

    files: tuple[tuple[ReadFile, bytes], ...]
    errors: tuple[Problem, ...]


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def migration_of(path: str | os.PathLike[str], loaded: LoadedCrew, host: Host | None = None) -> Migration:
    """What makes a sound crew and all crews inside it 2.0. `CannotMigrate` where a file cannot be edited."""
    old = [file for file in loaded.files if file.crew.version == OLD]
    new = {file.real: (file, data) for crew_file in old for file, data in _migrated(crew_file)}
    after = read_crew(path, host, instead={real: data for real, (_, data) in new.items()})
    crews = {file.real: file.crew for file in after.files}
    for file in loaded.files:
        if not _means_the_same(file.crew, crews.get(file.real)):
            raise CannotMigrate(str(file.path))
    errors = tuple(problem for problem in after.problems if problem.severity is Severity.ERROR)
    return Migration(tuple(new.values()), errors)


def _means_the_same(before: Crew, after: Crew | None) -> bool:
    """Whether an edited file gives the same crew.

    What 1.0 tolerates and 2.0 does not is an error there, and named as such: agents that are left out, and, with
    `signal_registration: required`, marks that acknowledge.
    """
    if after is None or before.version != OLD:
        return after == before
    again = as_meant(msgspec.structs.replace(after, version=OLD))
    return after.version == NEW and _without_acknowledging(again) == _without_acknowledging(before)


def _without_acknowledging(crew: Crew) -> Crew:
    routes = {
        agent: tuple(msgspec.structs.replace(route, acknowledges=False) for route in routes)
        for agent, routes in crew.routes.items()
    }
    return msgspec.structs.replace(crew, routes=routes)


def _migrated(file: CrewFile) -> Iterator[tuple[ReadFile, bytes]]:
    """The crew's file, and those of its agents that change."""
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


def _edits(text: str, crew: Crew) -> Iterator[_Edit]:
    root = layout_of(text)
    version = root.get("version")
    assert version is not None, "a sound crew says its version"
    yield _Edit(version[1].start, version[1].end, _as_new(text[version[1].start : version[1].end]))
    yield from _additions(text, root, version[1], _written_out(root, crew))
    agents = root.get("agents")
    for agent in agents[1].items if agents else ():
        yield from _agent_edits(text, agent)


def _agent_edits(text: str, agent: Written) -> Iterator[_Edit]:
    """A model without a provider is given the one that 1.0 takes for granted."""
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


# What stands under a key: more keys, or a value.
_Tree = dict[str, "_Tree | str | bool"]


def _written_out(root: Written, crew: Crew) -> _Tree:
    """What 1.0 takes for granted, by where 2.0 wants it said."""
    settings = root.get("settings")
    known = [key.name for key, _ in settings[1].entries or ()] if settings else []
    tree: _Tree = {}
    missing: _Tree = {name: value for name, value in VERSION_1_SETTINGS.items() if name not in known}
    if missing:
        tree["settings"] = missing
    endings: _Tree = {agent: {"is_terminal": True} for agent in _endings(root, crew)}
    if endings:
        tree["routing"] = {"agent_behaviors": endings}
    return tree


def _endings(root: Written, crew: Crew) -> Iterator[str]:
    """Agents that are terminal because they have no way on, which the file does not say."""
    said = _at(root, "routing", "agent_behaviors")
    for agent, behavior in crew.behaviors.items():
        ending = _at(said, agent, "is_terminal")
        if behavior.is_terminal and (ending is None or ending.name.lower() != "true"):
            yield agent


def _at(value: Written | None, *names: str) -> Written | None:
    for name in names:
        entry = value.get(name) if value is not None else None
        value = entry[1] if entry is not None else None
    return value


def _additions(text: str, holder: Written, before: Written, tree: _Tree) -> Iterator[_Edit]:
    """What writes a tree into a mapping; new lines go below the one that holds `before`."""
    new = {name: inner for name, inner in tree.items() if holder.get(name) is None}
    for name, inner in tree.items():
        entry = holder.get(name)
        if entry is not None:
            yield from _under(text, holder, *entry, inner)
    if not new:
        return
    if holder.flow:
        yield _into_flow(text, holder, ", ".join(_in_flow(new, holder, text)))
    else:
        yield _after_line(text, before.end, holder.column, list(_in_block(new, holder, text)))


def _under(text: str, holder: Written, key: Written, value: Written, inner: "_Tree | str | bool") -> Iterator[_Edit]:
    """What writes a tree, or a value, under a key that is there."""
    if not isinstance(inner, dict):
        yield _Edit(value.start, value.end, _value(inner, holder, text))
    elif value.entries or value.flow:
        yield from _additions(text, value, key, inner)
    elif value.start == value.end and not holder.flow:
        yield _after_line(text, key.end, holder.column + _INDENT, list(_in_block(inner, holder, text)))
    else:
        space = " " if value.start == value.end and not text[value.start - 1].isspace() else ""
        yield _Edit(value.start, value.end, f"{space}{{{', '.join(_in_flow(inner, holder, text))}}}")


def _as_new(written: str) -> str:
    """The version's value in its own quotes; where it is spelled with escapes, in plain ones."""
    before, old, after = written.rpartition(OLD)  # the last one: before it there may be a comment
    return f"{before}{NEW}{after}" if old else f'"{NEW}"'


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


def _in_block(tree: _Tree, beside: Written, text: str) -> Iterator[str]:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            yield f"{_like(name, beside, text)}:"
            yield from (" " * _INDENT + line for line in _in_block(inner, beside, text))
        else:
            yield f"{_like(name, beside, text)}: {_value(inner, beside, text)}"


def _in_flow(tree: _Tree, beside: Written, text: str) -> Iterator[str]:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            words = f"{{{', '.join(_in_flow(inner, beside, text))}}}"
        else:
            words = _value(inner, beside, text)
        yield f"{_like(name, beside, text)}: {words}"


def _value(inner: str | bool, beside: Written, text: str) -> str:
    return str(inner).lower() if isinstance(inner, bool) else _like(inner, beside, text)


def _like(word: str, mapping: Written, text: str) -> str:
    """In the quotes of the keys of the mapping: a crew that is JSON stays JSON."""
    quote = text[mapping.entries[0][0].start] if mapping.entries else ""
    return f"{quote}{word}{quote}" if quote in ("'", '"') else word
