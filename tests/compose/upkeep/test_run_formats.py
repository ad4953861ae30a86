"""Runs begin with what every process on the store knows, until the operator raises it."""

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest

from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.compose.upkeep.doctor import check_store
from interlock.compose.upkeep.read_only import Inspection
from interlock.compose.upkeep.store_status import raise_format, read_status
from interlock.engine.run import RULES
from interlock.errors import DamagedRow, HostLacks, UsageError
from interlock.ports import NEWEST_FORMAT, RunFormat
from tests.adapters.stores import opened
from tests.cli.test_options import call
from tests.compose.test_crews_of_crews import WHOLE, box_of, nested
from tests.contracts.test_journal import a_row, started

OLDER = RunFormat(RULES - 1, NEWEST_FORMAT.format)
NEWER = RunFormat(RULES + 1, NEWEST_FORMAT.format)


async def rules_of_new_run(folder: Path, run: str) -> int:
    """The rules of a whole tree of runs, as it was begun and as it replays."""
    async with box_of(folder, WHOLE) as box:
        assert (await (await box.start(nested(folder), "go", run_id=run)).result()).status == "completed"
        tree = [await box.journal.row(run), *await box.store.rows_below(run)]
        assert len(tree) == 4
        (rules,) = {row.rules for row in tree} | {(await box.state(row.run)).rules for row in tree}
    return rules


@pytest.mark.parametrize("rules", range(1, RULES))
async def test_runs_begin_with_the_format_of_the_store_until_it_is_raised(tmp_path: Path, rules: int) -> None:
    before, data = RunFormat(rules, 1), tmp_path / "data"
    older = SqliteStore(data, knows=before)
    assert await older.raise_run_format(before) == []
    assert await rules_of_new_run(tmp_path, "r1") == rules
    async with Inspection(data) as box:
        named = rf"process \d+ on '.+' \(.+\) knows rules {rules}, format 1, and could not"
        with pytest.raises(UsageError, match=named):
            await raise_format(box)
        shown = await read_status(box)
        assert (shown.run_format, shown.newest_format, len(shown.held_back_by)) == (before, NEWEST_FORMAT, 1)
    assert await rules_of_new_run(tmp_path, "r2") == rules
    await older.close()
    async with Inspection(data) as box:
        assert await raise_format(box) == f"runs begin with {NEWEST_FORMAT} from now on"
        assert await raise_format(box) == f"runs begin with {NEWEST_FORMAT}; there is nothing to raise"
    assert await rules_of_new_run(tmp_path, "r3") == RULES
    assert (await check_store(data)).problems == []


async def test_a_new_store_begins_with_the_newest_format(tmp_path: Path) -> None:
    assert await rules_of_new_run(tmp_path, "r1") == RULES
    async with Inspection(tmp_path / "data") as box:
        assert (await read_status(box)).run_format == NEWEST_FORMAT


async def test_a_process_that_is_older_than_the_store_begins_runs_that_all_know_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newer = SqliteStore(tmp_path / "data", knows=NEWER)
    await newer.raise_run_format(NEWER)
    await newer.close()
    with caplog.at_level(logging.WARNING, "interlock"):
        assert await rules_of_new_run(tmp_path, "r1") == RULES
    assert f"runs begin here with {NEWER}" in caplog.text and "upgrade" in caplog.text
    async with Inspection(tmp_path / "data") as box:
        told = await raise_format(box)
    assert told.startswith(f"runs begin with {NEWER}, which is more than the {NEWEST_FORMAT} of this version")


async def test_a_run_of_a_newer_version_is_no_damage_here(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create(a_row(rules=NEWER.rules), started())
    found = await check_store(tmp_path)
    assert (found.problems, found.runs, found.left_out) == ([], 0, 1)
    assert "1 run was begun by a newer Interlock and not replayed; its own doctor does that" in found.notes
    async with Inspection(tmp_path) as box:
        with pytest.raises(HostLacks, match=f"newer version of Interlock: {NEWER}"):
            await box.state("r1")


async def test_a_damaged_row_is_not_guessed_and_is_set_again_by_a_raise(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert await rules_of_new_run(tmp_path, "r1") == RULES
    with sqlite3.connect(data / DATABASE) as connection:
        connection.create_function("interlock_seal", -1, lambda *_: 7, deterministic=True)
        connection.execute("update run_format set rules = 7")
    connection.close()
    async with box_of(tmp_path, WHOLE) as box:
        with pytest.raises(DamagedRow, match="interlock store raise-format"):
            await box.start(nested(tmp_path), "go")
        assert (await box.store.problems()) == [
            "1 row is damaged in the table 'run_format': they are left out when reading"
        ]
    async with Inspection(data) as box:
        assert "from now on" in await raise_format(box)
    assert await rules_of_new_run(tmp_path, "r2") == RULES


def test_the_command_raises_the_format_of_a_folder(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    asyncio.run(rules_of_new_run(tmp_path, "r1"))
    shown = call("store", "raise-format", "--data", data)
    assert (shown.exit_code, shown.stdout) == (
        0,
        f"{data}: runs begin with {NEWEST_FORMAT}; there is nothing to raise\n",
    )
    assert f"runs begin with {NEWEST_FORMAT}\n" in call("store", "status", "--data", data).stdout
    assert call("store", "raise-format", "--data", str(tmp_path / "none")).exit_code == 2


async def test_the_command_names_who_keeps_it_from_being_raised(tmp_path: Path) -> None:
    data = tmp_path / "data"
    older = SqliteStore(data, knows=OLDER)
    await older.raise_run_format(OLDER)
    refused = await asyncio.to_thread(call, "store", "raise-format", "--data", str(data))
    assert (refused.exit_code, f"knows {OLDER}" in refused.stderr) == (2, True)
    shown = (await asyncio.to_thread(call, "store", "status", "--data", str(data))).stdout
    assert f"runs begin with {OLDER}; this version knows {NEWEST_FORMAT}: 'interlock store raise-format'" in shown
    assert f"knows {OLDER}, less than this version" in shown
    await older.close()
