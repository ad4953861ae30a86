"""Finding 6.7: every stored row that is given back has its checksum; the doctor compares schema, positions, owners."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from campaign.full_folder import HELLO, TRAVEL, filled, given
from interlock import Interlock, load_crew
from interlock.adapters.sqlite import checks, migrations, sealed_tables
from interlock.adapters.sqlite.sealed_tables import SEALED_TABLES
from interlock.adapters.sqlite.tables import question_rows
from interlock.cli.main import interlock
from interlock.compose.questions import open_questions
from interlock.compose.upkeep.archive import delete_run
from interlock.compose.upkeep.doctor import check_store
from interlock.compose.upkeep.read_only import Inspection
from interlock.errors import DamagedRow
from interlock.ports import IdempotentRequest, OpenQuestion, RunQuestions
from interlock.ports.budgets import ProviderHold
from interlock.server.http.paging import question_page
from interlock.server.views import run_detail
from tests.adapters.stores import opened
from tests.boxes import sqlite_of

# Tables that have had checksums of their own from the first day.
CHECKED = {"runs", "records", "crews", "tombstones", "lifecycle"}
# An index, which is compared with the records: tests/adapters/sqlite/runs/test_places.py.
COMPARED = {"places"}


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = filled(tmp_path_factory.mktemp("filled") / "data", dies=False)

    async def hold_provider() -> None:
        async with opened(folder) as store:
            await store.hold_provider(ProviderHold(server="openai", until=2**52), 0)

    asyncio.run(hold_provider())
    return folder


@pytest.fixture
def data(filled_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled_once, tmp_path / "data"))


def damage(data: Path, table: str, change: str) -> None:
    """Changes one column of one row of a table, and leaves its seal."""
    with closing(sqlite3.connect(data / "interlock.db", isolation_level=None)) as connection:
        seal = connection.execute(f"select seal from {table} limit 1").fetchone()[0]
        connection.create_function("interlock_seal", -1, lambda *_: seal)
        connection.execute(f"update {table} set {change} where seal = ?", (seal,))


def problems_of(data: Path) -> list[str]:
    return asyncio.run(check_store(data)).problems


def test_every_table_has_checksums() -> None:
    tables = {name for kind, name in checks.fresh_schema() if kind == "table"}
    assert tables == {*SEALED_TABLES, *CHECKED, *COMPARED}


@pytest.mark.parametrize("table", SEALED_TABLES)
def test_the_seal_covers_every_column(table: str) -> None:
    """But for a body that has a crc which is covered itself."""
    columns = {column.split(" ")[0] for column in SEALED_TABLES[table].columns}
    covered = set(SEALED_TABLES[table].covered) or columns
    assert columns - covered == ({"body"} if "crc" in columns else set())


@pytest.mark.parametrize("table", SEALED_TABLES)
def test_a_change_in_any_column_of_any_table_is_found(filled_once: Path, table: str) -> None:
    changes = {"integer": "{0} = {0} + 1000", "text": "{0} = {0} || 'x'", "blob": "{0} = x'00'"}
    with closing(sqlite3.connect(filled_once / "interlock.db", isolation_level=None)) as connection:
        sealed_tables.register_seal_function(connection)
        assert sealed_tables.damage_in_sealed_tables(connection) == []
        covered = SEALED_TABLES[table].covered or [column.split(" ")[0] for column in SEALED_TABLES[table].columns]
        kinds = dict(column.split(" ")[:2] for column in SEALED_TABLES[table].columns)
        for column in covered:
            connection.execute("begin")
            seal = connection.execute(f"select max(seal) from {table}").fetchone()[0]
            connection.create_function("interlock_seal", -1, lambda *_, seal=seal: seal, deterministic=True)
            query = f"update {table} set {changes[kinds[column]].format(column)} where seal = ?"
            try:
                connection.execute(query, (seal,))
            except sqlite3.IntegrityError:  # the table itself refuses it
                connection.execute("rollback")
                continue
            sealed_tables.register_seal_function(connection)
            assert sealed_tables.damage_in_sealed_tables(connection) != [], column
            connection.execute("rollback")


async def test_an_answer_that_was_damaged_is_not_given_again(data: Path) -> None:
    damage(data, "requests", "body = x'7b7d'")

    async with Inspection(data) as box:
        answers = 0
        for n in range(3):
            asked = IdempotentRequest(
                caller="key", key=f"request{n}", fingerprint=b"", planned="", at=4_000_000_000_000 + n
            )
            try:
                first = await box.store.register_request(asked, forget_before=0)
            except DamagedRow as error:
                assert "Idempotency-Key is damaged" in str(error)
            else:
                answers += first.body == b'{"id": "run"}'
        assert answers == 2


@pytest.mark.parametrize(
    "change",
    ["token = token || 'x'", "run = 'other'", "since = since + 1", "body = x'00'", "run = cast(x'ff' as text)"],
)
def test_a_damaged_row_of_questions_hides_no_question(
    data: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    right = asyncio.run(given(data))["questions"]
    assert len(right) == 1
    damage(data, "questions", change)
    assert asyncio.run(given(data))["questions"] == right
    listed = CliRunner().invoke(interlock, ["runs", "questions", "--data", str(data)])
    assert right[0].id in listed.stdout
    assert "questions" in caplog.text
    assert problems_of(data) == []


async def test_a_question_that_is_damaged_while_a_server_runs_is_listed_from_the_journal(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async with Interlock(data, script=TRAVEL / "script.yaml") as box:
        await (await box.start(load_crew(TRAVEL), "Plan a trip from LAX to Italy", run_id="waits")).result()
        (right,) = await box.questions()
        damage(data, "questions", "body = x'00'")
        assert await box.questions() == [right]
        await box.list_missing_questions()
        assert list(await box.store.open_questions(10)) == [right]
        damage(data, "questions", "body = x'00'")
        page = await question_page(box, 10, None)
        assert [each["id"] for each in page["questions"]] == [right.id]
        damage(data, "questions", "body = x'00'")
        detail = await run_detail(box, "waits")
        assert [each["id"] for each in detail["questions"]] == [right.id]


async def test_reading_questions_checks_no_more_rows_than_it_gives_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server reads them with every look at a run that waits."""
    sealed = 0

    def counting(*values: object) -> int:
        nonlocal sealed
        sealed += 1
        return sealed_tables.seal_of(*values)

    def keep(connection: sqlite3.Connection, _: object) -> None:
        for n in range(500):
            where = {"run": "r", "crew": "c", "agent": "a", "reason": "signal:[WAIT]"}
            asked = msgspec.convert({**where, "id": "q", "question": "q", "token": f"t{n}", "since": n}, OpenQuestion)
            question_rows.store_questions(connection, RunQuestions(run=f"r{n}", questions=(asked,)))

    async with Interlock(tmp_path / "data") as box:
        await sqlite_of(box).write("fill", keep)
        await sqlite_of(box).read("count", lambda it: it.create_function("interlock_seal", -1, counting))
        await question_page(box, 5, None)
    assert 5 <= sealed <= 20


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "create trigger t after insert on runs begin delete from spent; end",
            "the trigger 't' in the database",
        ),
        ("create view v as select run from runs", "the view 'v' in the database is not Interlock's"),
        ("create table extra (x integer)", "the table 'extra' in the database is not Interlock's"),
        ("create index i on runs (reason)", "the index 'i' in the database is not Interlock's"),
        ("drop index runs_by_crew", "the index 'runs_by_crew' is missing"),
        ("drop table spent", "the table 'spent' is missing"),
        ("insert into spent (run, seq, body, crc) values ('nobody', 1, x'7b7d', 0)", "of a run that is not there"),
        ("insert into outbox (key, run, body) values ('k', 'nobody', x'7b7d')", "of a run that is not there"),
        (
            "insert into inbox (crew, agent, broadcast, taken) values ('a', 'b', 999, '')",
            "a broadcast that is not",
        ),
        ("update webhook_cursors set position = 999999", "has read further than the newest position"),
        ("update mailboxes set unread = unread + 1", "the count of unread mail of agent"),
        ("update records set position = position + 1000 where seq = 1 and run > 0", "not in the order of positions"),
        ("update crews set body = x'7b7d'", "does not have that sum"),
    ],
)
def test_the_doctor_compares_schema_positions_and_owners(data: Path, statement: str, problem: str) -> None:
    assert problems_of(data) == []
    with closing(migrations.connect(data / "interlock.db")) as connection:
        connection.execute(statement)
    assert any(problem in each for each in problems_of(data)), problems_of(data)
    told = CliRunner().invoke(interlock, ["doctor", "--data", str(data)])
    assert told.exit_code == 1
    assert problem in told.stdout


async def test_a_run_that_is_deleted_leaves_no_rows_behind(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data", script=HELLO / "script.yaml") as box:
        await (await box.start(load_crew(HELLO), "go", run_id="r")).result()
        await box.usage()
        await delete_run(box, "r")
        assert (await open_questions(box.store, box.crew_of))[0] == []
    assert (await check_store(tmp_path / "data")).problems == []
