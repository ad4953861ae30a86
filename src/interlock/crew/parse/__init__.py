"""Parses documents into definitions. A part that cannot be read becomes a problem, never an exception.

Rule 1: after parsing, behaviours are explicit: an empty target has no meaning of its own.
Rule 2: parsing tells what a crew is; `checks` tells if it makes sense.
"""

from functools import partial
from typing import Any

import msgspec

from interlock.crew.definition import (
    DEFAULT_PROVIDERS,
    PRICE_KEYS,
    VERSION_1_SETTINGS,
    AgentBehavior,
    AgentDefinition,
    CostLimits,
    CrewDefinition,
    CrewSettings,
    DelegationDefinition,
    GroupDefinition,
    RouteDefinition,
    SubCrewCaps,
    SubCrewDefinition,
    SubscriptionDefinition,
)
from interlock.crew.keys import CREW
from interlock.crew.parse.agents import model_ref, parse_agents
from interlock.crew.parse.routes import BUILT_IN_BY_NAME, RouteParser
from interlock.crew.problem import Problems
from interlock.crew.shapes import Values
from interlock.crew.source import CrewSource, ProblemReporter
from interlock.signals.definition import SignalDefinition


def parse_crew(source: CrewSource, problems: Problems) -> CrewDefinition:
    """Reads as much of the crew as possible. The caller attaches sub-crews, since it can open their folders."""
    values = CREW.read(source.root, (), problems)
    assert isinstance(values, Values), "the root is a mapping, so the section could be read"
    report = ProblemReporter(source, problems)
    version = values.get("version", "2.0")
    agents = parse_agents(source, report, DEFAULT_PROVIDERS.get(version, ""))
    settings = _settings(values)
    agents = _with_crew_model(agents, values.get("settings", {}), report, DEFAULT_PROVIDERS.get(version, ""))
    signals = tuple(_definition(entry) for entry in values.get("signals", ()) if "name" in entry)
    routing = values.get("routing", {})
    groups = {
        name: GroupDefinition(**{"agents": (), **group, "name": name})
        for name, group in routing.get("parallel_groups", {}).items()
    }
    routes = RouteParser({agent.id for agent in agents}, groups, signals, settings, report)
    routes.unstated = _without_behavior(values)
    routes.is_versioned = "version" in values
    routes.acknowledging = routes.inferred or version == "1.0"
    table = {agent: routes.parse_routes(agent, entries) for agent, entries in routing.get("signals", {}).items()}
    return CrewDefinition(
        version=version,
        name=values.get("name", source.folder_name),
        description=values.get("description", ""),
        entry_point=values.get("entry_point", ""),
        agents=agents,
        signals=tuple(_with_routed_behavior(definition, routes.unstated, table) for definition in signals),
        routes=table,
        defaults={agent: target for agent, target in routing.get("defaults", {}).items() if target},
        behaviors={agent: AgentBehavior(**b) for agent, b in routing.get("agent_behaviors", {}).items()},
        groups=routes.groups,
        sub_crews={name: _sub_crew(name, entry) for name, entry in values.get("sub_crews", {}).items()},
        delegation=_delegation(values),
        subscriptions=_subscriptions(values),
        settings=settings,
        output=values.get("output", msgspec.UNSET),
    )


def _definition(entry: Values) -> SignalDefinition:
    """The entry merged over the built-in signal of that name; another behaviour implies another priority."""
    built_in = BUILT_IN_BY_NAME.get(entry["name"])
    if built_in is None:
        return SignalDefinition(**entry)
    if entry.get("behavior", built_in.behavior) != built_in.behavior:
        entry.setdefault("priority", None)
    return msgspec.structs.replace(built_in, **{"allow_all_agents": None, **entry})


def _without_behavior(values: Values) -> set[str]:
    """Signals without a behaviour: they get the one of the built-in signal, or it is inferred from their routes."""
    entries = [entry for entry in values.get("signals", ()) if "name" in entry and "behavior" not in entry]
    return {entry["name"] for entry in entries}


def _with_routed_behavior(
    definition: SignalDefinition, unstated: set[str], table: dict[str, tuple[RouteDefinition, ...]]
) -> SignalDefinition:
    if definition.name not in unstated or definition.name in BUILT_IN_BY_NAME:
        return definition
    used = (route.behavior for routes in table.values() for route in routes if route.signal == definition.name)
    return msgspec.structs.replace(definition, behavior=next(used, definition.behavior))


def _settings(values: Values) -> CrewSettings:
    defaults = VERSION_1_SETTINGS if values.get("version") == "1.0" else {}
    own = {key: value for key, value in values.get("settings", {}).items() if key not in _FOR_AGENTS}
    return CrewSettings(**{**defaults, **own})


# Settings that are written once for all agents; parsing copies them to the agents.
_FOR_AGENTS = ("model", *PRICE_KEYS)


def _with_crew_model(
    agents: tuple[AgentDefinition, ...], settings: dict[str, Any], report: ProblemReporter, provider: str
) -> tuple[AgentDefinition, ...]:
    """Gives the crew's model to agents without one, and its prices to agents that call it and have no prices.

    If the crew has no model, its prices apply to every agent without prices.
    """
    model = None
    if "model" in settings:
        at_crew = partial(report.add_at, ("settings", "model"))
        model = model_ref({"model": settings["model"]}, provider, at_crew)
    prices = {key: settings[key] for key in PRICE_KEYS if key in settings}
    if model is not None:
        silent = {agent.id for agent in agents if agent.primary is None} - report.source.unclear
        report.source.on_crew_model |= silent
        agents = tuple(msgspec.structs.replace(a, primary=model) if a.id in silent else a for a in agents)
    return tuple(_with_prices(agent, prices) if model in (None, agent.primary) else agent for agent in agents)


def _with_prices(agent: AgentDefinition, prices: dict[str, float]) -> AgentDefinition:
    if agent.has_prices or not prices:
        return agent
    limits = msgspec.structs.replace(agent.cost_limits or CostLimits(), **prices)
    return msgspec.structs.replace(agent, cost_limits=limits)


def _sub_crew(name: str, entry: Values) -> SubCrewDefinition:
    caps = SubCrewCaps(**entry.pop("settings", {}))
    return SubCrewDefinition(name=name, settings=caps, config_path=entry.pop("config_path", ""), **entry)


def _delegation(values: Values) -> DelegationDefinition | None:
    entry = values.get("delegation")
    if entry is None or "children" not in entry:
        return None
    return DelegationDefinition(**{"root": values.get("entry_point", ""), **entry})


def _subscriptions(values: Values) -> tuple[SubscriptionDefinition, ...]:
    return tuple(
        SubscriptionDefinition(agent=agent, **entry)
        for agent, entries in values.get("subscriptions", {}).items()
        for entry in entries
        if "pattern" in entry
    )
