"""A crew under examination, with what most rules need to know about it."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec

from interlock.crew.definition import Agent, Crew, Route
from interlock.crew.graph import ControlGraph, Spot
from interlock.crew.host import Host
from interlock.crew.nodes import Path
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource, Reporter
from interlock.errors import SignalError, closest, nearest
from interlock.signals.builtin import BUILT_IN
from interlock.signals.definition import SignalBehavior, SignalDefinition
from interlock.signals.matching import normalized


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
        """Where control can go once refused targets are mended, so that one mistake does not cause ten."""
        return ControlGraph(_mended(self))

    @cached_property
    def reached(self) -> dict[Spot, Spot | None]:
        return self.graph.reached()

    def meant(self, target: str) -> str:
        """The target itself, or the known one that a slip of the pen turned it from."""
        known = not target or target in self.ids or target in self.crew.groups
        return target if known else closest(target, list(self.targets)) or target

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
            nearest(name, known, f"name one of {', '.join(known[:12])}, or add it under agents"),
        )

    def refuse(self, path: Path, error: SignalError) -> None:
        """Reports what the signal protocol has a sentence for."""
        self.at(path, error.code, error.sentence, error.advice)


def _mended(s: Subject) -> Crew:
    routes = {
        agent: tuple(r for route in routes for r in _mended_route(s, route)) for agent, routes in s.crew.routes.items()
    }
    defaults = {agent: s.meant(target) for agent, target in s.crew.defaults.items()}
    return msgspec.structs.replace(s.crew, routes=routes, defaults=defaults)


def _mended_route(s: Subject, route: Route) -> Iterator[Route]:
    yield msgspec.structs.replace(route, target=s.meant(route.target))
    if route.behavior is SignalBehavior.TERMINATE and route.target in s.ids:  # refused; a route is probably meant
        yield msgspec.structs.replace(route, behavior=SignalBehavior.ROUTE)


Check = Callable[[Subject], None]
