"""The files of a crew, with the place of every value, so that every problem can point at its line."""

from dataclasses import dataclass, field

from interlock.crew.nodes import Mapping, Node, Path, Scalar, SourceLocation, location_of, node_at
from interlock.crew.problem import Problems, Severity


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file of the agents folder; `node` is None if it could not be read."""

    stem: str
    file: str
    node: Node | None


@dataclass(slots=True)
class CrewSource:
    """A crew's documents, and the places of its agents and routes in them."""

    root: Mapping
    folder_name: str
    agent_files: tuple[AgentFile, ...] = ()
    is_file: bool = True  # False for a definition without any source
    has_folder: bool = True  # False for a crew of a Python program: its agents have no files
    is_called: bool = False  # it was read as a sub-crew, so it inherits results and memory
    agents_lost: bool = False  # the agents folder could not be listed, which is reported once, not per agent
    agents: dict[str, tuple[Node, Path]] = field(default_factory=dict)
    routes: dict[str, list[Path]] = field(default_factory=dict)
    # Agents with a part that could not be read: a key that seems missing may be in that part.
    unclear: set[str] = field(default_factory=set)
    # Agents without a model of their own, which use the one under `settings`.
    on_crew_model: set[str] = field(default_factory=set)

    def fix(self, in_files: str, in_python: str) -> str:
        """The advice in the words of the crew: those of its file, or of the program that wrote it."""
        return in_files if self.has_folder else in_python

    def type_words(self, behavior: str) -> str:
        """How the type of a route is written."""
        return self.fix(f"'type: {behavior}'", f'Route(…, type="{behavior}")')

    def location(self, path: Path) -> SourceLocation:
        return location_of(self.root, path)

    def is_written(self, path: Path) -> bool:
        return node_at(self.root, path) is not None

    def agent_node(self, agent: str) -> Node | None:
        root, prefix = self.agents.get(agent, (self.root, ("agents",)))
        return node_at(root, prefix)

    def has_value(self, agent: str, key: str) -> bool:
        """True if an agent's key was written with a value."""
        node = self.agent_node(agent)
        value = node.get(key) if isinstance(node, Mapping) else None
        return value is not None and not (isinstance(value, Scalar) and value.value is None)

    def agent_location(self, agent: str, path: Path) -> tuple[SourceLocation, Path]:
        """The place of a key of an agent: in its own file, under `agents`, or under `settings`."""
        if agent in self.on_crew_model and path == ("model",):
            return self.location(("settings", "model")), ("settings", "model")
        root, prefix = self.agents.get(agent, (self.root, ("agents",)))
        return location_of(root, (*prefix, *path)), (*prefix, *path)


class ProblemReporter:
    """Adds problems by path, and finds their places in the source."""

    def __init__(self, source: CrewSource, problems: Problems) -> None:
        self.source, self.problems = source, problems

    def add_at(self, path: Path, code: str, message: str, fix: str, severity: Severity = Severity.ERROR) -> None:
        self.problems.add(code, message, place=self.source.location(path), path=path, fix=fix, severity=severity)

    def add_at_agent(
        self, agent: str, path: Path, code: str, message: str, fix: str, severity: Severity = Severity.ERROR
    ) -> None:
        place, full = self.source.agent_location(agent, path)
        self.problems.add(code, message, place=place, path=full, fix=fix, severity=severity)
