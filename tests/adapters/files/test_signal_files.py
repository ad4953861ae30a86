"""The views of the bus: faithful, mended when they are damaged, and never in the way."""

import asyncio
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from interlock.adapters.files.signal_files import DELAYED, EVENTS, VIEWS, SignalFiles, ViewsBusy, queue_view
from interlock.adapters.files.view_keeper import SqliteSignalSource, ViewKeeper
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.store import SqliteStore
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.naming import series_name, stable_id
from interlock.broadcast.record import PROCESS, Broadcast, Emission, decode_broadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.limits import EVENTS_FILES_KEPT
from interlock.ports import Activity

NOW = 1_800_000_000_000


# Deeper than any reader goes.
DEEP = (
    b'{"id":"x","type":"x","source":{"type":"process"},"createdAt":1,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
)


class ListSignalSource:
    """A store of broadcasts and delayed signals, as lists."""

    def __init__(self, lines: int = 0) -> None:
        self.lines: list[bytes] = []
        self.queue: list[DelayedBroadcast] = []
        self.number = 0
        for _ in range(lines):
            self.announce()

    def announce(self, data: Any = None) -> None:
        n = len(self.lines)
        made = Broadcast(id=stable_id(str(n)), type=f"t:{n}", source=PROCESS, data=data, created_at=NOW + n)
        self.lines.append(encode_broadcast(made))

    def schedule(self, name: str) -> None:
        entry = DelayedBroadcast(id=name, type="x", source=PROCESS, deliver_at=NOW, created_at=NOW, updated_at=NOW)
        self.queue.append(entry)
        self.number += 1

    def bodies(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [(n, line) for n, line in enumerate(self.lines, 1) if n > after][:limit]

    def start_of_newest(self, bytes_max: int) -> int:
        for position in range(len(self.lines), 0, -1):
            bytes_max -= len(self.lines[position - 1]) + 1
            if bytes_max < 0:
                return position
        return 0

    def position_of(self, body: bytes) -> int | None:
        try:
            name = decode_broadcast(body).id
        except ValueError:
            return None
        known = [decode_broadcast(line).id for line in self.lines]
        return known.index(name) + 1 if name in known else None

    def queue_version(self) -> int:
        return self.number

    def list_delayed(self) -> list[DelayedBroadcast]:
        return self.queue

    @property
    def file(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)


class Desk:
    """A data folder and the keeper of its views; `reopened` is another process."""

    def __init__(self, data: Path, truth: ListSignalSource, bytes_max: int = 10**9) -> None:
        self.data, self.truth, self.bytes_max = data, truth, bytes_max
        self.reports: list[str] = []
        self.ticks = iter(range(NOW, NOW + 10**6))
        self.reopened()

    def reopened(self) -> "Desk":
        self.files = SignalFiles(self.data, self.truth, self.reports.append, lambda: next(self.ticks), self.bytes_max)
        self.reports.clear()
        return self

    @property
    def events(self) -> Path:
        return self.data / "signals" / EVENTS

    @property
    def delayed(self) -> Path:
        return self.data / "signals" / DELAYED

    def aside(self) -> list[Path]:
        return sorted((self.data / "signals").glob("*.damaged-*"))

    def is_faithful(self) -> bool:
        return self.events.read_bytes() == self.truth.file and self.delayed.read_bytes() == queue_view(self.truth.queue)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, ListSignalSource(lines=5))
    desk.truth.schedule("a")
    desk.files.refresh()
    return desk


def test_the_views_are_what_the_store_says_and_stay_so(desk: Desk) -> None:
    assert desk.is_faithful() and desk.reports == []
    for n in range(5):
        desk.truth.announce({"n": n})
        desk.truth.schedule(f"b{n}")
        if n % 2:
            desk.reopened()
        desk.files.refresh()
        assert desk.is_faithful()
    assert desk.reports == [] and desk.aside() == []


def test_events_are_one_compact_object_a_line_and_delayed_is_version_1_for_its_owner_alone(desk: Desk) -> None:
    lines = desk.events.read_text().splitlines()
    assert [list(json.loads(line)) for line in lines] == [["id", "type", "source", "data", "createdAt"]] * 5
    assert all(": " not in line for line in lines)
    queue = json.loads(desk.delayed.read_text())
    assert queue["version"] == 1 and [each["id"] for each in queue["events"]] == ["a"]
    assert stat.S_IMODE(desk.delayed.stat().st_mode) == 0o600


