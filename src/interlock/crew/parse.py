"""From documents to definitions. Whatever can be read is read; the rest is a problem, never an exception.

Rule 1: after parsing, behaviours are explicit: no empty target has a meaning of its own.
Rule 2: parsing says what a crew is, `checks` whether it makes sense.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from interlock.crew.definition import (
    DEFAULT_PROVIDERS,
    VERSION_1_SETTINGS,
    Agent,
    AgentBehavior,
    CostLimits,
    Crew,
    Delegation,
    ErrorLimits,
    Group,
    HistoryShare,
    ModelRef,
    Route,
    Settings,
    SubCrew,
    SubCrewCaps,
    Subscription,
)
from interlock.crew.keys import AGENT, CREW
from interlock.crew.nodes import Mapping, Path, Scalar, Sequence
from interlock.crew.problem import Problems, Severity
from interlock.crew.shapes import MISSING, Values
from interlock.crew.source import CrewSource, Reporter
from interlock.signals.builtin import BUILT_IN, STATUS_SIGNALS
from interlock.signals.definition import PRIORITY_BY_BEHAVIOR, SignalBehavior, SignalDefinition

_BUILT_IN = {definition.name: definition for definition in BUILT_IN}


def parse_crew(source: CrewSource, problems: Problems) -> Crew:
    """The crew as far as it can be read. Sub-crews are attached by whoever can open their folders."""
    values = CREW.read(source.root, (), problems)
    assert isinstance(values, Values), "the root is a mapping, so the section could be read"
    report = Reporter(source, problems)
    version = values.get("version", "2.0")
    agents = _agents(source, report, DEFAULT_PROVIDERS.get(version, ""))
    settings = _settings(values)
    agents = _with_crew_model(agents, values.get("settings", {}), report, DEFAULT_PROVIDERS.get(version, ""))
    signals = tuple(_definition(entry) for entry in values.get("signals", ()) if "name" in entry)
    routing = values.get("routing", {})
    groups = {
        name: Group(**{"agents": (), **group, "name": name})
        for name, group in routing.get("parallel_groups", {}).items()
    }
    routes = _Routes({agent.id for agent in agents}, groups, signals, settings, report)
    routes.unstated = _without_behavior(values)
    routes.is_versioned = "version" in values
    routes.acknowledging = routes.inferred or version == "1.0"
    table = {agent: routes.of(agent, entries) for agent, entries in routing.get("signals", {}).items()}
    return Crew(
        version=version,
        name=values.get("name", source.folder_name),
        description=values.get("description", ""),
        entry_point=values.get("entry_point", ""),
        agents=agents,
        signals=tuple(_as_used(definition, routes.unstated, table) for definition in signals),
        routes=table,
        defaults={agent: target for agent, target in routing.get("defaults", {}).items() if target},
        behaviors={agent: AgentBehavior(**b) for agent, b in routing.get("agent_behaviors", {}).items()},
        groups=routes.groups,
        sub_crews={name: _sub_crew(name, entry) for name, entry in values.get("sub_crews", {}).items()},
        delegation=_delegation(values),
        subscriptions=_subscriptions(values),
        settings=settings,
    )


def _definition(entry: Values) -> SignalDefinition:
    """What the entry says, laid over the built-in signal of that name; another behaviour is another priority."""
    built_in = _BUILT_IN.get(entry["name"])
    if built_in is None:
        return SignalDefinition(**entry)
    if entry.get("behavior", built_in.behavior) != built_in.behavior:
        entry.setdefault("priority", None)
    return msgspec.structs.replace(built_in, **{"allow_all_agents": None, **entry})


def _without_behavior(values: Values) -> set[str]:
    """Signals that do not say what they do: it is that of the built-in one, or inferred where they are routed."""
    entries = [entry for entry in values.get("signals", ()) if "name" in entry and "behavior" not in entry]
    return {entry["name"] for entry in entries}


def _as_used(definition: SignalDefinition, unstated: set[str], table: dict[str, tuple[Route, ...]]) -> SignalDefinition:
    if definition.name not in unstated or definition.name in _BUILT_IN:
        return definition
    used = (route.behavior for routes in table.values() for route in routes if route.signal == definition.name)
    return msgspec.structs.replace(definition, behavior=next(used, definition.behavior))


def _settings(values: Values) -> Settings:
    defaults = VERSION_1_SETTINGS if values.get("version") == "1.0" else {}
    own = {key: value for key, value in values.get("settings", {}).items() if key not in _FOR_AGENTS}
    return Settings(**{**defaults, **own})


# Settings that are written once for all agents, and are theirs after parsing.
_PRICES = ("input_token_price_per_million", "output_token_price_per_million")
_FOR_AGENTS = ("model", *_PRICES)


def _with_crew_model(
    agents: tuple[Agent, ...], settings: dict[str, Any], report: Reporter, provider: str
) -> tuple[Agent, ...]:
    """Gives the crew's model to agents without their own, and its prices to those that call it without their own.

    Without a model of the crew its prices hold for every agent without its own.
    """
    model = None
    if "model" in settings:
        at_crew = partial(report.at, ("settings", "model"))
        model = _model_ref({"model": settings["model"]}, provider, at_crew)
    prices = {key: settings[key] for key in _PRICES if key in settings}
    if model is not None:
        silent = {agent.id for agent in agents if agent.primary is None} - report.source.unclear
        report.source.on_crew_model |= silent
        agents = tuple(msgspec.structs.replace(a, primary=model) if a.id in silent else a for a in agents)
    return tuple(_priced(agent, prices) if model in (None, agent.primary) else agent for agent in agents)


def _priced(agent: Agent, prices: dict[str, float]) -> Agent:
    if agent.has_prices or not prices:
        return agent
    limits = msgspec.structs.replace(agent.cost_limits or CostLimits(), **prices)
    return msgspec.structs.replace(agent, cost_limits=limits)


def _sub_crew(name: str, entry: Values) -> SubCrew:
    caps = SubCrewCaps(**entry.pop("settings", {}))
    return SubCrew(name=name, settings=caps, config_path=entry.pop("config_path", ""), **entry)


def _delegation(values: Values) -> Delegation | None:
    entry = values.get("delegation")
    if entry is None or "children" not in entry:
        return None
    return Delegation(**{"root": values.get("entry_point", ""), **entry})


def _subscriptions(values: Values) -> tuple[Subscription, ...]:
    return tuple(
        Subscription(agent=agent, **entry)
        for agent, entries in values.get("subscriptions", {}).items()
        for entry in entries
        if "pattern" in entry
    )


# Agents


def _agents(source: CrewSource, report: Reporter, provider: str) -> tuple[Agent, ...]:
    """The agents, in the order of the file; `provider` serves models of which the file names none."""
    listed = source.root.get("agents")
    items = listed.items if isinstance(listed, Sequence) else ()
    agents: dict[str, Agent] = {}
    for n, item in enumerate(items):
        agent = _agent_in_place(item, n, source, report, provider) if isinstance(item, Mapping) else None
        if isinstance(item, Scalar) and isinstance(item.value, str) and item.value.strip():
            agent = _agent_by_id(item.value, n, source, report, provider)
        if agent is None:
            continue
        if agent.id in agents:
            report.at(
                ("agents", n),
                "name-clash",
                f"agent '{agent.id}' is listed twice",
                "remove one of the two",
            )
            continue
        agents[agent.id] = agent
    in_place = {id for id in agents if source.agents.get(id, (None, ()))[0] is source.root}  # noqa: A001
    _surplus_files(set(agents), in_place, source, report)
    return tuple(agents.values())


def _agent_in_place(item: Mapping, n: int, source: CrewSource, report: Reporter, provider: str) -> Agent | None:
    path: Path = ("agents", n)
    # The crew's section has read it already and reported what is wrong; here only the values count.
    values = AGENT.read(item, path, Problems())
    if "id" not in values:
        if item.get("id") is None:
            report.at(path, "missing-key", "an agent in place needs 'id'", "add 'id:' (text)")
        return None
    source.agents.setdefault(values["id"], (source.root, path))
    return _agent(values["id"], values, report, provider)


def _agent_by_id(id: str, n: int, source: CrewSource, report: Reporter, provider: str) -> Agent:  # noqa: A002
    files = [file for file in source.agent_files if _id_in(file.node, file.stem) == id]
    if not files:
        if not source.agents_lost:
            report.at(
                ("agents", n),
                "agent-file",
                f"agent '{id}' has no file agents/{id}.yaml",
                f"create agents/{id}.yaml, or define the agent in place",
            )
        source.agents.setdefault(id, (source.root, ("agents", n)))
        source.unclear.add(id)
        return Agent(id=id, name=id)
    for double in files[1:]:
        _agent_file(report, double.file, f"'{id}' is also the id of {files[0].file}", "keep one of the two files")
    node = files[0].node
    if node is None:  # reported by whoever could not read it
        source.unclear.add(id)
        return Agent(id=id, name=id)
    source.agents.setdefault(id, (node, ()))
    values = AGENT.read(node, (), report.problems)
    if values is MISSING:
        source.unclear.add(id)
        return Agent(id=id, name=id)
    return _agent(id, values, report, provider)


def _id_in(node: Any, stem: str) -> str:
    """The id a file gives its agent; the file's name where it gives none."""
    written = node.get("id") if isinstance(node, Mapping) else None
    return written.text if isinstance(written, Scalar) and written.value not in (None, "") else stem


