"""The session of a process: it says who is alive, and brings wake-ups of the other processes.

Rule 1: a process has one direct session with an advisory lock. The server ends a session that is silent for `LEASE_S`,
and with it goes the lock. Each sign of life also writes the time of the server.
Rule 2: a lease ends, by the clock of this process, before another process can find this one dead. It comes back if the
server does and no process has: then `gone` is not set.
Rule 3: a process that finds itself `gone` has lost its runs for good. So has one that reaches the server by its
session, and not to write: it gives up, so that others can drive its runs.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

import psycopg

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import Connect, PostgresConnection, connect
from interlock.adapters.postgres.failures import FOREIGN
from interlock.ports import NEWEST_FORMAT, RunFormat, Topic

LEASE_S = 2.0
PING_S = LEASE_S / 5
# A little less than the 1.5 s of `is_gone`, counted from before the sign of life was sent.
HELD_S = 1.4
# How long a sign of life and a new session may take; the driver waits no less for the latter.
DEADLINE_S = 1.0
CONNECT_S = 2
# The first one has time: a busy machine that opens a store has no lease to lose.
OPENING_S = 8.0
RETRY_S = 0.1
# How long the writer may be cut off, while the session is not, before the process gives up its runs.
CUT_OFF_S = 10.0
# Wake-ups that come within this time are told as one.
GATHER_S = 0.01
# What a wall clock may gain or lose on the monotonic one between two signs of life without being set.
SLEW_MS = 20
# Words in a notification, one for each topic but "all". A process that ended, or gave up what others wait for, says
# that there are runs to claim.
LEFT: Topic = "claims"

# A process that is gone and has no row is gone too, so old rows are not needed.
_FORGET = "delete from owners where gone and seen < clock_timestamp() - interval '1 day'"
_REGISTER = "insert into owners (host, pid, version, rules, format) values (%s, %s, %s, %s, %s) returning id"
_LOCK = "select pg_try_advisory_lock(owner_lock_class(), %s::integer)"
# Another process that is silent: it may be dead, and its runs wait.
SILENT = (
    "select 1 from owners other where not other.gone and other.seen < clock_timestamp() - interval '1.5 s'"
    " and other.id <> owners.id"
)
# The time of the server, whether there is such a process, and the format with
# which runs begin. It stores how far the clock of this machine, which is told, is behind.
_PING = (
    "update owners set seen = clock_timestamp(),"  # noqa: S608 - constants
    " clock_behind_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint - %s where id = %s and not gone"
    f" returning (extract(epoch from clock_timestamp()) * 1000)::bigint, exists ({SILENT}),"
    " (select array[rules, format] from run_format)"
)
_GIVE_UP = (
    "with given_up as (update owners set gone = true where id = %s returning id)"
    " select notify_others(id, 'claims orders') from given_up"
)
_RECONNECT = "update owners set connected = clock_timestamp(), seen = clock_timestamp() where id = %s and not gone"

Watcher = tuple[asyncio.AbstractEventLoop, Callable[[], None]]
# When the writer was cut off, and when it tried last, by the monotonic clock; None if it was answered since.
CutOff = tuple[float, float]


def connect_session(address: PostgresAddress) -> PostgresConnection:
    """A session that the server ends when it is silent. Signs of life need not reach the disk."""
    connection = connect(address, connect_s=CONNECT_S, idle_session_timeout=f"{LEASE_S:.0f}s", synchronous_commit="off")
    connection.deadline_s = DEADLINE_S
    return connection


class OwnerSession:
    """Registers this process as an owner, and keeps its session in a thread."""

    def __init__(
        self,
        address: PostgresAddress,
        version: str,
        connect: Connect = connect_session,
        knows: RunFormat = NEWEST_FORMAT,
    ) -> None:
        self._address, self._connect, self._knows = address, connect, knows
        self.run_format: RunFormat | None = None  # of the store, at the last sign of life
        self._connection: PostgresConnection | None = connect(address)
        self._changes, self._is_lost = 0, False
        self._held_until, self._connected_at, self._is_locked = 0.0, 0.0, False
        self._cut_off: Callable[[], CutOff | None] = lambda: None
        # How far the server's clock was ahead of this machine's at the last sign of life, and this machine's wall clock
        # ahead of its monotonic one: a wall clock that is set shows in the latter.
        self._ahead_ms, self._wall_ahead_ns = 0, _wall_ahead_ns()
        self._watchers: dict[int, tuple[Watcher, Topic]] = {}
        self._on_lost: list[Watcher] = []
        self._lock, self._stopping, self._signed = Lock(), Event(), Event()
        try:
            deadline_s, self._connection.deadline_s = self._connection.deadline_s, OPENING_S
            self.id = self._register(self._connection, version)
            self._begin(self._connection)
            self._connection.deadline_s = deadline_s
        except BaseException:
            self._drop()
            raise
        self._thread = Thread(target=self._serve, name="interlock-session", daemon=True)
        self._thread.start()

    # In any thread

    def has_lease(self) -> bool:
        """Whether no other process can have found this one dead."""
        return not self._is_lost and _now_also_asleep() < self._held_until

    def ahead_ms(self) -> int:
        """How far the server's clock is ahead of this machine's, also if this one was set a moment ago."""
        set_by_ms = (_wall_ahead_ns() - self._wall_ahead_ns) // 1_000_000
        return self._ahead_ms - set_by_ms if abs(set_by_ms) > SLEW_MS else self._ahead_ms

    def wait_for_lease(self) -> None:
        """In another thread: waits a moment for a session that is being made again.

        A process that writes before it has its lease back would give up the run that it writes to.
        """
        until = time.monotonic() + LEASE_S
        while not (self.has_lease() or self._is_lost or self._stopping.is_set()):
            self._signed.clear()
            if (left := until - time.monotonic()) <= 0 or not self._signed.wait(left):
                return

    def guard_writer(self, cut_off: Callable[[], CutOff | None]) -> None:
        """Asks with every sign of life whether the writer is cut off."""
        self._cut_off = cut_off

    def on_lost(self, callback: Callable[[], None]) -> None:
        watcher = (asyncio.get_running_loop(), callback)
        with self._lock:
            self._on_lost.append(watcher)
            is_lost = self._is_lost
        if is_lost:
            self._tell_lost()

    def version(self) -> int | None:
        """Counts what other processes have written to the bus; None while there is no session."""
        return self._changes if self._connection is not None else None

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        """Calls back on the running loop when another process has written. Returns a function that stops it.

        With a topic only when its notification names it, or when notifications may have been missed.
        """
        watcher = (asyncio.get_running_loop(), changed)
        with self._lock:
            self._watchers[id(watcher)] = (watcher, about)

        def stop() -> None:
            with self._lock:
                self._watchers.pop(id(watcher), None)

        return stop

    def announce_stop(self) -> None:
        """The next notification, or sign of life, ends the thread."""
        self._stopping.set()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._drop()

    # In the thread

    def _serve(self) -> None:
        try:
            self._keep_session()
        finally:  # also after a mistake of ours: no other thread gives signs of life
            if not self._stopping.is_set():
                self._is_lost = True
                self._tell_lost()

    def _keep_session(self) -> None:
        while not self._stopping.is_set() and not self._is_lost:
            try:
                if self._connection is None:
                    self._reconnect()
                assert self._connection is not None, "it was connected above"
                self._give_sign(self._connection)
                self._listen(self._connection)
            except FOREIGN:
                self._drop()
                self._stopping.wait(RETRY_S)

    def _register(self, connection: PostgresConnection, version: str) -> int:
        connection.execute(_FORGET)
        values = (socket.gethostname(), os.getpid(), version, self._knows.rules, self._knows.format)
        found = connection.execute(_REGISTER, values).fetchone()
        assert found is not None, "an insert that returns has a row"
        return int(found[0])

    def _begin(self, connection: PostgresConnection) -> None:
        self._connected_at, self._is_locked = time.monotonic(), False
        connection.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(self._address.channel)))
        self._give_sign(connection)

    def _reconnect(self) -> None:
        connection = self._connect(self._address)
        try:
            connection.execute(_RECONNECT, (self.id,))
            self._begin(connection)
        except BaseException:
            connection.abort()
            raise
        self._connection = connection
        self._on_change(None)  # what was missed meanwhile

    def _give_sign(self, connection: PostgresConnection) -> None:
        sent, wall = _now_also_asleep(), time.time_ns()
        found = connection.execute(_PING, (wall // 1_000_000, self.id)).fetchone()
        self._is_lost = found is None
        if found is not None:
            self._held_until = sent + HELD_S
            self.run_format = RunFormat(*found[2]) if found[2] else None
            self._ahead_ms, self._wall_ahead_ns = int(found[0]) - (wall + time.time_ns()) // 2_000_000, _wall_ahead_ns()
        self._signed.set()
        if found is None:
            return
        if not self._is_locked:
            self._lock_owner(connection)
        if self._is_writer_cut_off():
            self._is_lost = True  # before the others know
            connection.execute(_GIVE_UP, (self.id,))
        elif found[1]:
            self._on_change({LEFT})

    def _lock_owner(self, connection: PostgresConnection) -> None:
        """Until the server has noticed the end of the last session, that one has the lock: then it is tried again."""
        self._is_locked = connection.execute(_LOCK, (self.id,)).fetchone() == (True,)

    def _is_writer_cut_off(self) -> bool:
        """Tries from before this session do not count: then the server was away."""
        found = self._cut_off()
        return found is not None and found[1] - max(found[0], self._connected_at) >= CUT_OFF_S

    def _listen(self, connection: PostgresConnection) -> None:
        """Waits for wake-ups until the next sign of life is due."""
        until = time.monotonic() + PING_S
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            payloads = [each.payload for each in connection.notifies(timeout=left, stop_after=1)]
            foreign = [what for owner, _, what in (each.partition(" ") for each in payloads) if owner != str(self.id)]
            if foreign:
                self._on_change({word for what in foreign for word in what.split()})
                self._stopping.wait(GATHER_S)

    def _on_change(self, topics: set[str] | None) -> None:
        """Calls the watchers of these topics; of all if it is not known what has changed."""
        self._changes += topics is None or "bus" in topics
        with self._lock:
            told = [
                watcher for watcher, about in self._watchers.values() if topics is None or about in {"all", *topics}
            ]
        _call(told)

    def _tell_lost(self) -> None:
        with self._lock:
            watchers, self._on_lost = self._on_lost, []
        if not self._stopping.is_set():
            _call(watchers)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FOREIGN):
                connection.abort()


def _now_also_asleep() -> float:
    """Seconds that pass also while the machine sleeps: leases end, and the monotonic clock may stand still."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _wall_ahead_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _call(watchers: list[Watcher]) -> None:
    for loop, callback in watchers:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(callback)
