"""What goes wrong around the SQLite store: full, slow, failing and lying disks, damage, other processes, huge texts."""

import asyncio
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from interlock import Interlock
from interlock.adapters.files import mounts
from interlock.adapters.sqlite import database, log_backlog, migrations, writer
from interlock.adapters.sqlite.read_only import ReadOnlyStore
from interlock.adapters.sqlite.runs import run_head
from interlock.adapters.sqlite.store import SqliteStore
from interlock.compose.crews import load_definition
from interlock.compose.stores import sqlite_folder
from interlock.compose.upkeep.archive import delete_run, export_run, import_run
from interlock.compose.upkeep.doctor import check_store
from interlock.crew.definition import CrewDefinition
from interlock.errors import DamagedRun, InterlockError, RecordsMissing, RunNotFound, StorageFull, StoreFailed
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, ModelRequest, Record, RunRow
from interlock.runtime.store_retry import STORE_RETRY_MS
from interlock.testing import ManualClock
from tests.adapters.store_records import a_row, replied, started
from tests.adapters.stores import opened
from tests.boxes import sqlite_of

FLIPS = 250
MEGABYTE = 1024 * 1024


async def fill(store: SqliteStore, runs: int = 3, records: int = 4) -> None:
    for n in range(runs):
        await store.create(a_row(f"r{n}"), started())
        for seq in range(2, records + 1):
            await store.append(a_row(f"r{n}"), replied(seq))


class Connection:
    """A connection that tells a test of every statement before SQLite hears of it."""

    def __init__(self, path: Path, mode: str, before: Callable[[str], None]) -> None:
        self._inner, self._before = migrations.connect(path, mode), before
        self.close = self._inner.close

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    @property
    def total_changes(self) -> int:
        return self._inner.total_changes

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        self._before(statement)
        return self._inner.execute(statement, values)

    def executemany(self, statement: str, values: Any) -> sqlite3.Cursor:
        self._before(statement)
        return self._inner.executemany(statement, values)


def telling(before: Callable[[str], None]) -> migrations.Connect:
    return lambda path, mode: cast(sqlite3.Connection, Connection(path, mode, before))


CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
settings: {timeout_seconds: 100000}
"""


def a_crew(folder: Path) -> CrewDefinition:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return load_definition(folder)


# Full disks


async def test_a_run_holds_its_reply_while_the_disk_is_full_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    clock = ManualClock()
    asked: list[str] = []
    text = "x" * 400_000 + "\n[END]"

    def reply(request: ModelRequest) -> str:
        asked.append(request.key)
        return text

    refused = asyncio.Event()
    async with Interlock(tmp_path / "data", models=lambda request: reply(request), clock=clock) as box:
        store, append = sqlite_of(box), box.store.append

        async def noticed(row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
            try:
                return await append(row, record, also)
            except StorageFull:
                refused.set()
                raise

        store.append = noticed  # type: ignore[method-assign]
        await store.limit_bytes(400_000)  # an empty one has about half of that
        run = await box.start(a_crew(tmp_path), "go")
        await refused.wait()
        assert (await store.row(run.id)).status == "running"
        assert len(await store.records(run.id)) == 1
        await store.limit_bytes(100 * MEGABYTE)
        while clock.next_wake_ms() is None or not box.runner.drivers:
            await asyncio.sleep(0)
        clock.advance(STORE_RETRY_MS)
        result = await run.result()
    assert (result.status, result.output, len(asked)) == ("completed", text, 1)


OVER_THE_LIMIT = """
import asyncio, resource, signal, sys
sys.path.insert(0, sys.argv[2])
from test_store_faults import MEGABYTE, StoreFailed, SqliteStore, a_row, fill, replied, started

async def main():
    store = SqliteStore(sys.argv[1])
    await fill(store)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE // 2, hard))
    huge = replied(5, "x" * MEGABYTE)
    try:
        await store.append(a_row("r0"), huge)
    except StoreFailed as error:
        print(error)
    print(len(await store.records("r0")), (await store.append(a_row("r1"), replied(5))).position)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    print((await store.append(a_row("r0"), huge)).position, await store.problems())
    await store.close()

