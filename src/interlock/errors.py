"""What Interlock raises, split by who must act.

InterlockError ─┬─ CrewError ─┬─ UnsoundCrew ── UnreadableCrew     defined in crew/unsound.py
                │             └─ SignalError ─┬─ BadSignalFormat  BadDefinition  UnknownSignal  DuplicateSignal
                │                             └─ EmitterNotAllowed  UnknownTarget  WrongTarget  InvalidTarget
                └─ UsageError     the caller named something that is not there, or a host file is wrong

Rule 1: a message says what, which, and what now; lower case, no full stop.
Rule 2: the object keeps the parts and a stable `code`.
Rule 3: the four sentences of the signal protocol are kept word for word; advice follows after a semicolon.
"""

from collections.abc import Sequence
from difflib import get_close_matches


class InterlockError(Exception):
    """The root of everything raised on purpose."""

    code = "interlock-error"


class CrewError(InterlockError):
    """The crew's author acts."""

    code = "crew-error"


class UsageError(InterlockError):
    """The caller acts: the call named something that does not exist."""

    code = "usage-error"


class SignalError(CrewError):
    """A signal was refused: the protocol's sentence, and advice that follows it after a semicolon."""

    code = "signal-error"

    def __init__(self, signal: str, sentence: str, advice: str) -> None:
        super().__init__(f"{sentence}; {advice}")
        self.signal, self.sentence, self.advice = signal, sentence, advice


class BadSignalFormat(SignalError):
    code = "bad-format"

    def __init__(self, signal: str) -> None:
        super().__init__(
            signal,
            f"signal '{signal}' has invalid format - must match [NAME]",
            "letters, digits, '_', '-' and single spaces between square brackets, such as [NEXT]",
        )


class BadDefinition(SignalError):
    """A field of a definition holds something it cannot hold."""

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
    def missing(cls, signal: str) -> "WrongTarget":
        return cls(signal, f"routing signal '{signal}' must have a target agent", "name an agent or a group")

    @classmethod
    def missing_group(cls, signal: str) -> "WrongTarget":
        return cls(
            signal,
            f"parallel signal '{signal}' must have a target group",
            "name a group, or list parallel_targets",
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


def nearest(word: str, known: Sequence[str], otherwise: str) -> str:
    """Advice for a word that is not known: the closest one that is, or `otherwise`."""
    near = closest(word, known)
    return f"did you mean '{near}'?" if near is not None else otherwise


def closest(word: str, known: Sequence[str]) -> str | None:
    if len(known) > 200:  # comparing with thousands of names would cost more than the advice is worth
        known = [name for name in known if name[:2] == word[:2] and abs(len(name) - len(word)) < 3][:200]
    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
