"""Runs begin with what every process on the store knows, until the operator raises it."""

import logging
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.adapters.sqlite.store import SqliteStore
from interlock.compose.upkeep.doctor import check_store
from interlock.compose.upkeep.store_status import raise_format, read_status
from interlock.engine.run import RULES
from interlock.errors import UsageError
from interlock.ports import NEWEST_FORMAT, RunFormat
from tests.adapters.stores import opened
from tests.compose.test_interlock import LOOP

OLDER = RunFormat(RULES - 1, NEWEST_FORMAT.format)
NEWER = RunFormat(RULES + 1, NEWEST_FORMAT.format)


async def rules_of_new_run(box: Interlock, run: str) -> int:
    await box.start(LOOP, "go", run_id=run)
    assert (await box.result(run)).status == "completed"
    return (await box.journal.row(run)).rules


@pytest.mark.parametrize("rules", range(1, RULES))
async def test_runs_begin_with_the_format_of_the_store_until_it_is_raised(tmp_path: Path, rules: int) -> None:
    before = RunFormat(rules, 1)
    older = SqliteStore(tmp_path, knows=before)
    assert await older.raise_run_format(before) == []
    async with Interlock(tmp_path, models=lambda _: "done [END]") as box:
        assert await rules_of_new_run(box, "r1") == rules
        with pytest.raises(
            UsageError, match=rf"process \d+ on '.+' \(.+\) knows rules {rules}, format 1, and could not"
        ):
            await raise_format(box)
        assert await rules_of_new_run(box, "r2") == rules
        shown = await read_status(box)
        assert (shown.run_format, shown.newest_format, len(shown.held_back_by)) == (before, NEWEST_FORMAT, 1)
        await older.close()
        assert await raise_format(box) == f"runs begin with {NEWEST_FORMAT} from now on"
        assert await rules_of_new_run(box, "r3") == RULES
        assert await raise_format(box) == f"runs begin with {NEWEST_FORMAT}; there is nothing to raise"
    assert (await check_store(tmp_path)).problems == []


async def test_a_new_store_begins_with_the_newest_format(tmp_path: Path) -> None:
    async with Interlock(tmp_path, models=lambda _: "done [END]") as box:
        assert await rules_of_new_run(box, "r1") == RULES
        assert (await read_status(box)).run_format == NEWEST_FORMAT


async def test_a_process_that_is_older_than_the_store_begins_runs_that_all_know_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        assert await store.raise_run_format(NEWER) == [await only_process(store)]
        assert await store.raise_run_format(NEWEST_FORMAT) == []
    newer = SqliteStore(tmp_path, knows=NEWER)
    await newer.raise_run_format(NEWER)
    await newer.close()
    with caplog.at_level(logging.WARNING, "interlock"):
        async with Interlock(tmp_path, models=lambda _: "done [END]") as box:
            assert await rules_of_new_run(box, "r1") == RULES
            assert "which is more than the" in await raise_format(box)
    assert f"runs begin here with {NEWER}" in caplog.text and "upgrade" in caplog.text


async def only_process(store: SqliteStore) -> object:
    (found,) = (await store.overview()).processes
    return found
