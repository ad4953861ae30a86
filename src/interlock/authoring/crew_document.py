"""The document of a crew that was written in Python: the same keys as in its file, each with its place in the code."""

from collections.abc import Mapping as AnyMapping

from interlock.adapters.value_types.output_types import OutputType, is_output_type, output_place
from interlock.authoring.agent import Agent
from interlock.authoring.call_places import Spot
from interlock.authoring.given_tools import GivenTools
from interlock.authoring.group_names import name_of_group
from interlock.authoring.python_nodes import Entry, NodeMaker, key_at
from interlock.authoring.routes import END, Broadcast, End, External, Group, Pause, Route, SubCrew, Written
from interlock.authoring.sub_crews import KEYS_OF_CALL, GivenSubCrews, as_crew
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.signals.builtin import BUILT_IN
from interlock.signals.definition import SignalBehavior

# Arguments of `Agent` with another name than the key of a file, and those that are under `routing`.
_AGENT_KEYS = {"prompt": "system_prompt"}
_ROUTING_OF_AGENT = ("on", "default", "wait_for_signal", "auto_route")
_GROUP_KEYS = {"then": "next_agent"}
_TYPES = {Pause: "pause", External: "external", Broadcast: "broadcast", SubCrew: "sub_crew"}
_BUILT_IN = {definition.name: str(definition.behavior) for definition in BUILT_IN}


