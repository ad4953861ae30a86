"""Rules about signal definitions: they agree with themselves and with the crew."""

from interlock.crew.checks.subject import Subject
from interlock.crew.keys import KEYS_OF_BEHAVIOR
from interlock.crew.problem import Severity
from interlock.errors import InvalidTarget, UnknownTarget, WrongTarget
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import normalized


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
                s.refuse(("signals", n, *path), UnknownTarget(definition.name, target, list(s.targets)))


def definitions_agree_with_themselves(s: Subject) -> None:
    for n, definition in enumerate(s.crew.signals):
        target, valid = definition.default_target, definition.valid_targets
        if target and definition.behavior == SignalBehavior.TERMINATE:
            s.refuse(("signals", n, "default_target"), WrongTarget.of_termination(definition.name, target))
        elif target and definition.behavior not in KEYS_OF_BEHAVIOR["target"]:
            s.at(
                ("signals", n, "default_target"),
                "misplaced-key",
                f"'default_target' has no effect on '{definition.name}', which is of type {definition.behavior}",
                "remove it; routes of this type say where they lead with keys of their own",
            )
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
