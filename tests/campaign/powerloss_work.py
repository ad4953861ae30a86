"""What a store is asked to do while its disk takes notes, and what it must then hold.

Rule 1: the ledger works out by itself what the store holds after every single thing it was asked for.
Rule 2: of everything asked for it notes at which moment of the disk's log it was asked, and when it was acknowledged.
Rule 3: work is drawn from a seed. How the store groups it into transactions is left to its thread, as in real life.
"""

import asyncio
from collections.abc import Awaitable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from interlock.adapters.sqlite import database, log_backlog
from interlock.adapters.sqlite.runs import tail
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules import record_format
from interlock.engine.events import ModelReplied, RunStarted, TurnStarted, Usage
from interlock.errors import StoreFailed
from interlock.ports import AtomicWrites, Record, RunRow, SealedRecord
from tests.campaign.powerloss_disk import Disk, Made, Synced

STEPS = 60

# Small, so that the log of SQLite starts anew and is cut every few steps instead of every 4 and 64 MB.
LOG_BYTES, LOG_BYTES_MAX = 100_000, 100_000

# Rows, places and the table of active agents follow closely behind the records.
TAIL_MAX = 7

# With durability "normal", as the seed has it: a checkpoint after every transaction, sometimes, or with a long log.
NORMAL_SYNC_S = (0.0, 0.01, 1_000.0)


class Held(NamedTuple):
    """All that a store holds, but for the bodies of records."""

    runs: tuple[tuple[object, ...], ...] = ()  # run, status, seq, epoch, updated_at
    tombstones: tuple[tuple[object, ...], ...] = ()  # run, seq, link
    crews: tuple[str, ...] = ()
    order: tuple[tuple[str, int], ...] = ()  # of the records of all runs together: run, seq
    broadcasts: tuple[str, ...] = ()  # the types of all, in order; they are derived from the records
    at_work: tuple[tuple[str, tuple[str, ...]], ...] = ()  # agents, each with its runs


class Ledger:
    """The `n`-th state is what the store holds after the first `n` things it was asked for."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.rows: dict[str, RunRow] = {}
        self.written: dict[str, list[SealedRecord]] = {}
        self.tombstones: dict[str, tuple[object, ...]] = {}
        self.crews: list[str] = []
        self.order: list[tuple[str, int]] = []
        self.broadcasts: list[str] = []
        self.at_work: dict[str, set[str]] = {}
        self.states: dict[Held, int] = {Held(): 0}
        self.asked_at: list[int] = []
        self.acknowledged: list[tuple[int, int]] = []  # moment, and how many things are acknowledged from then on

    def append(self, row: RunRow, record: Record) -> None:
        chain = self.written.setdefault(row.run, [])
        previous = chain[-1].link if chain else record_format.first_link(row.run)
        chain.append(record_format.seal_record(record.seq, record_format.encode_record(record), previous))
        self.order.append((row.run, record.seq))
        self.rows[row.run] = msgspec.structs.replace(row, seq=record.last_seq)

    def change(self, run: str, ended: str, begun: str) -> None:
        """Agents with names of one letter, as `RunStarted` and turns change them."""
        for agent in ended:
            self.at_work[agent].remove(run)
            self.broadcasts += [] if self.at_work[agent] else [f"agent:{agent}:sleep"]
        for agent in begun:
            self.broadcasts += [] if self.at_work.get(agent) else [f"agent:{agent}:wake"]
            self.at_work.setdefault(agent, set()).add(run)

    def claim(self, run: str) -> None:
        self.rows[run] = msgspec.structs.replace(self.rows[run], epoch=self.rows[run].epoch + 1)

    def delete(self, run: str) -> None:
        self.tombstones[run] = (run, self.rows.pop(run).seq, self.written[run][-1].link)
        self.order = [each for each in self.order if each[0] != run]
        for runs in self.at_work.values():
            runs.discard(run)

    def asked(self) -> None:
        """Whatever was noted since the last time is one thing that the store is asked for, now."""
        self.asked_at.append(len(self.disk.log))
        runs = tuple(shown(row) for _, row in sorted(self.rows.items()))
        tombstones = tuple(left for _, left in sorted(self.tombstones.items()))
        at_work = tuple((agent, tuple(sorted(runs))) for agent, runs in sorted(self.at_work.items()) if runs)
        held = Held(runs, tombstones, tuple(sorted(self.crews)), tuple(self.order), tuple(self.broadcasts), at_work)
        assert held not in self.states, "everything asked for changes something, so states can be told apart"
        self.states[held] = len(self.asked_at)

    async def told(self, work: Awaitable[Any]) -> None:
        """Waits for what `asked` has just noted."""
        number = len(self.asked_at)
        await work
        self.acknowledged.append((len(self.disk.log), number))

    def acknowledged_by(self, moment: int) -> int:
        return max((number for at, number in self.acknowledged if at <= moment), default=0)

    def asked_by(self, moment: int) -> int:
        return sum(at <= moment for at in self.asked_at)

    def log_synced_by(self, moment: int) -> int:
        """The moment of the last sync of SQLite's log."""
        inodes = {entry.inode for entry in self.disk.log if isinstance(entry, Made) and entry.name.endswith(".db-wal")}
        syncs = (
            n
            for n in range(moment, 0, -1)
            if isinstance(entry := self.disk.log[n - 1], Synced) and entry.inode in inodes
        )
        return next(syncs, 0)


