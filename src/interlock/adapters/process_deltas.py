"""`Deltas` within one process: deltas of other processes do not arrive, and their watchers get whole replies."""

from collections.abc import Callable, Collection

from interlock.ids import parent_of
from interlock.ports.processes.deltas import ALL_RUNS, OnRunDelta, RunDelta


class ProcessDeltas:
    """Calls the subscribers of a run where its delta is published."""

    def __init__(self) -> None:
        self._receivers: dict[str, list[OnRunDelta]] = {}
        self.wanted: Collection[str] = self._receivers

    def publish(self, delta: RunDelta) -> None:
        run = delta.event["run"]
        while run:
            for receive in tuple(self._receivers.get(run, ())):
                receive(delta)
            run = parent_of(run)
        for receive in tuple(self._receivers.get(ALL_RUNS, ())):
            receive(delta)

    def subscribe(self, run: str, receive: OnRunDelta) -> Callable[[], None]:
        self._receivers.setdefault(run, []).append(receive)

        def stop() -> None:
            self._receivers[run].remove(receive)
            if not self._receivers[run]:
                del self._receivers[run]

        return stop
