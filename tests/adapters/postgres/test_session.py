"""Who is alive: signs of life, leases, and processes that are found dead. Ages are set in the table, not waited for."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from interlock.adapters.clock import SystemClock
from interlock.adapters.postgres import session
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.clock import ServerClock
from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.moving import hold_schema
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import NotOwner, OwnedElsewhere, StoreFailed
from interlock.ports import ClaimedRun
from interlock.testing import ManualClock
from tests.adapters.postgres.faulty import Faults
from tests.contracts.places import request
from tests.contracts.test_journal import a_row, replied, started


class Ways:
    """The ways of one process to the server. `cut` ends its session and lets no new one be made."""

    def __init__(self) -> None:
        self.is_cut = False
        self.sessions: list[PostgresConnection] = []

    def connect_session(self, address: PostgresAddress) -> PostgresConnection:
        if self.is_cut:
            raise psycopg.OperationalError("connection refused")
        self.sessions.append(session.connect_session(address))
        return self.sessions[-1]

    def cut(self) -> None:
        self.is_cut = True
        self.sessions[-1].cut()


@asynccontextmanager
async def two_stores(url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore, Ways]]:
    """Two processes; the ways are those of the first."""
    ways = Ways()
    stores = [PostgresStore(url, connect_session=ways.connect_session), PostgresStore(url)]
    try:
        yield stores[0], stores[1], ways
    finally:
        for store in stores:
            await store.close()


async def test_a_sign_of_life_tells_how_far_the_clock_of_its_machine_is_behind(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns
    for behind_s in (-20, 20):
        monkeypatch.setattr(time, "time_ns", lambda behind_s=behind_s: now_ns() - behind_s * 10**9)
        store = PostgresStore(postgres_url)
        (found,) = (await store.overview()).processes
        await store.close()
        assert found.clock_behind_ms is not None
        assert abs(found.clock_behind_ms - behind_s * 1000) < 10_000  # however slow the machine is


def make_older(store: PostgresStore, *columns: str) -> None:
    """Ten seconds pass for the times of a process."""
    changes = ", ".join(f"{column} = {column} - interval '10 s'" for column in columns)
    with connect(store.address) as connection:
        connection.execute(f"update owners set {changes} where id = %s".encode(), (store.session.id,))


async def until(condition: object) -> None:
    """Waits for what another thread does."""
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_process_without_a_session_is_dead_after_its_time(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (dying, other, ways):
        await dying.create(a_row(), started())
        make_older(other, "connected")
        assert await other.claim_some(request()) == []
        ways.cut()
        make_older(dying, "seen")
        await until_claimed(other)
        with pytest.raises(NotOwner):
            await dying.append(a_row(), replied(3))


async def test_a_process_that_is_found_dead_wakes_all_others(postgres_url: str) -> None:
    """It leaves orders and leaderships behind, for which no other record is written."""
    woken: list[str] = []
    async with two_stores(postgres_url) as (dying, other, ways):
        await dying.create(a_row(), started())
        make_older(other, "connected")
        other.session.watch(lambda: woken.append("woken"), "orders")
        ways.cut()
        make_older(dying, "seen")
        await until_claimed(other)
        await until(lambda: woken)


async def until_claimed(store: PostgresStore) -> None:
    """The server notices the end of a session in its own time."""
    async with asyncio.timeout(20):
        while not (claimed := await store.claim_some(request())):
            await asyncio.sleep(0.005)
    assert claimed == [ClaimedRun(run="r1", epoch=1, owner_died=True)]


async def test_a_silent_process_is_not_dead_while_its_session_lasts(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (busy, other, _):
        await busy.create(a_row(), started())
        make_older(other, "connected")
        make_older(busy, "seen")  # a sign of life that is late; the lock is still held
        with connect(other.address) as connection:
            query = "select is_gone(%s, %s), seems_gone(%s)"
            values = (busy.session.id, other.session.id, busy.session.id)
            assert connection.execute(query, values).fetchone() == (False, False)


async def test_a_process_that_came_just_now_finds_nobody_dead(postgres_url: str) -> None:
    """After a restart of the server every process has time to come back."""
    async with two_stores(postgres_url) as (dying, other, ways):
        await dying.create(a_row(), started())
        ways.cut()
        make_older(dying, "seen")
        await until(lambda: is_lock_free(dying))
        assert await other.claim_some(request()) == []
        with pytest.raises(OwnedElsewhere):
            await other.claim("r1")
        make_older(other, "connected")
        assert (await other.claim("r1")).epoch == 1


@pytest.mark.parametrize(("silent_s", "is_found"), [(5, False), (0, True)])
async def test_a_process_without_signs_of_life_finds_nobody_dead(
    postgres_url: str, silent_s: int, is_found: bool
) -> None:
    """The way to the server was cut for all: a writer may be back before its session, which was connected long ago."""
    async with two_stores(postgres_url) as (dying, other, ways):
        ways.cut()
        await until(lambda: is_lock_free(dying))
        make_older(dying, "seen")
        with connect(other.address) as connection:
            ask = (
                "insert into owners (host, pid, version, rules, format, connected, seen) values ('h', 1, '1', 1, 1,"
                " now() - interval '1 h', clock_timestamp() - make_interval(secs => %s)) returning id"
            )
            asker = connection.execute(ask, (silent_s,)).fetchone()
            assert asker is not None
            found = connection.execute("select is_gone(%s, %s)", (dying.session.id, asker[0])).fetchone()
            assert found == (is_found,)


def is_lock_free(store: PostgresStore) -> bool:
    with connect(store.address) as connection, connection.transaction(force_rollback=True):
        query = "select pg_try_advisory_xact_lock(owner_lock_class(), %s::integer)"
        return connection.execute(query, (store.session.id,)).fetchone() == (True,)


async def test_who_is_found_dead_learns_it_and_loses_everything(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (zombie, other, ways):
        lost: list[str] = []
        zombie.on_lost(lambda: lost.append("lost"))
        await zombie.create(a_row(), started())
        assert zombie.has_lease()
        ways.cut()
        make_older(zombie, "seen")
        make_older(other, "connected")
        await until(lambda: is_lock_free(zombie))
        assert (await other.claim("r1")).epoch == 1
        ways.is_cut = False
        await until(lambda: lost)
        assert lost == ["lost"]
        assert not zombie.has_lease()
        zombie.on_lost(lambda: lost.append("late"))
        await until(lambda: len(lost) == 2)
        with pytest.raises(NotOwner):
            await zombie.append(a_row(), replied(3))
        await other.append(a_row(epoch=1), replied(3))


async def test_who_comes_back_in_time_keeps_its_runs(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (store, _, ways):
        lost: list[str] = []
        store.on_lost(lambda: lost.append("lost"))
        await store.create(a_row(), started())
        ways.cut()
        await until(lambda: not store.has_lease())
        assert store.version() is None
        ways.is_cut = False
        await until(store.has_lease)
        await store.append(a_row(), replied(3))
        assert lost == []


async def test_a_lease_ends_while_the_machine_sleeps(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock stands still then."""
    real = time.clock_gettime
    async with two_stores(postgres_url) as (store, _, _):
        assert store.has_lease()
        slept_s = {time.CLOCK_BOOTTIME: 60.0}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + slept_s.get(clock, 0.0))
        assert not store.has_lease()
        await until(store.has_lease)  # nobody has found it dead


