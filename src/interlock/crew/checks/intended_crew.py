"""The crew as it was probably meant, for the rules about the flow of control: one mistake must not cause ten.

Rule 1: an unknown name that resembles a known one is read as that one.
Rule 2: a target that does not fit its signal is read both ways.
Rule 3: nothing here makes a crew sound: each correction has been reported.
"""

from collections.abc import Iterator

import msgspec

from interlock.crew.definition import (
    AgentDefinition,
    CrewDefinition,
    DelegationDefinition,
    GroupDefinition,
    RouteDefinition,
    SubscriptionDefinition,
)
from interlock.errors import closest
from interlock.signals.definition import SignalBehavior


class NameGuesser:
    """Finds the name of a crew that a misspelled one probably means."""

    def __init__(self, crew: CrewDefinition) -> None:
        self.crew = crew
        self.ids = {agent.id for agent in crew.agents}
        self._agents = list(crew.agent_ids)
        self._targets = [*self._agents, *crew.groups]
        self._guesses: dict[tuple[str, bool], str] = {}

    def guess_agent(self, name: str) -> str:
        """The agent that a name means."""
        return name if not name or name in self.ids else self._guess(name, agents_only=True)

    def guess_target(self, name: str) -> str:
        """The agent or group that a name means."""
        known = not name or name in self.ids or name in self.crew.groups
        return name if known else self._guess(name, agents_only=False)

    def _guess(self, name: str, *, agents_only: bool) -> str:
        key = (name, agents_only)
        if key not in self._guesses:
            self._guesses[key] = closest(name, self._agents if agents_only else self._targets) or name
        return self._guesses[key]

    def crew_as_intended(self) -> CrewDefinition:
        crew = self.crew
        return msgspec.structs.replace(
            crew,
            agents=tuple(self._agent(agent) for agent in crew.agents),
            routes=self._routes(),
            defaults={self.guess_agent(agent): self.guess_target(target) for agent, target in crew.defaults.items()},
            behaviors={self.guess_agent(agent): behavior for agent, behavior in crew.behaviors.items()},
            groups={name: self._group(group) for name, group in crew.groups.items()},
            delegation=self._delegation(crew.delegation) if crew.delegation else None,
            subscriptions=tuple(self._subscription(subscription) for subscription in crew.subscriptions),
        )

    def _agent(self, agent: AgentDefinition) -> AgentDefinition:
        return msgspec.structs.replace(agent, handoff_targets=tuple(map(self.guess_agent, agent.handoff_targets)))

    def _routes(self) -> dict[str, tuple[RouteDefinition, ...]]:
        routes: dict[str, tuple[RouteDefinition, ...]] = {}
        for agent, entries in self.crew.routes.items():
            meant = self.guess_agent(agent)
            routes[meant] = (*routes.get(meant, ()), *(mended for entry in entries for mended in self._route(entry)))
        return routes

    def _route(self, route: RouteDefinition) -> Iterator[RouteDefinition]:
        target = self.guess_target(route.target)
        mended = msgspec.structs.replace(
            route,
            target=target,
            return_to=self.guess_agent(route.return_to),
            targets=tuple(map(self.guess_agent, route.targets)),
            on_error=route.on_error if route.on_error in ("fail", "return") else self.guess_agent(route.on_error),
        )
        yield mended
        refused = route.behavior in (SignalBehavior.TERMINATE, SignalBehavior.PARALLEL, SignalBehavior.ROUTE)
        if refused and target in self.ids:
            yield msgspec.structs.replace(mended, behavior=SignalBehavior.ROUTE)
        if refused and target in self.crew.groups:
            yield msgspec.structs.replace(mended, behavior=SignalBehavior.PARALLEL)

    def _group(self, group: GroupDefinition) -> GroupDefinition:
        members = tuple(map(self.guess_agent, group.agents))
        return msgspec.structs.replace(group, agents=members, next_agent=self.guess_agent(group.next_agent))

    def _delegation(self, delegation: DelegationDefinition) -> DelegationDefinition:
        root, crews = self.guess_agent(delegation.root), self.crew.sub_crews
        children: dict[str, tuple[str, ...]] = {}
        for parent, ids in delegation.children.items():
            meant = root if parent in crews else self.guess_agent(parent)
            named = (name if name in crews else self.guess_agent(name) for name in ids)
            children[meant] = (*children.get(meant, ()), *named)
        return msgspec.structs.replace(delegation, root=root, children=children)

    def _subscription(self, subscription: SubscriptionDefinition) -> SubscriptionDefinition:
        return msgspec.structs.replace(subscription, agent=self.guess_agent(subscription.agent))
