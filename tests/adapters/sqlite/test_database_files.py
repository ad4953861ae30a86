"""Whether the files of a database are those that were opened."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.adapters.sqlite import database_files
from interlock.adapters.sqlite.database_files import DatabaseFiles


@pytest.fixture
def files(tmp_path: Path) -> DatabaseFiles:
    for name in ("interlock.db", "interlock.db-wal"):
        (tmp_path / name).write_bytes(b"x")
    return DatabaseFiles(tmp_path / "interlock.db")


def make_old(folder: Path) -> None:
    """As if the last change of the folder were long ago."""
    os.utime(folder, ns=(1, 1))


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("how", ["deleted", "replaced", "renamed", "the folder is gone"])
def test_a_log_that_is_not_the_same_is_noticed(tmp_path: Path, files: DatabaseFiles, how: str, is_old: bool) -> None:
    if is_old:
        make_old(tmp_path)
    assert files.is_same_log()
    assert files.is_same_log()
    log = tmp_path / "interlock.db-wal"
    if how == "replaced":
        (tmp_path / "other").write_bytes(b"x")
        (tmp_path / "other").rename(log)
    elif how == "the folder is gone":
        tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    else:
        log.rename(tmp_path / "other") if how == "renamed" else log.unlink()
    assert not files.is_same_log()


def test_the_log_is_asked_only_when_its_folder_has_changed(
    tmp_path: Path, files: DatabaseFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stat = os.stat

    def counting(path: str) -> Any:
        asked.append(Path(path).name)
        return stat(path)

    monkeypatch.setattr(database_files, "os", SimpleNamespace(stat=counting))
    make_old(tmp_path)
    for _ in range(100):
        assert files.is_same_log()
    assert asked.count("interlock.db-wal") == 1
    (tmp_path / "newer").touch()
    assert files.is_same_log()
    assert asked.count("interlock.db-wal") == 2


def test_a_second_change_within_a_tick_is_noticed(
    tmp_path: Path, files: DatabaseFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that counts in ticks gives both changes of the folder one time."""
    now = time.time_ns()
    os.utime(tmp_path, ns=(now, now))
    assert files.is_same_log()
    (tmp_path / "interlock.db-wal").unlink()
    os.utime(tmp_path, ns=(now, now))
    monkeypatch.setattr(database_files, "time", SimpleNamespace(time_ns=lambda: now + 10 * database_files.TICKS_NS))
    assert not files.is_same_log()


def test_a_file_system_that_counts_seconds_is_trusted_later(
    tmp_path: Path, files: DatabaseFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = 1_700_000_000 * database_files.WHOLE_SECOND_NS
    os.utime(tmp_path, ns=(second, second))
    clock = SimpleNamespace(time_ns=lambda: second + database_files.WHOLE_SECOND_NS // 2)
    monkeypatch.setattr(database_files, "time", clock)
    assert files.is_same_log()
    (tmp_path / "interlock.db-wal").unlink()
    os.utime(tmp_path, ns=(second, second))
    assert not files.is_same_log()
