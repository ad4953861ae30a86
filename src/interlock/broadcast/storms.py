"""Agents that wake each other for ever: bounded by how many broadcasts led to one, and by how many one agent makes.

Rule 1: what is beyond a bound is kept and reported; it reaches nobody.
Rule 2: only what somebody hears counts: a broadcast that nobody hears wakes nobody.
"""

from typing import Protocol

from interlock.limits import BROADCAST_HOPS_MAX, BROADCASTS_PER_MINUTE_MAX

MINUTE_MS = 60_000

TOO_MANY_HOPS = "hops"
TOO_OFTEN = "rate"


class Allowances(Protocol):
    """Where a store keeps how much an agent announced in its newest minute."""

    def counted(self, crew: str, agent: str) -> tuple[int, int]:
        """When its minute began, and how many there were in it."""
        ...

    def count(self, crew: str, agent: str, start: int, number: int) -> None: ...


def withheld(allowances: Allowances, *, crew: str, agent: str, hops: int, at: int) -> str:
    """Why a broadcast that somebody would hear must not reach them, or nothing. If it may, it is counted."""
    if hops > BROADCAST_HOPS_MAX:
        return TOO_MANY_HOPS
    if not agent:
        return ""
    start, number = allowances.counted(crew, agent)
    # A clock that was set back begins a new minute: otherwise it could silence an agent for hours.
    if not 0 <= at - start < MINUTE_MS:
        start, number = at, 0
    if number >= BROADCASTS_PER_MINUTE_MAX:
        return TOO_OFTEN
    allowances.count(crew, agent, start, number + 1)
    return ""


def why(reason: str) -> str:
    """For people."""
    if reason == TOO_MANY_HOPS:
        return f"more than {BROADCAST_HOPS_MAX} broadcasts led to it; agents are waking each other"
    return f"its agent made more than {BROADCASTS_PER_MINUTE_MAX} within a minute"
