"""A store moves to another kind and back, whatever interrupts it, and nothing is lost or made up."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.adapters.clock import SystemClock
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.moving import NOT_MOVED, NOT_MOVED_COLUMNS
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.adapters.store_rules.moved_tables import MOVED_TABLES
from interlock.compose.stores.homes import home_of
from interlock.compose.upkeep.doctor import check_store
from interlock.compose.upkeep.store_move import give_up_move, move_store
from interlock.errors import FolderServed, StoreFailed, UsageError
from tests.adapters.stores import opened
from tests.compose.upkeep.rich_folder import make_rich_folder
from tests.contracts.test_journal import a_row, started
from tests.postgres import shared_schemas

CHILD = Path(__file__).with_name("move_child.py")


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rich") / "data"
    make_rich_folder(folder)
    return folder


@pytest.fixture
def source(rich: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(rich, tmp_path / "source"))


def contents_of(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table as SQLite has it, but for what is not moved."""
    found = {}
    with closing(migrations.connect(folder / DATABASE)) as connection:
        for (table,) in connection.execute("select name from sqlite_schema where type = 'table'").fetchall():
            left_out = {*NOT_MOVED_COLUMNS.get(table, {}), "seal"} if table != "tombstones" else {"seal"}
            names = [row[1] for row in connection.execute(f"pragma table_xinfo({table})")]
            columns = ", ".join(name for name in names if name not in left_out)
            if table not in NOT_MOVED:
                found[table] = sorted(connection.execute(f"select {columns} from {table}").fetchall(), key=repr)
    return found


