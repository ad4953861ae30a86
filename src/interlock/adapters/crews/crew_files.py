"""Crews on disk: a folder with crew.yaml and agents/<id>.yaml, or one self-contained file.

Nothing executes when a crew is read, and nothing outside its folder is opened.
"""

import os
from collections.abc import Callable
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from interlock.adapters.crews.schema_files import report_unusable_schemas, with_schemas_of_agent, with_schemas_of_crew
from interlock.adapters.crews.script_paths import with_script_paths
from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.adapters.files.contained_folder import ContainedFolder, LeavesFolder, UnreadablePath
from interlock.adapters.models.known_models import with_model_facts
from interlock.crew.checks import check_crew
from interlock.crew.definition import CrewDefinition, ModelRef, SubCrewDefinition
from interlock.crew.host import Host
from interlock.crew.misplaced import move_misplaced_keys
from interlock.crew.nodes import Mapping, Node, Scalar, SourceLocation
from interlock.crew.parse import parse_crew
from interlock.crew.problem import Problem, Problems, in_file_order, is_sound
from interlock.crew.source import AgentFile, CrewSource
from interlock.crew.version_1 import as_meant
from interlock.limits import CREW_DEPTH_MAX

CREW_FILES = ("crew.yaml", "crew.yml")


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read: its path and bytes."""

    path: Path
    data: bytes

    @property
    def real(self) -> Path:
        return Path(os.path.realpath(self.path))


@dataclass(frozen=True, slots=True)
class CrewFile(ReadFile):
    """A crew file with its crew (without sub-crews), and the files of its agents."""

    crew: CrewDefinition
    agents: tuple[ReadFile, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedCrew:
    """The result of reading a crew. `crew` has everything that could be read, sound or not."""

    crew: CrewDefinition | None
    problems: tuple[Problem, ...]
    readable: bool
    files: tuple[CrewFile, ...] = ()  # of the crew and all its sub-crews, the outermost first
    read: tuple[Path, ...] = ()  # every file that was read, and every agents folder that was listed

    @property
    def is_sound(self) -> bool:
        return self.crew is not None and is_sound(self.problems)


def read_crew(
    path: str | os.PathLike[str],
    host: Host | None = None,
    instead: ReadOnly[Path, bytes] | None = None,
    *,
    is_called: bool = False,
) -> LoadedCrew:
    """Reads and checks a crew with its agents and sub-crews; all problems are in the result, none is raised.

    `instead` are bytes to read instead of the files with these real paths. `is_called` is for a crew that another one
    calls: it inherits results and memory.
    """
    problems = Problems()
    reader = _Reader(problems, host or Host(), instead or {}, is_called=is_called)
    crew = reader.open(Path(path))
    read = (*reader.bytes_read, *reader.folders)
    return LoadedCrew(crew, tuple(in_file_order(problems.found)), reader.readable, tuple(reader.files), read)


class _Reader:
    """Reads a crew and all its sub-crews."""

    def __init__(self, problems: Problems, host: Host, instead: ReadOnly[Path, bytes], *, is_called: bool) -> None:
        self.problems, self.host, self.instead, self.is_called = problems, host, instead, is_called
        self.readable = True
        self.files: list[CrewFile] = []
        self.bytes_read: dict[Path, bytes] = {}
        self.folders: list[Path] = []
        self.outermost: ContainedFolder | None = None
        self.trail: list[Path] = []  # the crews being read, outermost first
        self.done: dict[Path, CrewDefinition | None] = {}
        self.height: dict[Path, int] = {}  # the number of levels below each crew

    def open(self, path: Path) -> CrewDefinition | None:
        """The crew that the caller named."""
        file = find_crew_file(path)
        self.readable = False
        if file is None:
            where = "there is no crew.yaml in this folder" if os.path.isdir(path) else "there is no such folder or file"  # noqa: PTH112
            self._add_unreadable(
                path, where, "name a crew's folder or its crew.yaml; 'interlock init NAME' creates a crew"
            )
            return None
        folder = self.outermost = ContainedFolder(file.parent)
        node = self._read_document(folder, file.name, shown=file)
        if node is None:
            return None
        self.readable = True
        if path != file and all(os.path.lexists(path / name) for name in CREW_FILES):
            self._add_problem(
                "bad-path", f"there are two crew files here: {', '.join(CREW_FILES)}", file, "remove one of them"
            )
        return self._build_crew(file, node, folder)

    def _build_crew(self, file: Path, node: Node, folder: ContainedFolder) -> CrewDefinition | None:
        real = Path(os.path.realpath(file))
        if isinstance(node, Scalar) and node.value is None:
            node = Mapping((), node.place)
        if not isinstance(node, Mapping):
            self.problems.add(
                "bad-value",
                "a crew is a mapping of keys",
                place=node.place,
                fix="begin with 'version: \"2.0\"'",
            )
            return None
        before = len(self.problems.found)
        node = move_misplaced_keys(node, self.problems)
        read = partial(self._read_schema, folder, file.parent)
        node, files = with_schemas_of_crew(node, read), self._agent_files(folder, file)
        is_called = self.is_called or bool(self.trail)
        source = CrewSource(node, folder.root.name, files or (), is_called=is_called, agents_lost=files is None)
        crew = parse_crew(source, self.problems)
        report_unusable_schemas(crew, source, self.problems)
        crew = with_default_model(with_script_paths(crew, source, folder, self.problems), self.host.model)
        at, bare = len(self.files), crew
        self.trail.append(real)
        crew = msgspec.structs.replace(
            crew,
            sub_crews={
                name: self._build_sub_crew(entry, source, file, folder) for name, entry in crew.sub_crews.items()
            },
        )
        self.trail.pop()
        check_crew(crew, source, self.problems, with_model_facts(crew, self.host))
        if is_sound(self.problems.found[before:]):
            crew, bare = as_meant(crew), as_meant(bare)
        self.files.insert(at, self._crew_file(file, bare, folder, source))
        return crew

    def _crew_file(self, file: Path, crew: CrewDefinition, folder: ContainedFolder, source: CrewSource) -> CrewFile:
        names = (os.path.relpath(agent.file, file.parent) for agent in source.agent_files if agent.node is not None)
        agents = tuple(ReadFile(file.parent / name, self.bytes_read[folder.root / name]) for name in names)
        return CrewFile(file, self.bytes_read[folder.root / file.name], crew, agents)

    def _agent_files(self, folder: ContainedFolder, crew_file: Path) -> tuple[AgentFile, ...] | None:
        """The files of the agents folder; None if it cannot be listed, or must not be."""
        self.folders += [folder.root, folder.root / "agents"]
        try:
            names = folder.yaml_files("agents")
        except LeavesFolder as refusal:
            shown = crew_file.parent / "agents"
            self._add_problem(
                "bad-path", f"the agents folder {refusal}", shown, "keep the agents inside the crew's folder"
            )
            return None
        except UnreadablePath as refusal:
            self._add_unreadable(
                crew_file.parent / "agents", f"the agents folder {refusal}", "make it a readable folder"
            )
            return None
        files = []
        for name in names:
            shown = crew_file.parent / name
            document = self._read_document(folder, name, shown=shown)
            if isinstance(document, Mapping):
                document = with_schemas_of_agent(document, partial(self._read_schema, folder, crew_file.parent))
            files.append(AgentFile(Path(name).stem, str(shown), document))
        return tuple(files)

    def _read_schema(self, folder: ContainedFolder, shown: Path, name: Scalar) -> Node:
        """The schema in a file of the crew's folder; one without rules if it cannot be read, which is reported."""
        try:
            data = self._read(folder, name.text)
        except UnreadablePath as refusal:
            fix = "name a file with a JSON Schema inside the crew's folder, or write the schema here"
            self.problems.add("bad-path", f"schema '{name.text}' {refusal}", place=name.place, fix=fix)
            return Mapping((), name.place)
        node = read_yaml(data, str(shown / name.text), self.problems)
        if isinstance(node, Mapping):
            return node
        if node is not None:
            message, fix = f"'{name.text}' is not a mapping of keywords", "write a JSON Schema there"
            self.problems.add("bad-schema", message, place=node.place, fix=fix)
        return Mapping((), name.place)

    def _read_document(self, folder: ContainedFolder, name: str, *, shown: Path) -> Node | None:
        try:
            data = self._read(folder, name)
        except LeavesFolder as refusal:
            self._add_problem("bad-path", f"{shown.name} {refusal}", shown, "keep the file inside the crew's folder")
        except UnreadablePath as refusal:
            self._add_unreadable(shown, f"{shown.name} {refusal}", refusal.fix)
        else:
            return read_yaml(data, str(shown), self.problems)
        return None

    def _read(self, folder: ContainedFolder, name: str) -> bytes:
        instead = self.instead.get(folder.resolve(name))
        data = self.bytes_read[folder.root / name] = folder.read(name) if instead is None else instead
        return data

    # Sub-crews

    def _build_sub_crew(
        self, entry: SubCrewDefinition, source: CrewSource, crew_file: Path, folder: ContainedFolder
    ) -> SubCrewDefinition:
        path = ("sub_crews", entry.name, "config_path")
        place = source.location(path)

        def refuse(code: str, message: str, fix: str) -> None:
            self.problems.add(code, message, place=place, path=path, fix=fix)

        if not entry.config_path:
            return entry  # reported as a missing key
        try:
            folder.resolve(entry.config_path)
        except LeavesFolder as refusal:
            advice = "move the sub-crew inside this crew's folder"
            refuse("bad-path", f"config_path '{entry.config_path}' {refusal}", advice)
            if not self._is_within_outermost(crew_file.parent / entry.config_path):
                return entry
        if is_python_path(entry.config_path) and not os.path.isdir(crew_file.parent / entry.config_path):  # noqa: PTH112
            advice = "name a folder with a crew.yaml; only a crew in Python can call another one"
            refuse("bad-path", f"'{entry.config_path}' is Python, which a crew file never imports", advice)
            return entry
        file = find_crew_file(crew_file.parent / entry.config_path)
        if file is None:
            advice = "name a folder with a crew.yaml"
            refuse("bad-path", f"there is no crew at '{entry.config_path}'", advice)
            return entry
        return msgspec.structs.replace(entry, crew=self._read_inner_crew(file, entry, refuse))

    def _is_within_outermost(self, path: Path) -> bool:
        """True if a path is inside the outermost crew's folder. Such a cycle is followed, to report it as a cycle."""
        root = self.trail[0].parent
        real = Path(os.path.realpath(path)) if "\0" not in str(path) else Path("/")
        return real == root or root in real.parents

    def _read_inner_crew(
        self, file: Path, entry: SubCrewDefinition, refuse: Callable[[str, str, str], None]
    ) -> CrewDefinition | None:
        real, here = Path(os.path.realpath(file)), self.trail[-1]
        if real in self.trail:
            ring = [*self.trail[self.trail.index(real) :], real]
            names = " -> ".join(os.path.relpath(step, self.trail[0].parent) for step in ring)
            refuse("crew-cycle", f"crews contain each other: {names}", "remove one of these sub-crews")
            return None
        if len(self.trail) + self.height.get(real, 0) > CREW_DEPTH_MAX:
            refuse("too-deep", f"crews are nested deeper than {CREW_DEPTH_MAX} levels", "flatten the hierarchy")
            return None
        if real not in self.done:
            try:
                folder = ContainedFolder(file.parent, within=self.outermost)
                data = self._read(folder, file.name)
            except UnreadablePath as refusal:
                refuse("bad-path", f"the crew at '{entry.config_path}' {refusal}", "name a readable crew")
                return None
            node = read_yaml(data, str(file), self.problems)
            self.done[real] = self._build_crew(file, node, folder) if node is not None else None
        self.height[here] = max(self.height.get(here, 0), 1 + self.height.get(real, 0))
        return self.done[real]

    def _add_unreadable(self, path: Path, message: str, fix: str) -> None:
        self._add_problem("unreadable", message, path, fix)

    def _add_problem(self, code: str, message: str, path: Path, fix: str) -> None:
        self.problems.add(code, message, place=SourceLocation(str(path), 1, 1), fix=fix)


def with_default_model(crew: CrewDefinition, model: ModelRef | None) -> CrewDefinition:
    """The crew with the host's model for agents without one."""
    if model is None:
        return crew
    agents = (msgspec.structs.replace(agent, primary=agent.primary or model) for agent in crew.agents)
    return msgspec.structs.replace(crew, agents=tuple(agents))


def is_python_path(path: str) -> bool:
    """True for a Python file, with or without the name of a crew in it."""
    return os.path.basename(path).partition(":")[0].endswith(".py")  # noqa: PTH119 - as text


def find_crew_file(path: Path) -> Path | None:
    """The crew file at a path: the file itself, or the one in the folder."""
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where a name is too long
        return path if os.path.lexists(path) else None
    return next((path / name for name in CREW_FILES if os.path.lexists(path / name)), None)
