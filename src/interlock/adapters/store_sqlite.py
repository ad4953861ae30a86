"""The journal and the owners of runs, in one SQLite database and a few lock files in a data folder.

Rule 1: one thread writes. What was asked for meanwhile goes into one transaction, and is acknowledged after its commit.
Rule 2: a piece of work refuses before its first write, so that a refusal leaves the others in its transaction alone.
Rule 3: nobody opens or copies the database's files in this process: closing any descriptor of them would drop SQLite's
locks, and another process would delete the write-ahead log under us. So its inode is compared before acknowledging.
Rule 4: a failed fsync is final. What the disk then holds is unknown, so nothing is acknowledged any more.
Rule 5: nothing here crosses a fork.
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from interlock.adapters import journal_format, keeping_sqlite, migrations
from interlock.adapters.crash_points import crash_point
from interlock.adapters.journal_format import Tip
from interlock.engine.events import Usage
from interlock.errors import (
    DamagedRun,
    OwnedElsewhere,
    RunError,
    RunExists,
    RunNotFound,
    StorageFull,
    StoreFailed,
    UsageError,
)
from interlock.ports import Record, RunRow, SealedRecord, StoredRecord, Tombstone

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

DATABASE = "interlock.db"
LOCK = "interlock.lock"
OWNERS = "owners"
DURABILITIES = ("full", "normal")  # also the words of SQLite's `synchronous`

# One transaction holds at most this much work, so that the first to ask does not wait for thousands of others.
BATCH_MAX = 1_000

# Opening takes milliseconds; whoever holds the folder's lock for longer is stuck.
LOCK_WAIT_S = 5.0

# With durability "normal": how old a commit may get before it is forced to the disk.
NORMAL_SYNC_S = 1.0

# The write-ahead log is cut back to this size when a long reader has let it grow.
LOG_BYTES_MAX = 64 * 1024 * 1024

FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
FINAL = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}

ROW_COLUMNS = (
    "run, crew, crew_sha, status, reason, agent, seq, epoch, created_at, updated_at, continues, organization, "
    "calls, input_tokens, output_tokens, cost_micros"
)


@contextmanager
def as_store_failed(doing: str) -> Iterator[None]:
    """Errors of SQLite and of the file system stop here."""
    try:
        yield
    except sqlite3.Error as error:
        kind = StorageFull if getattr(error, "sqlite_errorcode", None) in FULL else StoreFailed
        raise kind(f"could not {doing}: {error}") from error
    except OSError as error:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreFailed
        raise kind(f"could not {doing}: {error.strerror}") from error
    except (OverflowError, UnicodeError) as error:  # a value that SQLite cannot hold
        raise StoreFailed(f"could not {doing}: {error}") from error


def abandon(connection: sqlite3.Connection) -> None:
    """Never closes it: closing would write to files that belong to somebody else by now."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


# Who is alive


class OwnerFile:
    """A file that is locked for as long as its owner lives; the system lets go of it whatever way that ends."""

    def __init__(self, folder: Path) -> None:
        self.id = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._path = _owner_path(folder, self.id)
        self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


def _owner_path(folder: Path, owner: str) -> Path:
    return folder / OWNERS / f"{owner}.lock"


