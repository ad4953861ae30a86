"""Finding 6.1: a damaged, cut or deleted `-wal` after a kill loses nothing that was acknowledged in silence."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from zlib import crc32

import httpx2
import pytest
from click.testing import CliRunner, Result

from interlock import Interlock, load_crew
from interlock.adapters.files import newest_mark
from interlock.adapters.files.newest_mark import NEWEST, NewestMark, StoreProgress, read_mark
from interlock.adapters.files.owner_files import OWNERS, OwnerFile
from interlock.adapters.sqlite.store import SqliteStore
from interlock.cli.main import interlock
from interlock.compose.upkeep.archive import delete_run
from interlock.compose.upkeep.doctor import check_store
from interlock.errors import RecordsMissing, StoreFailed
from interlock.ports import NEWEST_FORMAT
from tests.adapters.store_records import a_row, replied, started
from tests.boxes import sqlite_of
from tests.findings.killed import HELLO, killed_folder

LOG = "interlock.db-wal"
PROGRAM = [sys.executable, "-c", "from interlock.cli.main import interlock; interlock()"]


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path) -> None:
    """A bit of the first frame, so that nothing of the log counts."""
    data = bytearray(file.read_bytes())
    data[2_000] ^= 1
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {"deleted": Path.unlink, "cut": cut, "flipped": flip}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return killed_folder(tmp_path_factory.mktemp("killed") / "data")


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def called(*arguments: str | Path) -> Result:
    return CliRunner().invoke(interlock, [str(each) for each in arguments])


def run_hello(data: Path) -> Result:
    return called("run", HELLO, "go", "--script", HELLO / "script.yaml", "--data", data, "--json")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_folder_without_its_log_is_not_written_until_the_loss_is_accepted(data: Path, damage: str) -> None:
    DAMAGES[damage](data / LOG)
    left = (data / LOG).read_bytes() if (data / LOG).exists() else b""
    refused = run_hello(data)
    assert refused.exit_code == 1
    assert "record" in refused.stderr
    assert "missing" in refused.stderr
    assert "doctor --accept-loss" in refused.stderr
    told = called("doctor", "--data", data)
    assert told.exit_code == 1
    assert "that the data folder" in told.stdout
    if left:
        assert (data / LOG).read_bytes() == left, "what may be rescued by hand stays"
    accepted = called("doctor", "--accept-loss", "--data", data)
    assert accepted.exit_code == 0, accepted.output
    assert "accepted the loss of" in accepted.stdout
    assert run_hello(data).exit_code == 0
    assert called("doctor", "--data", data).exit_code == 0


def test_the_number_of_missing_records_is_told(data: Path) -> None:
    marked = read_mark(data)
    assert isinstance(marked, StoreProgress)
    (data / LOG).unlink()
    with pytest.raises(RecordsMissing) as refused:
        SqliteStore(data)
    assert refused.value.records == marked.position // 2, "the second of two equal runs"


def test_what_is_left_can_be_looked_at(data: Path) -> None:
    (data / LOG).unlink()
    listed = called("runs", "list", "--data", data)
    assert listed.exit_code == 0
    assert "first" in listed.stdout
    assert "second" not in listed.stdout


def test_an_undamaged_log_is_taken_without_a_word(data: Path) -> None:
    done = called("doctor", "--data", data)
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "2 runs" in done.stdout


async def test_with_durability_normal_it_warns_once_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = killed_folder(tmp_path / "data", "normal")
    (data / LOG).unlink(missing_ok=True)
    (data / NEWEST).write_bytes(newest_mark._encode_line(1_000, 1_000, b""))
    await SqliteStore(data, durability="normal").close()
    assert "are lost" in caplog.text
    caplog.clear()
    await SqliteStore(data).close()
    assert caplog.text == ""


@pytest.mark.parametrize("mark", [None, b"", b"interlock 0000", bytes(newest_mark.SIZE), b"x" * 500])
async def test_a_mark_that_is_missing_or_damaged_is_written_anew_with_a_warning(
    data: Path, caplog: pytest.LogCaptureFixture, mark: bytes | None
) -> None:
    before = read_mark(data)
    (data / NEWEST).unlink()
    if mark is not None:
        (data / NEWEST).write_bytes(mark)
    await SqliteStore(data).close()
    assert "newest" in caplog.text
    assert read_mark(data) == before


def test_a_flipped_bit_of_the_mark_is_never_believed(data: Path) -> None:
    body = (data / NEWEST).read_bytes()
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        (data / NEWEST).write_bytes(flipped)
        assert read_mark(data) == newest_mark.DamagedMark()


def test_a_database_that_is_gone_is_not_taken_for_a_new_folder(data: Path) -> None:
    for name in ("interlock.db", LOG, "interlock.db-shm"):
        (data / name).unlink()
    with pytest.raises(StoreFailed, match=r"is gone, but 'newest' beside it says that it held \d+ records"):
        SqliteStore(data)
    assert not (data / "interlock.db").exists()


def test_a_restored_backup_has_no_mark_and_gets_one(data: Path, tmp_path: Path) -> None:
    assert called("backup", tmp_path / "copy.db", "--data", data).exit_code == 0
    (tmp_path / "restored").mkdir(mode=0o700)
    (tmp_path / "copy.db").rename(tmp_path / "restored" / "interlock.db")
    assert read_mark(tmp_path / "restored") is None
    done = called("doctor", "--data", tmp_path / "restored")
    assert done.exit_code == 0
    assert read_mark(tmp_path / "restored") == read_mark(data)


def test_an_older_copy_put_back_is_noticed(data: Path, tmp_path: Path) -> None:
    assert called("backup", tmp_path / "copy.db", "--data", data).exit_code == 0
    assert run_hello(data).exit_code == 0
    (tmp_path / "copy.db").replace(data / "interlock.db")
    assert run_hello(data).exit_code == 1


def test_commits_that_store_no_record_count_too(tmp_path: Path) -> None:
    """A signal that was scheduled, and nothing else."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    assert run_hello(data).exit_code == 0
    shutil.copytree(data, copy)
    for mark in (read_mark(data), read_mark(copy)):
        assert isinstance(mark, StoreProgress)
    assert called("broadcast", "schedule", "a:b", "--in", "60s", "--data", data).exit_code == 0
    shutil.copy(copy / "interlock.db", data / "interlock.db")
    with pytest.raises(RecordsMissing, match=r"^\d+ other changes? "):
        SqliteStore(data)


