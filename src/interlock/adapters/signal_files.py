"""The two files of the protocol, `signals/events.jsonl` and `signals/delayed.json`, as faithful views of the store.

Rule 1: the store is the truth. A view that lags is brought up to date; one that is damaged, or that somebody edited, is
kept aside under another name, reported, and made anew.
Rule 2: what breaks off at the end of `events.jsonl` is cut off and written again: that is how a crash looks. Anything
else that is not what the store says is damage.
Rule 3: `signals/views.json` says what was written last, with its crc, so that looking is quick. It is no truth either.
Rule 4: one process at a time, by a lock. Nothing here is forced to the disk: it can always be made again.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec

from interlock.adapters.private_files import FILE_MODE, make_private_folder, open_private
from interlock.broadcast.delayed import Delayed, view_of
from interlock.broadcast.record import decoded
from interlock.limits import EVENTS_FILE_BYTES_MAX, EVENTS_FILES_KEPT

SIGNALS = "signals"
EVENTS = "events.jsonl"
DELAYED = "delayed.json"
VIEWS = "views.json"
LOCK = "lock"

PAGE = 1_000

Report = Callable[[str], None]


class Truth(Protocol):
    """What views are made from; bodies are lines without their end."""

    def bodies(self, after: int, limit: int) -> list[tuple[int, bytes]]: ...

    def start_of_newest(self, bytes_max: int) -> int:
        """The position before the newest broadcasts that fit into so many bytes, an end of line each."""
        ...

    def position_of(self, body: bytes) -> int | None:
        """Where a broadcast of this id stands."""
        ...

    def delayed_number(self) -> int:
        """Changes whenever the queue does."""
        ...

    def delayed(self) -> list[Delayed]: ...


class EventsState(msgspec.Struct, frozen=True, kw_only=True):
    """What `events.jsonl` was when it was written last: up to which position, how long, and its crc."""

    last: int = 0
    bytes: int = 0
    crc: int = 0


class DelayedState(msgspec.Struct, frozen=True, kw_only=True):
    """The crcs that `delayed.json` may have: before it was replaced last, and after."""

    crcs: tuple[int, ...] = ()


class ViewsState(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    events: EventsState | None = None
    delayed: DelayedState = DelayedState()


class Busy(Exception):
    """Another process is writing the views."""


class SignalFiles:
    """Both views in a data folder. `refresh` brings them up to date."""

    def __init__(
        self,
        data: Path,
        truth: Truth,
        report: Report,
        now_ms: Callable[[], int],
        bytes_max: int = EVENTS_FILE_BYTES_MAX,
    ) -> None:
        self.folder = data / SIGNALS
        self._truth, self._report, self._now_ms, self._bytes_max = truth, report, now_ms, bytes_max
        self._seen: dict[str, tuple[int, int, int]] = {}  # how each file looked when it was known to be right
        self._right_delayed: tuple[int, tuple[int, int, int]] | None = None  # and of which number of the store

    def refresh(self) -> None:
        """`Busy` while another process does it; `OSError` if it cannot be done now."""
        make_private_folder(self.folder)
        with self._locked():
            state = self._read_state()
            state = msgspec.structs.replace(state, events=self._events(state.events))
            self._write_state(state)
            self._delayed(state)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = open_private(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy from error
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

    def _events(self, state: EventsState | None) -> EventsState:
        path = self.folder / EVENTS
        if state is None or self._looks(path) != self._seen.get(EVENTS):
            state = self._verified(path, self._after_rotation(path, state))
        state = self._caught_up(path, state)
        self._seen[EVENTS] = self._looks(path)
        return state

    def _looks(self, path: Path) -> tuple[int, int, int]:
        try:
            found = path.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def _after_rotation(self, path: Path, state: EventsState | None) -> EventsState | None:
        """Whoever was killed in the midst of a rotation has left what is known under the next name."""
        older = _older(path, 1)
        if state is None or not state.bytes or self._looks(older)[1] != state.bytes:
            return state
        return EventsState(last=state.last) if crc32(older.read_bytes()) == state.crc else state

    def _verified(self, path: Path, state: EventsState | None) -> EventsState:
        """The file as far as it is what the store says; what follows that is cut off, or all of it kept aside."""
        if path.is_symlink() or (path.exists() and not path.is_file()):
            self._put_aside(path)
            return self._rebuilt(path)
        if not path.exists():
            if state is not None and not state.bytes:
                return state
            if state is not None:
                self._report(f"'{path}' was gone; it is made anew from the store")
            return self._rebuilt(path)
        data = path.read_bytes()
        known = state is not None and crc32(data[: state.bytes]) == state.crc and len(data) >= state.bytes
        right = state if known and state is not None else EventsState()
        if not known and data:
            first = self._truth.position_of(data.partition(b"\n")[0])
            if first is None:
                return self._kept_aside(path, data)
            right = EventsState(last=first - 1)
        return self._right_part(path, data, right)

    def _right_part(self, path: Path, data: bytes, right: EventsState) -> EventsState:
        """Line by line from where it is known to be right."""
        while right.bytes < len(data):
            page = self._truth.bodies(right.last, PAGE)
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
            return self._kept_aside(path, data)
        os.truncate(path, right.bytes)
        self._report(f"the last line of '{path}' was not whole; it is written again")
        return right

    def _is_foreign(self, line: bytes) -> bool:
        """Whether a last line is a whole broadcast that the store does not know, rather than a piece of one."""
        try:
            decoded(line)
        except ValueError:
            return False
        return self._truth.position_of(line) is None

    def _kept_aside(self, path: Path, data: bytes) -> EventsState:
        if data:
            self._put_aside(path)
        return self._rebuilt(path)

    def _put_aside(self, path: Path) -> None:
        aside = path.with_name(f"{path.name}.damaged-{self._now_ms()}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}x")
        path.rename(aside)
        if aside.is_file() and not aside.is_symlink():
            aside.chmod(FILE_MODE)
        self._report(
            f"'{path}' is not what the store says: damaged, edited by hand, or of another program; it is kept as"
            f" '{aside.name}' and made anew. 'interlock broadcast import' takes in files of the original program"
        )

    def _rebuilt(self, path: Path) -> EventsState:
        """The newest that fit into one file."""
        state = EventsState(last=self._truth.start_of_newest(self._bytes_max))
        draft = path.with_name(f"{path.name}.new")
        draft.unlink(missing_ok=True)
        state = self._appended(draft, state, rotates=False)
        draft.replace(path)
        return state

    def _caught_up(self, path: Path, state: EventsState) -> EventsState:
        return self._appended(path, state, rotates=True)

    def _appended(self, path: Path, state: EventsState, *, rotates: bool) -> EventsState:
        """What the store has after what the file has."""
        descriptor = _open_to_append(path)
        try:
            while page := self._truth.bodies(state.last, PAGE):
                for part in self._parts(page, state.bytes if rotates else -(2**62)):
                    if rotates and state.bytes and state.bytes + len(part[1]) > self._bytes_max:
                        self._write_state(msgspec.structs.replace(self._read_state(), events=state))
                        descriptor = self._rotated(path, descriptor)
                        state = EventsState(last=state.last)
                    _write(descriptor, part[1])
                    state = EventsState(last=part[0], bytes=state.bytes + len(part[1]), crc=crc32(part[1], state.crc))
        finally:
            os.close(descriptor)
        return state

    def _parts(self, page: list[tuple[int, bytes]], size: int) -> Iterator[tuple[int, bytes]]:
        """As much at a time as fits into the file; the position of the last one, and the lines."""
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

    def _rotated(self, path: Path, full: int) -> int:
        """A new file to append to, in the place of one that is full."""
        for n in range(EVENTS_FILES_KEPT, 0, -1):
            newer = path if n == 1 else _older(path, n - 1)
            with suppress(FileNotFoundError):
                newer.replace(_older(path, n))
        descriptor = _open_to_append(path)
        os.close(full)
        return descriptor

    # delayed.json

    def _delayed(self, state: ViewsState) -> None:
        path, number = self.folder / DELAYED, self._truth.delayed_number()
        known = state.delayed
        looks = self._looks(path)
        # What is kept beside the file is not asked: its writer may have died before the file itself was replaced.
        if (number, looks) == self._right_delayed:
            return
        body = delayed_view(self._truth.delayed())
        crcs = [crc32(body)]
        if path.is_symlink() or path.is_dir():
            self._put_aside(path)
        elif looks != (0, 0, 0):
            data = path.read_bytes()
            if data == body and _is_private(path):
                crcs = []
            elif crc32(data) in known.crcs or data == body:
                crcs.insert(0, crc32(data))
            else:
                self._put_aside(path)
        fresh = DelayedState(crcs=tuple(crcs) or known.crcs or (crc32(body),))
        self._write_state(msgspec.structs.replace(state, delayed=fresh))
        if crcs:
            _replace(path, body)
        self._right_delayed = (number, self._looks(path))


def delayed_view(entries: list[Delayed]) -> bytes:
    """The file as people and the original program read it."""
    events = [view_of(entry) for entry in entries]
    return msgspec.json.format(msgspec.json.encode({"version": 1, "events": events}), indent=1) + b"\n"


def _older(path: Path, n: int) -> Path:
    """The name of a file after so many rotations."""
    return path.with_name(f"{path.name}.{n}")


def _is_private(path: Path) -> bool:
    return path.stat().st_mode & 0o777 == 0o600


def _open_to_append(path: Path) -> int:
    return open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _write(descriptor: int, data: bytes) -> None:
    """All of it, though the system may take it piece by piece."""
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
