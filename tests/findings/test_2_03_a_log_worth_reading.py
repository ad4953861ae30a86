"""Who runs Interlock finds every failure in its log, and nobody reads protocol lines without asking for them."""

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.log.log_file import LogFile
from interlock.adapters.log.log_lines import JsonLines, TextLines
from interlock.cli.main import interlock
from tests.server.office import CREW, open_office
from tests.server.process import serving

SCRIPT = "replies: {clerk: ['Over to you. [NEXT]'], boss: ['Fine. [DONE]']}\n"
FAILING = "replies: {clerk: [{error: overloaded}, {error: overloaded}, {error: overloaded}]}\n"


def _run(folder: Path, *options: str, script: str = SCRIPT, toml: str = "") -> Result:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    (folder / "script.yaml").write_text(script, "utf-8")
    (folder / "interlock.toml").write_text(toml, "utf-8")
    os.chdir(folder)
    return CliRunner().invoke(interlock, ["run", "crew.yaml", "hello", "--script", "script.yaml", *options])


def _logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "interlock.log").read_text("ascii").splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_without_flags_writes_nothing_to_stderr_and_all_to_the_file(folder: Path) -> None:
    result = _run(folder)
    assert (result.exit_code, result.stderr) == (0, "")
    logged = _logged(folder / ".interlock")
    run = json.loads(result.stdout.splitlines()[0])["run"]
    assert {line["run"] for line in logged} == {run}
    messages = [line["message"] for line in logged]
    assert "[ROUTING] clerk -> boss (signal: [NEXT])" in messages
    assert f"run {run} completed: signal:[DONE]" in messages
    assert stat.S_IMODE((folder / ".interlock" / "interlock.log").stat().st_mode) == 0o600


@pytest.mark.parametrize("option", [("--verbose",), ("--log-level", "info")])
def test_protocol_lines_come_word_for_word_where_they_are_asked_for(folder: Path, option: tuple[str, ...]) -> None:
    lines = _run(folder, *option).stderr.splitlines()
    assert "[SIGNAL-SUCCESS] Agent 'clerk' routed to 'boss' via signal [NEXT]" in lines
    assert "[TERMINATE] Workflow ended by signal: [DONE]" in lines


def test_a_failed_run_and_its_provider_are_named(folder: Path) -> None:
    result = _run(folder, script=FAILING)
    run = json.loads(result.stdout.splitlines()[0])["run"]
    logged = [(line["level"], line["message"]) for line in _logged(folder / ".interlock")]
    failure = f"run {run}: the model call of clerk failed: overloaded"
    assert logged.count(("warning", failure)) == 3
    assert ("error", f"run {run} failed: model_error") in logged
    assert f"interlock: run {run} failed: model_error" in result.stderr.splitlines()
    quiet = _run(folder, "--quiet", script=FAILING).stderr
    assert "overloaded" not in quiet and "failed: model_error" in quiet


def test_options_that_contradict_each_other_are_refused(folder: Path) -> None:
    result = _run(folder, "--quiet", "--verbose")
    assert result.exit_code == 2 and "give one of them" in result.stderr


def test_the_host_chooses_form_and_level_and_may_leave_the_file_out(folder: Path) -> None:
    result = _run(folder, toml='[log]\nlevel = "info"\nformat = "json"\nfile = false\n')
    assert "[ROUTING] clerk -> boss (signal: [NEXT])" in [
        json.loads(line)["message"] for line in result.stderr.split("\n")[:-1]
    ]
    assert not (folder / ".interlock" / "interlock.log").exists()
    for wrong in ('level = "loud"', "max_mb = 0", 'format = "xml"', "levle = 1"):
        refused = _run(folder, toml=f"[log]\n{wrong}\n")
        assert refused.exit_code == 2 and "log" in refused.stderr, wrong


async def test_a_server_logs_refused_keys_and_slow_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "interlock"):
        async with open_office(tmp_path) as asking:
            await asking.get("/v1/runs", headers={"authorization": "Bearer wrong\tkey"})
            asking.service.slow_request_s = 0
            await asking.get("/v1/runs")
    told = [record.getMessage() for record in caplog.records]
    assert "refused a wrong key from 127.0.0.1: GET /v1/runs" in told
    assert "slow request: GET /v1/runs gave 200" in told


