"""The crew that is checked, with the facts that most rules need."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from interlock.crew.checks.intended_crew import NameGuesser
from interlock.crew.definition import AgentDefinition, CrewDefinition, RouteDefinition
from interlock.crew.graph import ControlGraph, ControlPoint
from interlock.crew.host import Host
from interlock.crew.nodes import Path, path_text
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource, ProblemReporter
from interlock.errors import SignalError, nearest
from interlock.signals.builtin import BUILT_IN
from interlock.signals.definition import SignalDefinition
from interlock.signals.matching import normal_form

_UNREADABLE = ("bad-format", "bad-value", "bad-yaml", "duplicate-key", "missing-key", "unknown-key")


class CheckSubject(ProblemReporter):
    """The crew that is checked, with the facts that most rules need."""

    def __init__(self, crew: CrewDefinition, source: CrewSource, problems: Problems, host: Host) -> None:
        super().__init__(source, problems)
        self.crew, self.host = crew, host

    @cached_property
    def ids(self) -> dict[str, AgentDefinition]:
        return {agent.id: agent for agent in self.crew.agents}

    @cached_property
    def groups_with_names(self) -> list[str]:
        return [group.name for group in self.crew.groups.values() if not group.unnamed]

    @cached_property
    def targets(self) -> dict[str, None]:
        """The possible targets of a route, in file order."""
        return dict.fromkeys((*self.ids, *self.groups_with_names))

    @cached_property
    def ambiguous_names(self) -> set[str]:
        """Names of both an agent and a group; each is reported once."""
        return {name for name in self.groups_with_names if name in self.ids}

    @cached_property
    def definitions(self) -> dict[str, SignalDefinition]:
        return {definition.name: definition for definition in (*BUILT_IN, *self.crew.signals)}

    @cached_property
    def normal_mark_names(self) -> set[str]:
        routed = (route.signal for routes in self.crew.routes.values() for route in routes)
        return {normal_form(name[1:-1]) for name in (*self.definitions, *routed)}

    @cached_property
    def graph(self) -> ControlGraph:
        """The flow of control in the crew as it was probably meant."""
        return ControlGraph(self.guesser.crew_as_intended())

    @cached_property
    def reachable_points(self) -> dict[ControlPoint, ControlPoint | None]:
        return self.graph.reachable_points()

    @cached_property
    def guesser(self) -> NameGuesser:
        return NameGuesser(self.crew)

    @cached_property
    def _unreadable_paths(self) -> set[str]:
        """Paths of the parts that could not be read, and of everything around them."""
        found: set[str] = set()
        own = self.source.root.place.file
        for problem in self.problems.found:
            if (problem.file == own or not self.source.has_folder) and problem.code in _UNREADABLE:
                parts = re.split(r"(?=[.\[])", problem.path)
                found.update("".join(parts[: n + 1]) for n in range(len(parts)))
        return found

    def is_unreadable(self, path: Path) -> bool:
        """True if a part at or below this path could not be read: what seems missing may be there."""
        return path_text(path) in self._unreadable_paths

    def routes(self) -> Iterator[tuple[str, RouteDefinition, Path]]:
        for agent, routes in self.crew.routes.items():
            for route, path in zip(routes, self.source.routes[agent], strict=True):
                yield agent, route, path

    def is_written(self, path: Path, key: str) -> bool:
        return self.source.is_written((*path, key))

    def report_unknown_agent(self, path: Path, what: str, name: str, *, also: Sequence[str] = ()) -> None:
        """Reports a name that is not an agent's but should be."""
        known = [*self.ids, *also]
        self.add_at(
            path,
            "unknown-agent",
            f"{what} '{name}' is not an agent of this crew",
            nearest(name, known, f"name one of {', '.join(known[:12])}, or add it" if known else "add it under agents"),
        )

    def report_signal_error(self, path: Path, error: SignalError) -> None:
        """Reports an error of the signal protocol, with the protocol's sentence."""
        self.add_at(path, error.code, error.sentence, error.advice)


Check = Callable[[CheckSubject], None]