async def test_deleting_runs_lowers_nothing(data: Path) -> None:
    before = read_mark(data)
    async with Interlock(data) as box:
        await delete_run(box, "first")
        await delete_run(box, "second")
    after = read_mark(data)
    assert isinstance(before, StoreProgress)
    assert isinstance(after, StoreProgress)
    assert after.position == before.position
    assert after.unrecorded > before.unrecorded
    assert (await check_store(data)).problems == []


def test_two_processes_never_lower_the_mark(tmp_path: Path) -> None:
    """Two marks of one folder, written in any order."""
    (tmp_path / OWNERS).mkdir()
    owners = [OwnerFile(tmp_path, NEWEST_FORMAT) for _ in range(2)]
    first, second = (NewestMark(tmp_path, owner.id) for owner in owners)
    random, most = Random(1), 0
    for _ in range(200):
        position = random.randint(1, 1_000)
        random.choice((first, second)).advance(position, 0)
        most = max(most, position)
        assert read_mark(tmp_path) == StoreProgress(most, 0)
    first.close()
    second.close()
    assert read_mark(tmp_path) == StoreProgress(most, 0)
    for owner in owners:
        owner.close()
    NewestMark(tmp_path, "third").close()
    assert read_mark(tmp_path) == StoreProgress(most, 0)
    assert (tmp_path / NEWEST).stat().st_size == newest_mark.SIZE, "the lines of processes that have ended are removed"


def test_a_mark_of_an_older_version_counts_and_is_replaced(tmp_path: Path) -> None:
    text = b"interlock %020d %020d " % (40, 2)
    (tmp_path / NEWEST).write_bytes(text + b"%08x\n" % crc32(text))
    assert read_mark(tmp_path) == StoreProgress(40, 2)
    mark = NewestMark(tmp_path, "me")
    assert read_mark(tmp_path) == StoreProgress(40, 2)
    mark.advance(41, 0)
    mark.close()
    assert read_mark(tmp_path) == StoreProgress(41, 2)


def test_a_line_of_a_process_that_lives_is_given_to_nobody_even_if_it_is_damaged(tmp_path: Path) -> None:
    (tmp_path / OWNERS).mkdir()
    owners = [OwnerFile(tmp_path, NEWEST_FORMAT) for _ in range(3)]
    marks = [NewestMark(tmp_path, owner.id) for owner in owners[:2]]
    with (tmp_path / NEWEST).open("r+b") as file:
        file.write(b"X")
    assert read_mark(tmp_path) == newest_mark.DamagedMark()
    marks.append(NewestMark(tmp_path, owners[2].id))
    for n, mark in enumerate(marks):
        mark.advance(10 + n, 0)
    lines = newest_mark._decode_lines((tmp_path / NEWEST).read_bytes())
    assert [line and (line.owner, line.progress.position) for line in lines] == [
        (owner.id, 10 + n) for n, owner in enumerate(owners)
    ]
    assert read_mark(tmp_path) == StoreProgress(12, 0), "its process has written it again"
    for mark, owner in zip(marks, owners, strict=True):
        mark.close()
        owner.close()