asyncio.run(main())
"""


def test_a_file_that_may_not_grow_refuses_what_does_not_fit_and_work_goes_on(tmp_path: Path) -> None:
    """EFBIG from the system itself, in a process of its own."""
    command = [sys.executable, "-c", OVER_THE_LIMIT, str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["could not append to run 'r0': disk I/O error", "4 13", "14 []"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# Disks that fail, and slow ones


def failing_at(nth: int, statement: str, code: int) -> Callable[[str], None]:
    left = [nth]

    def before(asked: str) -> None:
        if asked.startswith(statement):
            left[0] -= 1
            if left[0] == 0:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = code
                raise error

    return before


@pytest.mark.parametrize("nth", range(1, 7))
async def test_whichever_sync_fails_nothing_is_acknowledged_after_it_and_nothing_before_it_is_lost(
    tmp_path: Path, nth: int
) -> None:
    acknowledged = 0
    failing = failing_at(nth, "commit", sqlite3.SQLITE_IOERR_FSYNC)
    async with opened(tmp_path) as store:
        await nothing(store)

    with pytest.raises(StoreFailed, match="the disk failed"):
        async with opened(tmp_path, connect=telling(failing)) as store:
            for seq in range(1, 9):
                try:
                    await (
                        store.create(a_row("r0"), started()) if seq == 1 else store.append(a_row("r0"), replied(seq))
                    )
                except StoreFailed:
                    break
                acknowledged += 1
            for asking in (store.append(a_row("r0"), replied(acknowledged + 1)), store.row("r0"), store.claim("r0")):
                with pytest.raises(StoreFailed, match="the disk failed to keep what was written"):
                    await asking
    assert acknowledged == nth - 1
    kept = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(kept.stdout) == acknowledged


COUNT = """
import asyncio, sys
from interlock.adapters.sqlite.store import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    print(sum([len(await store.records(row.run)) for row in await store.rows()]))
    await store.close()
