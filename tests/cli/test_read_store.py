"""Commands that only read may read a copy of the store: here a real standby of a real server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.migrate import migrate
from interlock.adapters.postgres.opening import PostgresCopy
from interlock.errors import StoreFailed
from interlock.testing import ScriptedModel
from tests.cli.test_options import call
from tests.compose.test_crews_of_crews import WHOLE, nested
from tests.contracts.test_journal import a_row, started
from tests.postgres import Cluster, Standby

READING = (
    *("runs list --all", "runs show r1", "runs explain r1", "runs replay r1", "runs export r1"),
    *("runs usage", "broadcast tail"),
)


class Servers:
    """A store with a finished tree of runs, and its standby."""

    def __init__(self, primary: Cluster, standby: Cluster) -> None:
        self.url, self.copy = primary.url("kept"), standby.url("kept")


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    primary = Cluster()
    standby = None
    try:
        standby = Standby(primary)
        migrate(PostgresAddress(primary.url("kept")))
        yield Servers(primary, standby)
    finally:
        for each in (standby, primary):
            if each is not None:
                each.end()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("INTERLOCK_DATA", "INTERLOCK_STORE", "INTERLOCK_READ_STORE"):
        monkeypatch.delenv(variable, raising=False)


async def add_run(url: str, folder: Path, run: str) -> None:
    async with Interlock(url, models=ScriptedModel(WHOLE)) as box:
        assert (await (await box.start(nested(folder), "go", run_id=run)).result()).status == "completed"


def wait_until_applied(servers: Servers, run: str) -> None:
    """The server acknowledges what the standby has received; applying it takes a moment longer."""
    query = "select 1 from runs where run = %s and status = 'completed'"
    with connect(PostgresAddress(servers.copy), target="any") as connection:
        while connection.execute(query, (run,)).fetchone() is None:
            continue


def test_every_command_that_only_reads_reads_the_copy_and_says_how_far_it_has_come(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(add_run(servers.url, tmp_path, "r1"))
    wait_until_applied(servers, "r1")
    for line in READING:
        words = line.split()
        read = call(*words, "--read-store", servers.copy)
        assert (read.exit_code, read.stdout) == (0, call(*words, "--store", servers.url).stdout), line
        assert "it is a copy that has come to record " in read.stderr
    monkeypatch.setenv("INTERLOCK_STORE", servers.url)
    monkeypatch.setenv("INTERLOCK_READ_STORE", servers.copy)
    assert "it is a copy" in call("runs", "list").stderr
    assert "it is a copy" not in call("runs", "list", "--store", servers.url).stderr
    assert call("broadcast", "tail", "-f", "--read-store", servers.copy).exit_code == 2
    assert len(json.loads(call("store", "status", "--json").stdout)["processes"]) == 0


def test_a_copy_is_named_in_the_settings_beside_its_store(servers: Servers) -> None:
    Path("interlock.toml").write_text(f'[store]\nurl = "{servers.url}"\nread_url = "{servers.copy}"\n', "utf-8")
    assert "it is a copy" in call("runs", "list").stderr
    assert "it is a copy" not in call("runs", "list", "--data", "none").stderr
    assert call("store", "status").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runs list --read-store sqlite:here", "is a data folder and has no copies"),
        ("runs list --read-store here", "--read-store is not the URL of a store"),
        ("runs list --read-store postgres://ada:secret-word@db/runs", "--read-store contains a password"),
        ("runs list --data here --read-store postgres://db/runs", "leave --data and --store out"),
        ("runs cancel r1 --read-store postgres://db/runs", "--read-store"),
        ("store status --read-store postgres://db/runs", "--read-store"),
    ],
)
def test_what_cannot_be_read_from_a_copy_is_refused(words: str, message: str) -> None:
    refused = call(*words.split())
    assert (refused.exit_code, message in refused.stderr, "secret-word" in refused.output) == (2, True, False)


async def test_a_copy_is_never_written_and_not_listed(servers: Servers) -> None:
    for url in (servers.copy, servers.url):
        store = PostgresCopy(url)
        with pytest.raises(StoreFailed, match="was opened to be read"):
            await store.create(a_row("r9"), started())
        with pytest.raises(StoreFailed, match="was opened to be read"):
            await store.append(a_row("r9"), started())
        with pytest.raises(StoreFailed, match="was opened to be read"):
            await store.claim("r1")
        assert (await store.overview()).processes == ()
        assert not store.has_lease() and store.owner == "" and store.version() is None
        assert bool(store.warnings) == (url == servers.copy)
        await store.close()
        await store.close()


def test_the_primary_is_no_copy_and_says_nothing(servers: Servers) -> None:
    assert call("runs", "list", "--read-store", servers.url).stderr == ""