def test_a_damaged_line_of_the_only_process_that_lives_is_given_to_nobody(tmp_path: Path) -> None:
    (tmp_path / OWNERS).mkdir()
    owners = [OwnerFile(tmp_path, NEWEST_FORMAT) for _ in range(2)]
    first = NewestMark(tmp_path, owners[0].id)
    first.advance(1, 1)
    with (tmp_path / NEWEST).open("r+b") as file:
        file.write(b"torn")
    second = NewestMark(tmp_path, owners[1].id)
    for number in range(2, 50):
        second.advance(1, number)
    first.advance(2, 0)
    assert read_mark(tmp_path) == StoreProgress(2, 49), "neither has written over the other one"
    for mark, owner in zip((first, second), owners, strict=True):
        mark.close()
        owner.close()


def test_a_line_that_is_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / OWNERS).mkdir()
    mark = NewestMark(tmp_path, "1-a")
    mark.advance(7, 3)
    whole, torn = (tmp_path / NEWEST).read_bytes(), [2]
    read = os.pread

    def read_torn(descriptor: int, size: int, start: int) -> bytes:
        torn[0] -= 1
        return read(descriptor, size, start) if torn[0] < 0 else whole[:-20] + b"0" * 20

    monkeypatch.setattr(os, "pread", read_torn)
    assert read_mark(tmp_path) == StoreProgress(7, 3)
    mark.close()


def test_a_loss_is_accepted_for_processes_that_have_ended_and_not_for_those_that_live(tmp_path: Path) -> None:
    (tmp_path / OWNERS).mkdir()
    owners = [OwnerFile(tmp_path, NEWEST_FORMAT) for _ in range(3)]
    marks = [NewestMark(tmp_path, owner.id) for owner in owners]
    for mark, position in zip(marks, (50, 70, 30), strict=True):
        mark.advance(position, 0)
    for ended in (0, 1):
        marks[ended].close()
        owners[ended].close()
    again = NewestMark(tmp_path, "again")
    assert read_mark(tmp_path) == StoreProgress(70, 0)
    again.reset(StoreProgress(20, 0))
    assert read_mark(tmp_path) == StoreProgress(30, 0), "the third process lives"


def test_a_look_at_the_mark_tells_whether_another_process_has_written(tmp_path: Path) -> None:
    (tmp_path / OWNERS).mkdir()
    owners = [OwnerFile(tmp_path, NEWEST_FORMAT) for _ in range(2)]
    first = NewestMark(tmp_path, owners[0].id)
    first.advance(1, 0)
    assert not first.has_changed(), "its own lines are nothing new"
    second = NewestMark(tmp_path, owners[1].id)
    assert first.has_changed()
    assert not first.has_changed()
    second.advance(2, 0)
    first.advance(3, 0)
    assert first.has_changed(), "an own line does not hide what came before it"
    second.advance(0, 1)
    assert first.has_changed()
    assert not first.has_changed()
    for mark, owner in zip((first, second), owners, strict=True):
        mark.close()
        owner.close()


async def test_a_mark_that_cannot_be_written_fails_no_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(tmp_path)
    os.close(store._mark._descriptor)
    store._mark._descriptor = os.open(tmp_path / NEWEST, os.O_RDONLY)
    await store.create(a_row("r"), started())
    await store.append(a_row("r"), replied(2))
    await store.close()
    assert [record.message for record in caplog.records if "cannot be written" in record.message] != []
    assert len(caplog.records) == 1


async def test_a_group_of_commits_is_marked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []
    grow = NewestMark.advance

    def counted(self: NewestMark, position: int, unrecorded: int) -> None:
        grown.append(position)
        grow(self, position, unrecorded)

    store = SqliteStore(tmp_path)
    monkeypatch.setattr(NewestMark, "advance", counted)
    for _ in range(2):  # the first tick learns that it has company
        grown.clear()
        names = [f"r{_}{n}" for n in range(20)]
        await asyncio.gather(*(store.create(a_row(name), started()) for name in names))
    await store.close()
    assert len(grown) <= 2
    assert read_mark(tmp_path) == StoreProgress(40, 0)


