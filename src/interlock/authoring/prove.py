"""Checks a crew that was written in Python, with the rules for files.

Rule: what comes out is proven. There is no way to a `Crew` around this module and the reader of files.
"""

import os
from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import msgspec

from interlock.adapters.crews.crew_files import read_crew, with_default_model
from interlock.adapters.crews.crew_trees import CrewTree, scripts_of, tree_of
from interlock.adapters.crews.schema_files import report_unusable_schemas
from interlock.adapters.crews.script_paths import with_script_paths
from interlock.adapters.files.contained_folder import ContainedFolder, LeavesFolder
from interlock.adapters.models.known_models import with_model_facts
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes
from interlock.authoring.call_places import Spot
from interlock.authoring.crew_document import CrewDocument
from interlock.authoring.python_nodes import NodeMaker
from interlock.authoring.routes import Written
from interlock.authoring.sub_crews import GivenSubCrew, GivenSubCrews, folder_of
from interlock.compose.crews import AnyHost, resolve_host
from interlock.crew.checks import check_crew
from interlock.crew.definition import CrewDefinition, SubCrewDefinition
from interlock.crew.host import Host
from interlock.crew.misplaced import move_misplaced_keys
from interlock.crew.nodes import Mapping
from interlock.crew.parse import parse_crew
from interlock.crew.problem import Problem, Problems, in_file_order, is_sound
from interlock.crew.proof import levels_of
from interlock.crew.source import CrewSource
from interlock.crew.unsound import UnsoundCrew
from interlock.crew.version_1 import as_meant
from interlock.limits import CREW_DEPTH_MAX


@dataclass(frozen=True, slots=True)
class ProvenCrew:
    """A sound crew with its warnings, the functions that were given as tools, and the types given as outputs."""

    definition: CrewDefinition
    warnings: tuple[Problem, ...]
    functions: AnyMapping[str, PythonTool]
    tree: Callable[[], CrewTree]  # its documents; those of files are read again only if they are asked for
    file: str  # of the crew, or of the code that wrote it: an interlock.toml may stand beside it
    output_types: OutputTypes = field(default_factory=dict)


def prove_written(written: Written, host: AnyHost | None) -> ProvenCrew:
    """Proves the crew of a call of `Crew`; raises `UnsoundCrew` with every problem."""
    problems = Problems()
    document = CrewDocument(written, problems)
    root = document.root()
    for given in document.sub_crews.found.values():
        for name, function in given.crew.functions.items() if given.crew is not None else ():
            document.tools.add(name, function, given.spot)
    _add_types_of_sub_crews(document, problems)
    functions = document.tools.functions
    file = written.written_at.file
    proof = _Proof(document.sub_crews, folder_of(file), problems, functions, host)
    return replace(proof.prove(root, functions, file), output_types=MappingProxyType(document.output_types))


def _add_types_of_sub_crews(document: CrewDocument, problems: Problems) -> None:
    """Adds the types of all outputs below. They are found by the names of crews, so one name has one type."""
    for given in document.sub_crews.found.values():
        for place, type_ in given.crew.output_types.items() if given.crew is not None else ():
            if document.output_types.setdefault(place, type_).hint != type_.hint:
                message = f"two crews called '{place.partition('/')[0]}' have outputs of different types"
                problems.add("name-clash", message, place=given.spot.place, fix="rename one of them")


def prove_data(data: object, spot: Spot, functions: AnyMapping[str, PythonTool], host: AnyHost | None) -> ProvenCrew:
    """Proves a crew that is given as plain data, with the keys of a file."""
    problems = Problems()
    maker = NodeMaker(problems)
    root = maker.node(data, spot)
    if not isinstance(root, Mapping):
        message, fix = "a crew is a mapping of keys", "give a dictionary with the keys of a crew file"
        problems.add("bad-value", message, place=spot.place, fix=fix)
        raise UnsoundCrew("crew", problems.found)
    proof = _Proof(GivenSubCrews(maker, problems), folder_of(spot.place.file), problems, functions, host)
    return proof.prove(root, functions, spot.place.file)


