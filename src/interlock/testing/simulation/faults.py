"""Faults of a simulation: their rates, those that were injected, and violations."""

import msgspec


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of each fault, from 0 to 1. The seed decides when; `Faults.none()` has no faults.

    At every boundary (before and after a commit, before and after an effect): `crash`.
    For every call of a model: `slow`, `hanging` (no reply at all), `failing`, `refusing` (no retry helps).
    For every call of a tool: `slow`, `failing`. For every call of a hook: `hook_failing` (it raises or hangs).
    For every append: `store_away` (nothing was written), `store_unsure` (it was written, and the answer got lost).
    At each of the `moments` of the fault phase: `crash`, `stalled` (the process stands still until another has claimed
    its runs, then comes back), `duplicate` (a reply is delivered again), `clock_jump` (up to two hours either way),
    `answered` (a person answers an open wait), `repeated` (the same answer is sent up to a hundred times in parallel),
    `cancelled`, `parked` (a person stops the process, and resumes the run later), `hour_away` (the store is unavailable
    for an hour), `messaged` (the host sends a message of a type that it has registered), `lease_lost` (the lease of the
    process ends while it works, and it notices). The last four are off by default.
    """

    crash: float = 0.02
    stalled: float = 0.1
    slow: float = 0.1
    hanging: float = 0.01
    failing: float = 0.1
    refusing: float = 0.01
    hook_failing: float = 0.01
    duplicate: float = 0.3
    clock_jump: float = 0.2
    store_away: float = 0.02
    store_unsure: float = 0.02
    answered: float = 0.5
    repeated: float = 0.2
    cancelled: float = 0.02
    parked: float = 0
    hour_away: float = 0
    messaged: float = 0
    lease_lost: float = 0
    moments: int = 12
    crashes_max: int = 6

    @classmethod
    def none(cls) -> "Faults":
        rates = {name: 0 for name in cls.__struct_fields__ if name not in ("moments", "crashes_max")}
        return cls(**rates)


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """An injected fault, and its time in virtual milliseconds."""

    at_ms: int
    what: str


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A violated law, its time, and what was seen."""

    law: str
    at_ms: int
    what: str

    def __str__(self) -> str:
        return f"{self.law}: {self.what} (at {self.at_ms} ms)"
