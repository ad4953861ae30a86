"""A model of one simulated run: records written, acknowledged and promised, and a tally of its journal."""

from collections.abc import Iterator

from interlock.adapters.store_rules import record_format
from interlock.crew.definition import CrewDefinition
from interlock.engine.run import Run
from interlock.errors import DamagedRun, JournalDiverged
from interlock.ports import Record, SealedRecord
from interlock.runtime.runner import replay_run
from interlock.testing.simulation.laws import RecordContext, violations_of
from interlock.testing.simulation.ledger import JournalTally

Finding = tuple[str, str]


class RunModel:
    """Checks a run by the laws; every finding is a law and a text."""

    def __init__(self, crew: CrewDefinition, run: str) -> None:
        self.crew, self.run = crew, run
        self.ledger = JournalTally(run=run)
        self.shadow = Run(crew, run)
        self.owner = 0
        self.written: list[bytes] = []
        self._inherited_ms = 0
        self._acknowledged: dict[int, Record] = {}
        self._promised: dict[str, str | None] = {}

    @property
    def is_over(self) -> bool:
        return self.ledger.finished is not None

    def check_commit(self, process: int, record: Record, passed_ms: int) -> Iterator[Finding]:
        """Checks a written record by every law, and then adds it."""
        body = record_format.encode_record(record)
        if self.written and body == self.written[-1]:
            return  # a repeated append, because the first outcome was unknown
        if process != self.owner:
            yield "only the owner appends", f"process {process} appended, and {self.owner} owns the run {self.run}"
        self.written.append(body)
        try:
            step = self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        except Exception as error:  # an engine that raises breaks a law
            yield "replay gives the same", f"a replay fails at seq {record.seq}: {error!r}"
            return
        seen = RecordContext(
            crew=self.crew,
            ledger=self.ledger,
            record=record,
            facts=step.facts,
            replayed=self.shadow,
            passed_ms=self._inherited_ms + passed_ms,
        )
        yield from violations_of(seen)
        self.ledger.add(record)

    def add_inherited(self, record: Record) -> None:
        """Adds a record of the past of a fork: it was checked when it was written."""
        self.written.append(record_format.encode_record(record))
        self.shadow.apply(record.events[0])  # type: ignore[arg-type]
        self.ledger.add(record)
        self._inherited_ms = self.ledger.worked_ms

    def check_acknowledgement(self, process: int, record: Record, live: Run | None) -> Iterator[Finding]:
        """Checks an acknowledged record: the live state of the process must be that of the journal."""
        self._acknowledged[record.seq] = record
        if live is None or live.state.seq != self.shadow.state.seq or process != self.owner:
            return
        if live.snapshot() != self.shadow.snapshot():
            yield "replay gives the same", f"after seq {record.last_seq} the live state is not the replayed one"

    def record_promise(self, token: str, answer: str | None) -> None:
        """Records that an answer of a person was accepted; None if hooks of the host may have changed its words."""
        self._promised[token] = answer

    def check_journal(self, records: list[SealedRecord]) -> Iterator[Finding]:
        """Checks the whole journal, as the next process reads it."""
        bodies = [record.body for record in records]
        if bodies[: len(self.written)] != self.written:
            yield "the journal only grows", f"{len(self.written)} records were written; the journal differs"
        yield from self._check_replay(records)
        found = {record.seq: record for record in map(record_format.decode_record, bodies)}
        for seq, record in self._acknowledged.items():
            if found.get(seq) != record:
                yield "nothing acknowledged is lost", f"the record at seq {seq} was acknowledged, and is missing"
        for token, answer in self._promised.items():
            if token not in self.ledger.given or answer not in (None, self.ledger.given[token]):
                yield "nothing acknowledged is lost", f"the answer to {token} was accepted, and is missing"

    def _check_replay(self, records: list[SealedRecord]) -> Iterator[Finding]:
        try:
            record_format.tip_of(self.run, records)
            run = replay_run(self.crew, self.run, [record_format.decode_record(record.body) for record in records])
        except (DamagedRun, JournalDiverged) as error:
            yield "replay gives the same", str(error)
            return
        snapshot = run.snapshot()
        if snapshot != self.shadow.snapshot() or snapshot != Run.restore(self.crew, snapshot).snapshot():
            yield "replay gives the same", "the replayed state differs from the live one"