class CrewDocument:
    """Makes the document of a crew from the arguments of its call."""

    def __init__(self, written: Written, problems: Problems) -> None:
        self._given, self._spot, self._problems = written.given, written.written_at.spot(), problems
        self._positions = written.positions
        self._maker = NodeMaker(problems, self._node_of_object)
        listed = self._given.get("agents")
        self._agents = [each for each in listed if isinstance(each, Agent)] if isinstance(listed, list | tuple) else []
        self._ids = {id(agent) for agent in self._agents}
        self._groups: dict[str, tuple[Group, Entry]] = {}
        self._behaviors = {**_BUILT_IN, **_behaviors_of(self._given.get("signals"))}
        self._infers = _infers_signals(self._given)
        self.output_types: dict[str, OutputType] = {}
        self.tools = GivenTools(problems)
        self.sub_crews = GivenSubCrews(self._maker, problems)

    def root(self) -> Mapping:
        entries: list[Entry] = []
        self.sub_crews.add_listed(self._given.get("sub_crews"), *self._argument("sub_crews"), written=self._spot)
        for name, value in self._given.items():
            key, spot = self._argument(name)
            if name == "agents":
                entries.append((key_at(name, key), self._agent_list(value, spot)))
            elif name == "entry":
                entries.append((key_at("entry_point", key), self._maker.node(value, spot)))
            elif name == "output":
                entries.append((key_at(name, key), self._output(value, spot)))
            elif name not in ("routing", "sub_crews"):
                entries.append((key_at(name, key), self._maker.node(value, spot)))
        if "entry" not in self._given and self._agents:
            first = self._agents[0]
            entries.append((key_at("entry_point", self._spot), self._maker.node(first.given.get("id"), self._spot)))
        entries.append((key_at("routing", self._argument("routing")[0]), self._routing_node()))
        if (subs := self.sub_crews.section()) is not None:
            entries.append((key_at("sub_crews", self._argument("sub_crews")[0]), subs))
        return Mapping(tuple(entries), self._spot.place)

    def _argument(self, name: str) -> tuple[Spot, Spot]:
        return _argument(self._spot, self._positions, name)

    # Agents

    def _agent_list(self, value: object, spot: Spot) -> Node:
        if not isinstance(value, list | tuple):
            return self._maker.node(value, spot)
        items = zip(value, spot.items(len(value)), strict=True)
        nodes = (self._agent(each) if isinstance(each, Agent) else self._maker.node(each, at) for each, at in items)
        return Sequence(tuple(nodes), spot.place)

    def _agent(self, agent: Agent) -> Mapping:
        spot = agent.written_at.spot()
        entries = []
        for name, value in agent.given.items():
            if name in _ROUTING_OF_AGENT:
                continue
            key, at = _argument(spot, agent.positions, name)
            entries.append((key_at(_AGENT_KEYS.get(name, name), key), self._value_of_agent(agent, name, value, at)))
        return Mapping(tuple(entries), spot.place)

    def _value_of_agent(self, agent: Agent, name: str, value: object, spot: Spot) -> Node:
        if name == "output":
            return self._output(value, spot, agent.id)
        return self._tools(value, spot) if name == "tools" else self._maker.node(value, spot)

    def _output(self, value: object, spot: Spot, agent: str = "") -> Node:
        """The schema of an output; a type is kept, because it may demand more than its schema says."""
        if is_output_type(value) and (type_ := _read_type(value)) is not None:
            self.output_types[output_place(str(self._given.get("name")), agent)] = type_
        return self._maker.node(value, spot)

    def _tools(self, value: object, spot: Spot) -> Node:
        if not isinstance(value, list | tuple):
            return self._maker.node(value, spot)
        items = zip(value, spot.items(len(value)), strict=True)
        nodes = (self.tools.name_of(each, at) or self._maker.node(each, at) for each, at in items)
        return Sequence(tuple(nodes), spot.place)

    # Routing

    def _routing_node(self) -> Node:
        given, key_and_spot = self._given.get("routing"), self._argument("routing")
        sections = {
            "signals": [entry for agent in self._agents if (entry := self._routes(agent)) is not None],
            "defaults": [entry for agent in self._agents if (entry := self._default(agent)) is not None],
            "agent_behaviors": [entry for agent in self._agents if (entry := self._behavior(agent)) is not None],
        }
        rest: list[Entry] = []
        if given is not None:
            node = self._maker.node(given, key_and_spot[1])
            if not isinstance(node, Mapping):
                return node
            for name, key, inner in node:
                if name in (*sections, "parallel_groups") and isinstance(inner, Mapping):
                    sections.setdefault(name, []).extend(inner.entries)
                else:
                    rest.append((key, inner))
        groups = [entry for _, entry in self._groups.values()]
        sections["parallel_groups"] = [*groups, *sections.get("parallel_groups", [])]
        sections["agent_behaviors"] = _merge_entries(sections["agent_behaviors"])
        spot = key_and_spot[0]
        made = [
            (key_at(name, spot), self._section(name, entries, spot)) for name, entries in sections.items() if entries
        ]
        return self._maker.without_doubles([*made, *rest], spot)

    def _section(self, name: str, entries: list[Entry], spot: Spot) -> Node:
        if name == "signals":  # two agents of one id are reported once, as that
            return Mapping(tuple(entries), spot.place)
        return self._maker.without_doubles(entries, spot)

    def _default(self, agent: Agent) -> Entry | None:
        if "default" not in agent.given:
            return None
        key, spot = _argument(agent.written_at.spot(), agent.positions, "default")
        return key_at(agent.id, key), self._maker.node(agent.given["default"], spot)

    def _behavior(self, agent: Agent) -> Entry | None:
        at = agent.written_at.spot()
        entries = []
        for name in ("wait_for_signal", "auto_route"):
            if name in agent.given:
                key, spot = _argument(at, agent.positions, name)
                entries.append((key_at(name, key), self._maker.node(agent.given[name], spot)))
        return (key_at(agent.id, at), Mapping(tuple(entries), at.place)) if entries else None

    def _routes(self, agent: Agent) -> Entry | None:
        on = agent.given.get("on")
        if on is None:
            return None
        key, spot = _argument(agent.written_at.spot(), agent.positions, "on")
        if not isinstance(on, AnyMapping):
            return key_at(agent.id, key), self._maker.node(on, spot)
        self._maker.report_double_keys(spot)
        places = zip(on.items(), spot.entries(list(on)), strict=True)
        routes = [self._route(agent, mark, value, *at) for (mark, value), at in places]
        return key_at(agent.id, key), Sequence(tuple(routes), spot.place)

    def _route(self, agent: Agent, mark: object, value: object, mark_spot: Spot, spot: Spot) -> Mapping:
        name = self._maker.scalar(mark, mark_spot)
        signal = (key_at("signal", mark_spot), name)
        return Mapping((signal, *self._effect(agent, name, value, spot)), mark_spot.place)

    def _effect(self, agent: Agent, mark: Scalar, value: object, spot: Spot) -> list[Entry]:
        """The keys of a route, apart from its mark."""
        if isinstance(value, Route):
            return self._route_as_written(agent, mark, value)
        if isinstance(value, Group):
            return self._group_route(agent, mark, value)
        if isinstance(value, SubCrew):
            return self._call(value)
        if isinstance(value, Pause | External | Broadcast):
            return self._plain_effect(value)
        if isinstance(value, End):
            return [(key_at("type", spot), key_at("terminate", spot))]
        if isinstance(value, AnyMapping):
            return list(self._maker.mapping_node(value, spot).entries)
        target = (key_at("target", spot), self._target(value, spot))
        return [target, *self._type_of_route(mark, value, spot)]

    def _target(self, value: object, spot: Spot) -> Node:
        """The node of a target. A missing value is refused: `END` says that a mark ends the run."""
        return self._maker.node(value, spot) if value is not None else self._maker.foreign("None", spot)

    def _type_of_route(self, mark: Scalar, value: object, spot: Spot) -> list[Entry]:
        """`type: route` where nothing else declares the mark; a declared one keeps its own effect, as in a file."""
        if self._infers or mark.text in self._behaviors or not isinstance(value, str | Agent) or value == "":
            return []
        return [(key_at("type", spot), key_at("route", spot))]

    def _route_as_written(self, agent: Agent, mark: Scalar, route: Route) -> list[Entry]:
        at = route.written_at.spot()
        key, spot = _argument(at, route.positions, "target")
        target = route.given.get("target")
        entries = self._keys_of(route, without=("target",))
        has_type = "type" in route.given
        if isinstance(target, Group):
            effect = self._group_route(agent, mark, target)
        elif target is END:
            effect = [(key_at("type", key), key_at("terminate", spot))]
        elif target is None:
            effect = []
        else:
            effect = [(key_at("target", key), self._maker.node(target, spot))]
            effect += [] if has_type else self._type_of_route(mark, target, at)
        return [*(entry for entry in effect if not (has_type and entry[0].text == "type")), *entries]

    def _plain_effect(self, effect: Pause | External | Broadcast) -> list[Entry]:
        at = effect.written_at.spot()
        entries = [(key_at("type", at), key_at(_TYPES[type(effect)], at)), *self._keys_of(effect)]
        if isinstance(effect, Broadcast):
            entries.append((key_at("targets", at), self._agent_names(effect.first, at)))
        return entries

    def _agent_names(self, agents: tuple[object, ...], at: Spot) -> Sequence:
        items = zip(agents, at.positional(len(agents)), strict=True)
        return Sequence(tuple(self._maker.node(each, spot) for each, spot in items), at.place)

    def _call(self, call: SubCrew) -> list[Entry]:
        at = call.written_at.spot()
        name = self.sub_crews.name_of(call)
        entries = self._keys_of(call, without=("name", *KEYS_OF_CALL))
        return [(key_at("type", at), key_at("sub_crew", at)), (key_at("target_crew", at), name), *entries]

    def _keys_of(
        self, written: Written, without: tuple[str, ...] = (), names: AnyMapping[str, str] = {}
    ) -> list[Entry]:
        at = written.written_at.spot()
        entries = []
        for name, value in written.given.items():
            if name not in without:
                key, spot = _argument(at, written.positions, name)
                entries.append((key_at(names.get(name, name), key), self._maker.node(value, spot)))
        return entries

    # Groups

    def _group_route(self, agent: Agent, mark: Scalar, group: Group) -> list[Entry]:
        at = group.written_at.spot()
        if not group.given:
            return [(key_at("parallel_targets", at), self._agent_names(group.first, at))]
        name = group.given.get("name")
        if name is None:
            name = name_of_group(agent.id, mark.text)
        target = self._maker.node(name, _argument(at, group.positions, "name")[1])
        if isinstance(target, Scalar):
            self._add_group(target, group, at)
        found = [(key_at("target", at), target)]
        is_route = self._behaviors.get(mark.text) == SignalBehavior.ROUTE
        return found if is_route else [*found, (key_at("type", at), key_at("parallel", at))]

    def _add_group(self, name: Scalar, group: Group, at: Spot) -> None:
        known = self._groups.get(name.text)
        if known is None:
            self._groups[name.text] = group, (key_at(name.text, at), self._group(group))
        elif known[0] is not group and _plain_of(known[0]) != _plain_of(group):
            line = known[0].written_at.spot().place.line
            self._problems.add(
                "name-clash",
                f"two different groups are called '{name.text}', the first in line {line}",
                place=at.place,
                path=("routing", "parallel_groups", name.text),
                fix="give one of them another name, or use one group twice",
            )

    def _group(self, group: Group) -> Mapping:
        at = group.written_at.spot()
        agents = (key_at("agents", at), self._agent_names(group.first, at))
        return Mapping((agents, *self._keys_of(group, without=("name",), names=_GROUP_KEYS)), at.place)

    # Objects inside of lists and dictionaries

    def _schema_of_type(self, value: object, spot: Spot) -> Node | None:
        """The schema of a type; None if the type has none."""
        type_ = _read_type(value)
        return None if type_ is None else NodeMaker(self._problems).node(type_.schema, spot)

    def _node_of_object(self, value: object, spot: Spot) -> Node | None:
        if isinstance(value, Group):
            return self._group(value)
        if (crew := as_crew(value)) is not None:
            return self.sub_crews.name_of_crew(crew, spot)
        if not isinstance(value, Agent):
            return self._schema_of_type(value, spot) if is_output_type(value) else None
        name = value.given.get("id")
        if not isinstance(name, str):
            return None
        if id(value) not in self._ids and any(agent.given.get("id") == name for agent in self._agents):
            message = f"this agent '{name}' is not the one of that id in the crew"
            self._problems.add("name-clash", message, place=spot.place, fix="name the agent by its id, or use that one")
        return Scalar(name, name, spot.place)