def _surplus_files(listed: set[str], in_place: set[str], source: CrewSource, report: Reporter) -> None:
    for file in source.agent_files:
        id = _id_in(file.node, file.stem)  # noqa: A001
        if id not in listed:
            _agent_file(
                report,
                file.file,
                f"agent '{id}' has a file but is not listed under agents",
                f"list '{id}' under agents in crew.yaml, or remove the file",
            )
        elif id in in_place:
            _agent_file(
                report,
                file.file,
                f"agent '{id}' has a file and is defined in place, where nothing of the file counts",
                "keep one of the two",
            )


def _agent_file(report: Reporter, file: str, message: str, fix: str) -> None:
    place = msgspec.structs.replace(report.source.root.place, file=file, line=1, column=1)
    report.problems.add("agent-file", message, place=place, path=("id",), fix=fix)


def _agent(id: str, values: Values, report: Reporter, provider: str) -> Agent:  # noqa: A002
    flat = {key: values.pop(key) for key in ("model", "provider", "provider_url") if key in values}
    for name in ("primary", "backup"):
        if name in values:
            values[name] = _model(id, values[name], (name,), report, provider)
    if "model" in flat:
        if "primary" in values:  # as in the old program, which files of version 1.0 were written for
            severity, counts = (Severity.WARNING, ": primary counts") if provider else (Severity.ERROR, "")
            message = f"give either model or primary, not both{counts}"
            report.at_agent(id, ("model",), "bad-value", message, "remove model", severity)
        else:
            values["primary"] = _model(id, flat, (), report, provider)
    elif flat:
        key = next(iter(flat))
        report.at_agent(id, (key,), "missing-key", f"{key} without a model does nothing", "add 'model:'")
    for name, alias, kind in (
        ("cost_limits", "block_on_cost_exceed", CostLimits),
        ("error_limits", "block_on_error_exceed", ErrorLimits),
    ):
        if name in values:
            values[name] = kind(**_enforced(id, values[name], alias, name, report))
    if not report.source.was_given(id, "signals"):
        values.pop("signals", None)  # nothing written is no narrowing
    return Agent(**{"name": id, **values, "id": id})


