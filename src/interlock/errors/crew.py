"""Errors for which the author of the crew must act: the definition of a crew or a signal is wrong.

The four sentences of the signal protocol are kept word for word; advice follows after a semicolon.
"""

from collections.abc import Sequence
from typing import Self

from interlock.errors.root import InterlockError
from interlock.errors.suggestions import nearest


class CrewError(InterlockError):
    """The crew's author acts."""

    code = "crew-error"


class SignalError(CrewError):
    """A signal was refused: the protocol's sentence, a semicolon, and advice."""

    code = "signal-error"

    def __init__(self, signal: str, sentence: str, advice: str) -> None:
        super().__init__(f"{sentence}; {advice}")
        self.signal, self.sentence, self.advice = signal, sentence, advice

    # The agent whose route is wrong, if it was found in a routing table.
    agent = ""

    def in_route_of(self, agent: str) -> Self:
        """The same error, with the name of the agent whose route is wrong."""
        self.agent = agent
        self.args = (f"{self.sentence}; routed by agent '{agent}'; {self.advice}",)
        return self


class BadSignalFormat(SignalError):
    code = "bad-format"

    def __init__(self, signal: object) -> None:
        super().__init__(
            str(signal),
            f"signal '{signal}' has invalid format - must match [NAME]",
            "letters, digits, '_', '-' and single spaces between square brackets, such as [NEXT]",
        )


class BadDefinition(SignalError):
    """A field of a definition has an invalid value."""

    code = "bad-value"

    def __init__(self, signal: str, field: str, rule: str, got: object) -> None:
        super().__init__(signal, f"signal '{signal}' has {field} {got!r}", f"{field} must be {rule}")
        self.field = field


class UnknownSignal(SignalError):
    code = "unregistered-signal"

    def __init__(self, signal: str, known: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"signal '{signal}' is not registered (unknown signal)",
            nearest(signal, known, "register it first"),
        )


class DuplicateSignal(SignalError):
    code = "duplicate-signal"

    def __init__(self, signal: str) -> None:
        super().__init__(signal, f"signal '{signal}' is already registered", "pass replace=True to override it")


class EmitterNotAllowed(SignalError):
    code = "emitter-not-allowed"

    def __init__(self, signal: str, agent: str, allowed: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"agent '{agent}' is not allowed to emit signal '{signal}'",
            f"add it to allowed_agents ({', '.join(allowed)}) or use another signal",
        )
        self.agent, self.allowed = agent, tuple(allowed)


class UnknownEmitter(SignalError):
    """Routes of an agent that does not exist."""

    code = "unknown-agent"

    def __init__(self, signal: str, agent: str, known: Sequence[str]) -> None:
        otherwise = f"known: {', '.join(known[:12])}" if known else "there are no agents"
        super().__init__(
            signal, f"signal '{signal}' is routed by unknown agent '{agent}'", nearest(agent, known, otherwise)
        )
        self.agent = agent


class UnknownTarget(SignalError):
    code = "unknown-target"

    def __init__(self, signal: str, target: str, known: Sequence[str]) -> None:
        otherwise = f"known: {', '.join(known[:12])}" if known else "there are no agents"
        super().__init__(
            signal, f"signal '{signal}' targets unknown agent '{target}'", nearest(target, known, otherwise)
        )
        self.target = target


class WrongTarget(SignalError):
    """The target does not fit what the signal does."""

    code = "wrong-target"

    @classmethod
    def of_termination(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"termination signal '{signal}' must have empty target, got '{target}'",
            "empty the target, or use a routing signal",
        )

    @classmethod
    def no_target(cls, signal: str) -> "WrongTarget":
        return cls(signal, f"routing signal '{signal}' must have a target agent", "name an agent or a group")

    @classmethod
    def no_target_group(cls, signal: str) -> "WrongTarget":
        return cls(
            signal,
            f"parallel signal '{signal}' must have a target group",
            "name a group, or list parallel_targets",
        )

    @classmethod
    def no_agent(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"pause signal '{signal}' must continue at an agent, got group '{target}'",
            "name an agent, or leave the target empty to continue at the same one",
        )

    @classmethod
    def no_group(cls, signal: str, target: str) -> "WrongTarget":
        return cls(
            signal,
            f"parallel signal '{signal}' must have a target group, got agent '{target}'",
            "name a group, or use type: route",
        )


class InvalidTarget(SignalError):
    code = "invalid-target"

    def __init__(self, signal: str, target: str, valid: Sequence[str]) -> None:
        super().__init__(
            signal,
            f"signal '{signal}' cannot target '{target}' (valid: [{' '.join(valid)}])",
            "use one of them, or add it to valid_targets",
        )
        self.target, self.valid = target, tuple(valid)
