"""The doctor's look at a store: whole ones have no problems, and each kind of damage is named."""

import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.store import PostgresStore
from interlock.ports import AtomicWrites, OutgoingSignal, RunQuestions
from tests.contracts.test_journal import a_row, question, started

_SET_VALID = "update pg_index set indisvalid = {} where indexrelid = 'orders_by_age'::regclass"

DAMAGE = {
    "update questions set body = 'x'::bytea": "question 'r1:1' is damaged",
    "insert into crews values ('abc', 'x'::bytea)": "sha256 abc does not have that sum",
    "update records set position = 1": "1 positions are those of two records",
    "update heads set position = 1": "1 records are after the newest position",
    "delete from runs where run = 'r2'": "1 records belong to no run",
    "update outbox set run = 'r9'": "1 row of 'outbox' is of a run that is not there",
    "insert into unlisted values ('r7'), ('r8')": "2 rows of 'unlisted' are of a run that is not there",
    "insert into mailboxes values ('quiz', 'teacher', 4)": "agent 'teacher' of crew 'quiz' is wrong",
    _SET_VALID.format("false"): "'orders_by_age' is not valid",
}


@pytest.mark.parametrize("statement", DAMAGE)
async def test_each_damage_is_found(postgres_url: str, statement: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        asking = RunQuestions(run="r1", questions=(question("r1", 1, 5),))
        outgoing = (OutgoingSignal(key="k", run="r1", body=b"{}"),)
        await store.create(a_row(), started(), AtomicWrites(asking=asking, outgoing=outgoing))
        await store.create(a_row("r2"), started())
        assert await store.problems() == []
        with connect(PostgresAddress(postgres_url)) as connection:
            connection.execute(statement.encode())
        assert [problem for problem in await store.problems() if DAMAGE[statement] in problem] != []
    finally:
        with connect(PostgresAddress(postgres_url)) as connection:
            connection.execute(_SET_VALID.format("true").encode())
        await store.close()
