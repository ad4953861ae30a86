"""Crews as files to write: one self-contained document per crew, each sub-crew in the folder that its caller names.

Rule: a document is written as its author wrote it, not made from the definition. Reading it gives the same crew.
"""

import os
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from interlock.adapters.crews.crew_files import CREW_FILES, CrewFile, LoadedCrew, ReadFile, find_crew_file
from interlock.adapters.crews.schema_files import with_schemas_of_crew
from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.adapters.crews.yaml_writer import as_yaml
from interlock.adapters.files.contained_folder import ContainedFolder
from interlock.crew.definition import CrewDefinition
from interlock.crew.keys import CREW
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.errors import UsageError

_ORDER = {key.name: n for n, key in enumerate(CREW.keys)}


@dataclass(frozen=True, slots=True)
class CrewTree:
    """A crew's document with its agents inline, its scripts by their paths in it, and its sub-crews by their names."""

    root: Mapping
    scripts: ReadOnly[str, Path] = field(default_factory=dict)
    subs: "ReadOnly[str, CrewTree]" = field(default_factory=dict)

    def yaml(self) -> str:
        entries = sorted(self.root.entries, key=lambda entry: _ORDER.get(entry[0].text, len(_ORDER)))
        return as_yaml(Mapping(tuple(entries), self.root.place))


def save_tree(tree: CrewTree, folder: Path) -> None:
    """Writes a crew and its sub-crews below a folder. Nothing is written if a file would be in the way."""
    files: dict[Path, bytes] = {}
    _collect_files(tree, folder / CREW_FILES[0], files)
    for file in files:
        _require_room(file)
    for file, data in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def _collect_files(tree: CrewTree, file: Path, files: dict[Path, bytes]) -> None:
    _add_file(files, file, tree.yaml().encode())
    for name, source in tree.scripts.items():
        _add_file(files, file.parent / name, source.read_bytes())
    for name, sub in tree.subs.items():
        _collect_files(sub, _file_of(file.parent / _config_path(tree.root, name)), files)


def _add_file(files: dict[Path, bytes], file: Path, data: bytes) -> None:
    place = Path(os.path.normpath(file))
    if files.setdefault(place, data) != data:
        raise UsageError(f"two different crews would be saved as {place}; give one of them another config_path")


def _file_of(path: Path) -> Path:
    return path if path.suffix in (".yaml", ".yml") else path / CREW_FILES[0]


def _require_room(file: Path) -> None:
    """Refuses a folder where other files would become part of the crew."""
    for name in ("agents", CREW_FILES[1]) if file.name == CREW_FILES[0] else ():
        if os.path.lexists(file.parent / name):
            raise UsageError(f"{file.parent / name} would become part of the saved crew; save it into another folder")


def _config_path(root: Mapping, name: str) -> str:
    subs = root.get("sub_crews")
    entry = subs.get(name) if isinstance(subs, Mapping) else None
    path = entry.get("config_path") if isinstance(entry, Mapping) else None
    assert isinstance(path, Scalar), "a sound crew has the paths of its sub-crews"
    return path.text


def tree_of(loaded: LoadedCrew) -> CrewTree:
    """The documents of a sound crew as they were read."""
    return _tree(loaded.files[0], {file.real: file for file in loaded.files})


def _tree(file: CrewFile, files: ReadOnly[Path, CrewFile]) -> CrewTree:
    root = _read(file)
    assert isinstance(root, Mapping), "a sound crew is a mapping"
    subs = {}
    for name in file.crew.sub_crews:
        inner = find_crew_file(file.path.parent / _config_path(root, name))
        assert inner is not None, "a sound crew has its sub-crews"
        subs[name] = _tree(files[Path(os.path.realpath(inner))], files)
    inline = Mapping(
        tuple((key, _inline(node, file) if key.text == "agents" else node) for key, node in root.entries), root.place
    )
    inline = with_schemas_of_crew(inline, partial(_read_schema, ContainedFolder(file.path.parent)))
    return CrewTree(inline, scripts_of(file.crew, file.real.parent), subs)


def scripts_of(crew: CrewDefinition, folder: Path) -> dict[str, Path]:
    """The scripts that the models of a crew name, by their paths in the crew's folder."""
    models = (model for agent in crew.agents for model in (agent.primary, agent.backup) if model is not None)
    paths = [Path(model.model) for model in models if model.provider == "scripted"]
    return {os.path.relpath(path, os.path.realpath(folder)): path for path in paths}


def _inline(agents: Node, file: CrewFile) -> Node:
    """The list of agents, with the file of each in place of its id."""
    if not isinstance(agents, Sequence):
        return agents
    found = dict(_agent_document(agent) for agent in file.agents)
    items = (found[item.text] if isinstance(item, Scalar) and item.text in found else item for item in agents.items)
    return Sequence(tuple(items), agents.place)


def _agent_document(file: ReadFile) -> tuple[str, Mapping]:
    node = _read(file)
    entries = node.entries if isinstance(node, Mapping) else ()
    written = node.get("id") if isinstance(node, Mapping) else None
    if isinstance(written, Scalar) and written.value not in (None, ""):
        return written.text, Mapping(entries, node.place)
    name = file.path.stem
    rest = tuple(entry for entry in entries if entry[0].text != "id")
    return name, Mapping(((Scalar("id", "id", node.place), Scalar(name, name, node.place)), *rest), node.place)


def _read_schema(folder: ContainedFolder, name: Scalar) -> Node:
    """The schema in a file of the crew, to be written in place of its name."""
    node = read_yaml(folder.read(name.text), name.text, Problems())
    assert node is not None, "a sound crew has its schemas"
    return node


def _read(file: ReadFile) -> Node:
    node = read_yaml(file.data, str(file.path), Problems())
    assert node is not None, "a sound crew is YAML"
    return node
