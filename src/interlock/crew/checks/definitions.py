"""Rules about signal definitions: they agree with themselves and with the crew."""

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.keys import KEYS_OF_BEHAVIOR
from interlock.crew.problem import Severity
from interlock.errors import InvalidTarget, UnknownTarget, WrongTarget
from interlock.signals.definition import SignalBehavior
from interlock.signals.matching import normal_form


def definitions_are_unique(s: CheckSubject) -> None:
    seen: set[str] = set()
    for n, definition in enumerate(s.crew.signals):
        if definition.name in seen:
            s.add_at(
                ("signals", n, "name"),
                "duplicate-signal",
                f"signal '{definition.name}' is defined twice",
                "remove one",
            )
        seen.add(definition.name)


def definitions_name_what_exists(s: CheckSubject) -> None:
    for n, definition in enumerate(s.crew.signals):
        for i, agent in enumerate(definition.allowed_agents):
            if agent not in s.ids:
                s.report_unknown_agent(("signals", n, "allowed_agents", i), "allowed agent", agent)
        named = [(("default_target",), definition.default_target)] if definition.default_target else []
        for path, target in [
            *named,
            *((("valid_targets", i), t) for i, t in enumerate(definition.valid_targets)),
        ]:
            if target not in s.targets:
                s.report_signal_error(("signals", n, *path), UnknownTarget(definition.name, target, list(s.targets)))


def definitions_agree_with_themselves(s: CheckSubject) -> None:
    for n, definition in enumerate(s.crew.signals):
        target, valid = definition.default_target, definition.valid_targets
        if target and definition.behavior == SignalBehavior.TERMINATE:
            s.report_signal_error(("signals", n, "default_target"), WrongTarget.of_termination(definition.name, target))
        elif target and definition.behavior not in KEYS_OF_BEHAVIOR["target"]:
            s.add_at(
                ("signals", n, "default_target"),
                "misplaced-key",
                f"'default_target' has no effect on '{definition.name}', which is of type {definition.behavior}",
                "remove it; routes of this type have keys of their own for their target",
            )
        elif target and valid and target not in valid:
            s.report_signal_error(("signals", n, "default_target"), InvalidTarget(definition.name, target, valid))


def signals_that_must_be_routed_are(s: CheckSubject) -> None:
    routed = {route.signal for routes in s.crew.routes.values() for route in routes}
    for n, definition in enumerate(s.crew.signals):
        if definition.required and definition.name not in routed:
            s.add_at(
                ("signals", n, "required"),
                "required-signal",
                f"signal '{definition.name}' is required, but no agent routes it",
                f"route it {s.source.fix('under routing.signals', 'in on={…} of an agent')}, or remove 'required'",
            )


def replacements_of_deprecated_signals_exist(s: CheckSubject) -> None:
    for n, definition in enumerate(s.crew.signals):
        heir = definition.replacement
        if heir and normal_form(heir[1:-1]) not in s.normal_mark_names:
            s.add_at(
                ("signals", n, "deprecated_msg"),
                "deprecated-signal",
                f"'{definition.name}' names '{heir}' as its replacement, which is not a signal of this crew",
                f"define '{heir}', so that both work during the transition",
                Severity.WARNING,
            )