@contextmanager
def serving_without_log(data: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server on a folder that has lost its log: its address, and its process, which is ended by SIGTERM."""
    (data / LOG).unlink()
    words = ("serve", HELLO, "--script", HELLO / "script.yaml", "--port", "0", "--data", data)
    command = [*PROGRAM, *map(str, words)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1], server
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)


def test_a_server_is_not_ready_until_the_loss_is_accepted(data: Path) -> None:
    with serving_without_log(data) as (address, server), httpx2.Client(trust_env=False) as client:
        ready = client.get(f"{address}/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "records-missing"})
        assert client.get(f"{address}/healthz").status_code == 200
        refused = client.get(f"{address}/v1/runs")
        assert (refused.status_code, refused.json()["code"]) == (503, "records-missing")
        assert called("doctor", "--accept-loss", "--data", data).exit_code == 0
        assert server.stdout is not None
        assert server.stdout.readline().startswith("interlock serves hello on")
        assert client.get(f"{address}/readyz").status_code == 200
    assert server.returncode == 0


def test_a_server_that_is_stopped_before_the_loss_is_accepted_ends_with_1(data: Path) -> None:
    with serving_without_log(data) as (address, server), httpx2.Client(trust_env=False) as client:
        assert client.get(f"{address}/readyz").status_code == 503
    assert server.returncode == 1
    assert isinstance(read_mark(data), StoreProgress)
    assert called("doctor", "--data", data).exit_code == 1, "nothing was accepted"


# Compacting, retention and backups


def test_compacting_keeps_the_mark_and_gives_up_no_loss(data: Path) -> None:
    marked = read_mark(data)
    done = called("compact", "--data", data)
    assert done.exit_code == 0, done.output
    assert read_mark(data) == marked
    assert called("doctor", "--data", data).exit_code == 0


def test_a_folder_that_has_lost_its_log_is_not_compacted(data: Path) -> None:
    (data / LOG).unlink()
    before = (data / "interlock.db").read_bytes()
    refused = called("compact", "--data", data)
    assert refused.exit_code == 1
    assert "doctor --accept-loss" in refused.stderr
    assert (data / "interlock.db").read_bytes() == before


def test_a_log_that_is_lost_after_compacting_deleting_and_expiring_is_noticed(tmp_path: Path) -> None:
    """The newest commits delete runs, forget tombstones and compact; none of them stores a record."""
    data, copy = tmp_path / "data", tmp_path / "copy"

    async def story() -> None:
        async with Interlock(data, script=HELLO / "script.yaml") as box:
            for run in ("first", "second"):
                await (await box.start(load_crew(HELLO), "go", run_id=run)).result()
            subprocess.run(["cp", "-r", data, copy], check=True)
            await delete_run(box, "first")
            marks = [read_mark(data)]
            await box.store.expire_tombstones(box.clock.now_ms() + 1)
            marks.append(read_mark(data))
            await sqlite_of(box).compact()
            await (await box.start(load_crew(HELLO), "go", run_id="third")).result()
            assert len({*marks, read_mark(data)}) == 3

    asyncio.run(story())
    assert asyncio.run(check_store(data)).problems == []
    assert called("compact", "--data", data).exit_code == 0
    shutil.copy(copy / "interlock.db", data / "interlock.db")
    with pytest.raises(RecordsMissing):
        SqliteStore(data)


def test_a_compacted_folder_can_be_backed_up_and_restored(data: Path, tmp_path: Path) -> None:
    assert called("compact", "--data", data).exit_code == 0
    assert called("backup", tmp_path / "copy.db", "--data", data).exit_code == 0
    (tmp_path / "restored").mkdir(mode=0o700)
    (tmp_path / "copy.db").rename(tmp_path / "restored" / "interlock.db")
    assert called("doctor", "--data", tmp_path / "restored").exit_code == 0
    assert run_hello(tmp_path / "restored").exit_code == 0
    assert called("doctor", "--data", tmp_path / "restored").exit_code == 0


def test_a_folder_is_compacted_while_another_process_has_it_open(data: Path) -> None:
    async def story() -> None:
        async with Interlock(data, script=HELLO / "script.yaml") as box:
            await delete_run(box, "first")
            command = [*PROGRAM, "compact", "--data", str(data)]
            done = await asyncio.to_thread(lambda: subprocess.run(command, capture_output=True, check=False))
            assert done.returncode == 0, done.stderr
            await (await box.start(load_crew(HELLO), "go", run_id="after")).result()

    asyncio.run(story())
    assert asyncio.run(check_store(data)).problems == []
    listed = called("runs", "list", "--data", data).stdout
    assert "second" in listed
    assert "after" in listed


async def test_a_host_program_is_refused_as_well(data: Path) -> None:
    (data / LOG).unlink()

    with pytest.raises(RecordsMissing):
        async with Interlock(data) as box:
            await box.start(load_crew(HELLO), "go")


def test_the_mark_is_silent_in_the_log_of_a_healthy_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert run_hello(tmp_path / "data").exit_code == 0
    assert caplog.records == []


async def test_the_mark_of_a_new_folder_is_whole_before_anything_is_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = SqliteStore(tmp_path)
    second = SqliteStore(tmp_path)
    await second.close()
    await first.close()
    assert caplog.messages == []