def test_a_server_logs_runs_with_their_ids_to_its_file_and_no_protocol_lines_to_stderr(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "office", "input": "hello"}).json()["id"]
        for _ in range(1000):
            if client.get(f"/v1/runs/{run}").json()["status"] == "completed":
                break
        assert server.stopped() == 0
    logged = _logged(tmp_path / "data")
    assert f"run {run} completed: signal:[DONE]" in [line["message"] for line in logged if line.get("run") == run]
    assert any(line["message"].startswith("[ROUTING]") for line in logged)
    assert f"run {run} completed" in server.log and "[ROUTING]" not in server.log


def test_no_message_forges_a_line_a_field_or_a_terminal_command() -> None:
    """FAULTS.md F4: what is written is read back as it was, one record a line."""
    control = [chr(code) for code in (*range(32), 127, *range(128, 160), 0x2028, 0x2029, 0xFEFF)]
    payloads = [f"before{char}[SIGNAL-EVENT] forged {n}" for n, char in enumerate(control)]
    payloads += [f'x", "level": "error", "n": {n}, "y": "' for n in range(300 - len(payloads))]
    records = [logging.LogRecord("interlock", 30, "", 0, "%s", (text,), None) for text in payloads]
    for record, text in zip(records, payloads, strict=True):
        record.fields = {"run": text}
    lines = "\n".join(JsonLines(KnownSecrets()).format(record) for record in records)
    read = [json.loads(line) for line in lines.splitlines()]
    assert [(line["message"], line["run"], line["level"]) for line in read] == [(p, p, "warning") for p in payloads]
    assert lines.isascii() and not any(char in lines for char in control if char != "\n")
    texts = [TextLines(KnownSecrets()).format(record) for record in records]
    assert all(text.isprintable() and len(text.splitlines()) == 1 for text in texts)


def test_secrets_are_taken_out_of_messages_and_fields() -> None:
    record = logging.LogRecord("interlock", 30, "", 0, "%s", ("with sk-verysecretkey1",), None)
    record.fields = {"by": "sk-verysecretkey1"}
    assert "verysecret" not in JsonLines(KnownSecrets(["sk-verysecretkey1"])).format(record)


def test_files_are_bounded_in_size_and_number_also_with_two_writers(tmp_path: Path) -> None:
    writers = [LogFile(tmp_path, 1_000, 3) for _ in range(2)]
    for n in range(200):
        writers[n % 2].emit(logging.LogRecord("interlock", 30, "", 0, f"{n:0100d}", (), None))
    for writer in writers:
        writer.close()
    names = sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock"))
    assert names == ["interlock.log", "interlock.log.1", "interlock.log.2"]
    kept = [int(line) for name in reversed(names) for line in (tmp_path / name).read_text("ascii").splitlines()]
    assert kept == list(range(200))[-len(kept) :] and len(kept) >= 18
    assert all((tmp_path / name).stat().st_size <= 1_000 for name in names)
    assert all(stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600 for name in names)


def test_a_log_that_cannot_be_written_stops_nothing(folder: Path) -> None:
    (folder / ".interlock").mkdir()
    (folder / ".interlock" / "interlock.log").mkdir()
    result = _run(folder)
    assert result.exit_code == 0
    assert result.stderr.count("cannot be written") == 1


def _say(writer: LogFile, *numbers: int) -> None:
    for n in numbers:
        writer.emit(logging.LogRecord("interlock", 30, "", 0, str(n), (), None))


def test_a_file_that_another_program_moves_away_loses_no_line(tmp_path: Path) -> None:
    """As logrotate does: moved, moved and made anew, or copied and cut off. Nothing has to be signalled."""
    file, writer = tmp_path / "interlock.log", LogFile(tmp_path, 1_000_000, 3)
    _say(writer, 1, 2)
    file.rename(tmp_path / "moved-1")
    _say(writer, 3)
    file.rename(tmp_path / "moved-2")
    file.touch(0o600)
    _say(writer, 4)
    (tmp_path / "moved-3").write_bytes(file.read_bytes())
    os.truncate(file, 0)
    _say(writer, 5)
    writer.close()
    written = [(tmp_path / name).read_bytes() for name in ("moved-1", "moved-2", "moved-3", "interlock.log")]
    assert written == [b"1\n2\n", b"3\n", b"4\n", b"5\n"]


def test_each_time_that_the_file_cannot_be_written_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    writer = LogFile(folder, 1_000_000, 3)
    for _ in range(2):
        (folder / "interlock.log").mkdir()
        _say(writer, 1, 2)
        (folder / "interlock.log").rmdir()
        _say(writer, 3)
        (folder / "interlock.log").unlink()
    writer.close()
    assert capsys.readouterr().err.count("cannot be written") == 2