async def test_a_writer_that_connects_again_waits_for_the_lease(postgres_url: str) -> None:
    """An effect starts right after its append, and only under a lease."""
    ways, faults = Ways(), Faults()
    store = PostgresStore(postgres_url, connect=faults.connect, connect_session=ways.connect_session)
    try:
        await store.create(a_row(), started())
        ways.cut()
        await until(lambda: not store.has_lease())
        faults.before = "append_records"
        appending = asyncio.ensure_future(store.append(a_row(), replied(3)))
        await until(lambda: faults.before is None)
        ways.is_cut = False
        await appending
        assert store.has_lease()
    finally:
        await store.close()


async def test_a_process_that_cannot_write_gives_up_its_runs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session would keep them for ever."""
    monkeypatch.setattr(session, "CUT_OFF_S", 0.0)
    faults, lost = Faults(), list[str]()
    store, other = PostgresStore(postgres_url, connect=faults.connect), PostgresStore(postgres_url)
    try:
        store.on_lost(lambda: lost.append("lost"))
        await store.create(a_row(), started())
        faults.before, faults.refuse_connections = "append_records", True
        with pytest.raises(StoreFailed):
            await store.append(a_row(), replied(3))
        await until(lambda: lost)
        assert not store.has_lease()
        assert await other.claim_some(request()) == [ClaimedRun(run="r1", epoch=1, owner_died=True)]
    finally:
        for each in (store, other):
            await each.close()


async def test_tries_of_the_writer_while_the_server_was_away_do_not_count(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CUT_OFF_S", 0.0)
    ways, faults = Ways(), Faults()
    store = PostgresStore(postgres_url, connect=faults.connect, connect_session=ways.connect_session)
    try:
        await store.create(a_row(), started())
        ways.cut()
        await until(lambda: store.version() is None)
        faults.before, faults.refuse_connections = "append_records", True
        with pytest.raises(StoreFailed):
            await store.append(a_row(), replied(3))
        ways.is_cut = False
        await until(store.has_lease)
        faults.refuse_connections = False
        await store.append(a_row(), replied(3))
        assert store.has_lease()
    finally:
        await store.close()


async def test_a_session_that_was_cut_gets_its_lock_when_the_server_has_noticed(postgres_url: str) -> None:
    """Without it the process would be dead for the others after one late sign of life."""
    async with two_stores(postgres_url) as (store, _, ways):
        with connect(store.address) as of_the_last_session:
            ways.cut()
            await until(lambda: is_lock_free(store))
            values = (store.session.id,)
            of_the_last_session.execute("select pg_advisory_lock(owner_lock_class(), %s::integer)", values)
            ways.is_cut = False
            await until(lambda: len(ways.sessions) == 2 and store.has_lease())
        await until(lambda: is_locked_by(store, ways.sessions[-1]))


def is_locked_by(store: PostgresStore, holder: PostgresConnection) -> bool:
    with connect(store.address) as connection:
        query = "select 1 from pg_locks where pid = %s and locktype = 'advisory' and objid = %s::oid and granted"
        return connection.execute(query, (holder.info.backend_pid, store.session.id)).fetchone() is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_mistake_of_ours_ends_the_process_and_not_only_its_signs_of_life(postgres_url: str) -> None:
    ways, lost = Ways(), list[str]()

    def connect_once(address: PostgresAddress) -> PostgresConnection:
        if ways.sessions:
            raise ValueError("a mistake")
        return ways.connect_session(address)

    store = PostgresStore(postgres_url, connect_session=connect_once)
    try:
        store.on_lost(lambda: lost.append("lost"))
        ways.cut()
        await until(lambda: lost)
        assert not store.has_lease()
    finally:
        await store.close()


@pytest.mark.parametrize(
    "change",
    ["update owners set gone = true where id = %s", "delete from owners where id = %s"],
    ids=["gone", "forgotten"],
)
async def test_a_dead_process_claims_nothing_and_does_not_lead(postgres_url: str, change: str) -> None:
    async with two_stores(postgres_url) as (dead, other, _):
        await other.create(a_row(), started(), owned=False)
        await dead.create(a_row("r2"), started())
        with connect(dead.address) as connection:
            connection.execute(change.encode(), (dead.session.id,))
            query = "select try_lead('upkeep', %s, 'one')"
            assert connection.execute(query, (dead.session.id,)).fetchone() == (None,)
        assert await dead.claim_some(request()) == []
        with pytest.raises(NotOwner):
            await dead.claim("r1")
        assert (await other.claim("r1")).epoch == 1
        await dead.release("r2")  # too late: its calls are lost
        assert (await other.claim("r2")).owner_died


async def test_a_process_that_was_away_when_its_store_was_moved_stores_nothing_in_it(postgres_url: str) -> None:
    """Its session has ended; the connection by which it writes has not."""
    ways = Ways()
    store = PostgresStore(postgres_url, connect_session=ways.connect_session)
    try:
        await store.create(a_row(), started())
        ways.cut()
        make_older(store, "seen")
        await until(lambda: is_lock_free(store))
        with hold_schema(store.address) as held:
            held.require_unused()
        with pytest.raises(NotOwner):
            await store.append(a_row(), replied(3))
        with pytest.raises(NotOwner):
            await store.create(a_row("r2"), started())
    finally:
        await store.close()


async def test_writes_of_other_processes_wake_and_own_ones_do_not(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (store, other, _):
        told: list[str] = []
        stop = store.watch(lambda: told.append("changed"))
        before = store.version()
        await store.create(a_row(), started())
        await other.create(a_row("r2"), started())
        await until(lambda: told)
        assert (len(told), store.version()) == (1, (before or 0) + 1)
        stop()
        await other.create(a_row("r3"), started())
        await until(lambda: store.version() == (before or 0) + 2)
        assert len(told) == 1


async def test_a_watcher_of_a_topic_is_told_of_it_and_not_of_records(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (store, other, _):
        told: list[str] = []
        for topic in ("all", "claims", "orders", "bus"):
            store.watch(lambda topic=topic: told.append(topic), topic)  # type: ignore[misc]
        await other.create(a_row(), started())
        await until(lambda: sorted(told) == ["all", "bus"])
        before = store.version()
        await other.append(a_row(), replied(3))
        await until(lambda: told[2:] == ["all"])
        assert store.version() == before
        await other.release("r1")  # it runs, and another process can claim it
        await until(lambda: sorted(told[3:]) == ["all", "claims"])
        await other.create(a_row("r2"), started(), owned=False)
        await until(lambda: sorted(told[5:]) == ["all", "bus", "claims"])
        epoch = (await other.claim("r1")).epoch
        await other.append(a_row(status="completed", epoch=epoch), replied(4))
        await until(lambda: sorted(told[8:]) == ["all", "bus"])  # a delivery may wait for the end of a run
        await other.release("r1")  # it is over: there is nothing to claim
        await until(lambda: told[10:] == ["all"])


async def test_a_sign_of_life_tells_that_another_process_is_silent(postgres_url: str) -> None:
    """So no sweep is needed to notice it."""
    async with two_stores(postgres_url) as (silent, other, ways):
        told: list[str] = []
        other.watch(lambda: told.append("claims"), "claims")
        ways.cut()
        make_older(silent, "seen")
        await until(lambda: told)


async def test_the_clock_of_a_store_is_the_servers(postgres_url: str) -> None:
    async with two_stores(postgres_url) as (store, _, _):
        clock = ServerClock(store.session, ManualClock(now_ms=1_000))
        store.session._ahead_ms = 500
        assert (clock.now_ms(), clock.monotonic_ms()) == (1_500, 0)
        await clock.sleep_until(0)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_clock_of_a_store_stays_the_servers_if_that_of_the_machine_is_set(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real_ns = time.time_ns
    async with two_stores(postgres_url) as (store, _, _):
        clock = ServerClock(store.session, SystemClock())
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3_600 * 10**9)
        assert abs(clock.now_ms() - real_ns() // 10**6) < 60_000