asyncio.run(main())
"""


async def nothing(store: SqliteStore) -> None:
    pass


async def test_a_sync_that_fails_during_a_checkpoint_is_final_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite passes over it, so the log would be taken for kept."""
    async with opened(tmp_path) as store:
        await nothing(store)
    monkeypatch.setattr(log_backlog, "LOG_BYTES", 1)

    with pytest.raises(StoreFailed, match="the disk failed"):
        async with opened(
            tmp_path, connect=telling(failing_at(1, "pragma wal_checkpoint", sqlite3.SQLITE_IOERR_FSYNC))
        ) as store:
            await store.create(a_row("r0"), started())
            with pytest.raises(StoreFailed, match="the disk failed to keep what was written"):
                for seq in range(2, 10_000):
                    await store.append(a_row("r0"), replied(seq))


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_a_sync_that_fails_while_the_store_is_closed_is_told_to_whoever_closes_it(
    tmp_path: Path, durability: str
) -> None:
    """With durability "normal" it may cost what was acknowledged, and SQLite does not report it."""
    told: list[str] = []

    failing = failing_at(1, "pragma wal_checkpoint", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(StoreFailed, match="the disk failed to keep what was written"):
        async with opened(tmp_path, durability, connect=telling(failing)) as store:
            await store.create(a_row("r0"), started())
            told.append("acknowledged")
    assert told == ["acknowledged"]


async def test_a_lone_append_is_committed_on_the_loop_and_in_the_thread_while_the_disk_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []
    monkeypatch.setattr(writer, "SLOW_S", 1e9)
    monkeypatch.setattr(writer, "crash_point", lambda name: places.append(threading.current_thread().name))

    async with opened(tmp_path) as store:
        await store.create(a_row("r0"), started())
        await asyncio.sleep(0)
        await store.append(a_row("r0"), replied(2))
        assert set(places) == {threading.main_thread().name}
        places.clear()
        monkeypatch.setattr(writer, "SLOW_S", 0.0)
        for seq in range(3, 6):
            await store.append(a_row("r0"), replied(seq))
        assert set(places) == {"interlock-writer"}
        assert len(await store.records("r0")) == 5


async def test_no_connection_is_used_by_two_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and large appends, alone and together, and a checkpoint after each."""
    monkeypatch.setattr(log_backlog, "LOG_BYTES", 1)
    monkeypatch.setattr(writer, "LARGE_BYTES", 5_000)
    strangers: list[str] = []

    class Guarded(Connection):
        def __init__(self, path: Path, mode: str) -> None:
            super().__init__(path, mode, lambda statement: None)
            self.busy = threading.Lock()

        def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
            if not self.busy.acquire(blocking=False):
                strangers.append(statement)
            try:
                return super().execute(statement, values)
            finally:
                self.busy.release()

    async def one(store: SqliteStore, run: str) -> None:
        choices = random.Random(run)
        await store.create(a_row(run), started())
        for seq in range(2, 40):
            await store.append(a_row(run), replied(seq, "x" * choices.choice([10, 100, 10_000])))
            if choices.random() < 0.3:
                await store.records(run)

    async with opened(tmp_path, connect=lambda path, mode: cast(sqlite3.Connection, Guarded(path, mode))) as store:
        await asyncio.gather(*(one(store, f"r{n}") for n in range(8)))
        await one(store, "alone")
        assert [len(await store.records(row.run)) for row in await store.rows()] == [39] * 9
        assert await store.problems() == []
    assert strangers == []


# Folders and files that cannot be used


MOUNTINFO = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt/far\040away rw,relatime - nfs4 server:/data rw
31 30 0:27 / /mnt/far\040away/cache rw - tmpfs tmpfs rw
32 22 0:28 / /srv rw shared:5 master:2 - ext4 /dev/vdb rw
33 22 0:29 / /srv rw - cifs //server/share rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/me/data", "ext4"),
        ("/mnt/far away", "nfs4"),
        ("/mnt/far away/data", "nfs4"),
        ("/mnt/far away/cache/data", "tmpfs"),
        ("/mnt/far away2", "ext4"),
        ("/srv/data", "cifs"),
    ],
)
def test_a_folder_is_on_the_innermost_and_latest_mount(path: str, kind: str) -> None:
    assert mounts.file_system_of(path, MOUNTINFO) == kind


async def test_a_network_file_system_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "MOUNTS", file)
    file.write_text(f"1 0 0:1 / {tmp_path / 'data'} rw - nfs server:/ rw\n", "utf-8")
    with pytest.raises(StoreFailed, match=r"'.*data' is on a network file system \(nfs\).*name a folder on a local"):
        SqliteStore(tmp_path / "data")
    assert not (tmp_path / "data" / "interlock.db").exists()
    file.unlink()  # without such a list, no folder is refused
    async with opened(tmp_path / "data") as store:
        await fill(store)


READ_ONLY = """
import os, sys
from interlock.adapters.sqlite.store import SqliteStore
from interlock.errors import StoreFailed
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
try:
    SqliteStore(sys.argv[1])
except StoreFailed as error:
    print(error)
"""


async def test_a_database_that_may_only_be_read_is_refused_in_one_line() -> None:
    """In a process that is not root, as root may write everywhere."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place, "data")
        async with opened(folder) as store:
            await fill(store)
        for path, mode in ((folder, 0o777), (folder / "owners", 0o777), (folder / "interlock.lock", 0o666)):
            path.chmod(mode)
        (folder / "interlock.db").chmod(0o444)
        command = [sys.executable, "-c", READ_ONLY, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (line,) = done.stdout.splitlines()
    assert "interlock.db' cannot be written by user" in line


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin exclusive")
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held_by_another_process(folder: Path, program: str = HOLD) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", program, str(folder / "interlock.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.send_signal(signal.SIGKILL)


async def test_a_database_that_another_process_keeps_to_itself_is_said_so_and_work_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOCKED_WAIT_MS", 10)

    async with opened(tmp_path) as store:
        await fill(store)
        with held_by_another_process(tmp_path):
            appends = (store.append(a_row(f"r{n}"), replied(5)) for n in range(3))
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert [str(outcome) for outcome in outcomes] == [
                f"could not append to run 'r{n}': database is locked" for n in range(3)
            ]
            assert [len(await store.records(f"r{n}")) for n in range(3)] == [4] * 3
        for n in range(3):
            await store.append(a_row(f"r{n}"), replied(5))


READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin")
connection.execute("select count(*) from records").fetchone()
print("held", flush=True)
sys.stdin.readline()
connection.execute("commit")
print("ended", flush=True)
sys.stdin.readline()
"""


async def test_a_long_reader_stops_no_writer_and_the_log_it_let_grow_is_cut_back_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = MEGABYTE
    monkeypatch.setattr(database, "LOG_BYTES_MAX", most)
    monkeypatch.setattr(sqlite_folder, "LOG_BYTES_MAX", most)
    monkeypatch.setattr(log_backlog, "LOG_BYTES", most // 8)
    log = tmp_path / "interlock.db-wal"

    async with opened(tmp_path) as store:
        await store.create(a_row("r0"), started())
        with held_by_another_process(tmp_path, READ) as reader:
            for seq in range(2, 42):
                await store.append(a_row("r0"), replied(seq, "x" * 100_000))
            assert log.stat().st_size > 2 * most
            (note,) = (await check_store(tmp_path)).notes
            assert "more than 1 MB: another program keeps a read transaction open" in note
            assert reader.communicate("\n\n")[0] == "ended\n"
        for seq in range(42, 2_000):
            await store.append(a_row("r0"), replied(seq))
            if log.stat().st_size <= most:
                break
        assert log.stat().st_size <= most
        assert len(await store.records("r0")) == seq


async def test_no_read_of_the_store_leaves_a_transaction_open(tmp_path: Path) -> None:
    """A reader holds up the log for no longer than its one answer."""

    async with opened(tmp_path) as store:
        await fill(store)
        await store.put_crew(sha256(b"{}").hexdigest(), b"{}")
        asked = (
            store.row("r0"),
            store.rows(),
            store.records("r0"),
            store.export_records("r0"),
            store.since(0),
            store.tombstones(),
            store.signals_to_deliver(),
            store.problems(),
            store.crew(sha256(b"{}").hexdigest()),
            store.row("nobody"),
        )
        for asking in asked:
            await answer(asking)
            assert not store._reading.in_transaction


async def test_a_database_of_an_older_schema_is_not_read_where_it_cannot_be_brought_up_to_date(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
    with sqlite3.connect(tmp_path / "interlock.db") as connection:
        connection.execute("pragma user_version = 3")
    connection.close()
    with pytest.raises(StoreFailed, match=r"older Interlock \(schema 3, .*copy the data folder"):
        ReadOnlyStore(tmp_path)


async def test_a_store_that_only_reads_refuses_every_write_and_says_what_it_could_not_do(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)

    store = ReadOnlyStore(tmp_path)
    assert len(await store.records("r0")) == 4
    for asking in (
        store.create(a_row("new"), started()),
        store.append(a_row("r0"), replied(5)),
        store.claim("r0"),
        store.delete_run("r0", at=1),
    ):
        with pytest.raises(StoreFailed, match=r"could not .* can only be read by this process"):
            await asking
    await store.close()
    with pytest.raises(StoreFailed, match="is closed"):
        await store.row("r0")


# Damage


COLUMNS = [*run_head.COLUMNS.split(", "), "crc"]


@pytest.mark.parametrize("column", COLUMNS)
async def test_whatever_changes_in_the_row_of_a_run_is_damage_and_other_runs_go_on(tmp_path: Path, column: str) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        await store.release("r1")
        with sqlite3.connect(tmp_path / "interlock.db") as connection:
            kind = connection.execute(f"select typeof({column}) from runs").fetchone()[0]
            change = {"text": f"{column} || 'x'", "integer": f"{column} + 1", "blob": "zeroblob(16)"}[kind]
            connection.execute(f"update runs set {column} = {change} where run = 'r1'")
        connection.close()
        run = "r1x" if column == "run" else "r1"
        for asking in (store.row(run), store.records(run), store.claim(run), store.append(a_row(run), replied(5))):
            with pytest.raises(DamagedRun, match=f"'{run}' is damaged: the crc of its row does not match"):
                await asking
        assert [row.run for row in await store.rows()] == ["r2", "r0"]
        assert [row.run for row in await store.rows(limit=1, before="r2")] == ["r0"]
        assert [problem for problem in await store.problems() if "the crc of its row" in problem]
        await store.append(a_row("r2"), replied(5))


async def test_a_damaged_tombstone_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await fill(store)
        await store.delete_run("r1", at=7)
        with sqlite3.connect(tmp_path / "interlock.db") as connection:
            connection.execute("update tombstones set seq = seq + 1")
        connection.close()
        with pytest.raises(DamagedRun, match="'r1' is damaged: the crc of its tombstone"):
            await store.tombstones()


async def all_of(folder: Path) -> dict[str, object]:
    """Each answer of a store, or the class of what it raises."""
    store = SqliteStore(folder)
    try:
        asked = {
            "rows": store.rows(),
            "paused": store.rows(status="paused"),
            "since": store.since(0),
            "tombstones": store.tombstones(),
            **{f"row {n}": store.row(f"r{n}") for n in range(4)},
            **{f"records {n}": store.records(f"r{n}") for n in range(4)},
            "part": store.records("r1", after=2),
        }
        return {name: await answer(asking) for name, asking in asked.items()}
    finally:
        await store.close()


async def answer(asking: Awaitable[object]) -> object:
    try:
        return list(found) if isinstance(found := await asking, tuple) else found
    except InterlockError as error:
        return type(error)


async def test_no_flipped_bit_of_the_database_gives_a_wrong_answer(tmp_path: Path) -> None:
    """Either the folder is refused, or each answer is the right one, or an error, or leaves out a damaged thing."""

    async with opened(tmp_path / "sound") as store:
        await fill(store)
        await store.append(a_row("r1", status="paused"), replied(5, "y" * 5_000))
        await store.create(a_row("r3"), started())
        await store.delete_run("r3", at=9)
    right = await all_of(tmp_path / "sound")
    data = (tmp_path / "sound" / "interlock.db").read_bytes()
    choices = random.Random(11)
    refused = found = 0
    for n in range(FLIPS):
        bit = choices.randrange(len(data) * 8)
        folder = tmp_path / f"{n}"
        folder.mkdir()
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (folder / "interlock.db").write_bytes(flipped)
        try:
            answers = await all_of(folder)
        except StoreFailed:
            refused += 1
            continue
        finally:
            shutil.rmtree(folder)
        wrong = {name for name in right if answers[name] != right[name]}
        found += bool(wrong)
        assert not [name for name in wrong if not is_honest(name, answers, right)], f"bit {bit}"
    assert refused > 0
    assert found > 0


async def test_a_database_that_ends_at_any_page_gives_no_wrong_answer(tmp_path: Path) -> None:
    async with opened(tmp_path / "sound") as store:
        await fill(store, runs=4, records=30)
    right = await all_of(tmp_path / "sound")
    data = (tmp_path / "sound" / "interlock.db").read_bytes()
    page = 4096
    assert len(data) // page > 10
    for pages in range(len(data) // page):
        folder = tmp_path / f"{pages}"
        folder.mkdir()
        (folder / "interlock.db").write_bytes(data[: pages * page])
        try:
            answers = await all_of(folder)
        except StoreFailed:
            continue
        assert not [name for name in right if answers[name] != right[name] and not is_honest(name, answers, right)]


DIE = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from test_store_faults import SqliteStore, a_row, started
async def main():
    await SqliteStore(sys.argv[1]).create(a_row("lost"), started())
    os._exit(0)
asyncio.run(main())
"""


async def test_a_log_that_is_deleted_after_a_death_is_noticed_and_a_sound_older_state_is_left(
    tmp_path: Path,
) -> None:
    """A database without its log is what it was at the last checkpoint, which is not what was acknowledged."""
    async with opened(tmp_path) as store:
        await fill(store, runs=1)
    command = [sys.executable, "-c", DIE, str(tmp_path), str(Path(__file__).parent)]
    subprocess.run(command, check=True, timeout=60)
    (tmp_path / "interlock.db-wal").unlink()
    with pytest.raises(RecordsMissing, match=r"^\d+ records? "):
        SqliteStore(tmp_path)
    await SqliteStore(tmp_path, accepts_loss=True).close()

    async with opened(tmp_path) as store:
        assert [row.run for row in await store.rows()] == ["r0"]
        assert len(await store.records("r0")) == 4
        assert await store.problems() == []


async def test_whatever_writes_begins_a_transaction_that_writes(tmp_path: Path) -> None:
    """One that begins by reading and writes later would be refused whenever another process writes in between."""
    begun: dict[int, str] = {}

    class Watched(Connection):
        def __init__(self, path: Path, mode: str) -> None:
            super().__init__(path, mode, self.look)

        def look(self, statement: str) -> None:
            word = statement.split()[0]
            if word == "begin":
                begun[id(self)] = statement
            if word in ("insert", "update", "delete", "replace"):
                written.append(begun.get(id(self), "nothing begun"))

    written: list[str] = []

    async with opened(tmp_path, connect=lambda path, mode: cast(sqlite3.Connection, Watched(path, mode))) as store:
        await fill(store)
        await store.release("r0")
        await store.claim("r0")
        await store.put_crew(sha256(b"{}").hexdigest(), b"{}")
        await store.delete_run("r1", at=1)
    assert len(written) > 20
    assert set(written) == {"begin immediate"}


def is_honest(name: str, answers: dict[str, Any], right: dict[str, Any]) -> bool:
    """An error, or a list that leaves out what is reported as damaged when it is read itself."""
    if isinstance(answers[name], type):
        return answers[name] is not RunNotFound
    damaged = any(answer is DamagedRun for answer in answers.values())
    return name in ("rows", "paused", "since") and damaged and all(each in right[name] for each in answers[name])


# Huge texts


async def test_a_reply_of_ten_megabytes_is_kept_replayed_exported_imported_and_deleted(tmp_path: Path) -> None:
    huge = "ông nói " * MEGABYTE + "\n[WAIT]"
    crew = a_crew(tmp_path)

    replies = iter([huge, "done\n[END]"])
    async with Interlock(tmp_path / "data", models=lambda request: next(replies)) as box:
        handle = await box.start(crew, "go")
        run = handle.id
        assert (await handle.result()).status == "paused"
        assert huge in [each.text for each in (await box.state(run)).history]
        await (await box.resume(run, "yes")).result()
        data = await export_run(box, run)
    assert (await check_store(tmp_path / "data")).problems == []
    async with Interlock(tmp_path / "other") as box:
        await import_run(box, data, "a file")
        assert (await box.result(run)).status == "completed"
        await sqlite_of(box).backup(tmp_path / "copy.db")
        await delete_run(box, run)
    assert (tmp_path / "copy.db").stat().st_size > 10 * MEGABYTE
    assert (await check_store(tmp_path / "other")).problems == []
    with sqlite3.connect(tmp_path / "other" / "interlock.db") as connection:
        assert connection.execute("select max(length(body)) from records").fetchone()[0] in (None, 0)
    connection.close()
