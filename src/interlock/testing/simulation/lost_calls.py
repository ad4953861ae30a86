"""Which calls were lost with their process, seen from outside, compared with what the journal counts."""

from collections import Counter
from collections.abc import Iterator, Mapping

from interlock.engine.state import turns_of
from interlock.testing.simulation.laws import outstanding_calls
from interlock.testing.simulation.run_model import Finding, RunModel


class LostCalls:
    """Tries of model calls that died with their process, while that process held the run."""

    def __init__(self, runs: Mapping[str, RunModel]) -> None:
        self._runs = runs
        self._holders: dict[str, int] = {}
        self._begun: Counter[str] = Counter()  # lost tries that had begun, by the key of the call
        self._deaths: Counter[str] = Counter()  # of the process that held a run

    def on_run_claimed(self, run: str, process: int) -> None:
        self._holders[run] = process

    def on_run_released(self, run: str, process: int) -> None:
        if self._holders.get(run) == process:
            del self._holders[run]

    def on_lease_ended(self, process: int, calls_made: Mapping[tuple[int, str], int]) -> None:
        for run in [run for run, holder in self._holders.items() if holder == process]:
            del self._holders[run]
            self._deaths[run] += 1
            keys = [f"{run}:{key}" for key in outstanding_calls(self._runs[run].shadow.state)]
            self._begun.update(key for key in keys if calls_made.get((process, key)))

    def check_call(self, model: RunModel, key: str) -> Iterator[Finding]:
        """Checks, when a call is made, that its lost tries are counted, each once."""
        short = model.ledger.short_key(key)
        if not any(turn.call == short and turn.reserved for turn in turns_of(model.shadow.state)):
            return
        counted, run = model.ledger.lost_calls[short], model.ledger.run
        if not self._begun[key] <= counted <= self._deaths[run]:
            what = f"{self._begun[key]} tries of call {key} were lost in {self._deaths[run]} deaths"
            yield "what was lost is counted once", f"{what}, and {counted} are counted"
