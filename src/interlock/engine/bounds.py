"""What bounds a run from outside: the caps that its caller's file sets, what the caller's own budgets have left for it,
and the budgets by the minute, hour and day of all crews above it.

Rule 1: a cap is the child's own bound; what is given or limited from above is a caller's, and stops the callers too.
Rule 2: `above` counts levels: 0 is the run itself, 1 its caller, 2 the caller of that.
"""

import msgspec

from interlock.crew.definition import Settings, SubCrewCaps

# What a limit does when it is reached.
STOP, WAIT, WARN = "stop", "wait", "warn"


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bound over a UTC window; without one it is on errors in a row. `scope` is an agent, or empty for the crew.

    `crew` is that of a caller `above`, or empty for the run's own.
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


class Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is left of a caller's own bound on calls, tokens or cost of a run, reserved for this child.

    `crew` is the crew whose bound it is, and `whole` how large that is; empty in runs of rules before 3.
    """

    what: str
    most: int
    above: int
    crew: str = ""
    whole: int = 0


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    caps: SubCrewCaps = SubCrewCaps()
    given: tuple[Given, ...] = ()
    limits: tuple[Limit, ...] = ()


UNBOUNDED = Bounds()


def capped(settings: Settings, caps: SubCrewCaps) -> Settings:
    """The settings, tighter where the caller's file says so."""
    tighter = {}
    for name in caps.__struct_fields__:
        cap, own = getattr(caps, name), getattr(settings, name)
        if cap is not None and (own is None or cap < own):
            tighter[name] = cap
    return msgspec.structs.replace(settings, **tighter) if tighter else settings
