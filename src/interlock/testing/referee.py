"""Sees all that happens in a simulation, from outside, and says when a law is broken.

Rule 1: it trusts what was committed, what was acknowledged and what reached the outside world, and compares them.
Rule 2: it changes nothing. The first violation is the one that counts; what follows may follow from it.
"""

import asyncio
from collections import Counter

from interlock.adapters import journal_format
from interlock.crew.definition import Crew
from interlock.engine.step import Run
from interlock.errors import DamagedRun, JournalDiverged
from interlock.ports import Record, SealedRecord
from interlock.runtime.runner import replayed
from interlock.testing.faults import Injected, Violation
from interlock.testing.laws import Seen, broken, owed
from interlock.testing.ledger import Ledger
from interlock.testing.simulated_loop import SimulatedLoop


class Referee:
    """The books of one simulated run."""

    def __init__(self, crew: Crew, run: str, loop: SimulatedLoop) -> None:
        self.crew, self.run, self._loop = crew, run, loop
        self.injected: list[Injected] = []
        self.violations: list[Violation] = []
        self.ledger = Ledger(run=run)
        self.shadow = Run(crew, run)
        self.owner = 0
        self._inherited_ms = 0
        self.is_watching = True
        self.broken: asyncio.Future[None] | None = None
        self.written: list[bytes] = []
        self._acknowledged: dict[int, Record] = {}
        self._promised: dict[str, str] = {}
        self.told: set[str] = set()
        self._started: Counter[str] = Counter()
        self.under_way: Counter[tuple[int, str]] = Counter()

    # Writing down

    def inject(self, what: str) -> None:
        self.injected.append(Injected(at_ms=self._loop.now_ms, what=what))

    def complain(self, law: str, what: str) -> None:
        if not self.is_watching:
            return
        self.violations.append(Violation(law=law, at_ms=self._loop.now_ms, what=what))
        if self.broken is not None and not self.broken.done():
            self.broken.set_result(None)

    # The journal

    def committed(self, process: int, record: Record) -> None:
        """A record was written. It is judged by every law, and then booked."""
        body = journal_format.encoded(record)
        if self.written and body == self.written[-1]:
            return  # whoever did not know whether it was written asked again
        if process != self.owner:
            self.complain("only the owner appends", f"process {process} appended, and {self.owner} owns the run")
        self.written.append(body)
        try:
            step = self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        except Exception as error:  # an engine that raises has broken a law of its own
            self.complain("replay gives the same", f"a replay fails at seq {record.seq}: {error!r}")
            return
        seen = Seen(
            crew=self.crew,
            ledger=self.ledger,
            record=record,
            facts=step.facts,
            replayed=self.shadow,
            passed_ms=self._inherited_ms + self._loop.now_ms,
        )
        for law, what in broken(seen):
            self.complain(law, what)
        self.ledger.add(record)

    def inherited(self, record: Record) -> None:
        """The past of a fork: it was judged when it happened."""
        self.written.append(journal_format.encoded(record))
        self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        self.ledger.add(record)
        self._inherited_ms = self.ledger.worked_ms

    def acknowledged(self, process: int, record: Record, live: Run | None) -> None:
        """A process believes that a record is kept; its own picture of the run must be that of the journal."""
        self._acknowledged[record.seq] = record
        if live is None or live.state.seq != self.shadow.state.seq or process != self.owner:
            return
        if live.snapshot() != self.shadow.snapshot():
            self.complain(
                "replay gives the same", f"after seq {record.last_seq} the live state is not the replayed one"
            )

    def promised(self, token: str, answer: str) -> None:
        """A person was told that her answer is taken."""
        self._promised[token] = answer

    def inspect(self, records: list[SealedRecord]) -> None:
        """The whole journal, as whoever comes next finds it."""
        bodies = [record.body for record in records]
        if bodies[: len(self.written)] != self.written:
            self.complain("the journal only grows", f"{len(self.written)} records were written; the journal differs")
        self._replay(records)
        found = {record.seq: record for record in map(journal_format.decoded, bodies)}
        for seq, record in self._acknowledged.items():
            if found.get(seq) != record:
                self.complain("nothing acknowledged is lost", f"the record at seq {seq} was acknowledged, and is gone")
        for token, answer in self._promised.items():
            if self.ledger.given.get(token) != answer:
                self.complain("nothing acknowledged is lost", f"the answer to {token} was taken, and is gone")

    def _replay(self, records: list[SealedRecord]) -> None:
        try:
            journal_format.tip_of(self.run, records)
            run = replayed(self.crew, self.run, [journal_format.decoded(record.body) for record in records])
        except (DamagedRun, JournalDiverged) as error:
            self.complain("replay gives the same", str(error))
            return
        snapshot = run.snapshot()
        if snapshot != self.shadow.snapshot() or snapshot != Run.restore(self.crew, snapshot).snapshot():
            self.complain("replay gives the same", "the state that the journal gives is not the one that was reached")

    # The outside world

    def call_starts(self, process: int, kind: str, key: str, *, repeatable: bool) -> None:
        """A model is asked or a tool is run. A process that has lost the run does not know better."""
        self._started[key] += 1
        self.under_way[process, key] += 1
        if process != self.owner:
            return
        if not self.ledger.was_ordered(key):
            self.complain("journal first, then act", f"{kind} call {key} is made, and the journal does not order it")
        if self.ledger.has_answer(key):
            self.complain("nothing finished is run again", f"{kind} call {key} is made again, and its answer is known")
        if not repeatable and self._started[key] > 1:
            self.complain(
                "a tool that is not idempotent runs once", f"{kind} call {key} is made again, and nobody said so"
            )

    def call_ends(self, process: int, key: str) -> None:
        self.under_way[process, key] -= 1

    def is_over(self) -> bool:
        return self.ledger.finished is not None

    def neglected(self, process: int) -> list[str]:
        """Calls that the run waits for, and on which the process does not work."""
        return [key for key in owed(self.shadow.state) if self.under_way[process, f"{self.run}:{key}"] <= 0]

    def leftovers(self, process: int) -> list[str]:
        """Calls that are still under way in a process."""
        return [key for (of, key), count in self.under_way.items() if of == process and count > 0]
