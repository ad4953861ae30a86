"""What every store promises: one suite for all, and for all ports of a store. Then the clock of the fakes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.engine.budgets.inherited_limits import WindowLimit
from interlock.engine.events import (
    BroadcastEmitted,
    Decided,
    HandedOver,
    ModelReplied,
    RunFinished,
    RunStarted,
    ToolRequest,
    TurnStarted,
    Usage,
)
from interlock.engine.routing.candidates import Verb
from interlock.errors import (
    DamagedRun,
    NotOwner,
    OutOfOrder,
    OwnedElsewhere,
    RunDeleted,
    RunExists,
    RunNotFound,
    StoreFailed,
)
from interlock.ports import (
    NEWEST_FORMAT,
    AppendResult,
    Archive,
    AtomicWrites,
    BudgetStore,
    Clock,
    Grant,
    Journal,
    OpenQuestion,
    Outbox,
    OutgoingSignal,
    Owners,
    Questions,
    Record,
    Reservation,
    RunFormat,
    RunQuestions,
    RunRow,
    SealedTree,
    Settlement,
    StoredRecord,
    Tombstone,
)
from interlock.testing import ManualClock, MemoryStore
from tests.postgres import shared_schemas

Store = MemoryStore | SqliteStore | PostgresStore
STORES = ["memory", "sqlite-full", "sqlite-normal", "postgres"]


class Place:
    """Where runs are kept; every store opened here sees the same ones, as another process would."""

    def __init__(self, kind: str, folder: Path, url: str = "") -> None:
        self.kind, self.folder, self.url = kind, folder, url
        self.stores: list[Store] = []

    def open(self, knows: RunFormat = NEWEST_FORMAT) -> Store:
        """Another process on the store, of an older version if it knows less."""
        self.stores.append(self._opened(knows))
        return self.stores[-1]

    def _opened(self, knows: RunFormat) -> Store:
        if self.kind == "postgres":
            return PostgresStore(self.url, knows=knows)
        if self.kind != "memory":
            return SqliteStore(self.folder, durability=self.kind.removeprefix("sqlite-"), knows=knows)
        first = self.stores[0] if self.stores else None
        assert first is None or isinstance(first, MemoryStore)
        return MemoryStore(beside=first, knows=knows)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        try:
            yield self.open()
        finally:
            for store in self.stores:
                await store.close()


def as_ports(
    store: Store, clock: ManualClock
) -> tuple[Journal, Owners, BudgetStore, Outbox, Archive, Questions, Clock]:
    """Never called: the type check proves by it that stores and clock are what the ports ask for."""
    return store, store, store, store, store, store, clock


@contextmanager
def place_of_kind(kind: str, folder: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        url = stack.enter_context(shared_schemas().borrow()) if kind == "postgres" else ""
        yield Place(kind, folder, url)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of_kind(request.param, tmp_path / "data") as found:
        yield found


def a_row(run: str = "r1", **fields: object) -> RunRow:
    row = RunRow(run=run, crew="quiz", crew_sha="0" * 64, status="running", created_at=5, updated_at=5)
    return msgspec.structs.replace(row, **fields)


def started(text: str = "Begin") -> Record:
    return Record(
        seq=1, at=10, events=(RunStarted(crew="quiz", input=text, rules=1), TurnStarted(agent="teacher", turn=1))
    )


def replied(seq: int, text: str = "2+2? [QUESTION]") -> Record:
    reply = ModelReplied(call=f"r1:{seq}.0", agent="teacher", text=text, usage=Usage(calls=1), worked_ms=7)
    return Record(seq=seq, at=10 + seq, events=(reply,))


async def test_what_was_appended_is_read_back_in_order(place: Place) -> None:
    eventful = Record(
        seq=3,
        at=11,
        events=(
            ModelReplied(
                call="r1:2.0",
                agent="teacher",
                text='Kết thúc "☃"\n\0[END]',
                usage=Usage(calls=1, cost_micros=12),
                tool_calls=(ToolRequest(id="a", name="add", arguments='{"b":1, "a":2}'),),
            ),
            Decided(agent="teacher", verb=Verb.END, signal="[END]", target="", because="priority", candidates=()),
            BroadcastEmitted(signal={"z": [1, 2.5, None], "a": {"é": True}}),
            HandedOver(origin="teacher", to="student", signal="[QUESTION]"),
            RunFinished(status="completed", reason="x", agent="a", output="o", text="t", usage=Usage(calls=2)),
        ),
    )

    async with place.opened() as store:
        assert await store.create(a_row(), started()) == AppendResult(1)
        assert await store.append(a_row(), eventful) == AppendResult(2)
        assert await store.append(a_row(), replied(8)) == AppendResult(3)
        assert list(await store.records("r1")) == [started(), eventful, replied(8)]


async def test_records_after_a_seq_are_those_that_hold_a_later_event(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        for seq in (3, 4):
            await store.append(a_row(), replied(seq))
        seqs = {after: [record.seq for record in await store.records("r1", after)] for after in range(6)}
        assert seqs == {0: [1, 3, 4], 1: [1, 3, 4], 2: [3, 4], 3: [4], 4: [], 5: []}


async def test_records_are_read_in_stretches_that_are_no_longer_than_asked_for(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        for seq in (3, 4, 5):
            await store.append(a_row(), replied(seq))
        row, records = await store.row_with_records("r1")
        whole = list(records)
        assert (row, whole) == (await store.row("r1"), list(await store.records("r1")))
        for after in range(6):
            later = [record for record in whole if record.last_seq > after]
            for limit in range(1, 6):
                assert list(await store.records("r1", after, limit)) == later[:limit]


async def test_the_row_follows_the_newest_record_and_keeps_what_was_fixed_at_creation(place: Place) -> None:
    async with place.opened() as store:
        first = a_row(continues="r0", organization="acme", agent="teacher")
        await store.create(first, started())
        assert await store.row("r1") == msgspec.structs.replace(first, seq=2)
        usage = Usage(
            **{name: n for n, name in enumerate(Usage.__struct_fields__, 1)}  # each column has a number of its own
        )
        after = a_row(
            status="paused", reason="wait", agent="student", updated_at=9, usage=usage, crew="other", created_at=99
        )
        await store.append(after, replied(3))
        assert await store.row("r1") == a_row(
            status="paused",
            reason="wait",
            agent="student",
            updated_at=9,
            usage=usage,
            seq=3,
            continues="r0",
            organization="acme",
        )


async def test_a_run_id_is_taken_once(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(RunExists, match="'r1'"):
            await store.create(a_row(), started("again"))
        assert list(await store.records("r1")) == [started()]


async def test_a_run_that_is_not_there_is_not_found(place: Place) -> None:
    async with place.opened() as store:
        for asking in (
            store.row("r9"),
            store.records("r9"),
            store.row_with_records("r9"),
            store.append(a_row("r9"), replied(2)),
            store.claim("r9"),
            store.rows(before="r9"),
        ):
            with pytest.raises(RunNotFound, match="'r9'"):
                await asking
        await store.release("r9")


@pytest.mark.parametrize("seq", [1, 2, 4])
async def test_an_append_anywhere_but_at_the_end_is_out_of_order(place: Place, seq: int) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(OutOfOrder) as refused:
            await store.append(a_row(status="paused"), replied(seq))
        assert (refused.value.expected, refused.value.got) == (2, seq)
        assert list(await store.records("r1")) == [started()]
        assert (await store.row("r1")).status == "running"
        await store.append(a_row(), replied(3))


async def test_a_run_begins_at_seq_one(place: Place) -> None:
    async with place.opened() as store:
        with pytest.raises(OutOfOrder):
            await store.create(a_row(), replied(2))
        with pytest.raises(RunNotFound):
            await store.row("r1")


async def test_one_refused_append_does_not_spoil_the_others(place: Place) -> None:
    async with place.opened() as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(20)))
        appends = (store.append(a_row(f"r{n}"), replied(3 if n % 2 else 7)) for n in range(20))
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert [isinstance(outcome, OutOfOrder) for outcome in outcomes] == [n % 2 == 0 for n in range(20)]
        assert [(await store.row(f"r{n}")).seq for n in range(20)] == [3 if n % 2 else 2 for n in range(20)]


async def test_only_the_newest_epoch_may_append(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        assert (await store.claim("r1")).epoch == 1
        assert (await store.claim("r1")).epoch == 2
        for epoch in (0, 1, 3):
            with pytest.raises(NotOwner, match="'r1'"):
                await store.append(a_row(epoch=epoch), replied(3))
        await store.append(a_row(epoch=2), replied(3))
        assert (await store.row("r1")).epoch == 2


async def test_a_run_of_a_living_owner_cannot_be_claimed(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await store.create(a_row(), started())
        with pytest.raises(OwnedElsewhere) as refused:
            await other.claim("r1")
        assert refused.value.owner == store.owner
        await other.release("r1")  # not its own, so nothing happens
        with pytest.raises(OwnedElsewhere):
            await other.claim("r1")
        await store.append(a_row(), replied(3))


async def test_a_released_run_can_be_claimed_and_its_old_owner_is_fenced_off(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await store.create(a_row(), started())
        await store.release("r1")
        assert (await other.claim("r1")).epoch == 1
        with pytest.raises(NotOwner):
            await store.append(a_row(epoch=0), replied(3))
        with pytest.raises(OwnedElsewhere):
            await store.claim("r1")
        await other.append(a_row(epoch=1), replied(3))


async def test_the_runs_of_a_closed_store_can_be_claimed(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await store.create(a_row(), started())
        await store.close()
        assert (await other.claim("r1")).epoch == 1
        assert list(await other.records("r1")) == [started()]


async def test_a_closed_store_says_so(place: Place) -> None:
    async with place.opened() as store:
        await store.close()
        await store.close()
        for asking in (store.row("r1"), store.create(a_row(), started()), store.claim("r1"), store.since(0)):
            with pytest.raises(StoreFailed, match="closed"):
                await asking


async def test_rows_come_newest_first_by_status_by_crew_and_in_pages(place: Place) -> None:
    async with place.opened() as store:
        for n in range(6):
            status, crew = "paused" if n % 2 else "running", "quiz" if n < 4 else "desk"
            await store.create(a_row(f"r{n}", status=status, crew=crew), started())
        await store.append(a_row("r0", status="completed"), replied(3))

        async def listed(**options: object) -> list[str]:
            return [row.run for row in await store.rows(**options)]  # type: ignore[arg-type]

        assert await listed() == ["r5", "r4", "r3", "r2", "r1", "r0"]
        assert await listed(status="paused") == ["r5", "r3", "r1"]
        assert await listed(status="completed") == ["r0"]
        assert await listed(crew="desk") == ["r5", "r4"]
        assert await listed(crew="quiz", status="paused") == ["r3", "r1"]
        assert await listed(status="failed") == []
        assert await listed(limit=2) == ["r5", "r4"]
        assert await listed(limit=2, before="r4") == ["r3", "r2"]
        assert await listed(limit=9, before="r2") == ["r1", "r0"]
        assert await listed(before="r3", status="paused") == ["r1"]
        assert await listed(before="r0") == []


async def test_crews_are_kept_by_their_sha(place: Place) -> None:
    body = b'{"name":"quiz"}'
    sha = sha256(body).hexdigest()

    async with place.opened() as store:
        await store.put_crew(sha, body)
        await store.put_crew(sha, body)
        assert await store.crew(sha) == body
        with pytest.raises(StoreFailed, match="there is no crew"):
            await store.crew("f" * 64)
        with pytest.raises(StoreFailed, match="does not have that sum"):
            await store.put_crew("f" * 64, body)


async def test_positions_grow_across_runs_and_watchers_go_on_after_the_last_they_saw(place: Place) -> None:
    async with place.opened() as store:
        appended = [await store.create(a_row("r1"), started()), await store.create(a_row("r2"), started())]
        appended += [await store.append(a_row("r1"), replied(3)), await store.append(a_row("r2"), replied(3, "b"))]
        positions = [each.position for each in appended]
        assert positions == sorted(set(positions))
        seen = await store.since(0)
        assert [(each.position, each.run) for each in seen] == list(
            zip(positions, ["r1", "r2", "r1", "r2"], strict=True)
        )
        assert await store.since(positions[2]) == [
            StoredRecord(position=positions[3], run="r2", record=replied(3, "b"))
        ]
        assert [each.position for each in await store.since(positions[0], limit=2)] == positions[1:3]
        assert await store.since(positions[-1]) == []


async def test_200_concurrent_appends_to_50_runs_keep_the_order_of_every_run(place: Place) -> None:
    async with place.opened() as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(50)))
        appends = [(f"r{n}", seq) for seq in range(3, 7) for n in range(50)]
        appended = await asyncio.gather(
            *(store.append(a_row(run), replied(seq, f"{run} {seq}")) for run, seq in appends)
        )
        positions = [each.position for each in appended]
        assert positions == sorted(set(positions))
        for n in range(50):
            run = f"r{n}"
            assert list(await store.records(run)) == [
                started(),
                *(replied(seq, f"{run} {seq}") for seq in range(3, 7)),
            ]
        stored = await store.since(positions[0] - 1, limit=1000)
        assert [(each.run, each.record.seq) for each in stored] == appends


@pytest.mark.parametrize("text", ["lone \ud800 surrogate"])
async def test_what_cannot_be_written_is_refused_and_changes_nothing(place: Place, text: str) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(StoreFailed, match="as JSON"):
            await store.append(a_row(), replied(3, text))
        await store.append(a_row(), replied(3))


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_closing_and_opening_again_keeps_everything(tmp_path: Path, durability: str) -> None:
    body = b"{}"
    sha = sha256(body).hexdigest()

    store = SqliteStore(tmp_path, durability=durability)
    await store.create(a_row(), started())
    await store.append(a_row(status="paused"), replied(3))
    await store.put_crew(sha, body)
    row, seen = await store.row("r1"), list(await store.since(0))
    await store.close()

    store = SqliteStore(tmp_path, durability=durability)
    assert (await store.row("r1"), list(await store.since(0))) == (row, seen)
    assert await store.crew(sha) == body
    assert (await store.claim("r1")).epoch == 1
    assert (await store.append(a_row(epoch=1), replied(4))).position == seen[-1].position + 1
    await store.close()


async def test_a_manual_clock_wakes_sleepers_in_order_and_not_before_they_are_due() -> None:
    clock, woken = ManualClock(now_ms=1_000), []

    async def sleeper(name: str, until: int) -> None:
        await clock.sleep_until(until)
        woken.append((name, clock.monotonic_ms()))

    async with asyncio.TaskGroup() as group:
        for name, until in (("late", 30), ("first", 10), ("second", 10), ("past", 0), ("cancelled", 5)):
            task = group.create_task(sleeper(name, until))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert (woken, clock.next_wake_ms()) == ([("past", 0)], 10)
        clock.advance(9)
        await asyncio.sleep(0)
        assert woken == [("past", 0)]
        clock.advance(21)
    assert woken[1:] == [("first", 30), ("second", 30), ("late", 30)]
    assert (clock.now_ms(), clock.monotonic_ms(), clock.next_wake_ms()) == (1_030, 30, None)


async def test_somebody_who_sets_the_wall_clock_wakes_nobody() -> None:
    clock = ManualClock(now_ms=1_000)
    sleeping = asyncio.create_task(clock.sleep_until(10))
    await asyncio.sleep(0)
    for jump in (50_000, -60_000):
        clock.jump(jump)
        await asyncio.sleep(0)
    assert not sleeping.done()
    assert (clock.now_ms(), clock.monotonic_ms()) == (-9_000, 0)
    clock.advance(10)
    await sleeping


# Keeping


async def test_a_deleted_run_leaves_a_tombstone_and_keeps_its_id(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row("r1"), started())
        await store.create(a_row("r2"), started("other"))
        records = await store.export_records("r1")
        left = await store.delete_run("r1", at=99)
        assert left == Tombstone(run="r1", crew="quiz", seq=2, link=records[-1].link, deleted_at=99)
        assert list(await store.tombstones()) == [left]
        for asking in (
            store.row("r1"),
            store.records("r1"),
            store.export_records("r1"),
            store.delete_run("r1", at=100),
        ):
            with pytest.raises(RunDeleted, match="was deleted"):
                await asking
        with pytest.raises(RunExists):
            await store.create(a_row("r1"), started())
        assert [row.run for row in await store.rows()] == ["r2"]
        assert [each.run for each in await store.since(0)] == ["r2"]


async def test_finished_runs_are_listed_by_age_in_pages(place: Place) -> None:
    async with place.opened() as store:
        for run, status, at in (
            ("a", "completed", 5),
            ("b", "failed", 5),
            ("c", "paused", 5),
            ("d", "running", 5),
            ("e", "stopped", 9),
            ("a~1.0", "completed", 5),
        ):
            await store.create(a_row(run, status=status, updated_at=at), started())
        assert list(await store.runs_finished_before(6, "", 10)) == ["a", "b"]
        assert list(await store.runs_finished_before(6, "", 1)) == ["a"]
        assert list(await store.runs_finished_before(6, "a", 1)) == ["b"]
        assert list(await store.runs_finished_before(10, "b", 10)) == ["e"]


async def test_tombstones_expire_and_then_the_id_is_free(place: Place) -> None:
    async with place.opened() as store:
        for run, at in (("r1", 10), ("r2", 20)):
            await store.create(a_row(run), started())
            await store.delete_run(run, at=at)
        assert await store.expire_tombstones(20) == 1
        assert [left.run for left in await store.tombstones()] == ["r2"]
        await store.create(a_row("r1"), started())
        assert await store.expire_tombstones(20) == 0


async def test_a_run_that_another_process_works_on_is_not_deleted(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(OwnedElsewhere):
            await place.open().delete_run("r1", at=1)
        assert list(await store.records("r1")) == [started()]


async def test_a_whole_run_is_added_and_belongs_to_nobody(place: Place) -> None:
    async with place.opened() as store:
        records = [started(), replied(3)]
        chain = seal_chain("r7", records)
        await store.add_run(a_row("r7", status="paused", epoch=5), chain)
        assert list(await store.records("r7")) == records
        assert list(await store.export_records("r7")) == list(chain)
        row = await store.row("r7")
        assert (row.seq, row.status) == (3, "paused")
        with pytest.raises(RunExists):
            await store.add_run(a_row("r7"), chain)
        assert (await place.open().claim("r7")).epoch == 1


async def test_a_whole_run_is_refused_if_anything_in_it_is_damaged(place: Place) -> None:
    async with place.opened() as store:
        first, second = seal_chain("r7", [started(), replied(3)])
        flipped = msgspec.structs.replace(second, body=second.body.replace(b"replied", b"repliee"))
        for damaged in ([first, flipped], [second], [second, first], [first, first], []):
            with pytest.raises(DamagedRun):
                await store.add_run(a_row("r7"), damaged)
        with pytest.raises(DamagedRun):
            await store.add_run(a_row("r8"), [first, second])  # another run's chain
        assert list(await store.rows()) == []


async def test_a_deleted_run_comes_back_only_as_it_was(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        records = await store.export_records("r1")
        await store.delete_run("r1", at=1)
        with pytest.raises(RunExists):
            await store.add_run(a_row(), seal_chain("r1", [started("other")]))
        await store.add_run(a_row(), records)
        assert list(await store.records("r1")) == [started()]
        assert list(await store.tombstones()) == []


async def test_a_run_is_owned_while_somebody_who_lives_works_on_it(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        another = place.open()
        assert await another.is_owned("r1")
        await store.release("r1")
        assert not await another.is_owned("r1")
        await store.claim("r1")
        await store.close()
        assert not await another.is_owned("r1")


# What goes with a record


def room(key: str, most: int = 1) -> Reservation:
    limit = WindowLimit(name="max_calls_per_day", what="calls", window="day", most=most)
    return Reservation(key=key, crew="c", agent="a", at=DAY, tokens=5, cost_micros=7, limits=(limit,))


def over(key: str, calls: int = 1) -> Settlement:
    return Settlement(key=key, crew="c", agent="a", at=DAY, usage=Usage(calls=calls))


DAY = 20_000 * 86_400_000


async def test_the_very_record_again_is_the_one_that_is_there(place: Place) -> None:
    """A caller that lost the answer to an append asks again."""

    async with place.opened() as store:
        await store.create(a_row(), started())
        first = await store.append(a_row(), replied(3))
        assert await store.append(a_row(), replied(3)) == first
        with pytest.raises(OutOfOrder):
            await store.append(a_row(), replied(3, "something else"))
        await store.append(a_row(), replied(4))
        with pytest.raises(OutOfOrder):  # not the newest any more
            await store.append(a_row(), replied(3))
        assert len(await store.records("r1")) == 3
        await store.claim("r1")
        with pytest.raises(NotOwner):
            await store.append(a_row(), replied(4))


async def test_room_in_a_budget_is_reserved_with_the_record_and_not_without_it(place: Place) -> None:
    async with place.opened() as store:
        created = await store.create(a_row(), started(), AtomicWrites(spending=(room("r1:1"),)))
        assert created.grants == (Grant(),)
        with pytest.raises(OutOfOrder):
            await store.append(a_row(), replied(9), AtomicWrites(spending=(over("r1:1", calls=0),)))
        refused = await store.append(a_row(), replied(3), AtomicWrites(spending=(room("r1:2"),)))
        assert [grant.refused for grant in refused.grants] == ["max_calls_per_day"]
        both = AtomicWrites(spending=(over("r1:1", calls=0), room("r1:3")))
        assert (await store.append(a_row(), replied(4), both)).grants == (Grant(),)
        assert (await store.append(a_row(), replied(4), both)).grants == (Grant(),), "the same record, the same answer"
        assert [grant.refused for grant in await store.spend(a_row(), (room("r1:4"),))] == ["max_calls_per_day"]


async def test_counters_survive_whoever_counted(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        assert await store.spend(a_row(), (room("x", most=2), over("x"))) == (Grant(),)
        another = place.open()
        await store.close()
        owned = a_row(epoch=(await another.claim("r1")).epoch)
        with pytest.raises(NotOwner):  # by then another process has settled it
            await another.spend(a_row(), (room("y", most=2),))
        grants = await another.spend(owned, (room("y", most=2), room("z", most=2)))
        assert [grant.refused for grant in grants] == ["", "max_calls_per_day"]


async def test_what_is_to_go_out_stays_until_it_is_struck_off(place: Place) -> None:
    one, two = (OutgoingSignal(key=f"r1:{n}", run="r1", body=b"{}") for n in (1, 2))
    other = OutgoingSignal(key="r2:1", run="r2", body=b"{}")

    async with place.opened() as store:
        await store.create(a_row("r1"), started(), AtomicWrites(outgoing=(one,)))
        await store.create(a_row("r2"), started(), AtomicWrites(outgoing=(other,)))
        await store.append(a_row("r1"), replied(3), AtomicWrites(outgoing=(two,)))
        await store.append(a_row("r1"), replied(3), AtomicWrites(outgoing=(two,)))
        assert list(await store.signals_to_deliver()) == [one, other, two]
        assert list(await store.signals_to_deliver("r1")) == [one, two]
        await store.ack_outgoing(one.key)
        await store.ack_outgoing("unknown")
        assert list(await store.signals_to_deliver()) == [other, two]


# Trees


async def test_a_tree_is_a_run_and_all_below_it_in_the_order_of_the_store(place: Place) -> None:
    async with place.opened() as store:
        for run in ("r1", "r1~4.0", "r10", "r1~4.0~2.1"):
            await store.create(a_row(run), started(run))
        await store.append(a_row("r1"), replied(3))
        await store.append(a_row("r1~4.0"), replied(3))
        await store.append(a_row("r1"), replied(4))
        assert [row.run for row in await store.rows_below("r1")] == ["r1~4.0", "r1~4.0~2.1"]
        assert [row.run for row in await store.rows_below("r1~4.0")] == ["r1~4.0~2.1"]
        assert list(await store.rows_below("r10")) == []
        assert [row.run for row in await store.rows(nested=False)] == ["r10", "r1"]
        assert [row.run for row in await store.rows(nested=True)] == ["r1~4.0~2.1", "r1~4.0"]
        whole = await store.tree("r1")
        assert [(each.run, each.record.seq) for each in whole] == [
            ("r1", 1), ("r1~4.0", 1), ("r1~4.0~2.1", 1), ("r1", 3), ("r1~4.0", 3), ("r1", 4),
        ]  # fmt: skip
        assert [each.position for each in whole] == sorted(each.position for each in whole)


async def a_whole_tree(store: Store) -> SealedTree:
    for run in ("r1", "r1~4.0", "r10", "r1~4.0~2.1"):
        await store.create(a_row(run), started(run))
    await store.append(a_row("r1~4.0"), replied(3))
    await store.append(a_row("r1"), replied(3))
    return await store.export_tree("r1")


async def test_a_whole_tree_is_taken_out_deleted_and_brought_back_in_its_order(place: Place) -> None:
    async with place.opened() as store:
        tree = await a_whole_tree(store)
        before = [(each.run, each.record) for each in await store.tree("r1")]
        assert [row.run for row in tree.rows] == ["r1", "r1~4.0", "r1~4.0~2.1"]
        assert [(of, record.seq) for of, record in tree.records] == [(0, 1), (1, 1), (2, 1), (1, 3), (0, 3)]
        left = await store.delete_tree("r1", at=9)
        assert [(each.run, each.deleted_at) for each in left] == [("r1", 9), ("r1~4.0", 9), ("r1~4.0~2.1", 9)]
        assert [row.run for row in await store.rows()] == ["r10"]
        with pytest.raises(RunDeleted):
            await store.export_tree("r1")
        with pytest.raises(RunDeleted):
            await store.delete_tree("r1", at=10)
        await store.add_tree(tree)
        assert [(each.run, each.record) for each in await store.tree("r1")] == before
        assert list(await store.tombstones()) == []
        assert (await place.open().claim("r1~4.0")).epoch == 1  # it has no owner


async def test_a_tree_of_which_another_process_has_one_run_in_hand_is_not_deleted_at_all(place: Place) -> None:
    async with place.opened() as store:
        await a_whole_tree(store)
        for run in ("r1", "r1~4.0"):
            await store.release(run)
        with pytest.raises(OwnedElsewhere, match=r"2\.1"):
            await place.open().delete_tree("r1", at=1)
        assert [row.run for row in await store.rows_below("r1")] == ["r1~4.0", "r1~4.0~2.1"]


async def test_a_tree_is_added_whole_or_not_at_all(place: Place) -> None:
    async with place.opened() as store:
        tree = await a_whole_tree(store)
        await store.delete_tree("r1", at=1)
        await store.add_run(tree.rows[2], tree.chains()[2])  # the innermost is there already
        with pytest.raises(RunExists):
            await store.add_tree(tree)
        *others, (of, last) = tree.records
        flipped = msgspec.structs.replace(last, body=last.body.replace(b"replied", b"repliee"))
        with pytest.raises(DamagedRun):
            await store.add_tree(msgspec.structs.replace(tree, records=(*others, (of, flipped))))
        assert [row.run for row in await store.rows()] == ["r1~4.0~2.1", "r10"]


@pytest.mark.parametrize(
    ("after", "first"), [(0, ("r1", 1)), (1, ("r1", 1)), (2, ("r1", 3)), (3, ("r1", 4)), (9, ("r1", 4))]
)
async def test_a_tree_goes_on_from_the_record_that_holds_the_next_event(
    place: Place, after: int, first: tuple[str, int]
) -> None:
    async with place.opened() as store:
        await store.create(a_row("r1"), started())
        await store.create(a_row("r1~1.0"), started())
        await store.append(a_row("r1"), replied(3))
        await store.append(a_row("r1"), replied(4))
        await store.append(a_row("r1~1.0"), replied(3))
        found = await store.tree("r1", after)
        assert (found[0].run, found[0].record.seq) == first
        assert (found[-1].run, found[-1].record.seq) == ("r1~1.0", 3)
        later = await store.tree("r1", after, found[-2].position)
        assert [(each.run, each.record.seq) for each in later] == [("r1~1.0", 3)]


async def test_a_call_of_a_child_counts_for_the_crews_above_it_and_not_for_their_agents(place: Place) -> None:
    above = WindowLimit(name="max_calls_per_day", what="calls", window="day", most=2, crew="outer", above=1)
    of_agent = WindowLimit(name="max_tokens_per_day", what="tokens", window="day", most=1_000, scope="teacher")

    def order(key: str, crew: str, *limits: WindowLimit) -> Reservation:
        return Reservation(key=key, crew=crew, agent="teacher", at=10, tokens=900, cost_micros=0, limits=limits)

    async with place.opened() as store:
        await store.create(a_row("r1"), started())
        row = a_row("r1")
        assert (await store.spend(row, [order("k1", "inner", above)]))[0].refused == ""
        (again,) = await store.spend(row, [order("k2", "outer", of_agent)])
        assert again.refused == "", "an agent of the caller's that has the same id has spent nothing"
        (refused,) = await store.spend(row, [order("k3", "inner", above)])
        assert (refused.refused, refused.above) == ("max_calls_per_day of crew outer", 1)
        gone = Settlement(key="k1", crew="inner", agent="teacher", at=10, usage=Usage(), crews_above=("outer",))
        await store.spend(row, [gone])
        assert (await store.spend(row, [order("k4", "inner", above)]))[0].refused == "", "what is given back is there"


def question(run: str, n: int, since: int) -> OpenQuestion:
    return OpenQuestion(
        id=f"{run}:{n}",
        run=run,
        crew="quiz",
        agent="teacher",
        reason="question",
        question="?",
        token=f"{run}:{n}",
        since=since,
    )


async def test_questions_are_kept_with_the_record_and_paged_by_age(place: Place) -> None:
    async with place.opened() as store:
        asked = {run: (question(run, 1, at), question(run, 2, at)) for run, at in (("r1", 5), ("r1~4.0", 7), ("r2", 6))}
        for run, questions in asked.items():
            await store.create(a_row(run), started(), AtomicWrites(asking=RunQuestions(run=run, questions=questions)))
        found = await store.open_questions(10)
        assert [each.token for each in found] == ["r1~4.0:2", "r1~4.0:1", "r2:2", "r2:1", "r1:2", "r1:1"]
        assert found[0] == asked["r1~4.0"][1]
        assert await store.open_questions(2, before=(6, "r2:2")) == found[3:5]
        assert [each.run for each in await store.open_questions(10, run="r1")] == ["r1~4.0"] * 2 + ["r1"] * 2
        await store.append(a_row("r2"), replied(3), AtomicWrites(asking=RunQuestions(run="r2")))
        assert "r2" not in [each.run for each in await store.open_questions(10)]
        await store.delete_run("r1", 9)
        assert {each.run for each in await store.open_questions(10)} == {"r1~4.0"}


async def test_a_record_that_is_refused_asks_nothing(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(OutOfOrder):
            await store.append(
                a_row(), replied(9), AtomicWrites(asking=RunQuestions(run="r1", questions=(question("r1", 1, 5),)))
            )
        assert list(await store.open_questions(10)) == []


async def test_what_a_whole_run_asks_is_not_known_until_it_is_listed_for_its_newest_seq(place: Place) -> None:
    async with place.opened() as store:
        for run, status in (("r1", "paused"), ("r2", "completed")):
            await store.add_run(a_row(run, status=status), seal_chain(run, [started()]))
        assert list(await store.runs_without_question_list()) == ["r1"]
        asking = RunQuestions(run="r1", questions=(question("r1", 1, 5),))
        for seq in (1, 3):
            await store.store_questions(asking, seq)
        assert (list(await store.runs_without_question_list()), list(await store.open_questions(10))) == (["r1"], [])
        await store.store_questions(asking, 2)
        assert (list(await store.runs_without_question_list()), list(await store.open_questions(10))) == (
            [],
            list(asking.questions),
        )


async def test_a_snapshot_has_row_and_records_and_tells_whether_the_run_asks_nothing(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        await store.append(a_row(), replied(3))
        await store.create(a_row("r2"), started())
        found = await store.run_snapshot("r1", 10)
        assert (found.row, list(found.records)) == (await store.row("r1"), list(await store.records("r1")))
        assert found.asks_nothing
        assert list((await store.run_snapshot("r1", 1)).records) == list(await store.records("r1", 0, 1))
        below = RunQuestions(run="r1~4.0", questions=(question("r1~4.0", 1, 5),))
        await store.create(a_row("r1~4.0"), started(), AtomicWrites(asking=below))
        assert not (await store.run_snapshot("r1", 10)).asks_nothing
        assert (await store.run_snapshot("r2", 10)).asks_nothing
        with pytest.raises(RunNotFound):
            await store.run_snapshot("r3", 10)


async def test_a_snapshot_beside_an_imported_run_does_not_claim_to_know_all_questions(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        await store.add_run(a_row("r2"), seal_chain("r2", [started()]))
        assert not (await store.run_snapshot("r1", 10)).asks_nothing
        await store.store_questions(RunQuestions(run="r2"), 2)
        assert (await store.run_snapshot("r1", 10)).asks_nothing
