"""The two files of the protocol, `signals/events.jsonl` and `signals/delayed.json`, as views of the store.

Rule 1: the store is authoritative. A view that lags is updated; one that is damaged or edited is renamed, reported, and
written again.
Rule 2: an incomplete last line of `events.jsonl` is cut off and written again: a crash leaves one. Any other difference
from the store is damage.
Rule 3: `signals/views.json` holds the state of the last write, with its crc, so that checks are quick.
Rule 4: one process writes at a time, under a lock. Nothing here is synced to disk: it can always be written again.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec

from interlock.adapters.files.private_files import FILE_MODE, make_private_folder, open_private
from interlock.broadcast.delayed import DelayedBroadcast, view_of
from interlock.broadcast.record import decode_broadcast
from interlock.limits import EVENTS_FILE_BYTES_MAX, EVENTS_FILES_KEPT

SIGNALS = "signals"
EVENTS = "events.jsonl"
DELAYED = "delayed.json"
VIEWS = "views.json"
LOCK = "lock"

PAGE = 1_000

Report = Callable[[str], None]


class SignalSource(Protocol):
    """The source of the views; bodies are lines without their line end."""

    def bodies(self, after: int, limit: int) -> list[tuple[int, bytes]]: ...

    def start_of_newest(self, bytes_max: int) -> int:
        """The position before the newest broadcasts that fit into that many bytes, each with a line end."""
        ...

    def position_of(self, body: bytes) -> int | None:
        """The position of the broadcast with this id."""
        ...

    def queue_version(self) -> int:
        """Changes whenever the queue does."""
        ...

    def list_delayed(self) -> list[DelayedBroadcast]: ...


class EventsState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of `events.jsonl` after the last write: its position, size and crc."""

    last: int = 0
    bytes: int = 0
    crc: int = 0


class DelayedState(msgspec.Struct, frozen=True, kw_only=True):
    """The crcs that `delayed.json` may have: before and after its last replacement."""

    crcs: tuple[int, ...] = ()


