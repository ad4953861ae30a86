"""The journal and the owners of runs, in one SQLite database and a few lock files in a data folder.

Rule 1: this process writes by one connection and reads by another; `sqlite_writer` has the rules of writing.
Rule 2: reading is done in a thread of its own, and several queries of one piece of work see one state.
Rule 3: nothing here crosses a fork.
"""

import asyncio
import ctypes
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from interlock.adapters import (
    alongside_sqlite,
    data_folder,
    journal_format,
    keeping_sqlite,
    migrations,
    sqlite_rows,
    store_checks,
)
from interlock.adapters.compacting_sqlite import compact
from interlock.adapters.data_folder import DATABASE as DATABASE
from interlock.adapters.folder_counts import folder_counts
from interlock.adapters.migrations import Connect
from interlock.adapters.mounts import require_local
from interlock.adapters.newest_mark import NewestMark, Reached
from interlock.adapters.owner_files import OWNERS as OWNERS
from interlock.adapters.owner_files import OwnerFile, folder_locked, remove_dead_owners
from interlock.adapters.owner_files import is_alive as is_alive
from interlock.adapters.private_files import make_private_folder
from interlock.adapters.question_tables import QuestionTables
from interlock.adapters.schedule_tables import ScheduleTables
from interlock.adapters.server_tables import ServerTables
from interlock.adapters.spent_tables import SpentTables
from interlock.adapters.sqlite_failures import as_store_failed, is_corrupt
from interlock.adapters.sqlite_writer import Work, Writer
from interlock.errors import DamagedRun, NotOwner, StoreBroken, StoreFailed, UsageError
from interlock.ports import (
    NOTHING_ELSE,
    Alongside,
    Appended,
    FolderCounts,
    Grant,
    Outgoing,
    Record,
    Reservation,
    RunRow,
    SealedRecord,
    SealedTree,
    Settlement,
    StoredRecord,
    Tombstone,
)

T = TypeVar("T")
Query = Callable[[sqlite3.Connection], T]
Placed = tuple[int, str, SealedRecord]  # a record with its position and its run

DURABILITIES = ("full", "normal")  # also the words of SQLite's `synchronous`

# Of pages that the writer keeps. Ids of runs and of what they announce grow with time, so writing touches the newest
# pages of every index; more than this only makes a server seem to grow for days, until its cache is full.
CACHE_KB = 4 * 1024

# The write-ahead log is cut back to this size when a long reader has let it grow.
LOG_BYTES_MAX = 64 * 1024 * 1024


