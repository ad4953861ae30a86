"""Rules about routes: every target exists and fits its signal."""

import unicodedata

from msgspec import UNSET

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import RouteDefinition
from interlock.crew.keys import KEYS_OF_BEHAVIOR
from interlock.crew.nodes import Mapping, Path, Scalar, node_at
from interlock.crew.problem import Severity
from interlock.crew.templates import unknown_input_fields
from interlock.errors import EmitterNotAllowed, InvalidTarget, SignalError, UnknownTarget, WrongTarget, nearest
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import normal_form


def routing_names_agents(s: CheckSubject) -> None:
    routing = s.source.root.get("routing")
    for section in ("signals", "defaults", "agent_behaviors"):
        node = routing.get(section) if isinstance(routing, Mapping) else None
        for name, _, _ in node if isinstance(node, Mapping) else ():
            if name not in s.ids:
                s.report_unknown_agent(("routing", section, name), f"routing.{section}:", name)
    for agent, target in s.crew.defaults.items():
        if target not in s.ids:
            s.report_unknown_agent(("routing", "defaults", agent), f"the default of '{agent}',", target)


def an_agent_routes_a_signal_once(s: CheckSubject) -> None:
    for agent, paths in s.source.routes.items():
        seen: set[str] = set()
        for route, path in zip(s.crew.routes[agent], paths, strict=True):
            if route.signal in seen:
                s.add_at(
                    (*path, "signal"),
                    "duplicate-signal",
                    f"agent '{agent}' routes '{route.signal}' twice",
                    "remove one; the second would never be used",
                )
            seen.add(route.signal)


def a_reply_can_tell_signals_apart(s: CheckSubject) -> None:
    for agent, paths in s.source.routes.items():
        seen: dict[str, str] = {}
        for route, path in zip(s.crew.routes[agent], paths, strict=True):
            other = seen.setdefault(normal_form(route.signal[1:-1]), route.signal)
            if other != route.signal:
                _report_ambiguous(s, path, agent, other, route.signal)


def _report_ambiguous(s: CheckSubject, path: Path, agent: str, first: str, second: str) -> None:
    same_to_the_eye = unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", second)
    if same_to_the_eye:
        message = f"'{first}' of agent '{agent}' is there twice, in two encodings of the same characters"
    else:
        message = f"'{first}' and '{second}' of agent '{agent}' differ only in case, spaces, '_' or '-'"
    s.add_at(
        (*path, "signal"),
        "ambiguous-signals",
        message,
        "rename one of them",
        Severity.ERROR if same_to_the_eye else Severity.NOTE,
    )


def emitters_are_allowed(s: CheckSubject) -> None:
    for agent, route, path in s.routes():
        definition = s.definitions.get(route.signal)
        if definition and not definition.may_be_emitted_by(agent):
            s.report_signal_error((*path, "signal"), EmitterNotAllowed(route.signal, agent, definition.allowed_agents))
        narrowed = s.ids[agent].signals if agent in s.ids else None
        if narrowed is not None and route.signal not in narrowed:
            s.add_at(
                (*path, "signal"),
                "emitter-not-allowed",
                f"agent '{agent}' is not allowed to emit signal '{route.signal}'",
                f"add it to the signals of agent '{agent}', or remove the route",
            )


def routes_have_fitting_targets(s: CheckSubject) -> None:
    for _, route, path in s.routes():
        error = target_error(s, route)
        if error is not None and not (s.is_unreadable(path) and not route.target):
            s.report_signal_error((*path, "target"), error)


def target_error(s: CheckSubject, route: RouteDefinition) -> SignalError | None:
    signal, target = route.signal, route.target
    if target in s.ambiguous_names:
        return None
    match route.behavior:
        case SignalBehavior.TERMINATE:
            return WrongTarget.of_termination(signal, target) if target else None
        case SignalBehavior.ROUTE if not target:
            return None if route.acknowledges else WrongTarget.no_target(signal)
        case SignalBehavior.PARALLEL if not target:
            return WrongTarget.no_target_group(signal)
        case SignalBehavior.PARALLEL if target in s.ids:
            return WrongTarget.no_group(signal, target)
        case SignalBehavior.PAUSE if target in s.crew.groups:
            return WrongTarget.no_agent(signal, target)
        case SignalBehavior.ROUTE | SignalBehavior.PARALLEL | SignalBehavior.PAUSE:
            return _target_name_error(s, route)
        case _:
            return None  # the other behaviours use other keys


def _target_name_error(s: CheckSubject, route: RouteDefinition) -> SignalError | None:
    target = route.target
    if not target or (target in s.crew.groups and s.crew.groups[target].unnamed):
        return None
    if target not in s.targets:
        return UnknownTarget(route.signal, target, list(s.targets))
    valid = s.definitions[route.signal].valid_targets if route.signal in s.definitions else ()
    return InvalidTarget(route.signal, target, valid) if valid and target not in valid else None


