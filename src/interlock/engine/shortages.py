"""A limit that has no room for a call, in words: which one, whose, how large it is, and what the call would take.

Rule 1: the sentence is built from whole numbers, so that a replay builds the same one.
Rule 2: runs that were started under rules before 3 have no sentence: their journals hold none.
"""

import msgspec

from interlock.engine.events import LimitReached
from interlock.engine.moves import Finish
from interlock.engine.transition import Transition

_MICROS_DIGITS = 6
_UNITS = {"calls": "calls", "tokens": "tokens", "errors": "failed calls"}


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """`used` is what counts against the limit already, None for a limit on one call. `whole` is the size of the limit
    where `most` is only the share of it that a caller gave to the crew `given_to`.

    `call` is what the call of `agent` would take; without an agent it is for how many runs or members there must be
    room.
    """

    limit: str
    what: str
    whose: str
    most: int
    whole: int = 0
    given_to: str = ""
    used: int | None = None
    agent: str = ""
    call: int = 0
    above: int = 0

    @property
    def message(self) -> str:
        used = "" if self.used is None else f"; used: {amount(self.used, self.what)}"
        name = self.limit.partition(" of ")[0]
        return f"{name} of {self.whose} is {self._size}{used}{self._wanted}"

    @property
    def _size(self) -> str:
        most = amount(self.most, self.what)
        return (
            f"{amount(self.whole, self.what)}, {most} of it given to crew '{self.given_to}'" if self.given_to else most
        )

    @property
    def _wanted(self) -> str:
        if self.what == "errors":
            return ""
        if not self.agent:
            return f"; too little is left for {self.call} to start"
        return f"; this call of agent '{self.agent}' needs {_about(self.what)}{amount(self.call, self.what)}"


def amount(number: int, what: str) -> str:
    if what == "cost":
        return dollars(number)
    return f"{number:,} {_UNITS[what]}" if number != 1 else f"1 {_UNITS[what].removesuffix('s')}"


def dollars(micros: int) -> str:
    """Exactly, with two digits at least."""
    whole, rest = divmod(micros, 10**_MICROS_DIGITS)
    digits = f"{rest:0{_MICROS_DIGITS}d}".rstrip("0").ljust(2, "0")
    return f"${whole:,}.{digits}"


def _about(what: str) -> str:
    """Calls are counted; tokens and money of a call are estimated."""
    return "" if what == "calls" else "about "


def owner_of(t: Transition, above: int) -> str:
    """Whose a limit is that is not an agent's: the run's own crew, or a crew that called it."""
    if not above:
        return f"crew '{t.crew.name}'"
    return "the crew that called this one" if above == 1 else f"the crew {above} levels above this one"


def owner_named_in(t: Transition, refused: str, above: int) -> str:
    """Whose a limit is by the name that the store has for it: `NAME`, `NAME of AGENT` or `NAME of crew CREW`."""
    whose = refused.partition(" of ")[2]
    if whose.startswith("crew "):
        return f"crew '{whose.removeprefix('crew ')}'"
    return f"agent '{whose}'" if whose else owner_of(t, above)


def stop_for(t: Transition, short: Shortage) -> Finish:
    """Records that the limit is reached; what ends because of it is for the caller."""
    reason = f"budget:{short.what}"
    if t.state.rules < 3:
        t.conclude(LimitReached(limit=short.limit))
        return Finish("stopped", reason, short.above)
    reached = LimitReached(
        limit=short.limit, message=short.message, most=short.most, used=short.used or 0, call=short.call
    )
    t.conclude(reached)
    return Finish("stopped", reason, short.above, short.message)
