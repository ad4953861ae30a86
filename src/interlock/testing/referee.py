"""Sees all that happens in a simulation, from outside, and says when a law is broken.

Rule 1: it trusts what was committed, what was acknowledged and what reached the outside world, and compares them.
Rule 2: it changes nothing. The first violation is the one that counts; what follows may follow from it.
Rule 3: every run of a tree has books of its own; some laws are about the tree.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from interlock.crew.definition import Crew
from interlock.engine.events import Usage
from interlock.engine.step import Run
from interlock.ids import parent_of, run_of
from interlock.ports import Record, SealedRecord
from interlock.runtime.crews import stored_form
from interlock.testing.books import Books, Finding
from interlock.testing.faults import Injected, Violation
from interlock.testing.laws import owed
from interlock.testing.simulated_loop import SimulatedLoop


class Referee:
    """The books of one simulation."""

    def __init__(self, crew: Crew, run: str, loop: SimulatedLoop) -> None:
        self.run, self._loop = run, loop
        self.crew, self.crew_sha, self.bodies = stored_form(crew)
        self._crews = {stored_form(each)[1]: each for each in self.crew.whole_tree()}
        self.books: dict[str, Books] = {run: Books(self.crew, run)}
        self.injected: list[Injected] = []
        self.violations: list[Violation] = []
        self.is_watching = True
        self.broken: asyncio.Future[None] | None = None
        self.told: set[str] = set()
        self._started: Counter[str] = Counter()
        self.under_way: Counter[tuple[int, str]] = Counter()
        self.calls_made: Counter[tuple[int, str]] = Counter()  # how often each call was made

    @property
    def root(self) -> Books:
        return self.books[self.run]

    # Writing down

    def inject(self, what: str) -> None:
        self.injected.append(Injected(at_ms=self._loop.now_ms, what=what))

    def complain(self, law: str, what: str) -> None:
        if not self.is_watching:
            return
        self.violations.append(Violation(law=law, at_ms=self._loop.now_ms, what=what))
        if self.broken is not None and not self.broken.done():
            self.broken.set_result(None)

    def _complain_of(self, findings: Iterable[Finding]) -> None:
        for law, what in findings:
            self.complain(law, what)

    # The journals

    def begun(self, run: str, crew_sha: str, process: int) -> None:
        if run not in self.books:
            self.books[run] = Books(self._crews[crew_sha], run)
        self.books[run].owner = process

    def claimed(self, run: str, process: int) -> None:
        self.books[run].owner = process

    def committed(self, process: int, run: str, record: Record) -> None:
        self._complain_of(self.books[run].committed(process, record, self._loop.now_ms))

    def acknowledged(self, process: int, run: str, record: Record, live: Run | None) -> None:
        self._complain_of(self.books[run].acknowledged(process, record, live))

    def promised(self, token: str, answer: str) -> None:
        self.books[run_of(token)].promised(token, answer)

    def inspect(self, run: str, records: list[SealedRecord]) -> None:
        self._complain_of(self.books[run].inspected(records))

    # The outside world

    def call_starts(self, process: int, kind: str, key: str, *, repeatable: bool) -> None:
        """A model is asked or a tool is run. A process that has lost the run does not know better."""
        self._started[key] += 1
        self.under_way[process, key] += 1
        self.calls_made[process, key] += 1
        books = self.books[run_of(key)]
        if process != books.owner:
            return
        if not books.ledger.was_ordered(key):
            self.complain("journal first, then act", f"{kind} call {key} is made, and the journal does not order it")
        if books.ledger.is_ended(key):
            self.complain("nothing finished is run again", f"{kind} call {key} is made, and its ending is known")
        if not repeatable and self._started[key] > 1 + books.ledger.more_starts[books.ledger.short(key)]:
            self.complain(
                "a tool that is not idempotent runs once", f"{kind} call {key} is made again, and nobody said so"
            )

    def call_ends(self, process: int, key: str) -> None:
        self.under_way[process, key] -= 1

    def is_over(self) -> bool:
        return self.root.is_over

    def open_tokens(self) -> list[str]:
        """What somebody could answer, in any run of the tree."""
        return [wait.token for books in self.books.values() for wait in books.shadow.state.waits if not wait.child]

    def neglected(self, process: int) -> list[str]:
        """Calls that the runs wait for, and on which the process does not work."""
        keys = [f"{run}:{key}" for run, books in self.books.items() for key in owed(books.shadow.state)]
        return [key for key in keys if self.under_way[process, key] <= 0]

    def leftovers(self, process: int) -> list[str]:
        """Calls that are still under way in a process."""
        return [key for (of, key), count in self.under_way.items() if of == process and count > 0]

    # The tree

    def judge_tree(self) -> None:
        """Nothing disturbs it, and the root rests."""
        self._complain_of(self._of_tree())

    def _of_tree(self) -> Iterator[Finding]:
        for run, books in self.books.items():
            status, parent = books.shadow.state.status, self.books.get(parent_of(run))
            above = parent.shadow.state.status if parent is not None else ""
            if parent is not None and parent.is_over and not books.is_over:
                yield "nothing outlives its run", f"run {run} is {status}, and the one that called it is over"
            elif above == "paused" and status == "running":
                yield "a run is paused only when nothing in it can go on", f"run {run} runs, and its caller is paused"
            for token in self._asked_in_vain(books):
                yield "whoever waits can be answered", f"run {run} waits for {token}, which nobody asks for any more"
            if (spent := self._spent(run)) != books.shadow.state.usage:
                yield "what children cost counts", f"run {run} says {books.shadow.state.usage}, and it was {spent}"

    def _asked_in_vain(self, books: Books) -> list[str]:
        """Tokens of children that the run waits for, and they do not."""
        waits = [wait.token for wait in books.shadow.state.waits if wait.child]
        return [token for token in waits if token not in self._open_below(run_of(token))]

    def _open_below(self, run: str) -> list[str]:
        books = self.books.get(run)
        return [wait.token for wait in books.shadow.state.waits] if books is not None else []

    def _spent(self, run: str) -> Usage:
        """What a run's own calls cost, and what its caller was told of its children."""
        ledger = self.books[run].ledger
        return ledger.own_usage + ledger.usage_below