def abandon(connection: sqlite3.Connection) -> None:
    """Never closes it: closing would write to files that belong to somebody else by now."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_open_stores: "WeakSet[SqliteStore]" = WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_open_stores):
        store.disown()


os.register_at_fork(after_in_child=_after_fork_in_child)


class SqliteStore(ServerTables, QuestionTables, SpentTables, ScheduleTables):
    """`Journal` and `Owners` in a data folder, and with `ServerTables` what a server keeps there.

    With durability "full" an acknowledged record survives the loss of power. With "normal" it survives the death of
    the process, but a loss of power takes what was acknowledged since the last checkpoint: one is made every second,
    and after about 4 MB of log. What is lost is the newest of all runs together, never something in
    the middle, and the database stays sound.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        durability: str = "full",
        accepts_loss: bool = False,
        connect: Connect = migrations.connect,
    ) -> None:
        """Makes the folder and the database if there are none; `StoreFailed`, and nothing changed, if it cannot.

        `RecordsMissing` for a database that lacks what it was known to hold, unless the loss is accepted.
        `connect` makes every connection; tests of faults hand in their own.
        """
        if durability not in DURABILITIES:
            raise UsageError(f"there is no durability '{durability}'; use one of {', '.join(DURABILITIES)}")
        self._set_up(folder, connect)
        path = self.folder / DATABASE
        with as_store_failed(f"open the data folder '{self.folder}'"):
            _make_folders(self.folder)
            require_local(self.folder)
            with folder_locked(self.folder):
                marked = data_folder.read_reached(self.folder, connect, accepts_loss or durability == "normal")
                self._reading, self._writing, self._mark = _joined(path, durability, connect, marked)
                remove_dead_owners(self.folder)
                self._owner = OwnerFile(self.folder)
        self._writer = Writer(self._writing, path, durability, self._mark)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="interlock-reader")
        _open_stores.add(self)

    def _set_up(self, folder: str | os.PathLike[str], connect: Connect) -> None:
        self.folder = Path(folder).absolute()
        self._pid = os.getpid()
        self._closed = False
        self._connect, self._mode = connect, "rw"
        self._more: list[sqlite3.Connection] = []

    @property
    def owner(self) -> str:
        """The id under which this store owns runs."""
        return self._owner.id

    async def create(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        """The run belongs to this store, under `row.epoch`."""
        body = journal_format.encoded(record)
        work = partial(sqlite_rows.create, row=row, record=record, body=body, owner=self.owner, also=also)
        return await self._write(f"store the new run '{row.run}'", work, len(body))

    async def append(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        """Of the row only status, reason, agent, usage and `updated_at` are taken: the rest is fixed at creation."""
        body = journal_format.encoded(record)
        work = partial(sqlite_rows.append, row=row, record=record, body=body, also=also)
        return await self._write(f"append to run '{row.run}'", work, len(body))

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        def work(connection: sqlite3.Connection, _tips: sqlite_rows.Tips) -> tuple[Grant, ...]:
            if sqlite_rows.kept(connection, row.run).tip.epoch != row.epoch:
                raise NotOwner(row.run)
            return alongside_sqlite.carry_out_spending(connection, orders)

        return await self._write("reserve room in a budget", work)

    async def pending(self, run: str | None = None) -> Sequence[Outgoing]:
        return await self._read("read what is to go out", partial(alongside_sqlite.pending, run=run))

    async def delivered(self, key: str) -> None:
        def work(connection: sqlite3.Connection, _tips: sqlite_rows.Tips) -> None:
            alongside_sqlite.delivered(connection, key=key)

        await self._write("strike off what went out", work)

    async def claim(self, run: str) -> int:
        work = partial(sqlite_rows.claim, run=run, owner=self.owner, folder=self.folder)
        return await self._write(f"claim run '{run}'", work)

    async def release(self, run: str) -> None:
        """Nothing happens to a run that is not this store's."""
        await self._write(f"release run '{run}'", partial(sqlite_rows.release, run=run, owner=self.owner))

    async def is_owned(self, run: str) -> bool:
        def found(connection: sqlite3.Connection) -> bool:
            owner = sqlite_rows.kept(connection, run).owner
            return owner != "" and is_alive(self.folder, owner)

        return await self._read(f"see who works on run '{run}'", found)

    async def put_crew(self, sha: str, body: bytes) -> None:
        journal_format.require_sha(sha, body)
        await self._write("store a crew", partial(sqlite_rows.put_crew, sha=sha, body=body), len(body))

    async def add(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        """Status, reason, agent and usage are the row's; seq and link are those of the records."""
        tip = journal_format.tip_of(row.run, records)
        work = partial(sqlite_rows.add, row=row, records=records, tip=tip)
        await self._write(f"store the whole run '{row.run}'", work, sum(len(record.body) for record in records))

    async def delete(self, run: str, at: int) -> Tombstone:
        work = partial(sqlite_rows.delete, run=run, at=at, owner=self.owner, folder=self.folder)
        return await self._write(f"delete run '{run}'", work)

    async def add_tree(self, tree: SealedTree) -> None:
        """As `add`, and in one transaction."""
        chains = zip(tree.rows, tree.chains(), strict=True)
        ends = [journal_format.tip_of(row.run, chain) for row, chain in chains]
        work = partial(sqlite_rows.add_tree, tree=tree, ends=ends)
        size = sum(len(record.body) for _, record in tree.records)
        await self._write(f"store the whole run '{tree.rows[0].run}' with its children", work, size)

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        work = partial(sqlite_rows.delete_tree, run=run, at=at, owner=self.owner, folder=self.folder)
        return await self._write(f"delete run '{run}' with its children", work)

    async def finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        work = partial(keeping_sqlite.finished_before, before=before, after=after, limit=limit)
        return await self._read("list finished runs", work)

    async def expire_tombstones(self, before: int) -> int:
        def work(connection: sqlite3.Connection, _tips: sqlite_rows.Tips) -> int:
            return keeping_sqlite.expire_tombstones(connection, before=before)

        return await self._write("forget deleted runs", work)

    async def limit_bytes(self, bytes_max: int) -> None:
        """The database grows no further than this, until the limit is set anew or the store is opened again."""
        await self._write("limit the database", partial(sqlite_rows.limit_bytes, bytes_max=bytes_max))

    async def row(self, run: str) -> RunRow:
        return await self._read(f"read run '{run}'", partial(sqlite_rows.row, run=run))

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        """Without runs whose row is damaged, which reading them and `problems` report."""
        assert limit > 0, "callers bound their pages"
        work = partial(sqlite_rows.rows, status=status, crew=crew, limit=limit, before=before, nested=nested)
        return await self._read("list runs", work)

    async def folder_counts(self) -> FolderCounts:
        return await self._read("count what is in the folder", folder_counts)

    async def below(self, run: str) -> Sequence[RunRow]:
        return await self._read(f"list the children of run '{run}'", partial(sqlite_rows.below, run=run))

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        work = partial(sqlite_rows.tree, run=run, after=after, position=position)
        found = await self._read(f"read the journals of run '{run}' and its children", work)
        return [
            StoredRecord(position=position, run=of, record=journal_format.opened(of, stored))
            for position, of, stored in found
        ]

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        def verified(connection: sqlite3.Connection) -> tuple[Record, ...]:
            found = _stretch(connection, run, after, limit)
            connection.execute("commit")  # checking takes longer than reading, and a reader holds up the log
            return journal_format.opened_chain(run, *found)

        return await self._read(f"read the journal of run '{run}'", verified)

    async def whole(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        def verified(connection: sqlite3.Connection) -> tuple[RunRow, Sequence[Record]]:
            row, found = sqlite_rows.row(connection, run=run), _stretch(connection, run)
            connection.execute("commit")  # as above
            return row, journal_format.opened_chain(run, *found)

        return await self._read(f"read the journal of run '{run}'", verified)

    async def sealed(self, run: str) -> Sequence[SealedRecord]:
        def verified(connection: sqlite3.Connection) -> list[SealedRecord]:
            found = _stretch(connection, run)
            journal_format.opened_chain(run, *found)
            return found.stored

        return await self._read(f"read the journal of run '{run}'", verified)

    async def sealed_tree(self, run: str) -> SealedTree:
        def verified(connection: sqlite3.Connection) -> SealedTree:
            found = sqlite_rows.tree_stretch(connection, run=run)
            tree = SealedTree(rows=tuple(found.rows), records=tuple(found.records))
            for row, chain, tip in zip(found.rows, tree.chains(), found.tips, strict=True):
                journal_format.opened_chain(row.run, chain, journal_format.start_of(row.run), tip)
            return tree

        return await self._read(f"read the journals of run '{run}' and its children", verified)

    async def tombstones(self) -> Sequence[Tombstone]:
        return await self._read("read tombstones", keeping_sqlite.tombstones)

    async def problems(self) -> Sequence[str]:
        """What is wrong with the whole database; reads every page."""
        return await self._read("check the database", store_checks.problems)

    async def backup(self, file: Path) -> None:
        """A whole, sound copy of the database as it is at one moment, while others go on writing."""
        self._require_usable()
        with as_store_failed(f"write the backup '{file}'"):
            await asyncio.to_thread(keeping_sqlite.back_up, self.folder / DATABASE, self._mode, file, self._connect)

    async def compact(self) -> tuple[int, int]:
        """Gives the space of what was deleted back to the disk; the sizes before and after, in bytes.

        While it works no process can write to the folder: live runs are held until it is done.
        """
        self._require_usable()
        with as_store_failed(f"compact the data folder '{self.folder}'"):
            return await asyncio.to_thread(compact, self.folder / DATABASE, self.owner, self._connect)

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """The records of all runs after a position, in order; without damaged ones, which reading their run reports."""
        assert limit > 0, "callers bound their pages"
        return await self._page(position, partial(sqlite_rows.after_position, limit=limit), "read records")

    async def of_run(self, run: str, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """As `since`, and only what belongs to one run and those below it."""
        work = partial(sqlite_rows.of_run, run=run, limit=limit)
        return await self._page(position, work, f"read records of run '{run}'")

    async def _page(self, position: int, work: Callable[..., list[Placed]], doing: str) -> Sequence[StoredRecord]:
        """The first page that is not all damaged: an empty one would say that there is nothing more."""
        while found := await self._read(doing, partial(work, position=position)):
            opened = ((at, of, journal_format.opened_or_none(of, stored)) for at, of, stored in found)
            if kept := [StoredRecord(position=at, run=of, record=it) for at, of, it in opened if it is not None]:
                return kept
            position = found[-1][0]
        return []

    async def newest_position(self) -> int:
        return await self._read("read the newest position", sqlite_rows.newest_position)

    async def crew(self, sha: str) -> bytes:
        return await self._read("read a crew", partial(sqlite_rows.crew, sha=sha))

    async def close(self) -> None:
        """All that was asked for is done first. Runs of this store can be claimed by others from now on.

        `StoreFailed` if the disk did not keep what was written, also if somebody was told so before: with durability
        "normal" what was acknowledged since the last checkpoint may be lost.
        """
        self._require_this_process()
        if self._closed:
            return
        self._closed = True
        self._writer.hand_over()
        with as_store_failed(f"close the data folder '{self.folder}'"):
            await asyncio.get_running_loop().run_in_executor(self._reader, self._finish)
        self._reader.shutdown(wait=False)
        self._require_unbroken()

    def disown(self) -> None:
        """In a forked child: lets go of everything without touching what the parent uses."""
        for connection in (self._reading, self._writing, *self._more):
            abandon(connection)
        self._mark.let_go()
        with suppress(OSError):
            os.close(self._owner.descriptor)

    def _finish(self) -> None:
        self._writer.stop()
        for connection in (self._reading, self._writing):
            if self._writer.broken is None:
                connection.close()
            else:
                abandon(connection)
        _open_stores.discard(self)
        self._mark.close()
        self._owner.close()

    def _require_this_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreFailed("the store was opened before a fork and cannot be used after it; open it in the child")

    def _require_usable(self) -> None:
        self._require_this_process()
        if self._closed:
            raise StoreFailed(f"the store in '{self.folder}' is closed; open it again")
        self._require_unbroken()

    def _require_unbroken(self) -> None:
        if self._writer.broken is not None:
            raise StoreBroken(self._writer.broken)

    async def write(self, doing: str, work: Work[T], size: int = 0) -> T:
        """For whoever keeps something else in the same database, such as the bus."""
        return await self._write(doing, work, size)

    async def read(self, doing: str, work: Query[T]) -> T:
        return await self._read(doing, work)

    def version(self) -> int | None:
        """A number that changes when another process has committed; None while that cannot be told."""
        return None if self._closed else self._writer.version()

    def one_more_connection(self) -> sqlite3.Connection:
        """To read with, in a thread of the caller's; it is let go of in a forked child like the others."""
        self._require_usable()
        connection = self._connect(self.folder / DATABASE, "rw")
        connection.execute("pragma query_only = on")
        self._more.append(connection)
        return connection

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T:
        self._require_usable()
        return await self._writer.write(doing, work, size)

    async def _read(self, doing: str, work: Query[T]) -> T:
        self._require_usable()
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read_now, doing, work)

    def _read_now(self, doing: str, work: Query[T]) -> T:
        """Several queries of one piece of work see one state."""
        with as_store_failed(doing):
            self._reading.execute("begin")
            try:
                return work(self._reading)
            finally:
                with suppress(sqlite3.Error):
                    if self._reading.in_transaction:
                        self._reading.execute("commit")


def _joined(
    path: Path, durability: str, connect: Connect, marked: Reached | None
) -> tuple[sqlite3.Connection, sqlite3.Connection, NewestMark]:
    """One connection to read with and one to write with, to a sound database of the newest schema, and its mark."""
    if not migrations.exists(path):
        migrations.make_database(path, connect)
    reading, writing = connect(path, "rw"), connect(path, "rw")
    try:
        migrations.require_ours(writing, path)
        migrations.require_sound(writing, path)
        for setting in _settings(durability):
            writing.execute(f"pragma {setting}").fetchone()
        migrations.migrate(writing)
        reading.execute("pragma query_only = on")
        return reading, writing, data_folder.open_mark(path.parent, writing, marked)
    except BaseException:
        reading.close()
        writing.close()
        raise


def _settings(durability: str) -> tuple[str, ...]:
    """Checkpoints are the writer's business: SQLite would make them during a commit, and tell nobody of a failure."""
    log = (f"journal_size_limit = {LOG_BYTES_MAX}", "wal_autocheckpoint = 0")
    return ("journal_mode = wal", f"synchronous = {durability}", f"cache_size = -{CACHE_KB}", *log)


def _stretch(connection: sqlite3.Connection, run: str, after: int = 0, limit: int | None = None) -> sqlite_rows.Stretch:
    try:
        return sqlite_rows.stretch(connection, run=run, after=after, limit=limit)
    except sqlite3.DatabaseError as error:
        if is_corrupt(error):
            raise DamagedRun(run, str(error)) from error
        raise


def _make_folders(folder: Path) -> None:
    data_folder.tighten_data(folder)
    for each in make_private_folder(folder / OWNERS):
        migrations.sync_folder(each.parent)