def test_a_refresh_that_has_nothing_to_do_writes_nothing(desk: Desk) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in desk.events.parent.iterdir()}
    desk.files.refresh()
    desk.reopened().files.refresh()
    assert {path.name: path.stat().st_mtime_ns for path in desk.events.parent.iterdir()} == before


@pytest.mark.parametrize("state", ["known", "unknown"])
def test_a_file_that_breaks_off_at_any_byte_of_its_last_three_records_is_mended(desk: Desk, state: str) -> None:
    whole = desk.truth.file
    start = len(whole) - sum(len(line) + 1 for line in desk.truth.lines[-3:])
    for length in range(start, len(whole)):
        desk.events.write_bytes(whole[:length])
        if state == "unknown":
            (desk.events.parent / VIEWS).unlink()
        desk.reopened().files.refresh()
        assert desk.is_faithful(), length
        is_torn = not whole[:length].endswith(b"\n")
        assert len(desk.reports) == is_torn, (length, desk.reports)
    assert desk.aside() == []


def test_no_flipped_bit_survives_and_what_was_damaged_in_the_middle_is_kept_aside(desk: Desk) -> None:
    whole = desk.truth.file
    last = len(whole) - len(desk.truth.lines[-1]) - 1
    for at, bit in product(range(len(whole)), range(8)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        desk.events.write_bytes(damaged)
        desk.reopened().files.refresh()
        assert desk.events.read_bytes() == whole, (at, bit)
        assert len(desk.reports) == 1
        aside = desk.aside()
        if at < last - 1:
            assert [path.read_bytes() for path in aside] == [bytes(damaged)], (at, bit)
        for path in aside:
            path.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"\n", b"garbage", b"garbage\n", b"\x00" * 4096, b"{}\n{}\n", "\ufeff".encode(), b'{"id": "x"}\n' * 3,
        DEEP + b"\n{}\n",
    ],
    ids=lambda damage: repr(damage[:40]),
)  # fmt: skip
def test_whatever_stands_in_the_place_of_a_view_is_replaced_and_not_lost(desk: Desk, damage: bytes) -> None:
    desk.events.write_bytes(damage)
    desk.delayed.write_bytes(damage)
    desk.reopened().files.refresh()
    assert desk.is_faithful()
    kept = [path.read_bytes() for path in desk.aside()]
    assert damage in kept and len(desk.reports) >= 1
    assert sum(path.name.startswith(DELAYED) for path in desk.aside()) == 1


def test_what_is_no_plain_file_is_kept_aside(desk: Desk) -> None:
    for path in (desk.events, desk.delayed):
        path.rename(path.with_name(f"real-{path.name}"))
        path.symlink_to(f"real-{path.name}")
    desk.truth.announce({"n": 1})
    desk.reopened().files.refresh()
    assert desk.is_faithful() and [path.is_symlink() for path in desk.aside()] == [True, True]
    for path in (desk.events, desk.delayed):
        path.unlink()
        path.mkdir()
    desk.reopened().files.refresh()
    assert desk.is_faithful() and len(desk.aside()) == 4


def test_a_state_that_is_nested_without_end_is_no_state(desk: Desk) -> None:
    (desk.data / "signals" / "views.json").write_bytes(DEEP)
    desk.reopened().files.refresh()
    assert desk.is_faithful()


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_line_that_somebody_added_by_hand_is_kept_aside_and_reported(desk: Desk, place: int) -> None:
    own = Broadcast(id=stable_id("own"), type="by:hand", source=PROCESS, created_at=NOW)
    lines = list(desk.truth.lines)
    lines.insert(place, encode_broadcast(own))
    edited = b"".join(line + b"\n" for line in lines)
    desk.events.write_bytes(edited)
    desk.reopened().files.refresh()
    assert desk.is_faithful()
    assert [path.read_bytes() for path in desk.aside()] == [edited]
    assert "import" in desk.reports[0]


def test_lines_that_stick_together_are_mended(desk: Desk) -> None:
    whole = desk.truth.file
    for n in range(4):
        at = sum(len(line) + 1 for line in desk.truth.lines[: n + 1]) - 1
        desk.events.write_bytes(whole[:at] + whole[at + 1 :])
        desk.reopened().files.refresh()
        assert desk.is_faithful()
        assert len(desk.reports) == 1
        assert len(desk.aside()) == min(n + 1, 3), "the last two together are a broken end"


