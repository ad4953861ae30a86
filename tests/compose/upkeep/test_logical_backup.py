"""All runs in one file: resumable, from any store into any other."""

import asyncio
from pathlib import Path

import pytest

from interlock.adapters.files import backup_files
from interlock.adapters.postgres.store import PostgresStore
from tests.cli.test_options import call
from tests.compose.upkeep.rich_folder import EXAMPLES, add_journals
from tests.postgres import shared_schemas


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("INTERLOCK_DATA", "INTERLOCK_STORE"):
        monkeypatch.delenv(variable, raising=False)


def start(*options: str) -> None:
    folder = EXAMPLES / "multi-team"
    done = call("run", str(folder), "a week", "--script", str(folder / "script.yaml"), *options)
    assert done.exit_code == 0, done.output


def test_runs_of_a_server_are_written_to_a_file_and_imported_into_a_folder() -> None:
    with shared_schemas().borrow() as url:
        start("--store", url)
        refused = call("backup", "all.jsonl", "--store", url)
        assert refused.exit_code == 2
        assert "pg_dump --schema=" in refused.stderr and "a base backup, or point-in-time recovery" in refused.stderr
        first = call("backup", "all.jsonl", "--logical", "--store", url)
        assert first.stdout == "wrote 1 run to all.jsonl; to restore: interlock runs import all.jsonl\n"
        start("--store", url)
        again = call("backup", "all.jsonl", "--logical", "--store", url)
        assert "wrote 1 run to all.jsonl, 1 were there already" in again.stdout
        runs = call("runs", "list", "--store", url).stdout
    assert call("runs", "import", "all.jsonl", "--data", "copy").stdout == "imported 2 runs\n"
    assert call("runs", "list", "--data", "copy").stdout == runs
    assert call("runs", "import", "all.jsonl", "--data", "copy").stdout == "imported 0 runs, 2 were there already\n"
    assert "is healthy" in call("doctor", "--data", "copy").stdout
    assert Path("all.jsonl").stat().st_mode & 0o777 == 0o600


async def fill(url: str) -> None:
    store = PostgresStore(url)
    await add_journals(store, 2)
    await store.close()


def test_what_a_killed_process_left_is_cut_off_wherever_it_ended(postgres_url: str) -> None:
    asyncio.run(fill(postgres_url))
    assert call("backup", "whole", "--logical", "--store", postgres_url).exit_code == 0
    whole = Path("whole").read_bytes()
    for size in range(0, len(whole), len(whole) // 7):
        Path("part").write_bytes(whole[:size])
        assert call("backup", "part", "--logical", "--store", postgres_url).exit_code == 0
        assert Path("part").read_bytes() == whole


def test_the_later_entry_of_a_run_counts_and_another_file_is_left_alone(tmp_path: Path) -> None:
    for events, export in ((3, b"old\n"), (5, b"new\n")):
        with backup_files.BackupFile(tmp_path / "file") as backup:
            backup.add("r1", events, export)
    assert list(backup_files.read_backup(tmp_path / "file")) == [b"new\n"]
    Path("other").write_text("{}", "utf-8")
    refused = call("backup", "other", "--logical", "--data", "nothing")
    assert refused.exit_code == 2
    call("store", "init")
    refused = call("backup", "other", "--logical")
    assert "other exists already and is no backup of runs; name another file" in refused.stderr
    assert Path("other").read_text("utf-8") == "{}"