def shown(row: RunRow) -> tuple[object, ...]:
    return row.run, row.status, row.seq, row.epoch, row.updated_at


class Work:
    """One seeded story of one data folder, over several openings of its store."""

    def __init__(self, disk: Disk, seed: int, durability: str, kind: type[SqliteStore] = SqliteStore) -> None:
        self.disk, self.random, self.durability, self.kind = disk, Random(seed), durability, kind
        self.ledger = Ledger(disk)
        self.made = 0
        self.store: SqliteStore

    async def play(self, steps: int = STEPS) -> None:
        """Ends early, as a program does, when the store fails."""
        self.open()
        try:
            for _ in range(3):
                await self.create()
            for n in range(steps):
                await self.step()
                if n % 25 == 24:
                    await self.store.close()
                    self.open()
        finally:
            await self.store.close()

    def open(self) -> None:
        self.store = self.kind(self.disk.folder, durability=self.durability, connect=self.disk.connect)

    async def step(self) -> None:
        steps = (self.append, self.together, self.create, self.large, self.claim, self.delete, self.crew, self.look)
        await self.random.choices(steps, weights=(40, 15, 8, 8, 8, 4, 4, 8))[0]()

    async def create(self) -> None:
        self.made += 1
        row = RunRow(run=f"r{self.made}", crew="quiz", crew_sha="0", status="running")
        record = Record(seq=1, at=1, events=(RunStarted(crew="quiz", input="go", rules=1),))
        self.ledger.append(row, record)
        self.ledger.asked()
        await self.ledger.told(self.store.create(row, record))

    async def append(self, length: int = 200) -> None:
        before = self.ledger.rows[self.some_run()]
        record = self.record(before.seq + 1, length)
        row = msgspec.structs.replace(before, status=self.random.choice(("running", "paused")), updated_at=record.seq)
        also = self.presence(row.run, record)
        self.ledger.append(row, record)
        self.ledger.asked()
        await self.ledger.told(self.store.append(row, record, also))

    def presence(self, run: str, record: Record) -> AtomicWrites:
        """Who ends and begins work with a record: those that its turns tell, or any."""
        mine = "".join(agent for agent, runs in sorted(self.ledger.at_work.items()) if run in runs)
        turns = "".join(each.agent for each in record.events if isinstance(each, TurnStarted))
        ended = "".join(agent for agent in mine if turns or self.random.random() < 0.2)
        begun = "".join(agent for agent in turns if agent not in mine or agent in ended)
        ended, begun = (
            "".join(agent for agent in ended if agent not in begun),
            "".join(agent for agent in begun if agent not in ended),
        )
        self.ledger.change(run, ended, begun)
        return AtomicWrites(ended=tuple((each, 0) for each in ended), begun=tuple((each, 0) for each in begun))

    async def large(self) -> None:
        await self.append(self.random.randint(5_000, 50_000))

    async def together(self) -> None:
        done = await asyncio.gather(*(self.append() for _ in range(self.random.randint(2, 20))), return_exceptions=True)
        for failure in done:
            if failure is not None:
                raise failure

    async def claim(self) -> None:
        """Also releases it, which shows nowhere."""
        run = self.some_run()
        self.ledger.claim(run)
        self.ledger.asked()
        await self.ledger.told(self.store.claim(run))
        await self.store.release(run)

    async def delete(self) -> None:
        if len(self.ledger.rows) > 2:
            run = self.some_run()
            self.ledger.delete(run)
            self.ledger.asked()
            await self.ledger.told(self.store.delete_run(run, at=1))

    async def crew(self) -> None:
        body = self.random.randbytes(2_000)
        sha = sha256(body).hexdigest()
        self.ledger.crews.append(sha)
        self.ledger.asked()
        await self.ledger.told(self.store.put_crew(sha, body))

    async def look(self) -> None:
        """Readers decide how much of SQLite's log may be used anew."""
        await self.store.records(self.some_run())

    def some_run(self) -> str:
        return self.random.choice(list(self.ledger.rows))

    def record(self, seq: int, length: int) -> Record:
        text = self.random.randbytes(length // 2).hex()
        reply = ModelReplied(call="c", agent="a", text=text, usage=Usage())
        turns = tuple(TurnStarted(agent=agent, turn=1) for agent in self.random.choice(("", "a", "b", "c", "ab")))
        return Record(seq=seq, at=seq, events=((reply,) * self.random.choice((1, 1, 3)) + turns))


def played(
    folder: Path, seed: int, durability: str, *, kind: type[SqliteStore] = SqliteStore, steps: int = STEPS, **dials: Any
) -> tuple[Ledger, StoreFailed | None]:
    """A story told to its end, or to the failure that ended it."""
    folder.mkdir(parents=True)
    disk = Disk(folder, **dials)
    work = Work(disk, seed, durability, kind)
    with (
        mock.patch.object(database, "LOG_BYTES_MAX", LOG_BYTES_MAX),
        mock.patch.object(log_backlog, "LOG_BYTES", LOG_BYTES),
        mock.patch.object(tail, "TAIL_MAX", TAIL_MAX),
        mock.patch.object(log_backlog, "NORMAL_SYNC_S", NORMAL_SYNC_S[seed % 3]),
        disk.recording(),
    ):
        try:
            asyncio.run(work.play(steps))
        except StoreFailed as failure:
            return work.ledger, failure
        finally:
            disk.release()
    return work.ledger, None
