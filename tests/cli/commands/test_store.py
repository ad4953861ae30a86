import asyncio
import json
import os
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.adapters.stores import opened
from tests.cli.test_options import HELLO, call
from tests.contracts.test_owners import add_unowned
from tests.postgres import shared_cluster, shared_schemas
from tests.server.process import COMMAND


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("INTERLOCK_DATA", "INTERLOCK_STORE"):
        monkeypatch.delenv(variable, raising=False)


def test_a_store_is_made_once_and_shows_what_waits() -> None:
    assert call("store", "status").exit_code == 2
    for _ in range(2):
        made = call("store", "init")
        assert (made.exit_code, made.stdout) == (0, ".interlock is ready\n")
    started = call("run", str(HELLO), "a harbour", "--detach")
    run = started.stdout.strip()
    assert (started.exit_code, call("runs", "list").stdout.split()[0]) == (0, run)
    shown = call("store", "status")
    assert "runs that wait for a driver: 1, the oldest since 20" in shown.stdout
    found = json.loads(call("store", "status", "--json").stdout)
    assert (found["store"], found["waiting"], found["processes"], found["set_asides"]) == (".interlock", 1, [], [])
    assert found["version"] > 0 and found["size_bytes"] > 0


def test_a_detached_run_has_the_models_of_its_worker() -> None:
    refused = call("run", str(HELLO), "a harbour", "--detach", "--script", str(HELLO / "script.yaml"))
    assert (refused.exit_code, "--detach leaves the run to a worker" in refused.stderr) == (2, True)


def test_a_postgres_store_is_made_migrated_and_granted_and_the_doctor_tells_what_is_not_safe() -> None:
    with shared_schemas().borrow() as url:
        for word, told in (("init", "is ready"), ("migrate", "is up to date"), ("grant", "interlock_app")):
            done = call("store", word, "--store", url)
            assert (done.exit_code, told in done.stdout, done.stderr) == (0, True, ""), done.output
        checked = call("doctor", "--store", url)
        assert "no synchronous standby" in checked.stdout and "is healthy: 0 runs" in checked.stdout
        assert "standby" not in call("runs", "list", "--store", url).output


def test_a_folder_has_no_roles_and_is_migrated_only_where_it_is() -> None:
    assert call("store", "migrate").exit_code == 2
    call("store", "init")
    assert call("store", "migrate").stdout == ".interlock is up to date\n"
    refused = call("store", "grant")
    assert (refused.exit_code, "the modes of its files say who may use it" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("worker", "--only-crews"), "--only-crews needs at least one CREW"),
        (("worker", "--listen", "9100"), "--listen is '9100'; write an address and a port"),
        (("worker", "--listen", "127.0.0.1:99999"), "write an address and a port"),
        (("serve", str(HELLO), "--no-drive", "--resume-parked"), "--no-drive leaves all runs to workers"),
    ],
)
def test_wrong_options_of_workers_are_refused(words: tuple[str, ...], message: str) -> None:
    refused = call(*words)
    assert (refused.exit_code, message in refused.stderr) == (2, True)