def as_moved(contents: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """What a move changes: the newest set-aside of a run stands for all, and PostgreSQL has no NUL in its texts."""
    clean = {
        table: [tuple(each.replace("\0", "\ufffd") if type(each) is str else each for each in row) for row in rows]
        for table, rows in contents.items()
    }
    clean["set_asides"] = [row for row in clean["set_asides"] if row[1] != "old"]
    return clean


async def test_a_rich_folder_goes_to_postgres_and_back_row_for_row(
    source: Path, postgres_url: str, tmp_path: Path
) -> None:
    before = contents_of(source)
    assert [name for name, rows in before.items() if not rows] == []
    there = move_store(home_of(source), home_of(postgres_url))
    assert set(there.rows) == {table.name for table in MOVED_TABLES}
    back = move_store(home_of(postgres_url), home_of(tmp_path / "back"))
    assert back.rows == there.rows
    assert contents_of(tmp_path / "back") == as_moved(before)


async def test_the_doctor_finds_nothing_wrong_in_a_store_that_was_moved(
    source: Path, postgres_url: str, tmp_path: Path
) -> None:
    runs = len(contents_of(source)["runs"])
    for name, target in ((source, postgres_url), (postgres_url, tmp_path / "back")):
        move_store(home_of(name), home_of(target))
        found = await check_store(target)
        assert (found.problems, found.runs) == ([], runs)


async def test_what_is_read_of_both_stores_is_the_same(source: Path, postgres_url: str) -> None:
    async def read_all(name: str | Path) -> list[object]:
        home = await home_of(name).open("full", SystemClock())
        rows = await home.store.rows(limit=10_000)
        trees = [await home.store.export_tree(row.run) for row in rows if ":" not in row.run and "/" not in row.run]
        signals = await home.bus.since(0, 10_000)
        asked = [await home.store.newest_position(), await home.bus.list_delayed(), await home.store.tombstones()]
        await home.close()
        return [rows, trees, signals, asked]

    expected = await read_all(source)
    move_store(home_of(source), home_of(postgres_url))
    assert await read_all(postgres_url) == expected


async def test_a_moved_store_goes_on_where_the_old_one_ended(source: Path, postgres_url: str, tmp_path: Path) -> None:
    newest = max(row[0] for row in contents_of(source)["records"])
    for name, target in ((source, postgres_url), (postgres_url, tmp_path / "back")):
        move_store(home_of(name), home_of(target))
        home = await home_of(target).open("full", SystemClock())
        newest += 1
        made = await home.store.create(a_row(f"new-{newest}"), started())
        assert made.position == newest
        await home.close()


async def test_both_stores_say_where_the_runs_are(source: Path, postgres_url: str, tmp_path: Path) -> None:
    move_store(home_of(source), home_of(postgres_url))
    assert (source / "MOVED").exists() and not (source / "MOVING").exists()
    with pytest.raises(StoreFailed, match=r"was moved to 'postgres://.*'; use that store"):
        SqliteStore(source)
    with pytest.raises(StoreFailed, match=r"was moved to 'postgres://"):
        await home_of(source).open_to_read("full", SystemClock())
    with pytest.raises(StoreFailed, match=r"was moved to 'postgres://"):
        move_store(home_of(source), home_of(tmp_path / "other"))
    move_store(home_of(postgres_url), home_of(tmp_path / "back"))
    with pytest.raises(StoreFailed, match=rf"was moved to '{tmp_path}/back'"):
        await home_of(postgres_url).open("full", SystemClock())


async def test_a_store_that_a_process_has_open_is_not_moved(source: Path, postgres_url: str, tmp_path: Path) -> None:
    async with opened(source):
        with pytest.raises(StoreFailed, match=rf"process {os.getpid()} has '{source}' open; stop it first"):
            move_store(home_of(source), home_of(postgres_url))
    with home_of(source).hold_server_lock(), pytest.raises(FolderServed):
        move_store(home_of(source), home_of(postgres_url))
    target = await home_of(postgres_url).open("full", SystemClock())
    with pytest.raises(StoreFailed, match=rf"process {os.getpid()} on '.*' has 'postgres://.*' open"):
        move_store(home_of(source), home_of(postgres_url))
    assert await target.store.rows() == []
    with pytest.raises(StoreFailed, match=r"stop it first"):
        move_store(home_of(postgres_url), home_of(tmp_path / "other"))
    await target.close()
    assert move_store(home_of(source), home_of(postgres_url)).rows["runs"] > 0


async def test_a_target_that_is_not_empty_is_refused_and_both_stay_usable(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "other")
    with pytest.raises(StoreFailed, match=r"is not empty: there are rows in 'crews'"):
        move_store(home_of(source), home_of(tmp_path / "other"))
    with pytest.raises(UsageError, match=r"both addresses name the same store"):
        move_store(home_of(source), home_of(f"sqlite:{source}"))
    for folder in (source, tmp_path / "other"):
        assert (await check_store(folder)).problems == []


def test_a_damaged_store_is_not_moved(source: Path, postgres_url: str) -> None:
    with closing(migrations.connect(source / DATABASE)) as connection:
        connection.execute("update runs set calls = calls + 1 where number = 2")
    with pytest.raises(StoreFailed, match=r"is not healthy: .*see 'interlock doctor'"):
        move_store(home_of(source), home_of(postgres_url))
    assert not (source / "MOVING").exists()


class Movers:
    """Processes that move a store in pages of 3 rows, and are killed at a crash point."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def move(self, source: str, target: str, crash_at: int) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(crash_at, source, target, file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        assert code in (0, 137)
        return code


@pytest.fixture(scope="module")
def movers() -> Iterator[Movers]:
    environment = {**os.environ, "PYTHONPATH": "."}
    command = [sys.executable, str(CHILD)]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True) as process:
        yield Movers(process)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "data"
    tables = ("broadcasts", "subscriptions", "inbox", "mailboxes", "active", "outbox", "set_asides")
    make_rich_folder(folder, {"refunds": 0}, journals=3, tables=tables)
    return folder


async def test_a_move_that_is_killed_at_any_page_is_ended_by_the_same_command(
    small: Path, movers: Movers, tmp_path: Path
) -> None:
    """Each page has two crash points, before and after its commit: one for the way there, the other for that back."""
    expected = as_moved(contents_of(small))
    for crash_at in range(1, 500, 2):
        folder, back = tmp_path / f"source-{crash_at}", tmp_path / f"back-{crash_at}"
        shutil.copytree(small, folder)
        with shared_schemas().borrow() as url:
            codes = [movers.move(f"sqlite:{folder}", url, crash_at)]
            if codes[0]:
                require_unusable(folder)
                end_move(folder, url)
            codes.append(movers.move(url, f"sqlite:{back}", crash_at + 1))
            if codes[1]:
                end_move(url, back)
        assert contents_of(back) == expected
        if codes == [0, 0]:
            return
        shutil.rmtree(folder)
        shutil.rmtree(back)
    raise AssertionError("no move ended")


def end_move(source: str | Path, target: str | Path) -> None:
    """The last crash point is after the end: then there is nothing left to do."""
    try:
        move_store(home_of(source), home_of(target))
    except StoreFailed as error:
        assert "was moved to" in str(error)


def require_unusable(folder: Path) -> None:
    if (folder / "MOVING").exists() or (folder / "MOVED").exists():
        with pytest.raises(StoreFailed, match=r"is not finished; end it with 'interlock store move'|was moved to"):
            SqliteStore(folder)


async def test_a_move_can_be_given_up_and_its_target_takes_no_other(
    small: Path, movers: Movers, tmp_path: Path, postgres_url: str
) -> None:
    folder = Path(shutil.copytree(small, tmp_path / "source"))
    assert movers.move(f"sqlite:{folder}", postgres_url, 12) == 137
    with pytest.raises(StoreFailed, match=r"a move of 'postgres://.* from .* is not finished"):
        await home_of(postgres_url).open("full", SystemClock())
    with pytest.raises(StoreFailed, match=r"is not finished"):
        move_store(home_of(folder), home_of(tmp_path / "other"))
    with pytest.raises(UsageError, match=r"is one to 'postgres://"):
        give_up_move(home_of(folder), home_of(tmp_path / "other"))
    give_up_move(home_of(folder), home_of(postgres_url))
    assert (await check_store(folder)).problems == []
    with pytest.raises(StoreFailed, match=r"is not finished"):
        move_store(home_of(folder), home_of(postgres_url))
    with pytest.raises(UsageError, match=r"is not the source of an unfinished move"):
        give_up_move(home_of(folder), home_of(postgres_url))
    assert move_store(home_of(folder), home_of(tmp_path / "another")).rows["runs"] > 0


def test_a_move_back_to_a_store_that_was_left_says_what_to_do(source: Path, postgres_url: str) -> None:
    move_store(home_of(source), home_of(postgres_url))
    with pytest.raises(StoreFailed, match=r"still has its old rows; name another folder or schema, or delete the old"):
        move_store(home_of(postgres_url), home_of(source))


def test_a_move_that_is_finished_says_so_when_it_is_repeated(source: Path, postgres_url: str, tmp_path: Path) -> None:
    for name, target in ((source, postgres_url), (postgres_url, tmp_path / "back")):
        assert not move_store(home_of(name), home_of(target)).was_finished
        again = move_store(home_of(name), home_of(target))
        assert (again.was_finished, again.rows) == (True, {})
    (tmp_path / "back").rename(tmp_path / "away")
    with pytest.raises(StoreFailed, match="was moved to"):  # another store is there now
        move_store(home_of(postgres_url), home_of(tmp_path / "back"))
