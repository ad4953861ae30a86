"""The files behind a crew: what was written, and where, so that every problem can point at its line."""

from dataclasses import dataclass, field

from interlock.crew.nodes import Mapping, Node, Path, Place, Scalar, node_at, place_of
from interlock.crew.problem import Problems, Severity


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file of the agents folder; `node` is None where it could not be read."""

    stem: str
    file: str
    node: Node | None


@dataclass(slots=True)
class CrewSource:
    """A crew's documents, and where its agents and routes stand in them."""

    root: Mapping
    folder_name: str
    agent_files: tuple[AgentFile, ...] = ()
    is_file: bool = True  # not the document of a crew which a program built
    is_called: bool = False  # it was read as a sub-crew: what its callers know comes along
    agents_lost: bool = False  # the agents folder could not be listed, which is reported once, not for every agent
    agents: dict[str, tuple[Node, Path]] = field(default_factory=dict)
    routes: dict[str, list[Path]] = field(default_factory=dict)
    # Agents of which a part could not be read: whatever they seem to lack may be in that part.
    unclear: set[str] = field(default_factory=set)
    # Agents without a model of their own, for which the one under `settings` answers.
    on_crew_model: set[str] = field(default_factory=set)

    def place(self, path: Path) -> Place:
        return place_of(self.root, path)

    def was_written(self, path: Path) -> bool:
        return node_at(self.root, path) is not None

    def agent_node(self, agent: str) -> Node | None:
        root, prefix = self.agents.get(agent, (self.root, ("agents",)))
        return node_at(root, prefix)

    def was_given(self, agent: str, key: str) -> bool:
        """Whether an agent's key was written with something behind it."""
        node = self.agent_node(agent)
        value = node.get(key) if isinstance(node, Mapping) else None
        return value is not None and not (isinstance(value, Scalar) and value.value is None)

    def agent_place(self, agent: str, path: Path) -> tuple[Place, Path]:
        """Where a key of an agent stands: in its own file, under `agents`, or for all of them under `settings`."""
        if agent in self.on_crew_model and path == ("model",):
            return self.place(("settings", "model")), ("settings", "model")
        root, prefix = self.agents.get(agent, (self.root, ("agents",)))
        return place_of(root, (*prefix, *path)), (*prefix, *path)


class Reporter:
    """Adds problems by path, finding their places in the source."""

    def __init__(self, source: CrewSource, problems: Problems) -> None:
        self.source, self.problems = source, problems

    def at(self, path: Path, code: str, message: str, fix: str, severity: Severity = Severity.ERROR) -> None:
        self.problems.add(code, message, place=self.source.place(path), path=path, fix=fix, severity=severity)

    def at_agent(
        self, agent: str, path: Path, code: str, message: str, fix: str, severity: Severity = Severity.ERROR
    ) -> None:
        place, full = self.source.agent_place(agent, path)
        self.problems.add(code, message, place=place, path=full, fix=fix, severity=severity)