def is_alive(folder: Path, owner: str) -> bool:
    """Asks by a shared lock, so that two who ask at once do not take each other for the owner."""
    try:
        descriptor = os.open(_owner_path(folder, owner), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove_dead_owners(folder: Path) -> None:
    for file in sorted((folder / OWNERS).glob("*.lock")):
        if not is_alive(folder, file.stem):
            file.unlink(missing_ok=True)


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """One process at a time makes, upgrades and joins a data folder."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreFailed(f"another process keeps '{folder / LOCK}' locked; stop it") from None
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


# Work on the database; each function refuses before it writes


def _tip(connection: sqlite3.Connection, run: str) -> tuple[int, str, Tip]:
    """The run's number and status, and where its journal ends."""
    found = connection.execute("select number, status, seq, epoch, link from runs where run = ?", (run,)).fetchone()
    if found is None:
        raise keeping_sqlite.missing(connection, run)
    number, status, seq, epoch, link = found
    return number, status, Tip(seq=seq, epoch=epoch, link=link)


def _insert_record(connection: sqlite3.Connection, number: int, record: SealedRecord) -> int:
    done = connection.execute(
        "insert into records (run, seq, crc, link, body) values (?, ?, ?, ?, ?)",
        (number, record.seq, record.crc, record.link, record.body),
    )
    assert done.lastrowid is not None, "an insert has a rowid"
    return done.lastrowid


def _create(connection: sqlite3.Connection, *, row: RunRow, record: Record, body: bytes, owner: str) -> int:
    if keeping_sqlite.is_taken(connection, row.run):
        raise RunExists(row.run)
    journal_format.require_first(row.run, record)
    sealed = journal_format.sealed(record.seq, body, journal_format.first_link(row.run))
    number = _insert_run(connection, row, Tip(seq=record.last_seq, epoch=row.epoch, link=sealed.link), owner)
    return _insert_record(connection, number, sealed)


def _insert_run(connection: sqlite3.Connection, row: RunRow, tip: Tip, owner: str) -> int:
    done = connection.execute(
        f"insert into runs ({ROW_COLUMNS}, link, owner) values ({', '.join('?' * 18)})",  # noqa: S608 - constants
        (
            *(row.run, row.crew, row.crew_sha, row.status, row.reason, row.agent, tip.seq, tip.epoch),
            *(row.created_at, row.updated_at, row.continues, row.organization, *_usage_values(row.usage)),
            *(tip.link, owner),
        ),
    )
    assert done.lastrowid is not None, "an insert has a rowid"
    return done.lastrowid


def _add(connection: sqlite3.Connection, *, row: RunRow, records: Sequence[SealedRecord], tip: Tip) -> None:
    keeping_sqlite.require_free(connection, row.run, tip)
    connection.execute("delete from tombstones where run = ?", (row.run,))
    number = _insert_run(connection, row, tip, owner="")
    for record in records:
        _insert_record(connection, number, record)


def _delete(connection: sqlite3.Connection, *, run: str, at: int, owner: str, folder: Path) -> Tombstone:
    number, _, tip = _tip(connection, run)
    before, crew = connection.execute("select owner, crew from runs where number = ?", (number,)).fetchone()
    if before not in ("", owner) and is_alive(folder, before):
        raise OwnedElsewhere(run, before)
    left = Tombstone(run=run, crew=crew, seq=tip.seq, link=tip.link, deleted_at=at)
    keeping_sqlite.bury(connection, number, left)
    return left


def _append(connection: sqlite3.Connection, *, row: RunRow, record: Record, body: bytes) -> int:
    number, status, tip = _tip(connection, row.run)
    journal_format.require_next(tip, row, record)
    sealed = journal_format.sealed(record.seq, body, tip.link)
    position = _insert_record(connection, number, sealed)
    connection.execute(
        "update runs set reason = ?, agent = ?, seq = ?, link = ?, updated_at = ?,"
        " calls = ?, input_tokens = ?, output_tokens = ?, cost_micros = ? where number = ?",
        (row.reason, row.agent, record.last_seq, sealed.link, row.updated_at, *_usage_values(row.usage), number),
    )
    if row.status != status:  # apart, because it is indexed and seldom changes
        connection.execute("update runs set status = ? where number = ?", (row.status, number))
    return position


def _claim(connection: sqlite3.Connection, *, run: str, owner: str, folder: Path) -> int:
    found = connection.execute("select owner, epoch from runs where run = ?", (run,)).fetchone()
    if found is None:
        raise RunNotFound(run)
    before, epoch = found
    if before not in ("", owner) and is_alive(folder, before):
        raise OwnedElsewhere(run, before)
    connection.execute("update runs set owner = ?, epoch = ? where run = ?", (owner, epoch + 1, run))
    return int(epoch) + 1


def _release(connection: sqlite3.Connection, *, run: str, owner: str) -> None:
    connection.execute("update runs set owner = '' where run = ? and owner = ?", (run, owner))


def _put_crew(connection: sqlite3.Connection, *, sha: str, body: bytes) -> None:
    connection.execute("insert or ignore into crews (sha, body) values (?, ?)", (sha, body))


def _limit_bytes(connection: sqlite3.Connection, *, bytes_max: int) -> None:
    page_size = connection.execute("pragma page_size").fetchone()[0]
    connection.execute(f"pragma max_page_count = {max(1, bytes_max // page_size):d}")


def _usage_values(usage: Usage) -> tuple[int, int, int, int]:
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_micros


def _as_row(values: Sequence[Any]) -> RunRow:
    *plain, calls, input_tokens, output_tokens, cost_micros = values
    usage = Usage(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_micros=cost_micros)
    names = ROW_COLUMNS.split(", ")
    return RunRow(**dict(zip(names, plain, strict=False)), usage=usage)


def _row(connection: sqlite3.Connection, *, run: str) -> RunRow:
    query = f"select {ROW_COLUMNS} from runs where run = ?"  # noqa: S608 - a constant
    found = connection.execute(query, (run,)).fetchone()
    if found is None:
        raise keeping_sqlite.missing(connection, run)
    return _as_row(found)


def _rows(
    connection: sqlite3.Connection, *, status: str | None, crew: str | None, limit: int, before: str | None
) -> list[RunRow]:
    tests: dict[str, object] = {"status = ?": status, "crew = ?": crew}
    if before is not None:
        tests["number < ?"] = _tip(connection, before)[0]
    tests = {test: value for test, value in tests.items() if value is not None}
    where = f"where {' and '.join(tests)}" if tests else ""
    query = f"select {ROW_COLUMNS} from runs {where} order by number desc limit ?"  # noqa: S608 - constants
    return [_as_row(found) for found in connection.execute(query, (*tests.values(), limit)).fetchall()]


class _Stretch(NamedTuple):
    """The records of a run from one point to its end, not yet verified."""

    stored: list[SealedRecord]
    after: Tip
    tip: Tip


def _stretch(connection: sqlite3.Connection, *, run: str, after: int) -> _Stretch:
    """Begins with the record that holds the event after `after`."""
    number, _, tip = _tip(connection, run)
    if after >= tip.seq:
        return _Stretch([], tip, tip)
    found = connection.execute(
        "select seq, crc, link, body from records where run = ? and seq >="
        " coalesce((select max(seq) from records where run = ? and seq <= ?), 1) order by seq",
        (number, number, after + 1),
    ).fetchall()
    stored = [SealedRecord(seq=seq, crc=crc, link=link, body=body) for seq, crc, link, body in found]
    start = stored[0].seq if stored else 1
    before = connection.execute(
        "select link from records where run = ? and seq < ? order by seq desc limit 1", (number, start)
    ).fetchone()
    if before is None:
        return _Stretch(stored, Tip(seq=0, epoch=0, link=journal_format.first_link(run)), tip)
    return _Stretch(stored, Tip(seq=start - 1, epoch=0, link=before[0]), tip)


def _after_position(
    connection: sqlite3.Connection, *, position: int, limit: int
) -> list[tuple[int, str, SealedRecord]]:
    found = connection.execute(
        "select position, runs.run, records.seq, crc, records.link, body"
        " from records join runs on runs.number = records.run where position > ? order by position limit ?",
        (position, limit),
    ).fetchall()
    return [(at, run, SealedRecord(seq=seq, crc=crc, link=link, body=body)) for at, run, seq, crc, link, body in found]


def _crew(connection: sqlite3.Connection, *, sha: str) -> bytes:
    found = connection.execute("select body from crews where sha = ?", (sha,)).fetchone()
    if found is None:
        raise StoreFailed(f"there is no crew with sha256 {sha} in the data folder; restore it from a backup")
    journal_format.require_sha(sha, found[0])
    return bytes(found[0])


# The writer


class _Job(NamedTuple):
    doing: str
    work: Work[Any]
    future: asyncio.Future[Any]


class _Outcome(NamedTuple):
    job: _Job
    value: Any = None
    error: Exception | None = None


class _Writer:
    """The one thread that writes; `broken` says why it no longer does."""

    def __init__(self, connection: sqlite3.Connection, path: Path, durability: str) -> None:
        self.connection = connection
        self.broken: str | None = None
        self._files = (path, Path(f"{path}-wal"))
        self._inodes = [_inode(file) for file in self._files]
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._syncs = durability == "normal"
        self._unsynced_since: float | None = None
        self._thread = Thread(target=self._serve, name="interlock-writer", daemon=True)
        self._thread.start()

    def ask(self, job: _Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Returns when all that was asked for is done."""
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        going_on = True
        while going_on:
            jobs, going_on = self._take()
            if jobs:
                _deliver_all(self._perform(jobs))
            self._sync_if_due()

    def _take(self) -> tuple[list[_Job], bool]:
        """Waits for work, and takes all that there is."""
        jobs: list[_Job] = []
        with suppress(Empty):
            job = self._jobs.get(timeout=NORMAL_SYNC_S if self._unsynced_since is not None else None)
            while job is not None:
                jobs.append(job)
                if len(jobs) == BATCH_MAX:
                    return jobs, True
                job = self._jobs.get_nowait()
            return jobs, False
        return jobs, True

    def _perform(self, jobs: list[_Job]) -> list[_Outcome]:
        """All in one transaction; if that fails, each in its own, so that only the culprit is told."""
        try:
            return self._commit(jobs)
        except Exception as error:
            if len(jobs) > 1 and self.broken is None:
                return [outcome for job in jobs for outcome in self._perform([job])]
            return [_Outcome(job, error=error) for job in jobs]

    def _commit(self, jobs: list[_Job]) -> list[_Outcome]:
        with as_store_failed(jobs[0].doing), self._breaking():
            self._require_same_files()
            self.connection.execute("begin immediate")
            outcomes = [self._outcome(job) for job in jobs]
            crash_point("before commit")
            self.connection.execute("commit")
            crash_point("after commit")
            self._require_same_files()
        if self._syncs and self._unsynced_since is None:
            self._unsynced_since = time.monotonic()
        return outcomes

    def _outcome(self, job: _Job) -> _Outcome:
        try:
            return _Outcome(job, value=job.work(self.connection))
        except RunError as refusal:
            return _Outcome(job, error=refusal)

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Leaves no transaction behind, and remembers the failures after which nothing may be acknowledged."""
        if self.broken is not None:
            raise StoreFailed(self.broken)
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) in FINAL:
                self.broken = f"the disk failed to keep what was written ({error}); check it, then start again"
            raise
        finally:
            # SQLite may have rolled back by itself, and a rollback may fail like any other statement.
            with suppress(sqlite3.Error):
                if self.connection.in_transaction:
                    self.connection.execute("rollback")

    def _require_same_files(self) -> None:
        if [_inode(file) for file in self._files] != self._inodes:
            self.broken = (
                f"'{self._files[0]}' or its log was deleted or replaced while it was in use; nothing more is written,"
                " start again and run 'interlock doctor'"
            )
            raise StoreFailed(self.broken)

    def _sync_if_due(self) -> None:
        """With durability "normal" only a checkpoint forces commits to the disk."""
        if self._unsynced_since is None or time.monotonic() < self._unsynced_since + NORMAL_SYNC_S:
            return
        self._unsynced_since = None
        with suppress(StoreFailed), as_store_failed("sync"), self._breaking():
            self._require_same_files()
            self.connection.execute("pragma wal_checkpoint(passive)").fetchone()


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return None


def _deliver_all(outcomes: list[_Outcome]) -> None:
    """One call a loop, however many wait in it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.future.get_loop(), []).append(outcome)
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_deliver, its)


def _deliver(outcomes: list[_Outcome]) -> None:
    for job, value, error in outcomes:
        if job.future.done():  # whoever asked was cancelled
            continue
        if error is not None:
            job.future.set_exception(error)
        else:
            job.future.set_result(value)


# The store


_open_stores: "WeakSet[SqliteStore]" = WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_open_stores):
        store.disown()


os.register_at_fork(after_in_child=_after_fork_in_child)


class SqliteStore:
    """`Journal` and `Owners` in a data folder.

    With durability "full" an acknowledged record survives the loss of power. With "normal" it survives the death of
    the process, but a loss of power takes what was acknowledged since the last checkpoint: one is made every second,
    and after every 1,000 pages (4 MB) of log. What is lost is the newest of all runs together, never something in
    the middle, and the database stays sound.
    """

    def __init__(self, folder: str | os.PathLike[str], *, durability: str = "full") -> None:
        """Makes the folder and the database if there are none; `StoreFailed`, and nothing changed, if it cannot."""
        if durability not in DURABILITIES:
            raise UsageError(f"there is no durability '{durability}'; use one of {', '.join(DURABILITIES)}")
        self.folder = Path(folder).absolute()
        self._pid = os.getpid()
        self._closed = False
        path = self.folder / DATABASE
        with as_store_failed(f"open the data folder '{self.folder}'"):
            _make_folders(self.folder)
            with _folder_locked(self.folder):
                self._reading, self._writing = _connections(path, durability)
                _remove_dead_owners(self.folder)
                self._owner = OwnerFile(self.folder)
        self._writer = _Writer(self._writing, path, durability)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="interlock-reader")
        _open_stores.add(self)

    @property
    def owner(self) -> str:
        """The id under which this store owns runs."""
        return self._owner.id

    async def create(self, row: RunRow, record: Record) -> int:
        """The run belongs to this store, under `row.epoch`."""
        body = journal_format.encoded(record)
        work = partial(_create, row=row, record=record, body=body, owner=self.owner)
        return await self._write(f"store the new run '{row.run}'", work)

    async def append(self, row: RunRow, record: Record) -> int:
        """Of the row only status, reason, agent, usage and `updated_at` are taken: the rest is fixed at creation."""
        body = journal_format.encoded(record)
        return await self._write(f"append to run '{row.run}'", partial(_append, row=row, record=record, body=body))

    async def claim(self, run: str) -> int:
        work = partial(_claim, run=run, owner=self.owner, folder=self.folder)
        return await self._write(f"claim run '{run}'", work)

    async def release(self, run: str) -> None:
        """Nothing happens to a run that is not this store's."""
        await self._write(f"release run '{run}'", partial(_release, run=run, owner=self.owner))

    async def put_crew(self, sha: str, body: bytes) -> None:
        journal_format.require_sha(sha, body)
        await self._write("store a crew", partial(_put_crew, sha=sha, body=body))

    async def add(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        """Status, reason, agent and usage are the row's; seq and link are those of the records."""
        tip = journal_format.tip_of(row.run, records)
        await self._write(f"store the whole run '{row.run}'", partial(_add, row=row, records=records, tip=tip))

    async def delete(self, run: str, at: int) -> Tombstone:
        work = partial(_delete, run=run, at=at, owner=self.owner, folder=self.folder)
        return await self._write(f"delete run '{run}'", work)

    async def limit_bytes(self, bytes_max: int) -> None:
        """The database grows no further than this, until the limit is set anew or the store is opened again."""
        await self._write("limit the database", partial(_limit_bytes, bytes_max=bytes_max))

    async def row(self, run: str) -> RunRow:
        return await self._read(f"read run '{run}'", partial(_row, run=run))

    async def rows(
        self, *, status: str | None = None, crew: str | None = None, limit: int = 200, before: str | None = None
    ) -> Sequence[RunRow]:
        assert limit > 0, "callers bound their pages"
        return await self._read("list runs", partial(_rows, status=status, crew=crew, limit=limit, before=before))

    async def records(self, run: str, after: int = 0) -> Sequence[Record]:
        def verified(connection: sqlite3.Connection) -> tuple[Record, ...]:
            try:
                found = _stretch(connection, run=run, after=after)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
                    raise DamagedRun(run, str(error)) from error
                raise
            connection.execute("commit")  # checking takes longer than reading, and a reader holds up the log
            return journal_format.opened_chain(run, *found)

        return await self._read(f"read the journal of run '{run}'", verified)

    async def sealed(self, run: str) -> Sequence[SealedRecord]:
        def verified(connection: sqlite3.Connection) -> list[SealedRecord]:
            found = _stretch(connection, run=run, after=0)
            journal_format.opened_chain(run, *found)
            return found.stored

        return await self._read(f"read the journal of run '{run}'", verified)

    async def tombstones(self) -> Sequence[Tombstone]:
        return await self._read("read tombstones", keeping_sqlite.tombstones)

    async def problems(self) -> Sequence[str]:
        """What SQLite finds wrong with the whole database; reads every page."""
        return await self._read("check the database", keeping_sqlite.problems)

    async def backup(self, file: Path) -> None:
        """A whole, sound copy of the database as it is at one moment, while others go on writing."""
        self._require_usable()
        with as_store_failed(f"write the backup '{file}'"):
            await asyncio.to_thread(keeping_sqlite.back_up, self.folder / DATABASE, file)

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """The records of all runs after a position, in order; without damaged ones, which reading their run reports."""
        assert limit > 0, "callers bound their pages"
        kept: list[StoredRecord] = []
        while len(kept) < limit:
            wanted = limit - len(kept)
            found = await self._read("read records", partial(_after_position, position=position, limit=wanted))
            for position, run, stored in found:
                if (record := journal_format.opened_or_none(run, stored)) is not None:
                    kept.append(StoredRecord(position=position, run=run, record=record))
            if len(found) < wanted:
                break
        return kept

    async def crew(self, sha: str) -> bytes:
        return await self._read("read a crew", partial(_crew, sha=sha))

    async def close(self) -> None:
        """All that was asked for is done first. Runs of this store can be claimed by others from now on."""
        self._require_this_process()
        if self._closed:
            return
        self._closed = True
        with as_store_failed(f"close the data folder '{self.folder}'"):
            await asyncio.get_running_loop().run_in_executor(self._reader, self._finish)
        self._reader.shutdown(wait=False)

    def disown(self) -> None:
        """In a forked child: lets go of everything without touching what the parent uses."""
        for connection in (self._reading, self._writing):
            abandon(connection)
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
        self._owner.close()

    def _require_this_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreFailed("the store was opened before a fork and cannot be used after it; open it in the child")

    def _require_usable(self) -> None:
        self._require_this_process()
        if self._closed:
            raise StoreFailed(f"the store in '{self.folder}' is closed; open it again")
        if self._writer.broken is not None:
            raise StoreFailed(self._writer.broken)

    async def _write(self, doing: str, work: Work[T]) -> T:
        self._require_usable()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._writer.ask(_Job(doing, work, future))
        return await future

    async def _read(self, doing: str, work: Work[T]) -> T:
        self._require_usable()
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read_now, doing, work)

    def _read_now(self, doing: str, work: Work[T]) -> T:
        """Several queries of one piece of work see one state."""
        with as_store_failed(doing):
            self._reading.execute("begin")
            try:
                return work(self._reading)
            finally:
                with suppress(sqlite3.Error):
                    if self._reading.in_transaction:
                        self._reading.execute("commit")


def _connections(path: Path, durability: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """One to read with and one to write with, to a sound database of the newest schema."""
    if not migrations.exists(path):
        migrations.make_database(path)
    reading, writing = migrations.connect(path), migrations.connect(path)
    try:
        migrations.require_ours(writing, path)
        migrations.require_sound(writing, path)
        for setting in ("journal_mode = wal", f"synchronous = {durability}", f"journal_size_limit = {LOG_BYTES_MAX}"):
            writing.execute(f"pragma {setting}").fetchone()
        migrations.migrate(writing)
        reading.execute("pragma query_only = on")
    except BaseException:
        reading.close()
        writing.close()
        raise
    return reading, writing


def _make_folders(folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    (folder / OWNERS).mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in missing:
        migrations.sync_folder(each.parent)
