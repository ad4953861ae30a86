"""Strict validation of signals, for programs that have a registry: the signal, its emitter and its target.

`interlock.crew.checks` checks crew files and reports every problem with its place.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from interlock.errors import (
    BadSignalFormat,
    EmitterNotAllowed,
    InvalidTarget,
    SignalError,
    UnknownEmitter,
    UnknownSignal,
    UnknownTarget,
    WrongTarget,
)
from interlock.signals.definition import SignalBehavior, SignalDefinition, is_signal_name
from interlock.signals.matching import METHODS, SignalMatcher
from interlock.signals.registry import SignalRegistry
from interlock.signals.report import registry_report


class SignalValidator:
    """Validates signals. Every refusal is a `SignalError` with a sentence of the signal protocol."""

    def __init__(self, registry: SignalRegistry) -> None:
        self.registry = registry

    def validate_signal_emission(self, signal: str, agent: str) -> None:
        """Refuses a malformed or unregistered signal, and an agent that may not emit it."""
        definition = self._definition(signal)
        if not definition.may_be_emitted_by(agent):
            raise EmitterNotAllowed(signal, agent, definition.allowed_agents)

    def validate_signal_target(self, signal: str, target: str | None, agents: Collection[str]) -> None:
        """Refuses a target that does not exist, is not allowed, or does not fit the behaviour."""
        definition = self._definition(signal)
        if definition.behavior == SignalBehavior.TERMINATE:
            if target:
                raise WrongTarget.of_termination(signal, target)
            return
        target = target or definition.default_target
        if target:
            _require_reachable(definition, target, agents)
        elif definition.behavior == SignalBehavior.ROUTE:
            raise WrongTarget.no_target(signal)
        elif definition.behavior == SignalBehavior.PARALLEL:
            raise WrongTarget.no_target_group(signal)

    def validate_configuration(
        self, signals: Mapping[str, Iterable[Any]], agents: Collection[str]
    ) -> list[SignalError]:
        """All errors of a routing table: agent to routes, each a mapping or an object with signal and target.

        Each error names the agent of its route, in its message and as `agent`. An agent that is not among `agents` is
        one error; its routes are checked too.
        """
        errors: list[SignalError] = []
        for agent, routes in signals.items():
            pairs = [(_field(route, "signal") or "", _field(route, "target")) for route in routes or ()]
            if pairs and agent not in agents:
                errors.append(UnknownEmitter(pairs[0][0], agent, _as_sequence(agents)))
            for signal, target in pairs:
                errors += [error.in_route_of(agent) for error in self._refusals(signal, target, agent, agents)]
        return errors

    def validate_signal_in_content(self, signal: str, content: str) -> tuple[bool, str]:
        """True if the reply has the signal, and the most exact level at which it was recognised."""
        if not is_signal_name(signal):
            return False, ""
        levels = {match.method for match in SignalMatcher([signal]).find(content)}
        return next(((True, str(method)) for method in METHODS if method in levels), (False, ""))

    def generate_signal_report(self) -> str:
        return registry_report(self.registry)

    def _definition(self, signal: str) -> SignalDefinition:
        if not is_signal_name(signal):
            raise BadSignalFormat(signal)
        definition = self.registry.get(signal)
        if definition is None:
            raise UnknownSignal(signal, self.registry.names())
        return definition

    def _refusals(self, signal: str, target: str | None, agent: str, agents: Collection[str]) -> list[SignalError]:
        try:
            self._definition(signal)
        except SignalError as error:  # without a definition the two checks below would report it again
            return [error]
        checks: list[Callable[[], None]] = [lambda: self.validate_signal_target(signal, target, agents)]
        if agent in agents:  # an agent that does not exist has no permissions to check
            checks.insert(0, lambda: self.validate_signal_emission(signal, agent))
        refusals = []
        for check in checks:
            try:
                check()
            except SignalError as error:
                refusals.append(error)
        return refusals


def _require_reachable(definition: SignalDefinition, target: str, agents: Collection[str]) -> None:
    if target not in agents:
        raise UnknownTarget(definition.name, target, _as_sequence(agents))
    if definition.valid_targets and target not in definition.valid_targets:
        raise InvalidTarget(definition.name, target, definition.valid_targets)


def _as_sequence(agents: Collection[str]) -> Sequence[str]:
    return list(agents) if isinstance(agents, Sequence | Mapping) else sorted(agents)


def _field(route: Any, name: str) -> Any:
    return route.get(name) if isinstance(route, Mapping) else getattr(route, name, None)
