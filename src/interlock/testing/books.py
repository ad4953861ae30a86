"""The books of one simulated run: what was written, acknowledged and promised, and what its journal tells."""

from collections.abc import Iterator

from interlock.adapters import journal_format
from interlock.crew.definition import Crew
from interlock.engine.step import Run
from interlock.errors import DamagedRun, JournalDiverged
from interlock.ports import Record, SealedRecord
from interlock.runtime.runner import replayed
from interlock.testing.laws import Seen, broken
from interlock.testing.ledger import Ledger

Finding = tuple[str, str]


class Books:
    """Everything here is judged by the laws, and gives what they find: which law, and what."""

    def __init__(self, crew: Crew, run: str) -> None:
        self.crew, self.run = crew, run
        self.ledger = Ledger(run=run)
        self.shadow = Run(crew, run)
        self.owner = 0
        self.written: list[bytes] = []
        self._inherited_ms = 0
        self._acknowledged: dict[int, Record] = {}
        self._promised: dict[str, str] = {}

    @property
    def is_over(self) -> bool:
        return self.ledger.finished is not None

    def committed(self, process: int, record: Record, passed_ms: int) -> Iterator[Finding]:
        """A record was written. It is judged by every law, and then booked."""
        body = journal_format.encoded(record)
        if self.written and body == self.written[-1]:
            return  # whoever did not know whether it was written asked again
        if process != self.owner:
            yield "only the owner appends", f"process {process} appended, and {self.owner} owns the run {self.run}"
        self.written.append(body)
        try:
            step = self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        except Exception as error:  # an engine that raises has broken a law of its own
            yield "replay gives the same", f"a replay fails at seq {record.seq}: {error!r}"
            return
        seen = Seen(
            crew=self.crew,
            ledger=self.ledger,
            record=record,
            facts=step.facts,
            replayed=self.shadow,
            passed_ms=self._inherited_ms + passed_ms,
        )
        yield from broken(seen)
        self.ledger.add(record)

    def inherited(self, record: Record) -> None:
        """The past of a fork: it was judged when it happened."""
        self.written.append(journal_format.encoded(record))
        self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        self.ledger.add(record)
        self._inherited_ms = self.ledger.worked_ms

    def acknowledged(self, process: int, record: Record, live: Run | None) -> Iterator[Finding]:
        """A process believes that a record is kept; its own picture of the run must be that of the journal."""
        self._acknowledged[record.seq] = record
        if live is None or live.state.seq != self.shadow.state.seq or process != self.owner:
            return
        if live.snapshot() != self.shadow.snapshot():
            yield "replay gives the same", f"after seq {record.last_seq} the live state is not the replayed one"

    def promised(self, token: str, answer: str) -> None:
        """A person was told that her answer is taken."""
        self._promised[token] = answer

    def inspected(self, records: list[SealedRecord]) -> Iterator[Finding]:
        """The whole journal, as whoever comes next finds it."""
        bodies = [record.body for record in records]
        if bodies[: len(self.written)] != self.written:
            yield "the journal only grows", f"{len(self.written)} records were written; the journal differs"
        yield from self._replayed(records)
        found = {record.seq: record for record in map(journal_format.decoded, bodies)}
        for seq, record in self._acknowledged.items():
            if found.get(seq) != record:
                yield "nothing acknowledged is lost", f"the record at seq {seq} was acknowledged, and is gone"
        for token, answer in self._promised.items():
            if self.ledger.given.get(token) != answer:
                yield "nothing acknowledged is lost", f"the answer to {token} was taken, and is gone"

    def _replayed(self, records: list[SealedRecord]) -> Iterator[Finding]:
        try:
            journal_format.tip_of(self.run, records)
            run = replayed(self.crew, self.run, [journal_format.decoded(record.body) for record in records])
        except (DamagedRun, JournalDiverged) as error:
            yield "replay gives the same", str(error)
            return
        snapshot = run.snapshot()
        if snapshot != self.shadow.snapshot() or snapshot != Run.restore(self.crew, snapshot).snapshot():
            yield "replay gives the same", "the state that the journal gives is not the one that was reached"