class _Proof:
    """Parses a document, attaches its sub-crews, and runs every check."""

    def __init__(
        self,
        subs: GivenSubCrews,
        folder: Path,
        problems: Problems,
        functions: AnyMapping[str, PythonTool],
        host: AnyHost | None,
    ) -> None:
        self._subs, self._folder, self._problems = subs.found, folder, problems
        known = resolve_host(host, folder)
        self._host: Host = msgspec.structs.replace(known, tools=(*known.tools, *functions))
        self._below: list[Problem] = []  # of sub-crews: their paths are not those of this crew
        self._trees: dict[str, CrewTree] = {}

    def prove(self, root: Mapping, functions: AnyMapping[str, PythonTool], file: str) -> ProvenCrew:
        root = move_misplaced_keys(root, self._problems)
        source = CrewSource(root, "crew", has_folder=False)
        crew = parse_crew(source, self._problems)
        report_unusable_schemas(crew, source, self._problems)
        crew = with_script_paths(crew, source, ContainedFolder(self._folder), self._problems)
        crew = with_default_model(crew, self._host.model)
        subs = {name: self._with_crew(entry, source) for name, entry in crew.sub_crews.items()}
        crew = msgspec.structs.replace(crew, sub_crews=subs)
        for name, sub in subs.items():
            if sub.crew is not None and levels_of(sub.crew) > CREW_DEPTH_MAX:
                path = ("sub_crews", name)
                message, fix = f"crews are nested deeper than {CREW_DEPTH_MAX} levels", "flatten the hierarchy"
                self._problems.add("too-deep", message, place=source.location(path), path=path, fix=fix)
        check_crew(crew, source, self._problems, with_model_facts(crew, self._host))
        found = tuple(in_file_order([*self._problems.found, *self._below]))
        if not is_sound(found):
            raise UnsoundCrew(crew.name, found)
        tree = CrewTree(root, scripts_of(crew, self._folder), self._trees)
        return ProvenCrew(as_meant(crew), found, functions, lambda: tree, file)

    def _with_crew(self, entry: SubCrewDefinition, source: CrewSource) -> SubCrewDefinition:
        given = self._subs.get(entry.name)
        if given is not None and given.crew is not None:
            self._below += given.crew.warnings
            self._trees[entry.name] = given.crew.tree()
            return msgspec.structs.replace(entry, crew=given.crew.definition)
        if not entry.config_path:
            return entry  # reported as a missing key
        return msgspec.structs.replace(entry, crew=self._read(entry, given, source))

    def _read(self, entry: SubCrewDefinition, given: GivenSubCrew | None, source: CrewSource) -> CrewDefinition | None:
        path = given.path if given is not None and given.path is not None else self._folder / entry.config_path
        where = ("sub_crews", entry.name, "config_path")
        message, fix = "", ""
        if given is None and not self._is_inside(entry.config_path):
            message, fix = f"config_path '{entry.config_path}' leads out of the folder", "name a crew below this folder"
        elif _is_python(path):
            message, fix = f"'{entry.config_path}' is a Python file", "import the crew, and give the crew itself"
        else:
            loaded = read_crew(path, self._host, is_called=True)
            if loaded.readable:
                self._below += loaded.problems
                if loaded.is_sound:
                    self._trees[entry.name] = tree_of(loaded)
                return loaded.crew
            message, fix = (
                f"there is no crew at '{entry.config_path}'",
                "name a folder with a crew.yaml, or give the crew itself",
            )
            self._below += [problem for problem in loaded.problems if problem.code != "unreadable"]
        self._problems.add("bad-path", message, place=source.location(where), path=where, fix=fix)
        return None

    def _is_inside(self, path: str) -> bool:
        """True for a path below the folder. Plain data may come from anywhere, so it opens no other files."""
        try:
            ContainedFolder(self._folder).resolve(path)
        except LeavesFolder:
            return False
        return True


def _is_python(path: Path) -> bool:
    """True for a Python file, with or without a name in it: a path never imports code."""
    return path.name.partition(":")[0].endswith(".py") and not os.path.isdir(path)  # noqa: PTH112 - never raises
