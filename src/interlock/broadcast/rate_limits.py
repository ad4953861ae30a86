"""Limits against agents that wake each other for ever: the hops of a broadcast, and the rate of one agent.

Rule 1: a broadcast beyond a limit is stored and reported, but not delivered.
Rule 2: only broadcasts with subscribers count: the others wake no agent.
"""

from typing import Protocol

from interlock.limits import BROADCAST_HOPS_MAX, BROADCASTS_PER_MINUTE_MAX

MINUTE_MS = 60_000

TOO_MANY_HOPS = "hops"
TOO_OFTEN = "rate"


class AnnouncementCounts(Protocol):
    """The counts of a store: how many broadcasts an agent made in its newest minute."""

    def announcement_count(self, crew: str, agent: str) -> tuple[int, int]:
        """The start of its minute, and the count in it."""
        ...

    def set_announcement_count(self, crew: str, agent: str, start: int, number: int) -> None: ...


def check_rate_limits(allowances: AnnouncementCounts, *, crew: str, agent: str, hops: int, at: int) -> str:
    """The reason why a broadcast with subscribers is refused, or empty. If it is allowed, it is counted."""
    if hops > BROADCAST_HOPS_MAX:
        return TOO_MANY_HOPS
    if not agent:
        return ""
    start, number = allowances.announcement_count(crew, agent)
    # A clock that was set back starts a new minute: otherwise it could silence an agent for hours.
    if not 0 <= at - start < MINUTE_MS:
        start, number = at, 0
    if number >= BROADCASTS_PER_MINUTE_MAX:
        return TOO_OFTEN
    allowances.set_announcement_count(crew, agent, start, number + 1)
    return ""


def describe_refusal(reason: str) -> str:
    """The refusal in words, for people."""
    if reason == TOO_MANY_HOPS:
        return f"more than {BROADCAST_HOPS_MAX} broadcasts led to it; agents are waking each other"
    return f"its agent made more than {BROADCASTS_PER_MINUTE_MAX} within a minute"
