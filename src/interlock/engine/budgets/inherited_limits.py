"""Limits of a run that come from outside: the caps in its caller's file, its share of the caller's own budget, and the
budgets per minute, hour and day of all crews above it.

Rule 1: a cap is the child's own limit; a share or a window limit belongs to a caller, and stops the callers too.
Rule 2: `above` counts levels: 0 is the run itself, 1 its caller, 2 the caller of that.
"""

import msgspec

from interlock.crew.definition import CrewSettings, SubCrewCaps

# The action of a limit that is reached.
STOP, WAIT, WARN = "stop", "wait", "warn"


class WindowLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit per UTC window; without a window it is on consecutive errors. `scope` is an agent, or empty for the crew.

    `crew` is the crew of a caller `above`, or empty for the run's own.
    """

    name: str
    what: str
    window: str
    most: int
    scope: str = ""
    alert: int | None = None
    then: str = STOP
    crew: str = ""
    above: int = 0


class Allowance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A share of a caller's own limit on calls, tokens or cost of a run, reserved for this child.

    `crew` is the owner of the limit, `whole` the size of the limit; empty in runs of rules before 3.
    """

    what: str
    most: int
    above: int
    crew: str = ""
    whole: int = 0


class InheritedLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    caps: SubCrewCaps = SubCrewCaps()
    given: tuple[Allowance, ...] = ()
    limits: tuple[WindowLimit, ...] = ()


UNBOUNDED = InheritedLimits()


def with_caps(settings: CrewSettings, caps: SubCrewCaps) -> CrewSettings:
    """The settings, tightened by the caps in the caller's file."""
    tighter = {}
    for name in caps.__struct_fields__:
        cap, own = getattr(caps, name), getattr(settings, name)
        if cap is not None and (own is None or cap < own):
            tighter[name] = cap
    return msgspec.structs.replace(settings, **tighter) if tighter else settings
