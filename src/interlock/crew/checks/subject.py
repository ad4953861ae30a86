"""A crew under examination, with what most rules need to know about it."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from interlock.crew.checks.mending import Mender
from interlock.crew.definition import Agent, Crew, Route
from interlock.crew.graph import ControlGraph, Spot
from interlock.crew.host import Host
from interlock.crew.nodes import Path, written
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource, Reporter
from interlock.errors import SignalError, nearest
from interlock.signals.builtin import BUILT_IN
from interlock.signals.definition import SignalDefinition
from interlock.signals.matching import normalized

_UNREADABLE = ("bad-format", "bad-value", "bad-yaml", "duplicate-key", "missing-key", "unknown-key")


class Subject(Reporter):
    """A crew under examination, with what most rules need to know about it."""

    def __init__(self, crew: Crew, source: CrewSource, problems: Problems, host: Host) -> None:
        super().__init__(source, problems)
        self.crew, self.host = crew, host

    @cached_property
    def ids(self) -> dict[str, Agent]:
        return {agent.id: agent for agent in self.crew.agents}

    @cached_property
    def named_groups(self) -> list[str]:
        return [group.name for group in self.crew.groups.values() if not group.unnamed]

    @cached_property
    def targets(self) -> dict[str, None]:
        """What a route may lead to, in file order."""
        return dict.fromkeys((*self.ids, *self.named_groups))

    @cached_property
    def clashing(self) -> set[str]:
        """Names of which nobody can say whether they mean an agent or a group; that is reported once."""
        return {name for name in self.named_groups if name in self.ids}

    @cached_property
    def definitions(self) -> dict[str, SignalDefinition]:
        return {definition.name: definition for definition in (*BUILT_IN, *self.crew.signals)}

    @cached_property
    def known_marks(self) -> set[str]:
        routed = (route.signal for routes in self.crew.routes.values() for route in routes)
        return {normalized(name[1:-1]) for name in (*self.definitions, *routed)}

    @cached_property
    def graph(self) -> ControlGraph:
        """Where control can go in the crew as it was probably meant."""
        return ControlGraph(self.mender.mended())

    @cached_property
    def reached(self) -> dict[Spot, Spot | None]:
        return self.graph.reached()

    @cached_property
    def mender(self) -> Mender:
        return Mender(self.crew)

    @cached_property
    def _misread(self) -> set[str]:
        """Paths of what could not be read, and of all that holds them."""
        found: set[str] = set()
        for problem in self.problems.found:
            if problem.file == self.source.root.place.file and problem.code in _UNREADABLE:
                parts = re.split(r"(?=[.\[])", problem.path)
                found.update("".join(parts[: n + 1]) for n in range(len(parts)))
        return found

    def is_misread(self, path: Path) -> bool:
        """Whether something at or below this path could not be read, so that what seems missing may be there."""
        return written(path) in self._misread

    def routes(self) -> Iterator[tuple[str, Route, Path]]:
        for agent, routes in self.crew.routes.items():
            for route, path in zip(routes, self.source.routes[agent], strict=True):
                yield agent, route, path

    def was_written(self, path: Path, key: str) -> bool:
        return self.source.was_written((*path, key))

    def unknown_agent(self, path: Path, what: str, name: str, *, also: Sequence[str] = ()) -> None:
        """Reports a name that should be an agent's and is not."""
        known = [*self.ids, *also]
        self.at(
            path,
            "unknown-agent",
            f"{what} '{name}' is not an agent of this crew",
            nearest(name, known, f"name one of {', '.join(known[:12])}, or add it" if known else "add it under agents"),
        )

    def refuse(self, path: Path, error: SignalError) -> None:
        """Reports what the signal protocol has a sentence for."""
        self.at(path, error.code, error.sentence, error.advice)


Check = Callable[[Subject], None]