def _enforced(id: str, limits: Values, alias: str, name: str, report: Reporter) -> Values:  # noqa: A002
    if "enforce" in limits:
        enforce = limits.pop("enforce")
        if limits.setdefault(alias, enforce) != enforce:
            report.at_agent(
                id,
                (name, "enforce"),
                "bad-value",
                f"enforce and {alias} contradict each other",
                "keep one of the two",
            )
    return limits


def _model(
    id: str,  # noqa: A002
    values: dict[str, str],
    path: Path,
    report: Reporter,
    default: str,
) -> ModelRef | None:
    return _model_ref(values, default, partial(report.at_agent, id, (*path, "model")))


def _model_ref(values: dict[str, str], default: str, refuse: Callable[[str, str, str], None]) -> ModelRef | None:
    """The model that a section names; `default` serves it if nobody else is named."""
    model, provider = values.get("model"), values.get("provider", "")
    if model is None:  # reported as a missing key
        return None
    if not provider and default and ":" not in model:
        provider, model = default, model.strip()
    if not provider:
        provider, colon, rest = model.partition(":")
        if not colon or not provider.strip() or not rest.strip():
            refuse(
                "unknown-provider",
                f"model '{model}' is not a provider and a name",
                f"write '{provider.strip()}:NAME'"
                if colon and provider.strip()
                else f"write 'openai:{rest.strip() or model.strip(':') or 'NAME'}' or whoever serves it",
            )
            provider = ""
        else:
            provider, model = provider.strip(), rest.strip()
    return ModelRef(provider=provider, model=model, provider_url=values.get("provider_url", ""))


# Routes


