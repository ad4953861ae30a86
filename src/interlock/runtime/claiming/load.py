"""How much this process has to do, and how many runs it can still take.

Rule: lateness is measured by the time of the event loop, which a clock of a test does not change.
"""

from interlock.ids import parent_of
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.live_runs import LiveRuns

# No run is claimed beyond this share of the calls: those of the runs that are driven already come first.
CALLS_SHARE = 0.8

# A store that takes longer to claim a run and to read it, or a loop that is later, has too much to do.
SLOW_STORE_MS = 1_000
LATE_LOOP_MS = 250


class Load:
    """The runs and calls of this process, and how quick its store and its loop are."""

    def __init__(self, work: WorkSettings, live_runs: LiveRuns) -> None:
        self.work, self._live_runs = work, live_runs
        self._late_ms = self._claim_ms = 0.0

    def on_turn(self, took_ms: float) -> None:
        """Notes how long the loop took to come round once."""
        self._late_ms = took_ms

    def on_claimed(self, took_ms: float, runs: int) -> None:
        """Notes how long a claim took for each run: it waits in the same queue as the appends."""
        self._claim_ms = took_ms / max(1, runs)

    @property
    def runs(self) -> int:
        """The number of trees of runs that this process drives."""
        return sum(not parent_of(run) for run in self._live_runs.runs)

    @property
    def calls(self) -> int:
        """The calls of models and tools in progress."""
        return sum(len(live.begun) for live in self._live_runs.runs.values())

    def room(self) -> int:
        """How many runs can be claimed now."""
        if self._late_ms > LATE_LOOP_MS or self._claim_ms > SLOW_STORE_MS:
            self._claim_ms = 0.0  # the next claim measures it again
            return 0
        if self.calls >= CALLS_SHARE * self.work.calls_max:
            return 0
        return max(0, self.work.runs_max - self.runs)