def _read_type(value: object) -> OutputType | None:
    """The type as an output; None if JSON cannot represent its values."""
    try:
        return OutputType(value)
    except Exception:  # types of the host may fail in any way when they are inspected
        return None


def _argument(spot: Spot, positions: tuple[str, ...], name: str) -> tuple[Spot, Spot]:
    return spot.argument(name, positions.index(name) if name in positions else None)


def _plain_of(group: Group) -> object:
    def plain(value: object) -> object:
        return value.id if isinstance(value, Agent) else value

    return [plain(each) for each in group.first], {name: plain(value) for name, value in group.given.items()}


def _merge_entries(entries: list[Entry]) -> list[Entry]:
    """One entry for each agent, with the keys of all its entries."""
    found: dict[str, Entry] = {}
    for key, node in entries:
        known = found.get(key.text)
        if known is not None and isinstance(known[1], Mapping) and isinstance(node, Mapping):
            found[key.text] = known[0], Mapping((*known[1].entries, *node.entries), known[1].place)
        else:
            found[key.text] = key, node
    return list(found.values())


def _behaviors_of(signals: object) -> dict[str, str]:
    """The signals that the crew itself defines, with the behaviour of each, if it is stated."""
    entries = signals if isinstance(signals, list | tuple) else ()
    found = [entry for entry in entries if isinstance(entry, AnyMapping) and isinstance(entry.get("name"), str)]
    return {entry["name"]: str(entry.get("behavior", _BUILT_IN.get(entry["name"], ""))) for entry in found}


def _infers_signals(given: AnyMapping[str, object]) -> bool:
    """True if marks are declared by their use, as in files of version 1.0."""
    settings = given.get("settings")
    stated = settings.get("signal_registration") if isinstance(settings, AnyMapping) else None
    return stated == "inferred" or (stated is None and str(given.get("version")) == "1.0")