def test_a_worker_whose_address_is_taken_names_the_option_that_helps() -> None:
    call("store", "init")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = call("worker", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (refused.exit_code, "choose another --listen" in refused.stderr) == (2, True)


def test_a_store_is_moved_by_its_urls_and_the_old_one_says_where_it_went() -> None:
    assert call("run", str(HELLO), "a harbour", "--detach", "--data", "old").exit_code == 0
    with shared_schemas().borrow() as url:
        for words in (("old", url), ("sqlite:old", url.replace("interlock@", "interlock:secret@"))):
            refused = call("store", "move", *words)
            assert (refused.exit_code, "secret" in refused.output) == (2, False)
        moved = call("store", "move", "sqlite:old", url)
        assert moved.exit_code == 0 and ": 1 runs, " in moved.stdout and "all rows are equal" in moved.stdout
        for command in ("runs list", "doctor", "store status", "backup copy"):
            refused = call(*command.split(), "--data", "old")
            assert refused.exit_code > 0 and "was moved to 'postgres://" in refused.output, command
        assert call("store", "move", "sqlite:old", url, "--give-up").exit_code == 2
        found = json.loads(call("store", "status", "--store", url, "--json").stdout)
        assert (found["waiting"], found["standbys"]) == (1, [])
        assert found["size_bytes"] > sum(each["size_bytes"] for each in found["partitions"]) > 0
        assert "partition records_2" in call("store", "status", "--store", url).stdout
        back = call("store", "move", url, "sqlite:new", "--json")
        assert (json.loads(back.stdout)["rows"]["runs"], back.exit_code) == (1, 0)
    assert "is healthy: 1 run," in call("doctor", "--data", "new").stdout
    assert "is healthy: 0 of 1 run," in call("doctor", "--data", "new", "--since", "0").stdout


@pytest.mark.parametrize("way", ["variable", "file of passwords", "service"])
def test_a_password_that_the_driver_finds_by_itself_is_in_no_journal(
    way: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    password, passwords, services = "appsecretpw", Path("passwords"), Path("services")
    passwords.write_text(f"*:*:*:*:{password}\n", "ascii")
    passwords.chmod(0o600)
    services.write_text(f"[kept]\npassword={password}\n", "ascii")
    variables = {
        "variable": {"PGPASSWORD": password},
        "file of passwords": {"PGPASSFILE": str(passwords)},
        "service": {"PGSERVICEFILE": str(services), "PGSERVICE": "kept"},
    }
    for name, value in variables[way].items():
        monkeypatch.setenv(name, value)
    script = str(HELLO / "script.yaml")
    done = call("run", str(HELLO), f"the password is {password}", "--script", script, "--store", postgres_url)
    assert done.exit_code == 0, done.output
    run = call("runs", "list", "--store", postgres_url).stdout.split()[0]
    exported = call("runs", "export", run, "--store", postgres_url).output
    assert "[redacted]" in exported and password not in exported + done.output


def test_a_store_that_a_role_may_not_read_is_said_to_be_there() -> None:
    url = shared_cluster().url("not_granted")
    assert call("store", "init", "--store", url).exit_code == 0
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("create role a_stranger login")
    stranger = url.replace("interlock@", "a_stranger@", 1)
    for command in (("store", "status"), ("runs", "list"), ("store", "migrate"), ("store", "init"), ("worker",)):
        refused = call(*command, "--store", stranger)
        assert refused.exit_code != 0
        assert "exists, and the role 'a_stranger' may not read it" in refused.stderr, refused.output
        assert "interlock store grant" in refused.stderr and "there is no store" not in refused.stderr
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("grant usage on schema not_granted to a_stranger")
    assert "may not read it" in call("runs", "list", "--store", stranger).stderr


@pytest.mark.parametrize("word", ["init", "migrate"])
def test_a_server_that_no_command_would_use_gets_no_store(word: str) -> None:
    with psycopg.connect(shared_cluster().conninfo("postgres"), autocommit=True) as connection:
        connection.execute("drop database if exists latin")
        connection.execute("create database latin encoding 'LATIN1' locale 'C' template template0")
    latin = shared_cluster().url("kept").replace("/postgres?", "/latin?")
    refused = call("store", "init", "--store", latin)
    assert (refused.exit_code, "has the encoding LATIN1" in refused.stderr) == (2, True), refused.output
    with shared_schemas().borrow() as url:
        refused = call("store", word, "--store", f"{url}&options=-csynchronous_commit%3Doff")
        assert (refused.exit_code, "synchronous_commit = off" in refused.stderr) == (2, True), refused.output


def test_what_is_not_there_is_not_migrated_and_not_made() -> None:
    url = shared_cluster().url("never_made")
    for store in (url, "sqlite:nofolder"):
        for command in (("store", "migrate"), ("store", "status"), ("worker",)):
            refused = call(*command, "--store", store)
            assert (refused.exit_code, "interlock store init" in refused.stderr) == (2, True), refused.output
            assert store == url or "--store" in refused.stderr
    assert not Path("nofolder").exists()
    with psycopg.connect(shared_cluster().conninfo("postgres")) as connection:
        query = "select 1 from pg_namespace where nspname = 'never_made'"
        assert connection.execute(query).fetchone() is None


def test_the_url_of_a_move_has_no_password_and_the_advice_is_one_that_move_follows() -> None:
    refused = call("store", "move", "sqlite:old", "postgres://ada:secret@127.0.0.1/runs")
    assert "?password_env=NAME" in refused.stderr and "INTERLOCK_STORE" not in refused.stderr


def test_a_finished_move_that_is_repeated_succeeds() -> None:
    assert call("run", str(HELLO), "a harbour", "--detach", "--data", "old").exit_code == 0
    assert call("store", "move", "sqlite:old", "sqlite:new").exit_code == 0
    again = call("store", "move", "sqlite:old", "sqlite:new")
    assert (again.exit_code, "the move is finished" in again.stdout) == (0, True)
    assert json.loads(call("store", "move", "sqlite:old", "sqlite:new", "--json").stdout)["was_finished"] is True


def test_a_private_run_whose_process_is_gone_is_left_to_resume() -> None:
    async def leave_a_run() -> None:
        async with opened(Path("kept")) as store:
            await add_unowned(store, "r1", private=True)

    asyncio.run(leave_a_run())
    shown = call("store", "status", "--data", "kept").stdout
    assert "runs that wait for a driver: 0" in shown
    assert "private run without a process: 'interlock resume r1' continues it" in shown
    assert json.loads(call("store", "status", "--data", "kept", "--json").stdout)["private_undriven"] == ["r1"]


def test_runs_show_says_that_only_resume_continues_a_private_run() -> None:
    """The process of the run dies in the middle of it."""
    words = [COMMAND, "run", str(HELLO), "a harbour", "--script", str(HELLO / "script.yaml")]
    died = subprocess.run(words, env={**os.environ, "INTERLOCK_CRASH_AT": "5:after commit"}, capture_output=True)
    assert died.returncode == 137, died.stderr
    run = call("runs", "list").stdout.split()[0]
    assert f"is private, so no worker takes it, and its process has ended: only 'interlock resume {run}'" in (
        call("runs", "show", run).stdout
    )
    assert call("resume", run, "--script", str(HELLO / "script.yaml")).exit_code == 0
    assert "is private" not in call("runs", "show", run).stdout


def test_a_run_that_is_driven_here_alone_is_no_part_of_a_queue() -> None:
    Path("interlock.toml").write_text("[limits]\nqueued_runs = 1\n", "utf-8")
    assert call("run", str(HELLO), "a harbour", "--detach").exit_code == 0
    assert call("run", str(HELLO), "a harbour", "--detach").exit_code == 1
    assert call("run", str(HELLO), "a harbour", "--script", str(HELLO / "script.yaml")).exit_code == 0
