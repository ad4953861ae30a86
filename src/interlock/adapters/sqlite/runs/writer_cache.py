"""The cache of the writer beside its connection."""

from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.runs.run_head import RunHead

# Runs whose rows are cached. Released runs are removed, so only live ones count.
CACHED_RUNS_MAX = 10_000


class WriterCache:
    """The rows of live runs by their ids, the state of the bus, and the newest position of a transaction."""

    def __init__(self) -> None:
        self.heads: dict[str, RunHead] = {}
        self.bus = BusCache()
        self.newest = 0  # the position of the newest record of this transaction

    def put_head(self, run: str, head: RunHead) -> None:
        if len(self.heads) >= CACHED_RUNS_MAX:
            self.heads.clear()
        self.heads[run] = head

    def reset(self) -> None:
        self.heads.clear()
        self.bus.reset()
        self.newest = 0