class _Routes:
    """Turns the entries under routing.signals into routes whose behaviour is explicit."""

    def __init__(
        self,
        agents: set[str],
        groups: dict[str, Group],
        signals: tuple[SignalDefinition, ...],
        settings: Settings,
        report: Reporter,
    ) -> None:
        self.agents, self.groups, self.report = agents, groups, report
        self.own = {definition.name: definition for definition in signals}
        self.inferred = settings.signal_registration == "inferred"
        self.unstated: set[str] = set()
        self.is_versioned = True
        self.acknowledging = False

    def of(self, agent: str, entries: tuple[Values, ...]) -> tuple[Route, ...]:
        written = self.report.source.root.get("routing")
        assert isinstance(written, Mapping), "there are entries, so there is routing"
        count = len(getattr(_at(written, "signals", agent), "items", ()))
        readable = [entry for entry in entries if "signal" in entry]
        if len(readable) < count:
            self.report.source.unclear.add(agent)
        self.report.source.routes[agent] = [entry.path for entry in readable]
        return tuple(self._route(agent, entry) for entry in readable)

    def _route(self, agent: str, entry: Values) -> Route:
        path, signal = entry.path, entry.pop("signal")
        own, built_in = self.own.get(signal), _BUILT_IN.get(signal)
        definition = own or built_in
        target = entry.pop("target", "")
        stated = entry.pop("type", None)
        if not target and definition and stated != SignalBehavior.TERMINATE:
            target = definition.default_target
        members = entry.pop("parallel_targets", None)
        behavior, acknowledges = self._behavior(stated, members, signal, target, path)
        priority = entry.pop("priority", definition.priority if definition else None)
        if priority is None:
            priority = PRIORITY_BY_BEHAVIOR[behavior]
        if members is not None:
            target = self._unnamed_group(agent, signal, members)
        elif behavior is SignalBehavior.ROUTE and target in self.groups:
            behavior = SignalBehavior.PARALLEL
        if "context" in entry:
            entry["context"] = HistoryShare(**entry["context"])
        return Route(
            signal=signal,
            behavior=behavior,
            priority=priority,
            target=target,
            acknowledges=acknowledges,
            **entry,
        )

    def _behavior(
        self, stated: str | None, members: Any, signal: str, target: str, path: Path
    ) -> tuple[SignalBehavior, bool]:
        if members is not None:
            return SignalBehavior.PARALLEL, False
        if stated is not None:
            return SignalBehavior(stated), False
        if signal in self.own and signal not in self.unstated:
            return SignalBehavior(self.own[signal].behavior), False
        if signal in _BUILT_IN:
            return self._built_in(signal, target, path)
        return self._unregistered(signal, target, path), False

    def _built_in(self, signal: str, target: str, path: Path) -> tuple[SignalBehavior, bool]:
        behavior = SignalBehavior(_BUILT_IN[signal].behavior)
        if self.inferred and behavior is SignalBehavior.TERMINATE and target in self.agents | self.groups.keys():
            self._note(
                path,
                "wrong-target",
                f"built-in '{signal}' ends a run; here its target '{target}' makes it a route",
                "write 'type: route' to say so",
            )
            return SignalBehavior.ROUTE, False
        if self.acknowledging and behavior is SignalBehavior.ROUTE and not target and not self._was_misread(path):
            self.report.at(
                (*path, "signal"),
                "wrong-target",
                f"'{signal}' without a target acknowledges: it is noted and steers nothing",
                "give it a target if it should lead somewhere",
                Severity.NOTE if signal in STATUS_SIGNALS else Severity.WARNING,
            )
            return behavior, True
        return behavior, False

    def _unregistered(self, signal: str, target: str, path: Path) -> SignalBehavior:
        behavior = SignalBehavior.ROUTE if target else SignalBehavior.TERMINATE
        if target in self.groups:
            behavior = SignalBehavior.PARALLEL
        if signal in self.unstated or not self.is_versioned or self._was_misread(path):
            return behavior  # declared, or whether it must be is what could not be read
        if self.inferred:
            self._note(
                path,
                "unregistered-signal",
                f"signal '{signal}' is registered from this route, as {behavior}",
                f"write 'type: {behavior}' to say so",
            )
        else:
            self.report.at(
                (*path, "signal"),
                "unregistered-signal",
                f"signal '{signal}' is not registered (unknown signal)",
                f"define it under signals, or say what it does here with 'type: {self._hint(path, behavior)}'",
            )
        return behavior

    def _was_misread(self, path: Path) -> bool:
        return self.report.source.was_written((*path, "type"))

    def _hint(self, path: Path, behavior: SignalBehavior) -> str:
        """The type that the keys beside the signal ask for."""
        asked = {"target_crew": "sub_crew", "targets": "broadcast", "pause": "external"}
        written = self.report.source.was_written
        return next((kind for key, kind in asked.items() if written((*path, key))), str(behavior))

    def _note(self, path: Path, code: str, message: str, fix: str) -> None:
        self.report.at((*path, "signal"), code, message, fix, Severity.NOTE)

    def _unnamed_group(self, agent: str, signal: str, members: tuple[str, ...]) -> str:
        name = f"{agent}:{signal}"
        self.groups.setdefault(name, Group(name=name, agents=members, unnamed=True))
        return name


def _at(node: Any, *names: str) -> Any:
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node