class ViewsState(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    events: EventsState | None = None
    delayed: DelayedState = DelayedState()


class ViewsBusy(Exception):
    """Another process is writing the views."""


class SignalFiles:
    """Both views in a data folder. `refresh` updates them."""

    def __init__(
        self,
        data: Path,
        source: SignalSource,
        report: Report,
        now_ms: Callable[[], int],
        bytes_max: int = EVENTS_FILE_BYTES_MAX,
    ) -> None:
        self.folder = data / SIGNALS
        self._source, self._report, self._now_ms, self._bytes_max = source, report, now_ms, bytes_max
        self._seen: dict[str, tuple[int, int, int]] = {}  # the state of each file when it was last correct
        self._right_delayed: tuple[int, tuple[int, int, int]] | None = None  # and the number of the store then

    def refresh(self) -> None:
        """`Busy` while another process does it; `OSError` if it cannot be done now."""
        make_private_folder(self.folder)
        with self._hold_lock():
            state = self._read_state()
            state = msgspec.structs.replace(state, events=self._refresh_events_file(state.events))
            self._write_state(state)
            self._refresh_queue_file(state)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        descriptor = open_private(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ViewsBusy from error
            yield
        finally:
            os.close(descriptor)

    # What was written last

    def _read_state(self) -> ViewsState:
        try:
            return msgspec.json.decode((self.folder / VIEWS).read_bytes(), type=ViewsState)
        except (OSError, ValueError, RecursionError):
            return ViewsState()

    def _write_state(self, state: ViewsState) -> None:
        body = msgspec.json.encode(state)
        if self._read_state() != state:
            _replace(self.folder / VIEWS, body)

    # events.jsonl

    def _refresh_events_file(self, state: EventsState | None) -> EventsState:
        path = self.folder / EVENTS
        if state is None or self._stat_of(path) != self._seen.get(EVENTS):
            state = self._verify_file(path, self._after_rotation(path, state))
        state = self._catch_up(path, state)
        self._seen[EVENTS] = self._stat_of(path)
        return state

    def _stat_of(self, path: Path) -> tuple[int, int, int]:
        try:
            found = path.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def _after_rotation(self, path: Path, state: EventsState | None) -> EventsState | None:
        """Finishes a rotation that was interrupted: the known file is under the next name."""
        older = _rotation_path(path, 1)
        if state is None or not state.bytes or self._stat_of(older)[1] != state.bytes:
            return state
        return EventsState(last=state.last) if crc32(older.read_bytes()) == state.crc else state

    def _verify_file(self, path: Path, state: EventsState | None) -> EventsState:
        """The part of the file that matches the store; the rest is cut off, or the whole file is renamed."""
        if path.is_symlink() or (path.exists() and not path.is_file()):
            self._set_aside(path)
            return self._rebuild_file(path)
        if not path.exists():
            if state is not None and not state.bytes:
                return state
            if state is not None:
                self._report(f"'{path}' was gone; it is written again from the store")
            return self._rebuild_file(path)
        data = path.read_bytes()
        known = state is not None and crc32(data[: state.bytes]) == state.crc and len(data) >= state.bytes
        right = state if known and state is not None else EventsState()
        if not known and data:
            first = self._source.position_of(data.partition(b"\n")[0])
            if first is None:
                return self._set_aside_and_rebuild(path, data)
            right = EventsState(last=first - 1)
        return self._verify_lines(path, data, right)

    def _verify_lines(self, path: Path, data: bytes, right: EventsState) -> EventsState:
        """Line by line from where it is known to be right."""
        while right.bytes < len(data):
            page = self._source.bodies(right.last, PAGE)
            before = right
            for position, body in page:
                line = body + b"\n"
                if not data.startswith(line, right.bytes):
                    break
                right = EventsState(last=position, bytes=right.bytes + len(line), crc=crc32(line, right.crc))
            if right == before or right.last != page[-1][0]:
                break
        rest = data[right.bytes :]
        if not rest:
            return right
        if b"\n" in rest[:-1] or self._is_foreign(rest):
            return self._set_aside_and_rebuild(path, data)
        os.truncate(path, right.bytes)
        self._report(f"the last line of '{path}' was incomplete; it is written again")
        return right

    def _is_foreign(self, line: bytes) -> bool:
        """Whether a last line is a whole broadcast that the store does not have, rather than a part of one."""
        try:
            decode_broadcast(line)
        except ValueError:
            return False
        return self._source.position_of(line) is None

    def _set_aside_and_rebuild(self, path: Path, data: bytes) -> EventsState:
        if data:
            self._set_aside(path)
        return self._rebuild_file(path)

    def _set_aside(self, path: Path) -> None:
        aside = path.with_name(f"{path.name}.damaged-{self._now_ms()}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}x")
        path.rename(aside)
        if aside.is_file() and not aside.is_symlink():
            aside.chmod(FILE_MODE)
        self._report(
            f"'{path}' differs from the store: damaged, edited by hand, or from another program; it was renamed to"
            f" '{aside.name}' and written again. 'interlock broadcast import' reads files of the original program"
        )

    def _rebuild_file(self, path: Path) -> EventsState:
        """The newest broadcasts that fit into one file."""
        state = EventsState(last=self._source.start_of_newest(self._bytes_max))
        draft = path.with_name(f"{path.name}.new")
        draft.unlink(missing_ok=True)
        state = self._append_missing(draft, state, rotates=False)
        draft.replace(path)
        return state

    def _catch_up(self, path: Path, state: EventsState) -> EventsState:
        return self._append_missing(path, state, rotates=True)

    def _append_missing(self, path: Path, state: EventsState, *, rotates: bool) -> EventsState:
        """Appends the broadcasts of the store that the file lacks."""
        descriptor = _open_to_append(path)
        try:
            while page := self._source.bodies(state.last, PAGE):
                for part in self._parts(page, state.bytes if rotates else -(2**62)):
                    if rotates and state.bytes and state.bytes + len(part[1]) > self._bytes_max:
                        self._write_state(msgspec.structs.replace(self._read_state(), events=state))
                        descriptor = self._rotate_files(path, descriptor)
                        state = EventsState(last=state.last)
                    _write(descriptor, part[1])
                    state = EventsState(last=part[0], bytes=state.bytes + len(part[1]), crc=crc32(part[1], state.crc))
        finally:
            os.close(descriptor)
        return state

    def _parts(self, page: list[tuple[int, bytes]], size: int) -> Iterator[tuple[int, bytes]]:
        """Chunks that fit into the file: the position of the last one, and the lines."""
        lines: list[bytes] = []
        last, length = 0, 0
        for position, body in page:
            if lines and max(size, 0) + length + len(body) + 1 > self._bytes_max:
                yield last, b"".join(lines)
                lines, length, size = [], 0, 0
            lines += (body, b"\n")
            last, length = position, length + len(body) + 1
        if lines:
            yield last, b"".join(lines)

    def _rotate_files(self, path: Path, full: int) -> int:
        """Starts a new file in place of a full one."""
        for n in range(EVENTS_FILES_KEPT, 0, -1):
            newer = path if n == 1 else _rotation_path(path, n - 1)
            with suppress(FileNotFoundError):
                newer.replace(_rotation_path(path, n))
        descriptor = _open_to_append(path)
        os.close(full)
        return descriptor

    # delayed.json

    def _refresh_queue_file(self, state: ViewsState) -> None:
        path, number = self.folder / DELAYED, self._source.queue_version()
        known = state.delayed
        looks = self._stat_of(path)
        # The state beside the file is not used: its writer may have died before the file itself was replaced.
        if (number, looks) == self._right_delayed:
            return
        body = queue_view(self._source.list_delayed())
        crcs = [crc32(body)]
        if path.is_symlink() or path.is_dir():
            self._set_aside(path)
        elif looks != (0, 0, 0):
            data = path.read_bytes()
            if data == body and _is_private(path):
                crcs = []
            elif crc32(data) in known.crcs or data == body:
                crcs.insert(0, crc32(data))
            else:
                self._set_aside(path)
        fresh = DelayedState(crcs=tuple(crcs) or known.crcs or (crc32(body),))
        self._write_state(msgspec.structs.replace(state, delayed=fresh))
        if crcs:
            _replace(path, body)
        self._right_delayed = (number, self._stat_of(path))


def queue_view(entries: list[DelayedBroadcast]) -> bytes:
    """The file as people and the original program read it."""
    events = [view_of(entry) for entry in entries]
    return msgspec.json.format(msgspec.json.encode({"version": 1, "events": events}), indent=1) + b"\n"


def _rotation_path(path: Path, n: int) -> Path:
    """The name of a file after that many rotations."""
    return path.with_name(f"{path.name}.{n}")


def _is_private(path: Path) -> bool:
    return path.stat().st_mode & 0o777 == 0o600


def _open_to_append(path: Path) -> int:
    return open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _write(descriptor: int, data: bytes) -> None:
    """Writes all of it, though the system may write in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(path: Path, body: bytes) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        _write(descriptor, body)
    finally:
        os.close(descriptor)
    draft.replace(path)