def test_a_view_that_lags_is_brought_up_to_date_without_a_word(desk: Desk) -> None:
    for _ in range(3):
        desk.truth.announce()
    desk.truth.schedule("b")
    desk.reopened().files.refresh()
    assert desk.is_faithful() and desk.reports == []


def test_views_that_were_deleted_are_made_anew(desk: Desk) -> None:
    for name in (EVENTS, DELAYED, VIEWS):
        (desk.events.parent / name).unlink()
        desk.reopened().files.refresh()
        assert desk.is_faithful() and desk.aside() == []


def test_an_edit_while_we_are_running_is_noticed(desk: Desk) -> None:
    desk.events.write_bytes(b"mine now\n")
    desk.delayed.write_bytes(b'{"version": 1, "events": []}')
    desk.truth.announce()
    desk.files.refresh()
    assert desk.is_faithful()
    assert sorted(path.read_bytes() for path in desk.aside()) == [b"mine now\n", b'{"version": 1, "events": []}']


def test_a_mode_that_lets_others_read_the_queue_is_taken_back(desk: Desk) -> None:
    desk.delayed.chmod(0o644)
    desk.reopened().files.refresh()
    assert stat.S_IMODE(desk.delayed.stat().st_mode) == 0o600
    assert desk.aside() == []


def test_events_are_rotated_by_size_and_the_oldest_files_go(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ListSignalSource(), bytes_max=400)
    for _ in range(40):
        desk.truth.announce()
        desk.files.refresh()
        assert desk.events.stat().st_size <= 400
    names = [EVENTS, *(f"{EVENTS}.{n}" for n in range(1, EVENTS_FILES_KEPT + 1))]
    assert sorted(path.name for path in desk.events.parent.glob(f"{EVENTS}*")) == sorted(names)
    kept = b"".join((desk.events.parent / name).read_bytes() for name in reversed(names))
    assert desk.truth.file.endswith(kept)
    assert desk.reports == []


def test_what_comes_at_once_is_rotated_as_well(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ListSignalSource(), bytes_max=400)
    desk.files.refresh()
    for _ in range(20):
        desk.truth.announce()
    desk.files.refresh()
    assert desk.events.stat().st_size <= 400
    assert all(path.stat().st_size <= 400 for path in desk.events.parent.glob(f"{EVENTS}.*"))


def test_a_rebuilt_file_holds_the_newest_that_fit(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ListSignalSource(lines=50), bytes_max=1_000)
    desk.files.refresh()
    written = desk.events.read_bytes()
    assert 800 < len(written) <= 1_000
    assert desk.truth.file.endswith(written)
    desk.truth.announce()
    desk.reopened().files.refresh()
    assert desk.truth.file.endswith(desk.events.read_bytes()) and desk.reports == []


def test_a_system_that_takes_a_few_bytes_at_a_time_gets_all_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    desk.truth.announce()
    desk.truth.schedule("b")
    desk.files.refresh()
    assert desk.is_faithful()


@pytest.mark.parametrize("room", range(0, 260, 13))
def test_a_disk_that_is_full_at_any_moment_is_caught_up_with_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    left, write = room, os.write

    def short(descriptor: int, data: memoryview) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(28, "No space left on device")
        done = write(descriptor, bytes(data[:left]))
        left -= done
        return done

    desk.truth.announce()
    desk.truth.schedule("b")
    with monkeypatch.context() as full:
        full.setattr(os, "write", short)
        with pytest.raises(OSError, match="No space left"):
            desk.files.refresh()
    desk.reopened().files.refresh()
    assert desk.is_faithful() and desk.aside() == []


class Killed(BaseException):
    """As a signal 9 would end it: what was on its way is nowhere but in the files."""


