"""What people are asked, over all runs: kept with the record that changed it, and as the journals tell it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock, load_crew
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.runs import run_head
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.compose.questions import list_open_questions, open_questions, questions_of_run
from interlock.compose.upkeep.archive import delete_run, export_run, import_run
from interlock.compose.upkeep.doctor import check_store
from interlock.ports import OpenQuestion, RunRow
from interlock.testing import ManualClock
from tests.nested_crews import nested_crew

ROOT = Path(__file__).parents[2]
TRAVEL = ROOT / "examples/travel"

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{id: clerk, cost_limits: {input_token_price_per_million: 0}}]
routing: {signals: {clerk: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""


def asks_once(request: Any) -> str:
    return "Which colour? [WAIT]" if len(request.messages) == 1 else "Fine. [DONE]"


def box_in(folder: Path, **how: Any) -> Interlock:
    return Interlock(folder / "data", **{"models": asks_once, "clock": ManualClock(), **how})


async def started(box: Interlock, *runs: str) -> None:
    file = box.data.parent / "desk.yaml"
    file.write_text(CREW)
    crew = load_crew(file)
    for handle in await asyncio.gather(*(box.start(crew, "go", run_id=run) for run in runs)):
        await handle.result()


async def listed(box: Interlock) -> list[str]:
    """The runs that ask something; what is listed of each must be what its journal tells."""
    found = await list_open_questions(box.store)
    rows: list[RunRow] = list(await box.journal.rows(limit=1_000))
    told = [each for row in rows for each in (await questions_of_run(box.store, box.crew_of, row)).questions]
    assert sorted(found, key=_token) == sorted(told, key=_token)
    return sorted(each.run for each in found)


def _token(question: OpenQuestion) -> str:
    return question.token


def database(folder: Path) -> "closing[sqlite3.Connection]":
    return closing(migrations.connect(folder / "data" / "interlock.db"))


async def test_a_question_is_listed_while_it_is_open_and_gone_with_its_run(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one", "two", "three")
        assert await listed(box) == ["one", "three", "two"]
        await (await box.resume("one", "blue")).result()
        assert await listed(box) == ["three", "two"]
        await box.cancel("two")
        assert await listed(box) == ["three"]
        await delete_run(box, "two")
        await box.cancel("three")
        assert await listed(box) == []


async def test_a_paused_run_that_is_deleted_asks_nothing_any_more(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one")
        await delete_run(box, "one")
        assert await list_open_questions(box.store) == []


async def test_questions_of_agents_keep_their_age_when_they_are_asked_again(tmp_path: Path) -> None:
    async with box_in(tmp_path, models=None, script=TRAVEL / "script.yaml") as box:
        clock = box.clock
        assert isinstance(clock, ManualClock)
        await (await box.start(load_crew(TRAVEL), "Plan a trip from LAX to Italy", run_id="trip")).result()
        (asked,) = await list_open_questions(box.store)
        clock.advance(5_000)
        await (await box.answer(asked.id, "so many")).result()  # not what an answer must look like
        (again,) = await list_open_questions(box.store)
        assert (again.id, again.since, again.until) == (asked.id, asked.since, asked.until)
        assert again.token != asked.token
        assert await listed(box) == ["trip"]
        await (await box.answer(again.id, "5")).result()
        assert await listed(box) == []


async def test_what_a_child_asks_is_listed_once_there_and_found_from_above(tmp_path: Path) -> None:
    folder = nested_crew(tmp_path / "crew")

    async with box_in(tmp_path, models=None, script=folder / "script.yaml") as box:
        await (await box.start(load_crew(folder), "Lamps", run_id="r")).result()
        (run,) = await listed(box)
        assert run.startswith("r~")
        assert await list_open_questions(box.store, "r") == await list_open_questions(box.store)
        assert await list_open_questions(box.store, "r~nobody") == []


async def test_runs_that_come_in_whole_are_listed(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one")
        fork = await box.fork("one", 3)
        assert await box.store.runs_without_question_list() == []
        await fork.result()
        assert await listed(box) == sorted([fork.id, "one"])
        file = await export_run(box, "one")
        await delete_run(box, "one")
        await import_run(box, file, "one")
        assert await listed(box) == sorted([fork.id, "one"])


def put_back_to(file: Path, migration: str) -> None:
    """Makes the database as it was before a migration, with the rows and columns that there were."""
    newer, older = file.rename(file.with_suffix(".newer")), [name for name, _ in migrations.MIGRATIONS].index(migration)
    with closing(migrations.connect(file, "rwc")) as connection:
        for statement in (each for _, statements in migrations.MIGRATIONS[:older] for each in statements):
            connection.execute(statement)
        connection.execute(f"pragma application_id = {migrations.APPLICATION_ID}")
        connection.execute(f"pragma user_version = {older}")
        connection.execute("attach ? as newer", (str(newer),))
        for (table,) in connection.execute("select name from main.sqlite_schema where type = 'table'").fetchall():
            query = (
                "select name from pragma_table_info(?, 'main') intersect select name from pragma_table_info(?, 'newer')"
            )
            columns = ", ".join(name for (name,) in connection.execute(query, (table, table)))
            connection.execute(f"delete from main.{table}")
            connection.execute(f"insert into main.{table} ({columns}) select {columns} from newer.{table}")
        for number, *values in connection.execute(f"select number, {run_head.COLUMNS} from newer.runs").fetchall():
            values[run_head.NEEDS] = (1, 1, 0)  # as rows are that were written before these columns
            crc = run_head.row_crc(number, values)
            connection.execute("update main.runs set crc = ? where number = ?", (crc, number))


async def test_a_folder_of_an_older_interlock_is_listed_once_when_it_is_opened(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one", "two")
        await (await box.resume("two", "blue")).result()
    put_back_to(tmp_path / "data" / "interlock.db", "013_questions")
    (tmp_path / "data" / "newest").unlink()  # which there was not at that time
    async with box_in(tmp_path) as box:
        assert await listed(box) == ["one"]
        assert await box.store.runs_without_question_list() == []


async def test_a_run_that_cannot_be_replayed_is_named_and_hides_no_other(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "broken", "whole")
        row, records = await box.journal.row("broken"), await box.journal.records("broken")
        other = msgspec.structs.replace(row, run="other", epoch=0)
        await box.archive.add_run(other, seal_chain("other", records))
    with database(tmp_path) as connection:
        connection.execute("update crews set body = x'7b7d'")
    async with box_in(tmp_path) as box:
        found, aside = await open_questions(box.store, box.crew_of)
        assert [question.run for question in found] == ["broken", "whole"]
        assert [each.run for each in aside] == ["other"]


@pytest.mark.parametrize("damage", ["delete from questions", "update questions set body = x'00'"])
async def test_the_doctor_lists_anew_what_is_not_listed_as_the_journal_tells_it(tmp_path: Path, damage: str) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one")
    with database(tmp_path) as connection:
        connection.execute(damage)
    first, second = await check_store(tmp_path / "data"), await check_store(tmp_path / "data")
    assert first.problems == second.problems == second.notes == []
    async with box_in(tmp_path) as box:
        assert await listed(box) == ["one"]


async def test_a_list_cannot_be_kept_for_a_run_that_has_moved_on(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one")
        row = await box.journal.row("one")
        asking = await questions_of_run(box.store, box.crew_of, row)
        await (await box.resume("one", "blue")).result()
        await box.store.store_questions(asking, row.seq)
        assert await listed(box) == []


async def test_a_thousand_waiting_runs_are_listed_without_reading_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with box_in(tmp_path) as box:
        await started(box, *(f"r{n}" for n in range(1_000)))
        reads: list[str] = []
        plain = SqliteStore.read

        async def counted(self: SqliteStore, doing: str, work: Any) -> Any:
            reads.append(doing)
            return await plain(self, doing, work)

        monkeypatch.setattr(SqliteStore, "read", counted)
        assert len(await box.questions()) == 1_000
        assert reads == ["list questions", "list questions", "list runs with unknown questions"]


async def test_what_is_damaged_in_the_list_hides_nothing_behind_it(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one", "three", "two")
    with database(tmp_path) as connection:
        connection.execute("update questions set since = 5")
        connection.execute("update questions set crc = crc + 1 where run = 'three'")
    async with box_in(tmp_path) as box:
        """Listed anew when the folder was opened."""
        assert sorted(each.run for each in await list_open_questions(box.store)) == ["one", "three", "two"]


async def test_the_list_is_read_by_its_index(tmp_path: Path) -> None:
    async with box_in(tmp_path) as box:
        await started(box, "one")
    with database(tmp_path) as connection:
        query = "select body from questions where (since, token) < (9, 'x') order by since desc, token desc limit 5"
        plan = " ".join(str(line[3]) for line in connection.execute(f"explain query plan {query}"))
    assert "questions_by_age" in plan
    assert "TEMP B-TREE" not in plan
