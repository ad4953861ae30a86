"""Deltas: pieces of replies and lines of progress, from the process that drives a run to those who watch it.

Rule 1: a delta is never stored. Who misses one sees the whole reply, which the journal has.
Rule 2: publishing never waits and never fails. A subscriber that is slow, or away, misses deltas.
Rule 3: the deltas of one run arrive in the order in which they were published.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol


class RunDelta(NamedTuple):
    """A delta in its public form, with the seq of its run at that moment."""

    event: dict[str, Any]
    seq: int


OnRunDelta = Callable[[RunDelta], None]

# Subscribes to the deltas of every run.
ALL_RUNS = ""


class Deltas(Protocol):
    """Live deltas of runs. `wanted` is empty while there is no subscriber: then nothing need be published."""

    wanted: Collection[str]

    def publish(self, delta: RunDelta) -> None:
        """Gives a delta to the subscribers of its run, of the runs above that, and of all runs."""
        ...

    def subscribe(self, run: str, receive: OnRunDelta) -> Callable[[], None]:
        """Calls `receive` on the event loop with each delta of a run and all below it; `ALL_RUNS` is every run.

        It gets what this process publishes, and what reaches it from others. Returns a function that ends it.
        """
        ...
