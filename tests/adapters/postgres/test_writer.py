"""The writer: order, batches, lost answers and lost statements, each on a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock.adapters.postgres.connection import PostgresConnection, connect
from interlock.adapters.postgres.runs.owners import PostgresLeaders
from interlock.adapters.postgres.store import PostgresStore
from interlock.errors import NotOwner, OutOfOrder, RunExists, RunNotFound, StoreFailed
from interlock.ports import AtomicWrites, OutgoingSignal
from tests.adapters.postgres.faulty import Faults
from tests.contracts.test_journal import a_row, replied, started


@asynccontextmanager
async def opened(url: str, faults: Faults | None = None) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, connect=(faults or Faults()).connect)
    try:
        yield store
    finally:
        await store.close()


async def test_a_plain_step_is_one_round_trip(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        for seq in range(3, 8):
            before = store.round_trips
            await store.append(a_row(), replied(seq))
            assert store.round_trips - before == 1
        before = store.round_trips
        await store.create(a_row("r2"), started())
        assert store.round_trips - before == 1


async def test_what_waits_while_one_call_is_under_way_shares_the_next(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(50)))
        before = store.round_trips
        await asyncio.gather(*(store.append(a_row(f"r{n}"), replied(3)) for n in range(50)))
        assert store.round_trips - before <= 2


async def test_appends_creations_and_releases_that_wait_share_three_statements(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(30)))
        before = store.round_trips
        mixed = [
            work
            for n in range(30)
            for work in (
                store.append(a_row(f"r{n}"), replied(3)),
                store.release(f"r{n}"),
                store.create(a_row(f"s{n}"), started()),
            )
        ]
        await asyncio.gather(*mixed)
        assert store.round_trips - before <= 6, "the first may go alone"
        assert not any([await store.is_owned(f"r{n}") for n in range(30)])


async def test_jobs_of_one_run_keep_their_order_when_others_pass(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(2)))
        tasks = [
            store.append(a_row("r0"), replied(3)),
            store.append(a_row("r1"), replied(3)),
            store.release("r1"),
            store.append(a_row("r1"), replied(4)),
            store.append(a_row("r0"), replied(4)),
        ]
        *done, refused, last = await asyncio.gather(*tasks, return_exceptions=True)
        assert not any(isinstance(each, BaseException) for each in [*done, last])
        assert isinstance(refused, NotOwner), "it was given after the release"


async def test_one_that_is_refused_costs_no_other_round_trip(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        before = store.round_trips
        with pytest.raises(OutOfOrder):
            await store.append(a_row(), replied(9))
        with pytest.raises(RunNotFound):
            await store.append(a_row("r9"), replied(3))
        assert store.round_trips - before == 2


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_append_whose_connection_is_lost_is_stored_once(postgres_url: str, when: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started())
        setattr(faults, when, "append_records")
        assert (await store.append(a_row(), replied(3))).position == 2
        assert list(await store.records("r1")) == [started(), replied(3)]
        assert (await store.append(a_row(), replied(4))).position == 3


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_run_whose_creation_is_lost_is_created_once(postgres_url: str, when: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.put_crew("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", b"")
        await store.create(a_row("r0"), started())
        setattr(faults, when, "create_runs")
        assert (await store.create(a_row(), started())).position == 2
        with pytest.raises(RunExists):
            await store.create(a_row(), started())
        assert [row.run for row in await store.rows()] == ["r1", "r0"]


async def test_a_run_of_another_is_not_taken_for_the_lost_one(postgres_url: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started("other"))
        faults.before = "create_runs"
        with pytest.raises(RunExists):
            await store.create(a_row(), started())


@pytest.mark.parametrize(("when", "epoch"), [("before", 1), ("after", 2)])
async def test_a_single_statement_whose_answer_is_lost_is_done_again(postgres_url: str, when: str, epoch: int) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started())
        setattr(faults, when, "claim_run")
        assert await store.claim("r1") == epoch
        assert await store.claim("r1") == epoch + 1


async def test_signals_whose_claim_was_not_answered_are_claimed(postgres_url: str) -> None:
    faults, outgoing = Faults(), OutgoingSignal(key="a", run="r1", body=b"{}")
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started(), AtomicWrites(outgoing=(outgoing,)), owned=False)
        faults.after = "update outbox"
        assert await store.claim_signals(0, 10, sending=[]) == [outgoing]


async def test_a_claim_and_a_release_are_one_round_trip_each(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        before = store.round_trips
        await store.release("r1")
        await store.claim("r1")
        assert store.round_trips - before == 2


async def test_a_leader_whose_answer_was_lost_leads(postgres_url: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        faults.after = "try_lead"
        async with PostgresLeaders(store).leadership("webhooks") as held:
            assert (held.epoch, held.is_held()) == (1, True)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_work_is_repeated_if_its_commit_was_not_sent(postgres_url: str, when: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started())
        setattr(faults, when, "insert into asides")
        assert (await store.set_aside("r1", "no tool", 5)).tries == 1


async def test_work_whose_commit_is_unknown_says_so(postgres_url: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await store.create(a_row(), started())
        faults.after = "commit"
        with pytest.raises(StoreFailed) as caught:
            await store.set_aside("r1", "no tool", 5)
        assert caught.value.passes
        assert (await store.set_aside("r1", "no tool", 5)).tries == 2


async def test_a_server_that_takes_no_writes_any_more_is_left_for_the_one_that_does(postgres_url: str) -> None:
    """The old primary of a failover may keep its sessions."""

    def stop_writes(connection: PostgresConnection) -> None:
        connection.execute("set session characteristics as transaction read only")

    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        await store.write_statement("stop writes", stop_writes)
        await store.append(a_row(), replied(3))
        await store.write_statement("stop writes", stop_writes)
        assert (await store.set_aside("r1", "no tool", 5)).tries == 1


async def test_a_server_that_is_away_fails_all_and_comes_back(postgres_url: str) -> None:
    faults = Faults()
    async with opened(postgres_url, faults) as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(3)))
        faults.refuse_connections, faults.before = True, "append_records"
        appends = [store.append(a_row(f"r{n}"), replied(3)) for n in range(3)]
        failures = await asyncio.gather(*appends, return_exceptions=True)
        assert [isinstance(each, StoreFailed) and each.passes for each in failures] == [True] * 3
        faults.refuse_connections = False
        await asyncio.gather(*(store.append(a_row(f"r{n}"), replied(3)) for n in range(3)))
        assert [(await store.row(f"r{n}")).seq for n in range(3)] == [3, 3, 3]


async def test_one_value_that_cannot_be_stored_does_not_spoil_its_batch(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await asyncio.gather(*(store.create(a_row(f"r{n}"), started()) for n in range(4)))
        appends = [store.append(a_row(f"r{n}", agent="\ud800" if n == 2 else "a"), replied(3)) for n in range(4)]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert [isinstance(each, StoreFailed) for each in outcomes] == [False, False, True, False]


async def test_a_month_without_a_partition_gets_one(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        for n, created_at in enumerate((0, 10**12, 10**15, -5, 10**17)):
            await store.create(a_row(f"r{n}", created_at=created_at), started())
            await store.append(a_row(f"r{n}"), replied(3))
        assert len(await store.since(0)) == 10
        assert [row.created_at for row in await store.rows()] == [10**17, -5, 10**15, 10**12, 0]


async def test_a_record_without_a_position_for_its_broadcasts_is_refused(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        with connect(store.address) as connection:
            connection.execute("update heads set position = 2147483646")
        assert (await store.append(a_row(), replied(3))).position == 2_147_483_647
        with pytest.raises(StoreFailed, match="no_more_than_2147483647_records") as caught:
            await store.append(a_row(), replied(4))
        assert not caught.value.passes


async def test_nul_in_the_texts_of_a_row_is_replaced(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started("a\0b"))
        await store.append(a_row(reason="a\0b", status="paused"), replied(3, "a\0b"))
        assert (await store.row("r1")).reason == "a\ufffdb"
        assert list(await store.records("r1")) == [started("a\0b"), replied(3, "a\0b")]


async def test_a_caller_that_was_cancelled_is_not_waited_for(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.create(a_row(), started())
        task = asyncio.ensure_future(store.append(a_row(), replied(3)))
        await asyncio.sleep(0)
        task.cancel()
        assert await store.claim("r1") == 1  # after the append of the cancelled caller
        assert (await store.row("r1")).seq == 3