class Killing:
    """The n-th change of a file is the last; a write leaves a part of what it was to write."""

    def __init__(self, n: int) -> None:
        self.left = n

    def is_over(self) -> bool:
        self.left -= 1
        return self.left < 0

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.is_over():
            WRITE(descriptor, bytes(data[: len(data) // 2]))
            raise Killed
        return WRITE(descriptor, data)

    def around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*values: Any, **named: Any) -> Any:
            if self.is_over():
                raise Killed
            return change(*values, **named)

        return changed


WRITE = os.write


def lived(desk: Desk, monkeypatch: pytest.MonkeyPatch, n: int) -> bool:
    """Whether a refresh came through that dies at its n-th change."""
    killing = Killing(n)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", killing.write)
        for place, name in ((os, "truncate"), (Path, "rename"), (Path, "replace"), (Path, "unlink")):
            patched.setattr(place, name, killing.around(getattr(place, name)))
        try:
            desk.files.refresh()
        except Killed:
            return False
    return True


@pytest.mark.parametrize("before", ["up to date", "torn", "damaged", "gone", "full"])
def test_a_death_between_any_two_changes_of_the_files_leaves_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    for n in range(100):
        desk = Desk(tmp_path / str(n), ListSignalSource(lines=5), 600 if before == "full" else 10**9)
        desk.truth.schedule("a")
        desk.files.refresh()
        body = desk.events.read_bytes()
        if before == "torn":
            desk.events.write_bytes(body[:-9])
        elif before == "damaged":
            desk.events.write_bytes(b"x" + body[1:])
            desk.delayed.write_bytes(b"{}")
        elif before == "gone":
            desk.events.unlink()
        for _ in range(4):
            desk.truth.announce({"n": n})
        desk.truth.schedule("b")
        came_through = lived(desk.reopened(), monkeypatch, n)
        desk.reopened().files.refresh()
        kept = [path.read_bytes() for path in sorted(desk.events.parent.glob(f"{EVENTS}*[0-9]"))]
        whole = b"".join([each for each in reversed(kept) if before == "full"] + [desk.events.read_bytes()])
        assert whole == desk.truth.file, n
        assert desk.delayed.read_bytes() == queue_view(desk.truth.queue), n
        assert len(desk.aside()) == (2 if before == "damaged" else 0), n
        if came_through:
            assert n > 4, "so many changes there are at least"
            return
    pytest.fail("it never came through")


def test_only_one_process_writes_at_a_time(desk: Desk) -> None:
    descriptor = os.open(desk.events.parent / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ViewsBusy):
        desk.files.refresh()
    os.close(descriptor)
    desk.files.refresh()


def test_a_file_of_the_original_program_is_kept_and_its_import_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "signals"
    folder.mkdir()
    (folder / EVENTS).write_text('{"id":"abc","type":"x","source":{"type":"system"},"createdAt":1}\n')
    (folder / DELAYED).write_text('{"version":1,"events":[]}')
    desk = Desk(tmp_path, ListSignalSource(lines=1))
    desk.files.refresh()
    assert desk.is_faithful()
    assert len(desk.aside()) == 2 and all("broadcast import" in report for report in desk.reports)


def test_a_state_that_lies_is_found_out(desk: Desk) -> None:
    state = desk.events.parent / VIEWS
    for lie in ({"last": 3, "bytes": 10**9, "crc": 1}, {"last": 1, "bytes": 5, "crc": crc32(b"12345")}):
        state.write_text(json.dumps({"version": 1, "events": lie, "delayed": {"number": 1, "crcs": [1]}}))
        desk.reopened().files.refresh()
        assert desk.is_faithful()


# In a thread, beside a real store


def wait_for(check: Any) -> None:
    """Until another thread has done something; a failure ends by the timeout of the test."""
    while not check():
        os.sched_yield()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    yield SqliteStore(tmp_path)


async def test_after_commits_the_views_follow_by_themselves(store: SqliteStore, tmp_path: Path) -> None:
    bus, keeper = SqliteBus(store), ViewKeeper(store)
    for n in range(3):
        broadcast = Broadcast(id=stable_id(str(n)), type="x", source=PROCESS, created_at=NOW)
        await bus.emit(Emission(broadcast=broadcast))
        keeper.on_commit()
    entry = DelayedBroadcast(id="later", type="x", source=PROCESS, deliver_at=NOW, created_at=NOW, updated_at=NOW)
    await bus.schedule(entry)
    keeper.on_commit()
    keeper.stop()
    await store.close()
    assert len((tmp_path / "signals" / EVENTS).read_bytes().splitlines()) == 3
    assert "later" in (tmp_path / "signals" / DELAYED).read_text()


async def test_waking_that_nobody_heard_stands_in_the_view_line_by_line(store: SqliteStore, tmp_path: Path) -> None:
    """Also where the file begins, or breaks off, in the midst of what the store keeps as one."""

    bus, name = SqliteBus(store), series_name("r")
    for place, agents in enumerate(("ab", "cd"), 1):
        begun = tuple((agent, 0) for agent in agents)
        await bus.record_presence(Activity(name=name, place=place, crew="ci", run="r", at=NOW, begun=begun))
    lines = [encode_broadcast(each) for each in await bus.newest(10)]
    path, truth = tmp_path / "signals" / EVENTS, SqliteSignalSource(store.open_reader())
    path.parent.mkdir()
    for begins in range(3):
        path.write_bytes(b"\n".join(lines[begins:])[:-5])
        path.with_name(VIEWS).unlink(missing_ok=True)
        SignalFiles(tmp_path, truth, print, lambda: NOW).refresh()
        assert path.read_bytes().splitlines() == lines[begins:]
    path.unlink()
    SignalFiles(tmp_path, truth, print, lambda: NOW, bytes_max=sum(map(len, lines[1:])) + 3).refresh()
    assert path.read_bytes().splitlines() == lines[1:]
    assert not list(path.parent.glob("*damaged*"))
    truth.close()
    await store.close()


async def test_damaged_waking_in_the_store_is_reported_and_hides_no_other(store: SqliteStore) -> None:
    bus = SqliteBus(store)
    for place, agent in enumerate("abc", 1):
        activity = Activity(name=series_name("r"), place=place, crew="ci", run="r", at=NOW, begun=((agent, 0),))
        await bus.record_presence(activity)
    await store.write("damage", lambda c, _: c.execute("update lifecycle set body = x'5b' where position = 2"))
    assert [position for position, _ in await bus.since(0, 10)] == [1, 3]
    assert (await bus.prune(NOW + 1)).gone == 1, "the newest stays, and so does what is damaged"
    problems = list(await store.problems())
    await store.close()
    assert any("position 2 is damaged" in problem for problem in problems)


async def test_a_damaged_broadcast_in_the_store_hides_no_other_from_the_view(
    store: SqliteStore, tmp_path: Path
) -> None:
    bus = SqliteBus(store)
    for n in range(3):
        await bus.emit(Emission(broadcast=Broadcast(id=f"b{n}", type="x", source=PROCESS, created_at=NOW)))
    await store.write("damage", lambda c, _: c.execute("update broadcasts set body = x'00' where position = 2"))
    assert [each.id for each in await bus.newest(10)] == ["b0", "b2"]
    problems = list(await store.problems())
    truth = SqliteSignalSource(store.open_reader())
    SignalFiles(tmp_path, truth, print, lambda: NOW).refresh()
    truth.close()
    await store.close()
    assert any("position 2 is damaged" in problem for problem in problems)
    assert len((tmp_path / "signals" / EVENTS).read_bytes().splitlines()) == 2


async def test_however_many_are_damaged_in_the_store_they_hide_no_other(store: SqliteStore) -> None:
    bus = SqliteBus(store)
    await bus.subscribe(AgentSubscription(crew="ci", agent="a", pattern="x", silent=False))
    for name in ("b1", "b2", "b3"):
        await bus.emit(Emission(broadcast=Broadcast(id=name, type="x", source=PROCESS, created_at=NOW)))
        entry = DelayedBroadcast(id=name, type="x", source=PROCESS, deliver_at=NOW, created_at=NOW, updated_at=NOW)
        await bus.schedule(entry)
    await store.write("damage", lambda c, _: c.execute("update broadcasts set body = x'00' where id < 'b3'"))
    await store.write("damage", lambda c, _: c.execute("update delayed set body = x'00' where id < 'b3'"))
    assert [each.id for _, each in await bus.since(0, 1)] == ["b3"]
    assert [each.id for each in await bus.due_broadcasts(NOW, 1)] == ["b3"]
    found = await bus.next_delivery("ci", "a", NOW)
    assert found is not None and found.heard.broadcast.id == "b3"
    assert await bus.next_due(NOW) is None, "a damaged entry is never due"
    await store.close()


async def test_a_folder_that_cannot_be_written_is_reported_once_and_commits_go_on(
    store: SqliteStore, tmp_path: Path
) -> None:
    (tmp_path / "signals").write_text("a file where the folder should be")
    reports: list[str] = []

    bus, keeper = SqliteBus(store), ViewKeeper(store, reports.append)
    for n in range(20):
        await bus.emit(Emission(broadcast=Broadcast(id=f"b{n}", type="x", source=PROCESS, created_at=NOW)))
        keeper.on_commit()
    await asyncio.to_thread(wait_for, lambda: reports)
    (tmp_path / "signals").unlink()
    keeper.stop()
    assert await bus.head() == 20
    await store.close()
    assert len(reports) == 1 and "cannot be written now" in reports[0]
    assert len((tmp_path / "signals" / EVENTS).read_bytes().splitlines()) == 20
