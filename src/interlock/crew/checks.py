"""Whether a crew makes sense: one function a rule, every problem at once, each with its place and a fix.

Rule 1: a check reports and goes on; it never raises and never repairs.
Rule 2: one mistake, one problem: what only follows from another problem is not reported again.
Rule 3: the code names the fact; the severity may be lower where an old file is entitled to it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec

from interlock.broadcast.pattern import pattern_fault
from interlock.crew.definition import Agent, Crew, Route
from interlock.crew.graph import END, ControlGraph, Spot, control, present
from interlock.crew.host import BUILT_IN_TOOLS, PROVIDERS, Host
from interlock.crew.keys import STRICT_SETTINGS
from interlock.crew.nodes import Mapping, Path, Scalar, node_at
from interlock.crew.problem import Problems, Severity
from interlock.crew.source import CrewSource, Reporter
from interlock.crew.templates import unknown_input_fields, unknown_prompt_fields
from interlock.errors import (
    EmitterNotAllowed,
    InvalidTarget,
    SignalError,
    UnknownTarget,
    WrongTarget,
    closest,
    nearest,
)
from interlock.ids import RESERVED_IDS, is_id
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
    def targets(self) -> list[str]:
        return [*self.ids, *self.named_groups]

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

    def meant(self, target: str) -> str:
        """The target itself, or the known one that a slip of the pen turned it from."""
        known = not target or target in self.ids or target in self.crew.groups
        return target if known else closest(target, self.targets) or target

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
        message, _, advice = str(error).partition("; ")
        self.at(path, error.code, message, advice)


Check = Callable[[Subject], None]


# Names


def the_entry_point_exists(s: Subject) -> None:
    if s.crew.entry_point and s.crew.entry_point not in s.ids:
        s.unknown_agent(("entry_point",), "entry_point", s.crew.entry_point)


def there_are_agents(s: Subject) -> None:
    if not s.crew.agents and s.was_written((), "agents") and not s.source.unclear:
        s.at(("agents",), "missing-key", "a crew needs at least one agent", "list one under agents")


def ids_are_well_formed(s: Subject) -> None:
    rule = "letters, digits, '_', '-' and '.', at most 64, starting with a letter or digit"
    for agent in s.ids:
        if not is_id(agent):
            s.at_agent(agent, ("id",), "bad-value", f"agent id '{agent}' is not usable", f"use {rule}")
    for section, names in (
        (("routing", "parallel_groups"), s.named_groups),
        (("sub_crews",), list(s.crew.sub_crews)),
    ):
        for name in names:
            if not is_id(name):
                s.at((*section, name), "bad-value", f"name '{name}' is not usable", f"use {rule}")


def names_are_unique(s: Subject) -> None:
    for group in s.named_groups:
        if group in s.ids:
            _clash(s, ("routing", "parallel_groups", group), f"'{group}' is an agent and a group")
    for name in s.crew.sub_crews:
        if name in s.ids or name in s.named_groups:
            other = "an agent" if name in s.ids else "a group"
            _clash(s, ("sub_crews", name), f"'{name}' is {other} and a sub-crew")
    for agent in s.ids:
        if agent in RESERVED_IDS:
            s.at_agent(
                agent,
                ("id",),
                "name-clash",
                f"'{agent}' is reserved for entries that no agent wrote",
                "rename the agent",
            )


def _clash(s: Subject, path: Path, message: str) -> None:
    s.at(path, "name-clash", f"{message}; a target could not tell which is meant", "rename one of them")


def spoken_names_are_unique(s: Subject) -> None:
    first: dict[str, str] = {}
    for agent in s.crew.agents:
        other = first.setdefault(agent.name, agent.id)
        if other != agent.id:
            s.at_agent(
                agent.id,
                ("name",),
                "name-clash",
                f"agents '{other}' and '{agent.id}' are both called '{agent.name}' in conversations",
                "give one of them another name",
                Severity.WARNING,
            )


# Signal definitions


def definitions_are_unique(s: Subject) -> None:
    seen: set[str] = set()
    for n, definition in enumerate(s.crew.signals):
        if definition.name in seen:
            s.at(
                ("signals", n, "name"),
                "duplicate-signal",
                f"signal '{definition.name}' is defined twice",
                "remove one",
            )
        seen.add(definition.name)


def definitions_name_what_exists(s: Subject) -> None:
    for n, definition in enumerate(s.crew.signals):
        for i, agent in enumerate(definition.allowed_agents):
            if agent not in s.ids:
                s.unknown_agent(("signals", n, "allowed_agents", i), "allowed agent", agent)
        named = [(("default_target",), definition.default_target)] if definition.default_target else []
        for path, target in [
            *named,
            *((("valid_targets", i), t) for i, t in enumerate(definition.valid_targets)),
        ]:
            if target not in s.targets:
                s.refuse(("signals", n, *path), UnknownTarget(definition.name, target, s.targets))


def definitions_agree_with_themselves(s: Subject) -> None:
    for n, definition in enumerate(s.crew.signals):
        target, valid = definition.default_target, definition.valid_targets
        if target and definition.behavior == SignalBehavior.TERMINATE:
            s.refuse(("signals", n, "default_target"), WrongTarget.of_termination(definition.name, target))
        elif target and valid and target not in valid:
            s.refuse(("signals", n, "default_target"), InvalidTarget(definition.name, target, valid))


def required_signals_are_routed(s: Subject) -> None:
    routed = {route.signal for routes in s.crew.routes.values() for route in routes}
    for n, definition in enumerate(s.crew.signals):
        if definition.required and definition.name not in routed:
            s.at(
                ("signals", n, "required"),
                "required-signal",
                f"signal '{definition.name}' is required, and no agent routes it",
                "route it under routing.signals, or drop 'required'",
            )


def deprecated_signals_lead_on(s: Subject) -> None:
    for n, definition in enumerate(s.crew.signals):
        heir = definition.replacement
        if heir and normalized(heir[1:-1]) not in s.known_marks:
            s.at(
                ("signals", n, "deprecated_msg"),
                "deprecated-signal",
                f"'{definition.name}' sends its users to '{heir}', which this crew does not know",
                f"define '{heir}', so that both work during the transition",
                Severity.WARNING,
            )


# Routes


def routing_names_agents(s: Subject) -> None:
    routing = s.source.root.get("routing")
    for section in ("signals", "defaults", "agent_behaviors"):
        node = routing.get(section) if isinstance(routing, Mapping) else None
        for name, _, _ in node if isinstance(node, Mapping) else ():
            if name not in s.ids:
                s.unknown_agent(("routing", section, name), f"routing.{section}:", name)
    for agent, target in s.crew.defaults.items():
        if target not in s.ids:
            s.unknown_agent(("routing", "defaults", agent), f"the default of '{agent}',", target)


def an_agent_routes_a_signal_once(s: Subject) -> None:
    for agent, paths in s.source.routes.items():
        seen: set[str] = set()
        for route, path in zip(s.crew.routes[agent], paths, strict=True):
            if route.signal in seen:
                s.at(
                    (*path, "signal"),
                    "duplicate-signal",
                    f"agent '{agent}' routes '{route.signal}' twice",
                    "remove one; the second would never be taken",
                )
            seen.add(route.signal)


def a_reply_can_tell_signals_apart(s: Subject) -> None:
    for agent, paths in s.source.routes.items():
        seen: dict[str, str] = {}
        for route, path in zip(s.crew.routes[agent], paths, strict=True):
            other = seen.setdefault(normalized(route.signal[1:-1]), route.signal)
            if other != route.signal:
                _ambiguous(s, path, agent, other, route.signal)


def _ambiguous(s: Subject, path: Path, agent: str, first: str, second: str) -> None:
    same_to_the_eye = unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second)
    if same_to_the_eye:
        message = f"'{first}' of agent '{agent}' stands twice, in two spellings of the same characters"
    else:
        message = f"only exact spelling tells '{first}' from '{second}' in replies of agent '{agent}'"
    s.at(
        (*path, "signal"),
        "ambiguous-signals",
        message,
        "rename one of them",
        Severity.ERROR if same_to_the_eye else Severity.NOTE,
    )


def emitters_are_allowed(s: Subject) -> None:
    for agent, route, path in s.routes():
        definition = s.definitions.get(route.signal)
        if definition and not definition.may_be_emitted_by(agent):
            s.refuse((*path, "signal"), EmitterNotAllowed(route.signal, agent, definition.allowed_agents))
        narrowed = s.ids[agent].signals if agent in s.ids else None
        if narrowed is not None and route.signal not in narrowed:
            s.at(
                (*path, "signal"),
                "emitter-not-allowed",
                f"agent '{agent}' is not allowed to emit signal '{route.signal}'",
                f"add it to the signals of agent '{agent}', or remove the route",
            )


def routes_have_fitting_targets(s: Subject) -> None:
    for _, route, path in s.routes():
        error = _target_error(s, route)
        if error is not None:
            s.refuse((*path, "target"), error)


def _target_error(s: Subject, route: Route) -> SignalError | None:
    signal, target = route.signal, route.target
    match route.behavior:
        case SignalBehavior.TERMINATE:
            return WrongTarget.of_termination(signal, target) if target else None
        case SignalBehavior.ROUTE if not target:
            return None if route.acknowledges else WrongTarget.missing(signal)
        case SignalBehavior.PARALLEL if not target:
            return WrongTarget.missing_group(signal)
        case SignalBehavior.PARALLEL if target in s.ids:
            return WrongTarget(
                f"parallel signal '{signal}' must have a target group, got agent '{target}'; "
                "name a group, or use type: route",
                signal=signal,
            )
        case SignalBehavior.ROUTE | SignalBehavior.PARALLEL | SignalBehavior.PAUSE:
            return _named_target_error(s, route)
        case _:
            return None  # the other behaviours have keys of their own


def _named_target_error(s: Subject, route: Route) -> SignalError | None:
    target = route.target
    if not target or (target in s.crew.groups and s.crew.groups[target].unnamed):
        return None
    if target not in s.targets:
        return UnknownTarget(route.signal, target, s.targets)
    valid = s.definitions[route.signal].valid_targets if route.signal in s.definitions else ()
    return InvalidTarget(route.signal, target, valid) if valid and target not in valid else None


_KEYS_OF_BEHAVIOR = {
    "target": (SignalBehavior.TERMINATE, SignalBehavior.ROUTE, SignalBehavior.PARALLEL, SignalBehavior.PAUSE),
    "targets": (SignalBehavior.BROADCAST,),
    "pause": (SignalBehavior.EXTERNAL,),
    "target_crew": (SignalBehavior.SUB_CREW,),
    "return_to": (SignalBehavior.SUB_CREW,),
    "input_template": (SignalBehavior.SUB_CREW,),
    "on_error": (SignalBehavior.SUB_CREW,),
    "context": (SignalBehavior.SUB_CREW,),
}


def every_key_of_a_route_has_an_effect(s: Subject) -> None:
    for _, route, path in s.routes():
        for key, behaviors in _KEYS_OF_BEHAVIOR.items():
            if route.behavior in behaviors or not s.was_written(path, key):
                continue
            if key == "target" and not route.target:
                continue  # an empty target says nothing, anywhere
            s.at(
                (*path, key),
                "misplaced-key",
                f"'{key}' has no effect on '{route.signal}', which is of type {route.behavior}",
                f"remove it, or write 'type: {behaviors[0]}'",
            )
        target = node_at(s.source.root, (*path, "target"))
        if s.was_written(path, "parallel_targets") and isinstance(target, Scalar) and target.value:
            s.at(
                (*path, "target"),
                "misplaced-key",
                f"'target' has no effect on '{route.signal}' beside parallel_targets",
                "keep one of the two",
            )


def broadcasts_name_agents(s: Subject) -> None:
    for _, route, path in s.routes():
        for n, target in enumerate(route.targets):
            if target not in s.ids:
                s.refuse((*path, "targets", n), UnknownTarget(route.signal, target, list(s.ids)))


def calls_name_sub_crews(s: Subject) -> None:
    crews = list(s.crew.sub_crews)
    for _, route, path in s.routes():
        if route.behavior is not SignalBehavior.SUB_CREW:
            continue
        if not route.target_crew:
            s.at(
                path,
                "missing-key",
                f"'{route.signal}' calls a sub-crew and needs 'target_crew'",
                "add 'target_crew:'",
            )
        elif route.target_crew not in crews:
            s.at(
                (*path, "target_crew"),
                "unknown-sub-crew",
                f"'{route.signal}' calls '{route.target_crew}', which is not under sub_crews",
                nearest(route.target_crew, crews, "define it under sub_crews"),
            )
        if route.return_to and route.return_to not in s.ids:
            s.unknown_agent((*path, "return_to"), "return_to", route.return_to)
        if route.on_error not in ("fail", "return", *s.ids):
            s.unknown_agent((*path, "on_error"), "on_error", route.on_error, also=("fail", "return"))


def calls_in_one_reply_return_to_one_agent(s: Subject) -> None:
    for agent, paths in s.source.routes.items():
        calls = [
            (route, path)
            for route, path in zip(s.crew.routes[agent], paths, strict=True)
            if route.behavior is SignalBehavior.SUB_CREW
        ]
        for route, path in calls[1:]:
            first = calls[0][0]
            if route.priority == first.priority and (route.return_to or agent) != (first.return_to or agent):
                s.at(
                    (*path, "return_to"),
                    "differing-return",
                    f"'{first.signal}' and '{route.signal}' may run together, and return to different agents",
                    "give both the same return_to, or different priorities",
                    Severity.WARNING,
                )


def templates_use_known_fields(s: Subject) -> None:
    crews = tuple(s.crew.sub_crews)
    for _, route, path in s.routes():
        for field, advice in unknown_input_fields(route.input_template, crews):
            s.at(
                (*path, "input_template"),
                "unknown-field",
                f"nothing fills {field} in an input_template",
                advice,
            )


def deprecated_signals_are_not_used(s: Subject) -> None:
    for agent, route, path in s.routes():
        definition = s.definitions.get(route.signal)
        if definition and definition.deprecated_msg:
            heir = definition.replacement
            s.at(
                (*path, "signal"),
                "deprecated-signal",
                f"agent '{agent}' routes deprecated signal '{route.signal}': {definition.deprecated_msg}",
                f"route '{heir}' too, teach the agent to use it, then remove '{route.signal}'"
                if heir
                else "follow its message, then remove the route",
                Severity.WARNING,
            )


# Groups and settings


def groups_have_members(s: Subject) -> None:
    members = (*s.ids, *s.crew.sub_crews)
    for group in s.crew.groups.values():
        path = _group_path(s, group.name)
        key = "parallel_targets" if group.unnamed else "agents"
        if not group.agents and s.was_written(path, key):
            s.at((*path, key), "empty-group", f"group '{group.name}' has no members", "list its agents")
        for n, member in enumerate(group.agents):
            if member not in members:
                s.unknown_agent((*path, key, n), "member", member, also=tuple(s.crew.sub_crews))
            elif member in group.agents[:n]:
                s.at(
                    (*path, key, n),
                    "bad-value",
                    f"'{member}' is a member of '{group.name}' twice",
                    "remove one",
                )
        if group.next_agent and group.next_agent not in s.ids:
            s.unknown_agent((*path, "next_agent"), "next_agent", group.next_agent)


def _group_path(s: Subject, name: str) -> Path:
    if not s.crew.groups[name].unnamed:
        return ("routing", "parallel_groups", name)
    agent = name.partition(":")[0]
    at = next(n for n, route in enumerate(s.crew.routes[agent]) if route.target == name)
    return s.source.routes[agent][at]


def groups_end_before_the_run(s: Subject) -> None:
    limit = s.crew.settings.timeout_seconds
    for group in s.crew.groups.values():
        if group.timeout_seconds is not None and group.timeout_seconds > limit:
            s.at(
                (*_group_path(s, group.name), "timeout_seconds"),
                "timeout-beyond-run",
                f"group '{group.name}' may take {group.timeout_seconds:g} s, the whole run only {limit:g} s",
                "lower it, or raise settings.timeout_seconds",
            )
    default = s.crew.settings.parallel_timeout_seconds
    if default > limit and s.was_written(("settings",), "parallel_timeout_seconds"):
        s.at(
            ("settings", "parallel_timeout_seconds"),
            "timeout-beyond-run",
            f"groups may take {default:g} s, the whole run only {limit:g} s",
            "lower it, or raise timeout_seconds",
        )


def strict_settings_are_written_out(s: Subject) -> None:
    if s.crew.settings.config_mode != "strict":
        return
    for name in STRICT_SETTINGS:
        if not s.was_written(("settings",), name):
            s.at(
                ("settings", name),
                "missing-setting",
                f"config_mode is strict, and settings.{name} is not written out",
                f"add '{name}:', or use config_mode: permissive",
            )


# Agents


def agents_hand_over_to_agents(s: Subject) -> None:
    for agent in s.crew.agents:
        for n, target in enumerate(agent.handoff_targets):
            if target not in s.ids:
                s.at_agent(
                    agent.id,
                    ("handoff_targets", n),
                    "unknown-target",
                    f"agent '{agent.id}' hands over to unknown agent '{target}'",
                    nearest(target, list(s.ids), "name an agent of this crew"),
                )


def agents_narrow_to_known_signals(s: Subject) -> None:
    known = {*s.definitions, *(route.signal for _, route, _ in s.routes())}
    for agent in s.crew.agents:
        for n, signal in enumerate(agent.signals or ()):
            if signal not in known:
                s.at_agent(
                    agent.id,
                    ("signals", n),
                    "unregistered-signal",
                    f"signal '{signal}' is not registered (unknown signal)",
                    nearest(signal, sorted(known), "define it under signals in crew.yaml"),
                )


def tools_exist(s: Subject) -> None:
    known = (*BUILT_IN_TOOLS, *s.host.tools)
    severity = Severity.WARNING if s.crew.version == "1.0" else Severity.ERROR
    for agent in s.crew.agents:
        for n, tool in enumerate(agent.tools):
            server = tool.removeprefix("mcp:").partition("/")[0]
            if tool.startswith("mcp:"):
                if server in s.host.mcp_servers:
                    continue
                message, fix = f"there is no MCP server '{server}'", f"add [mcp.{server}] to interlock.toml"
            elif tool in known:
                continue
            else:
                message = f"agent '{agent.id}' uses unknown tool '{tool}'"
                fix = nearest(tool, known, "name its module under [tools] modules in interlock.toml")
            s.at_agent(agent.id, ("tools", n), "unknown-tool", message, fix, severity)


def providers_exist(s: Subject) -> None:
    known = (*PROVIDERS, *s.host.providers)
    for agent in s.crew.agents:
        for key, model in (("primary", agent.primary), ("backup", agent.backup)):
            if model is None or model.provider in known or not model.provider:
                continue
            s.at_agent(
                agent.id,
                _provider_path(s, agent.id, key),
                "unknown-provider",
                f"nobody called '{model.provider}' serves models",
                nearest(model.provider, known, f"add [providers.{model.provider}] to interlock.toml"),
            )


def _provider_path(s: Subject, agent: str, key: str) -> Path:
    """`provider` where it was written, else the `model` that begins with it; flat in older files."""
    node = s.source.agent_node(agent)
    section = node.get(key) if isinstance(node, Mapping) else None
    path: Path = (key,) if section is not None else ()
    holder = section if section is not None else node
    return (*path, "provider" if isinstance(holder, Mapping) and holder.get("provider") else "model")


def prompts_use_known_fields(s: Subject) -> None:
    for agent in s.crew.agents:
        for field in unknown_prompt_fields(agent.system_prompt):
            s.at_agent(
                agent.id,
                ("system_prompt",),
                "unknown-field",
                f"nothing fills {field} in a prompt",
                "the fields are {{name}}, {{role}}, {{description}} and {{backstory}}",
            )


# A mark in a prompt: capitals, so that "[your name]" is not one, and not the text of a link.
_MARK_IN_PROMPT = re.compile(r"(?<!\\)\[([^\[\]]{2,60})\](?!\()")


def prompts_use_known_marks(s: Subject) -> None:
    for agent in s.crew.agents:
        for text in dict.fromkeys(_MARK_IN_PROMPT.findall(agent.system_prompt)):
            if sum(char.isalpha() for char in text) < 2 or text != text.upper() or not _is_name(text):
                continue
            if normalized(text) not in s.known_marks:
                s.at_agent(
                    agent.id,
                    ("system_prompt",),
                    "unknown-mark-in-prompt",
                    f"the prompt of agent '{agent.id}' speaks of [{text}], which this crew does not know",
                    _nearest_mark(s, text),
                    Severity.WARNING,
                )


def _is_name(text: str) -> bool:
    return all(char.isalnum() or char in "_- " or unicodedata.category(char)[0] == "M" for char in text)


def _nearest_mark(s: Subject, text: str) -> str:
    routed = dict.fromkeys(route.signal for _, route, _ in s.routes())
    return nearest(
        f"[{text}]", [*routed, *s.definitions], f"route [{text}] under routing.signals, or reword the prompt"
    )


# Delegation and subscriptions


def delegation_is_a_tree(s: Subject) -> None:
    delegation = s.crew.delegation
    if delegation is None:
        return
    if delegation.root and delegation.root not in s.ids:
        s.unknown_agent(("delegation", "root"), "root", delegation.root)
    parent_of: dict[str, str] = {}
    for parent, children in delegation.children.items():
        if parent not in s.ids:
            s.unknown_agent(("delegation", "children", parent), "parent", parent)
        for n, child in enumerate(children):
            path: Path = ("delegation", "children", parent, n)
            if child not in s.ids and child not in s.crew.sub_crews:
                s.unknown_agent(path, "child", child, also=tuple(s.crew.sub_crews))
            elif child == delegation.root:
                _no_tree(s, path, f"'{child}' is the root and a child of '{parent}'")
            elif child in parent_of:
                _no_tree(s, path, f"'{child}' is a child of '{parent_of[child]}' and of '{parent}'")
            else:
                parent_of[child] = parent
    _parents_hang_from_the_root(s, parent_of)


def _parents_hang_from_the_root(s: Subject, parent_of: dict[str, str]) -> None:
    delegation = s.crew.delegation
    assert delegation is not None, "delegation_is_a_tree asks only where there is one"
    for parent in delegation.children:
        line = [parent]
        while line[-1] in parent_of and parent_of[line[-1]] not in line:
            line.append(parent_of[line[-1]])
        if line[-1] in parent_of:
            cycle = [*line, parent_of[line[-1]]]
            _no_tree(s, ("delegation", "children", parent), f"delegation runs in a circle: {' <- '.join(cycle)}")
            return
        if line[-1] != delegation.root and parent in s.ids and delegation.root in s.ids:
            _no_tree(
                s,
                ("delegation", "children", parent),
                f"'{parent}' does not hang from root '{delegation.root}'",
            )
    depth = max((_depth(child, parent_of) for child in parent_of), default=0)
    if depth > delegation.max_depth:
        _no_tree(s, ("delegation", "children"), f"delegation is {depth} deep, max_depth is {delegation.max_depth}")


def _depth(child: str, parent_of: dict[str, str]) -> int:
    depth = 0
    while child in parent_of:
        child, depth = parent_of[child], depth + 1
    return depth


def _no_tree(s: Subject, path: Path, message: str) -> None:
    s.at(path, "delegation-tree", message, "make it a tree: one root, one parent for every child")


def subscriptions_can_match(s: Subject) -> None:
    node = s.source.root.get("subscriptions")
    for agent, _, _ in node if isinstance(node, Mapping) else ():
        if agent not in s.ids:
            s.unknown_agent(("subscriptions", agent), "subscriber", agent)
    counts: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for subscription in s.crew.subscriptions:
        n = counts.get(subscription.agent, 0)
        counts[subscription.agent] = n + 1
        path: Path = ("subscriptions", subscription.agent, n, "pattern")
        fault = pattern_fault(subscription.pattern)
        if fault:
            s.at(
                path,
                "bad-value",
                f"pattern '{subscription.pattern}' {fault}",
                "use segments split by ':', such as build:*:done",
            )
        key = (subscription.agent, subscription.pattern.strip())
        if key in seen:
            s.at(path, "bad-value", f"'{key[0]}' subscribes to '{key[1]}' twice", "remove one")
        seen.add(key)


# The graph


def agents_can_be_reached(s: Subject) -> None:
    if s.crew.entry_point not in s.ids:
        return  # then nothing is reached, and the entry point is what needs mending
    reached = s.graph.reached()
    for agent in s.ids:
        if control(agent) not in reached and present(agent) not in reached:
            s.at_agent(
                agent,
                (),
                "unreachable-agent",
                f"agent '{agent}' can never get a turn",
                "route a signal to it, make it a default, a handoff target or a group's member, or remove it",
            )


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


def agents_have_a_way_on(s: Subject) -> None:
    for agent in _stuck(s):
        s.at_agent(
            agent,
            (),
            "no-way-on",
            f"agent '{agent}' has no way on: no route, no default, no handoff target, no ending",
            "route one of its signals, give it a default, or set is_terminal: true",
        )


def _stuck(s: Subject) -> list[str]:
    reached = s.graph.reached()
    return [
        agent
        for agent in s.ids
        if control(agent) in reached
        and agent not in _unclear(s)
        and all(step.kind == "present" for step in s.graph.steps[control(agent)])
    ]


def _unclear(s: Subject) -> set[str]:
    """Agents of which something could not be read or points nowhere; it is reported, and might be their way on."""
    lost = {agent for agent, route, _ in s.routes() if _points_nowhere(s, route)}
    lost |= {agent for agent, target in s.crew.defaults.items() if target not in s.ids}
    lost |= {agent.id for agent in s.crew.agents if any(t not in s.ids for t in agent.handoff_targets)}
    return lost | s.source.unclear


def _points_nowhere(s: Subject, route: Route) -> bool:
    if route.behavior is SignalBehavior.SUB_CREW:
        return bool(route.return_to) and route.return_to not in s.ids
    if route.behavior is SignalBehavior.PARALLEL and route.target in s.crew.groups:
        next_agent = s.crew.groups[route.target].next_agent
        return bool(next_agent) and next_agent not in s.ids
    return _target_error(s, route) is not None


def agents_can_reach_an_ending(s: Subject) -> None:
    reached = s.graph.reached()
    excused = [control(agent) for agent in (*_stuck(s), *_unclear(s)) if agent in s.ids]
    saved = s.graph.leading_to([END, *excused])
    doomed = {spot for spot in reached if spot not in saved and spot.kind not in ("present", "end")}
    for loop in s.graph.loops_among(doomed):
        agents = [spot.name for spot in loop if spot.kind == "control"]
        if not agents:
            continue
        first = min(agents, key=list(s.ids).index)
        s.at_agent(
            first,
            (),
            "trap",
            f"no ending can be reached from {', '.join(sorted(agents))}: {_witness(s, reached, first)}",
            "let one of them terminate, make one terminal, or route one out of the loop",
        )


def _witness(s: Subject, reached: dict[Spot, Spot | None], agent: str) -> str:
    """How control gets to the agent, and from there back to it."""
    there = _way(reached, control(agent))
    again = s.graph.reached(s.graph.steps[control(agent)])
    back = _way(again, control(agent)) if control(agent) in again else []
    return " -> ".join(spot.name for spot in (*there, *back) if spot.kind in ("control", "join"))


def _way(before: dict[Spot, Spot | None], spot: Spot | None) -> list[Spot]:
    way: list[Spot] = []
    while spot is not None:
        way.append(spot)
        spot = before[spot]
    return way[::-1]


CHECKS: tuple[Check, ...] = (
    the_entry_point_exists,
    there_are_agents,
    ids_are_well_formed,
    names_are_unique,
    spoken_names_are_unique,
    definitions_are_unique,
    definitions_name_what_exists,
    definitions_agree_with_themselves,
    required_signals_are_routed,
    deprecated_signals_lead_on,
    routing_names_agents,
    an_agent_routes_a_signal_once,
    a_reply_can_tell_signals_apart,
    emitters_are_allowed,
    routes_have_fitting_targets,
    every_key_of_a_route_has_an_effect,
    broadcasts_name_agents,
    calls_name_sub_crews,
    calls_in_one_reply_return_to_one_agent,
    templates_use_known_fields,
    deprecated_signals_are_not_used,
    groups_have_members,
    groups_end_before_the_run,
    strict_settings_are_written_out,
    agents_hand_over_to_agents,
    agents_narrow_to_known_signals,
    tools_exist,
    providers_exist,
    prompts_use_known_fields,
    prompts_use_known_marks,
    delegation_is_a_tree,
    subscriptions_can_match,
    agents_can_be_reached,
    agents_have_a_way_on,
    agents_can_reach_an_ending,
)


def check_crew(crew: Crew, source: CrewSource, problems: Problems, host: Host | None = None) -> None:
    """Runs every rule over the crew, adding what it finds to `problems`."""
    subject = Subject(crew, source, problems, host or Host())
    for check in CHECKS:
        check(subject)
