"""The systemd unit starts what there is and may little; the upgrade page says what happens to data and is true."""

import shutil
import sqlite3
import subprocess
from pathlib import Path

from click.testing import CliRunner

from interlock.cli.main import interlock
from tests.tools import needs

UNIT = Path("deploy/interlock.service")
PAGE = Path("docs/guide/upgrading.md")

HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
}


def _keys() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_is_hardened_and_names_a_user() -> None:
    keys = _keys()
    assert {name: keys[name][-1] for name in HARDENED} == HARDENED
    assert keys["User"] == ["interlock"] and keys["Restart"] == ["on-failure"]
    assert all(len(values) == 1 for name, values in keys.items() if name != "SystemCallFilter")


def test_the_unit_starts_a_command_that_there_is_with_options_that_it_takes() -> None:
    (start,) = _keys()["ExecStart"]
    _, command, *rest = start.split()
    known = CliRunner().invoke(interlock, [command, "--help"]).output
    assert all(word in known for word in rest if word.startswith("--"))
    data = rest[rest.index("--data") + 1]
    assert data.startswith(f"/var/lib/{_keys()['StateDirectory'][0]}/"), "nothing else can be written"


def test_a_stop_waits_longer_than_calls_may_take() -> None:
    from interlock.adapters.config.server_settings import ServerSettings

    assert int(_keys()["TimeoutStopSec"][0]) > ServerSettings().drain_timeout_seconds


@needs(shutil.which("systemd-analyze") is not None, "systemd is not here; its keys are tested above")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/interlock/bin/interlock", "/bin/true"), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_older_version_refuses_a_newer_database_and_changes_nothing(tmp_path: Path) -> None:
    """What the page says about going back: here the newer one is a schema that this version does not know."""
    runner, data = CliRunner(), str(tmp_path / "data")
    script = ["--script", "src/interlock/templates/hello/script.yaml", "--data", data]
    run = ["run", "src/interlock/templates/hello", "x", *script]
    assert runner.invoke(interlock, run).exit_code == 0
    database = tmp_path / "data" / "interlock.db"
    with sqlite3.connect(database) as connection:
        connection.execute("pragma user_version = 999")
        connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    before = database.read_bytes()
    refused = runner.invoke(interlock, run)
    assert refused.exit_code == 2 and "was written by a newer Interlock" in refused.stderr
    assert database.read_bytes() == before
    assert "was written by a newer Interlock" in PAGE.read_text("utf-8")


def test_the_page_tells_of_backup_migration_going_back_and_promises() -> None:
    text = PAGE.read_text("utf-8")
    for heading in ("## What happens to the data", "## Going back", "## What is promised"):
        assert heading in text
    assert "interlock backup" in text and "From version 0.2.0 on" in text
