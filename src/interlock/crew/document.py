"""A crew as a document, so that the rules for files can check crews that were built in Python.

Rule 1: only values that differ from a default are written, since some rules ask what an author wrote.
Rule 2: it is not parsed back; checks look at the crew itself, and use the document for paths.
"""

from collections.abc import Sequence as Listed
from typing import Any

import msgspec

from interlock.crew.definition import (
    NO_MODEL_SETTINGS,
    VERSION_1_SETTINGS,
    AgentDefinition,
    CrewDefinition,
    CrewSettings,
    GroupDefinition,
    HistoryShare,
    RouteDefinition,
)
from interlock.crew.keys import KEYS_OF_BEHAVIOR, STRICT_SETTINGS
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence, SourceLocation
from interlock.signals.builtin import BUILT_IN
from interlock.signals.definition import SignalDefinition

_DEFAULTS = msgspec.structs.asdict(NO_MODEL_SETTINGS)
_BUILT_IN = {definition.name: definition for definition in BUILT_IN}


def document_of(crew: CrewDefinition) -> Mapping:
    """The crew as the file that would define it. All places are line 0 of a file that does not exist."""
    words = {
        **_fields_of(crew, "version", "name", "entry_point", "description"),
        "agents": [_agent(agent) for agent in crew.agents],
        "signals": [_definition(definition) for definition in crew.signals],
        "routing": {
            "signals": {agent: [_route(route, crew) for route in routes] for agent, routes in crew.routes.items()},
            "defaults": crew.defaults,
            "agent_behaviors": {agent: _fields_of(behavior) for agent, behavior in crew.behaviors.items()},
            "parallel_groups": {name: _group(group) for name, group in crew.groups.items() if not group.unnamed},
        },
        "sub_crews": {
            name: {
                **_fields_of(sub, "description", "output"),
                "config_path": sub.config_path or name,
                "settings": _fields_of(sub.settings),
            }
            for name, sub in crew.sub_crews.items()
        },
        **({"delegation": _fields_of(crew.delegation)} if crew.delegation is not None else {}),
        "subscriptions": _subscriptions(crew),
        "settings": _settings(crew.settings),
        **_fields_of(crew, "output"),
    }
    node = _as_node(words, SourceLocation(f"crew '{crew.name}'", 0, 0))
    assert isinstance(node, Mapping), "a document of a mapping is one"
    return node


def _fields_of(struct: msgspec.Struct, *names: str) -> dict[str, Any]:
    """The fields of a definition that differ from their defaults; with names, only those of them."""
    found = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if (not names or field.name in names) and (field.required or value != field.default):
            found[field.name] = value
    return found


def _agent(agent: AgentDefinition) -> dict[str, Any]:
    inner = {
        key: _fields_of(value)
        for key in ("primary", "backup", "cost_limits", "error_limits")
        if (value := getattr(agent, key)) is not None
    }
    found = {**_fields_of(agent), **inner}
    settings = found.pop("model_settings", NO_MODEL_SETTINGS)
    changed = {name: value for name, value in msgspec.structs.asdict(settings).items() if value != _DEFAULTS[name]}
    return {**found, **changed}


def _definition(definition: SignalDefinition) -> dict[str, Any]:
    built_in = _BUILT_IN.get(definition.name)
    found = {name: value for name, value in msgspec.structs.asdict(definition).items() if value is not None}
    if built_in is not None and definition.behavior == built_in.behavior:
        del found["behavior"]  # a built-in signal with a new description differs from one that is defined as a route
    return found


def _route(route: RouteDefinition, crew: CrewDefinition) -> dict[str, Any]:
    found = _fields_of(route)
    for name in ("behavior", "target", "acknowledges", "context"):
        found.pop(name, None)
    group = crew.groups.get(route.target)
    if group is not None and group.unnamed:
        found["parallel_targets"] = group.agents
    elif route.target and route.behavior in KEYS_OF_BEHAVIOR["target"]:
        found["target"] = route.target
    if route.context != HistoryShare():
        found["context"] = {key: "all" if n == -1 else n for key, n in _fields_of(route.context).items()}
    return {**found, "type": route.behavior}


def _group(group: GroupDefinition) -> dict[str, Any]:
    found = _fields_of(group)
    del found["name"]
    return found


def _subscriptions(crew: CrewDefinition) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in crew.subscriptions:
        found.setdefault(each.agent, []).append({"pattern": each.pattern, "silent": each.silent})
    return found


def _settings(settings: CrewSettings) -> dict[str, Any]:
    always = (*VERSION_1_SETTINGS, *(STRICT_SETTINGS if settings.config_mode == "strict" else ()))
    found = {name: getattr(settings, name) for name in always}
    return {name: value for name, value in {**found, **_fields_of(settings)}.items() if value is not None}


def _as_node(value: Any, place: SourceLocation) -> Node:
    if isinstance(value, dict):
        entries = ((Scalar(str(name), str(name), place), _as_node(inner, place)) for name, inner in value.items())
        return Mapping(tuple(entries), place)
    if isinstance(value, Listed) and not isinstance(value, str):
        return Sequence(tuple(_as_node(inner, place) for inner in value), place)
    return Scalar(value, str(value), place)
