import json
import socket
from pathlib import Path

import pytest

from tests.cli.test_options import HELLO, call
from tests.postgres import shared_schemas


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