_INSTEAD_OF_TARGET = {SignalBehavior.SUB_CREW: "target_crew", SignalBehavior.BROADCAST: "targets"}


def every_key_of_a_route_has_an_effect(s: CheckSubject) -> None:
    for _, route, path in s.routes():
        for key, behaviors in KEYS_OF_BEHAVIOR.items():
            if route.behavior in behaviors or not s.is_written(path, key):
                continue
            if s.is_unreadable(path) or (key == "target" and not route.target):
                continue  # an empty target has no meaning on any route
            instead = _INSTEAD_OF_TARGET.get(route.behavior) if key == "target" else None
            s.add_at(
                (*path, key),
                "misplaced-key",
                f"'{key}' has no effect on '{route.signal}', which is of type {route.behavior}",
                f"write '{instead}' instead" if instead else f"remove it, or write {s.source.type_words(behaviors[0])}",
            )
        target = node_at(s.source.root, (*path, "target"))
        if s.is_written(path, "parallel_targets") and isinstance(target, Scalar) and target.value:
            s.add_at(
                (*path, "target"),
                "misplaced-key",
                f"'target' has no effect on '{route.signal}' beside parallel_targets",
                "keep one of the two",
            )


def broadcasts_name_agents(s: CheckSubject) -> None:
    for _, route, path in s.routes():
        for n, target in enumerate(route.targets):
            valid = s.definitions[route.signal].valid_targets if route.signal in s.definitions else ()
            if target not in s.ids:
                s.report_signal_error((*path, "targets", n), UnknownTarget(route.signal, target, list(s.ids)))
            elif valid and target not in valid:
                s.report_signal_error((*path, "targets", n), InvalidTarget(route.signal, target, valid))


def calls_name_sub_crews(s: CheckSubject) -> None:
    crews = list(s.crew.sub_crews)
    for _, route, path in s.routes():
        if route.behavior is not SignalBehavior.SUB_CREW:
            continue
        if not route.target_crew:
            s.add_at(
                path,
                "missing-key",
                f"'{route.signal}' calls a sub-crew and needs 'target_crew'",
                "add 'target_crew:'",
            )
        elif route.target_crew not in crews:
            s.add_at(
                (*path, "target_crew"),
                "unknown-sub-crew",
                f"'{route.signal}' calls '{route.target_crew}', which is not under sub_crews",
                nearest(
                    route.target_crew, crews, s.source.fix("define it under sub_crews", "give SubCrew the crew itself")
                ),
            )
        if route.return_to and route.return_to not in s.ids:
            s.report_unknown_agent((*path, "return_to"), "return_to", route.return_to)
        if route.on_error not in ("fail", "return", *s.ids):
            s.report_unknown_agent((*path, "on_error"), "on_error", route.on_error, also=("fail", "return"))


def calls_in_one_reply_return_to_one_agent(s: CheckSubject) -> None:
    """Calls of equal priority run together, and control returns once: to the return_to of the first one."""
    for agent, paths in s.source.routes.items():
        first: dict[int, RouteDefinition] = {}
        for route, path in zip(s.crew.routes[agent], paths, strict=True):
            if route.behavior is not SignalBehavior.SUB_CREW:
                continue
            other = first.setdefault(route.priority, route)
            if (route.return_to or agent) != (other.return_to or agent):
                s.add_at(
                    (*path, "return_to"),
                    "differing-return",
                    f"'{other.signal}' and '{route.signal}' may run together, but return to different agents",
                    "give both the same return_to, or different priorities",
                    Severity.WARNING,
                )


def templates_use_known_fields(s: CheckSubject) -> None:
    crews = tuple(s.crew.sub_crews)
    typed = tuple(name for name, sub in s.crew.sub_crews.items() if sub.crew and sub.crew.output is not UNSET)
    for _, route, path in s.routes():
        for field, advice in unknown_input_fields(route.input_template, crews, typed):
            s.add_at(
                (*path, "input_template"),
                "unknown-field",
                f"unknown field {field} in an input_template",
                advice,
            )


def routes_use_no_deprecated_signals(s: CheckSubject) -> None:
    for agent, route, path in s.routes():
        definition = s.definitions.get(route.signal)
        if definition and definition.deprecated_msg:
            heir = definition.replacement
            s.add_at(
                (*path, "signal"),
                "deprecated-signal",
                f"agent '{agent}' routes deprecated signal '{route.signal}': {definition.deprecated_msg}",
                f"route '{heir}' too, change the agent's prompt to use it, then remove '{route.signal}'"
                if heir
                else "follow its message, then remove the route",
                Severity.WARNING,
            )
