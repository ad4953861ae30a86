"""What every store promises of standing approvals."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.sqlite.store import SqliteStore
from interlock.approvals.standing import StandingApproval, as_revoked
from interlock.errors import NotOwner
from interlock.limits import REVOKED_APPROVALS_MAX
from interlock.ports import AtomicWrites
from tests.contracts.test_journal import Place, a_row, place_of_kind, replied, started

FIRST = StandingApproval(id="ap-1", tool="pay", pattern="pay", crew="desk", asked_in="r1", by="user:ann", at=1)
SECOND = StandingApproval(
    id="ap-2", tool="send", pattern="send:to=bob", crew="desk", run="r1", asked_in="r1", by="k", at=2
)
BOTH = AtomicWrites(approvals=(FIRST, SECOND))


@pytest.fixture(params=["memory", "sqlite-full", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of_kind(request.param, tmp_path / "data") as found:
        yield found


async def test_approvals_are_stored_with_their_record_and_listed_newest_first(place: Place) -> None:
    async with place.opened() as store:
        assert list(await store.standing_approvals()) == []
        await store.create(a_row(), started(), BOTH)
        assert list(await place.open().standing_approvals()) == [SECOND, FIRST]
        assert list(await store.standing_approvals("pay")) == [FIRST]
        assert list(await store.standing_approvals("pa")) == []


async def test_a_record_that_is_refused_gives_no_approval(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        with pytest.raises(NotOwner):
            await store.append(a_row(epoch=7), replied(3), BOTH)
        assert list(await store.standing_approvals()) == []


async def test_a_revoked_approval_is_gone_for_every_process_at_once(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await store.create(a_row(), started(), BOTH)
        assert await other.revoke_approval("ap-1", "user:bob", 7)
        assert not await store.revoke_approval("ap-1", "user:eve", 8)
        assert list(await store.standing_approvals("pay")) == []
        assert list(await store.standing_approvals()) == [SECOND]


async def test_a_record_that_is_appended_again_does_not_give_back_what_was_revoked(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        await store.append(a_row(), replied(3), BOTH)
        assert await store.revoke_approval("ap-1", "user:bob", 7)
        await store.append(a_row(), replied(3), BOTH)
        assert list(await store.standing_approvals()) == [SECOND]


async def test_who_revoked_an_approval_is_kept_the_last_one_first(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started(), BOTH)
        assert list(await store.past_approvals()) == []
        await store.revoke_approval("ap-2", "user:bob", 7)
        await store.revoke_approval("ap-1", "user:cem", 8)
        kept = [as_revoked(FIRST, "user:cem", 8), as_revoked(SECOND, "user:bob", 7)]
        assert list(await place.open().past_approvals()) == kept
        await store.release("r1")
        await store.delete_tree("r1", 9)
        assert list(await store.past_approvals()) == kept[:1]


async def test_only_the_newest_revoked_approvals_are_kept(place: Place) -> None:
    number = REVOKED_APPROVALS_MAX + 2
    many = tuple(msgspec.structs.replace(FIRST, id=f"ap-{n:04}") for n in range(number))
    async with place.opened() as store:
        await store.create(a_row(), started(), AtomicWrites(approvals=many))
        for n, each in enumerate(many):
            await store.revoke_approval(each.id, "user:bob", n)
        kept = await store.past_approvals()
    assert [each.id for each in kept] == [each.id for each in reversed(many[2:])]


async def test_the_first_approval_of_an_id_counts(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started(), BOTH)
        wider = msgspec.structs.replace(SECOND, pattern="send")
        await store.append(a_row(), replied(3), AtomicWrites(approvals=(wider,)))
        assert list(await store.standing_approvals("send")) == [SECOND]


async def test_a_deleted_run_takes_the_approvals_for_it_along_and_leaves_the_others(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started(), BOTH)
        await store.release("r1")
        await store.delete_tree("r1", 5)
        assert list(await store.standing_approvals()) == [FIRST]


async def test_a_damaged_approval_approves_nothing_and_the_doctor_counts_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.create(a_row(), started(), BOTH)
    assert await store.problems() == []
    await store.close()
    with closing(sqlite3.connect(tmp_path / "interlock.db", isolation_level=None)) as connection:
        seal = connection.execute("select seal from approvals where id = 'ap-1'").fetchone()[0]
        connection.create_function("interlock_seal", -1, lambda *_: seal)
        wider = msgspec.json.encode(msgspec.structs.replace(FIRST, pattern="*"))
        connection.execute("update approvals set body = ? where id = 'ap-1'", (wider,))
    store = SqliteStore(tmp_path)
    assert list(await store.standing_approvals()) == [SECOND]
    assert any("damaged in the table 'approvals'" in problem for problem in await store.problems())
    assert await store.revoke_approval("ap-1", "user:bob", 7)
    assert list(await store.past_approvals()) == []
    await store.revoke_approval("ap-2", "user:bob", 7)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "interlock.db", isolation_level=None)) as connection:
        connection.create_function("interlock_seal", -1, lambda *_: 5, deterministic=True)
        connection.execute("update revoked_approvals set at = 8")
    store = SqliteStore(tmp_path)
    assert list(await store.past_approvals()) == []
    assert any("damaged in the table 'revoked_approvals'" in problem for problem in await store.problems())
    await store.close()
