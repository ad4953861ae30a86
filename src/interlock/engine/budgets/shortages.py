"""Shortages: a limit without room for a call, described by its name, owner, size, and what the call needs.

Rule 1: the sentence is built from whole numbers, so that a replay builds the same one.
Rule 2: runs of rules before 3 have no sentence, because their journals hold none.
"""

import msgspec

from interlock.engine.events import LimitReached
from interlock.engine.kinds import RunStatus
from interlock.engine.stages import FinishRun
from interlock.engine.transition import Transition

_MICROS_DIGITS = 6
_UNITS = {"calls": "calls", "tokens": "tokens", "errors": "failed calls"}


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A limit without room. `used` is the amount already counted, None for a limit on one call. `whole` is the size of
    the limit if `most` is only the share that a caller gave to the crew `given_to`.

    `call` is what the call of `agent` needs; without an agent it is the number of runs or members to start.
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
        used = "" if self.used is None else f"; used: {amount_text(self.used, self.what)}"
        name = self.limit.partition(" of ")[0]
        return f"{name} of {self.whose} is {self._size}{used}{self._need}"

    @property
    def _size(self) -> str:
        most = amount_text(self.most, self.what)
        return (
            f"{amount_text(self.whole, self.what)}, {most} of it given to crew '{self.given_to}'"
            if self.given_to
            else most
        )

    @property
    def _need(self) -> str:
        if self.what == "errors":
            return ""
        if not self.agent:
            return f"; too little is left for {self.call} to start"
        return f"; this call of agent '{self.agent}' needs {_about(self.what)}{amount_text(self.call, self.what)}"


def amount_text(number: int, what: str) -> str:
    if what == "cost":
        return dollar_text(number)
    return f"{number:,} {_UNITS[what]}" if number != 1 else f"1 {_UNITS[what].removesuffix('s')}"


def dollar_text(micros: int) -> str:
    """The exact amount, with at least two digits."""
    whole, rest = divmod(micros, 10**_MICROS_DIGITS)
    digits = f"{rest:0{_MICROS_DIGITS}d}".rstrip("0").ljust(2, "0")
    return f"${whole:,}.{digits}"


def _about(what: str) -> str:
    """Tokens and money of a call are estimates; calls are exact."""
    return "" if what == "calls" else "about "


def owner_of(t: Transition, above: int) -> str:
    """The owner of a limit that is not an agent's: the run's own crew, or a calling crew."""
    if not above:
        return f"crew '{t.crew.name}'"
    return "the crew that called this one" if above == 1 else f"the crew {above} levels above this one"


def owner_named_in(t: Transition, refused: str, above: int) -> str:
    """The owner of a limit by its name in the store: `NAME`, `NAME of AGENT` or `NAME of crew CREW`."""
    whose = refused.partition(" of ")[2]
    if whose.startswith("crew "):
        return f"crew '{whose.removeprefix('crew ')}'"
    return f"agent '{whose}'" if whose else owner_of(t, above)


def stop_at_limit(t: Transition, short: Shortage) -> FinishRun:
    """Records that the limit is reached; returns the stage that stops the run."""
    reason = f"budget:{short.what}"
    if t.state.rules < 3:
        t.record(LimitReached(limit=short.limit))
        return FinishRun(RunStatus.STOPPED, reason, short.above)
    reached = LimitReached(
        limit=short.limit, message=short.message, most=short.most, used=short.used or 0, call=short.call
    )
    t.record(reached)
    return FinishRun(RunStatus.STOPPED, reason, short.above, short.message)
