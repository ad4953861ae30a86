"""The commands that keep runs, as a person uses them: what they print, what they refuse, how they exit."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli.main import interlock

HELLO = "src/interlock/templates/hello"
SCRIPT = f"{HELLO}/script.yaml"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLOCK_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*words: str, given: bytes | None = None) -> Result:
    result = CliRunner().invoke(interlock, list(words), input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def events_of(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def a_run() -> str:
    done = run("run", HELLO, "a harbour at night", "--script", SCRIPT, "--json")
    assert done.exit_code == 0, done.output
    return str(events_of(done)[0]["run"])


def test_script_prints_what_run_plays_again(tmp_path: Path) -> None:
    printed = run("runs", "script", a_run())
    assert printed.exit_code == 0
    (tmp_path / "again.yaml").write_text(printed.stdout, "utf-8")
    again = run("run", HELLO, "a harbour at night", "--script", str(tmp_path / "again.yaml"), "--json")
    assert (again.exit_code, events_of(again)[-1]["reason"]) == (0, "signal:[DONE]")
    assert run("runs", "script", str(events_of(again)[0]["run"])).stdout == printed.stdout


def test_fork_runs_on_from_a_place_and_names_places_elsewhere() -> None:
    first = a_run()
    refused = run("runs", "fork", first, "--after", "1")
    assert refused.exit_code == 2
    place = refused.stderr.rpartition("nearest: ")[2].split(",")[0].strip()
    forked = run("runs", "fork", first, "--after", place, "--script", SCRIPT, "--json")
    assert (forked.exit_code, events_of(forked)[-1]["status"]) == (0, "completed")
    assert {event["run"] for event in events_of(forked)} != {first}
    assert len(run("runs", "list", "--json").stdout.splitlines()) == 2
    newest, oldest = run("runs", "list").stdout.splitlines()
    assert newest.endswith(f"  from {first}")
    assert "from" not in oldest
    assert f"continues {first}\n" in run("runs", "show", newest.split()[0]).stdout


def test_a_run_goes_out_is_deleted_and_comes_back(tmp_path: Path) -> None:
    first, file = a_run(), tmp_path / "run.jsonl"
    assert run("runs", "export", first, str(file)).stdout == f"wrote {file}\n"
    assert run("runs", "export", first).stdout_bytes == file.read_bytes()
    assert "already exists" in run("runs", "export", first, str(file)).stderr
    assert f"run '{first}' exists already" in run("runs", "import", str(file)).stderr
    assert f"deleted {first}; its chain ended at event" in run("runs", "delete", first).stdout
    assert "was deleted" in run("runs", "show", first).stderr
    assert run("runs", "import", "-", given=file.read_bytes()).stdout == f"imported {first}, completed\n"
    assert run("runs", "replay", first).exit_code == 0


def test_a_damaged_export_is_not_taken_in(tmp_path: Path) -> None:
    first, file = a_run(), tmp_path / "run.jsonl"
    run("runs", "export", first, str(file))
    run("runs", "delete", first)
    file.write_bytes(file.read_bytes().replace(b"gulls", b"bulls"))
    refused = run("runs", "import", str(file))
    assert refused.exit_code == 1
    assert "does not match" in refused.stderr
    file.write_text("{}")
    assert "is not an exported run" in run("runs", "import", str(file)).stderr
    assert run("runs", "import", str(tmp_path / "nothing")).exit_code == 2


def test_prune_says_how_many_went() -> None:
    a_run()
    assert run("runs", "prune", "--older-than", "1").stdout == "0 runs deleted\n"
    assert run("runs", "prune", "--older-than", "-1").exit_code == 2


def test_retention_of_the_hosts_file_says_what_is_due_and_prune_deletes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run()
    monkeypatch.chdir(tmp_path)
    refused = run("runs", "prune")
    assert (refused.exit_code, "give --older-than DAYS" in refused.stderr) == (2, True)
    (tmp_path / "interlock.toml").write_text("[retention]\ndays = 0\n", "utf-8")
    (tmp_path / "other.toml").write_text("[retention]\ndays = 30\n", "utf-8")
    assert "1 finished run is older than the 0 days of [retention]" in run("doctor").stdout
    assert "[retention]" not in run("doctor", "--config", "other.toml").stdout
    assert run("runs", "prune", "--config", "other.toml").stdout == "0 runs deleted\n"
    assert run("runs", "prune").stdout == "1 run deleted\n"


def test_backup_and_doctor(tmp_path: Path, data: Path) -> None:
    assert run("doctor").exit_code == 2
    assert run("backup", str(tmp_path / "copy.db")).exit_code == 2
    assert not data.exists()
    a_run()
    well = run("doctor")
    assert (well.exit_code, well.stdout.split(":")[0]) == (0, f"{data} is healthy")
    assert run("backup", str(tmp_path / "copy.db")).exit_code == 0
    assert "exists already" in run("backup", str(tmp_path / "copy.db")).stderr
    (data / "owners" / "what").touch()
    ill = run("doctor")
    assert ill.exit_code == 1
    assert "is not an owner file" in ill.stdout
    assert "has 1 problem (1 run" in ill.stdout
