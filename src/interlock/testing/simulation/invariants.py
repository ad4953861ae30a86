"""Observes a simulation from outside, and reports violations of laws.

Rule 1: it compares three things: committed records, acknowledgements, and calls to the outside.
Rule 2: it changes nothing. The first violation counts; later ones may follow from it.
Rule 3: every run of a tree has its own model; some laws are about the tree.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from interlock.broadcast.naming import sleep_type, wake_type
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import Usage
from interlock.engine.flow.waits import agents_at_work
from interlock.engine.run import Run
from interlock.engine.state import turns_of
from interlock.ids import parent_of, run_of
from interlock.ports import ModelRequest, Record, SealedRecord
from interlock.runtime.stored_crews import as_stored_form
from interlock.testing.simulation.faults import Injected, Violation
from interlock.testing.simulation.laws import outstanding_calls
from interlock.testing.simulation.random_model import THOUGHT, owner_of_thought
from interlock.testing.simulation.run_model import Finding, RunModel
from interlock.testing.simulation.simulated_loop import SimulatedLoop


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


class InvariantChecker:
    """Checks all laws of one simulation."""

    def __init__(self, crew: CrewDefinition, run: str, loop: SimulatedLoop) -> None:
        self.run, self._loop = run, loop
        self.crew, self.crew_sha, self.bodies = as_stored_form(crew)
        self._crews = {as_stored_form(each)[1]: each for each in self.crew.whole_tree()}
        self.runs: dict[str, RunModel] = {run: RunModel(self.crew, run)}
        self.injected: list[Injected] = []
        self.violations: list[Violation] = []
        self.is_watching = True
        self.broken: asyncio.Future[None] | None = None
        self.delivered_signals: set[str] = set()
        self._started: Counter[str] = Counter()
        # Where agents are at work by the records, and the broadcasts that follow from it; those of a record by name.
        self._at_work: dict[str, set[tuple[str, str]]] = {}
        self.presence: list[str] = []
        self.active_calls: Counter[tuple[int, str]] = Counter()
        self.lost_calls = LostCalls(self.runs)
        self.calls_made: Counter[tuple[int, str]] = Counter()  # the number of tries of each call

    @property
    def root(self) -> RunModel:
        return self.runs[self.run]

    # Writing down

    def record_fault(self, what: str) -> None:
        self.injected.append(Injected(at_ms=self._loop.now_ms, what=what))

    def report_violation(self, law: str, what: str) -> None:
        if not self.is_watching:
            return
        self.violations.append(Violation(law=law, at_ms=self._loop.now_ms, what=what))
        if self.broken is not None and not self.broken.done():
            self.broken.set_result(None)

    def _report_findings(self, findings: Iterable[Finding]) -> None:
        for law, what in findings:
            self.report_violation(law, what)

    # The journals

    def on_run_begun(self, run: str, crew_sha: str, process: int) -> None:
        if run not in self.runs:
            self.runs[run] = RunModel(self._crews[crew_sha], run)
        self.on_run_claimed(run, process)

    def on_run_claimed(self, run: str, process: int) -> None:
        self.runs[run].owner = process
        self.lost_calls.on_run_claimed(run, process)

    def on_lease_ended(self, process: int) -> None:
        """Notes what a process leaves behind that died, or that others may take for dead."""
        self.lost_calls.on_lease_ended(process, self.calls_made)

    def on_committed(self, process: int, run: str, record: Record) -> None:
        self._report_findings(self.runs[run].check_commit(process, record, self._loop.now_ms))
        self._derive_presence(run)

    def _derive_presence(self, run: str) -> None:
        """Derives who wakes and sleeps from the records alone, which the bus must say too."""
        model = self.runs[run]
        now = {(model.crew.name, agent) for agent in agents_at_work(model.shadow.state)}
        before = self._at_work.get(run, set())
        self._at_work[run] = now
        elsewhere = {each for of, agents in self._at_work.items() if of != run for each in agents}
        self.presence += sorted(sleep_type(agent) for _, agent in before - now - elsewhere)
        self.presence += sorted(wake_type(agent) for _, agent in now - before - elsewhere)

    def on_acknowledged(self, process: int, run: str, record: Record, live: Run | None) -> None:
        self._report_findings(self.runs[run].check_acknowledgement(process, record, live))

    def record_promise(self, token: str, answer: str | None) -> None:
        self.runs[run_of(token)].record_promise(token, answer)

    def check_journal(self, run: str, records: list[SealedRecord]) -> None:
        self._report_findings(self.runs[run].check_journal(records))

    # The outside world

    def on_call_started(self, process: int, kind: str, key: str, *, repeatable: bool) -> None:
        """Checks a call that starts. A process that has lost the run cannot know that, and is not checked."""
        self._started[key] += 1
        self.active_calls[process, key] += 1
        self.calls_made[process, key] += 1
        model = self.runs[run_of(key)]
        if process != model.owner:
            return
        self._report_findings(self.lost_calls.check_call(model, key))
        if not model.ledger.was_ordered(key):
            self.report_violation(
                "journal first, then act", f"{kind} call {key} is made, and the journal does not order it"
            )
        if model.ledger.is_ended(key):
            self.report_violation(
                "nothing finished is run again", f"{kind} call {key} is made, and its ending is known"
            )
        if not repeatable and self._started[key] > 1 + model.ledger.more_starts[model.ledger.short_key(key)]:
            self.report_violation(
                "a tool that is not idempotent runs once", f"{kind} call {key} is made again without an order"
            )

    def on_request(self, request: ModelRequest) -> None:
        """Checks a request: reasoning is in it only as the agent's own, and only where it called tools."""
        owner = owner_of_thought(request)
        for message in request.messages:
            blocks = message.reasoning
            is_sent_back = bool(message.tool_calls) and all(block.text.startswith(owner) for block in blocks)
            if THOUGHT in message.text or (blocks and not is_sent_back):
                what = f"call {request.key} of {request.agent} is shown reasoning: {message}"
                self.report_violation("reasoning stays with its turn", what)
        if THOUGHT in request.system:
            self.report_violation("reasoning stays with its turn", f"the instructions of {request.key} hold reasoning")

    def on_decision_started(self, process: int, key: str) -> None:
        """Notes that a process decides about a call, before it makes the call."""
        self.active_calls[process, key] += 1

    def on_call_ended(self, process: int, key: str) -> None:
        self.active_calls[process, key] -= 1

    def is_over(self) -> bool:
        return self.root.is_over

    def open_tokens(self) -> list[str]:
        """Tokens of open waits for a person, in any run of the tree."""
        return [wait.token for model in self.runs.values() for wait in model.shadow.state.waits if not wait.child]

    def find_neglected_calls(self, process: int) -> list[str]:
        """Calls that the runs wait for, and that the process does not make."""
        keys = [
            (f"{run}:{key}", f"{run}:{model.ledger.first_key(key)}")
            for run, model in self.runs.items()
            for key in outstanding_calls(model.shadow.state)
        ]
        return [key for key, first in keys if self.active_calls[process, first] <= 0]

    def calls_in_progress(self, process: int) -> list[str]:
        """Calls in progress in a process."""
        return [key for (of, key), count in self.active_calls.items() if of == process and count > 0]

    # The tree

    def check_tree(self) -> None:
        """Checks the whole tree, without faults and with the root at rest."""
        self._report_findings(self._tree_findings())

    def _tree_findings(self) -> Iterator[Finding]:
        for run, model in self.runs.items():
            status, parent = model.shadow.state.status, self.runs.get(parent_of(run))
            above = parent.shadow.state.status if parent is not None else ""
            if parent is not None and parent.is_over and not model.is_over:
                yield "nothing outlives its run", f"run {run} is {status}, and the one that called it is over"
            elif above == "paused" and status == "running":
                yield (
                    "a run is paused only when nothing in it can continue",
                    f"run {run} runs, and its caller is paused",
                )
            for token in self._orphan_tokens(model):
                yield "every wait can be answered", f"run {run} waits for {token}, which is not asked any more"
            if (spent := self._actual_usage(run)) != model.shadow.state.usage:
                yield "what children cost counts", f"run {run} says {model.shadow.state.usage}, and it was {spent}"

    def _orphan_tokens(self, model: RunModel) -> list[str]:
        """Tokens of children that the run waits for, and the children do not."""
        waits = [wait.token for wait in model.shadow.state.waits if wait.child]
        return [token for token in waits if token not in self._open_below(run_of(token))]

    def _open_below(self, run: str) -> list[str]:
        model = self.runs.get(run)
        return [wait.token for wait in model.shadow.state.waits] if model is not None else []

    def _actual_usage(self, run: str) -> Usage:
        """The cost of a run's own calls, and of its children."""
        ledger = self.runs[run].ledger
        return ledger.own_usage + ledger.usage_below
