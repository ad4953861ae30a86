"""A run that hands over all the time, as the runtime stores it."""

from itertools import count

from interlock.adapters.sqlite.store import SqliteStore
from interlock.engine.events import ModelReplied, TurnStarted, Usage
from interlock.ports import AtomicWrites, Record, RunRow
from tests.adapters.store_records import a_row, started


class HandingOver:
    """A run whose agents a and b hand over to each other."""

    def __init__(self, store: SqliteStore, run: str) -> None:
        self.store, self.row, self._steps = store, a_row(run, agent="a", updated_at=1), count(1)

    async def start(self) -> None:
        await self.store.create(self.row, started(), AtomicWrites(begun=(("a", 0),)))

    def next(self, text: str = "") -> tuple[RunRow, Record, AtomicWrites]:
        step = next(self._steps)
        old, new = ("a", "b") if step % 2 else ("b", "a")
        reply = ModelReplied(call="c", agent=old, text=text or f"reply {step}", usage=Usage())
        record = Record(seq=2 * step, at=step + 1, events=(reply, TurnStarted(agent=new, turn=step)))
        row = a_row(self.row.run, agent=new, updated_at=record.at, usage=Usage(calls=step))
        return row, record, AtomicWrites(ended=((old, 0),), begun=((new, 0),))

    async def hand_over(self, text: str = "") -> None:
        await self.store.append(*self.next(text))
