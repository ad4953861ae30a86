"""`interlock broadcast`: every word of it, as somebody at a terminal uses it."""

import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import PROCESS, Broadcast
from interlock.cli.commands.broadcast import duration_ms, moment_ms
from interlock.cli.main import interlock
from interlock.cli.view.broadcast_view import BroadcastScreen
from interlock.errors import UsageError

CI = 'version: "2.0"\nname: ci\nentry_point: a\nagents: [{id: a, is_terminal: true}]\n'


def told(*words: str, code: int = 0, given: str | None = None) -> str:
    result = CliRunner().invoke(interlock, ["broadcast", *words], input=given)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_was_announced_is_seen_oldest_first_by_pattern_and_as_json() -> None:
    assert "no broadcasts yet" in told("tail")
    told("emit", "build:x:done", '{"ok": true}', "--as", "ci")
    told("emit", "build:y:failed", "some words")
    told("emit", "build:z:done", "-", given="[1, 2]")
    lines = told("tail").splitlines()
    assert [line.split("  ")[1] for line in lines] == ["build:x:done", "build:y:failed", "build:z:done"]
    assert lines[0].endswith('process ci  {"ok":true}') and lines[1].endswith('process  "some words"')
    assert len(told("tail", "build:*:done").splitlines()) == 2
    (newest,) = told("tail", "--json", "--limit", "1").splitlines()
    assert json.loads(newest)["data"] == [1, 2]


def test_emit_as_json_gives_the_record() -> None:
    record = json.loads(told("emit", "x", "--json"))
    assert list(record) == ["id", "type", "source", "createdAt"]


@pytest.mark.parametrize("words", [("emit", " "), ("emit", "x" * 300), ("tail", ""), ("emit", "x", "--as", "n" * 65)])
def test_what_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    told(*words, code=2)


def test_signals_for_later_are_scheduled_listed_replaced_and_cancelled() -> None:
    assert told("list") == "nothing is scheduled\n"
    told("schedule", "remind", '{"n":1}', "--in", "90s", "--key", "k")
    told("schedule", "remind", "--in", "2h", "--key", "k")
    told("schedule", "tick", "--every", "5m")
    told("schedule", "standup", "--daily", "09:30", "--zone", "Europe/Berlin", "--on", "mon,thu")
    record = json.loads(told("schedule", "once", "--at", "2030-01-01T00:00:00+01:00", "--json"))
    assert record["deliverAt"] == 1_893_452_400_000 and record["attempts"] == 0
    listed = told("list")
    assert listed.count("remind") == 1 and "every 300000 ms" in listed
    assert "daily at 09:30 Europe/Berlin on mon, thu" in listed
    assert json.loads(told("list", "--json").splitlines()[0])["type"] == "tick"
    assert "cancelled remind" in told("cancel", "--type", "remind", "--key", "k")
    assert "cancelled once" in told("cancel", record["id"])
    assert "nothing to cancel" in told("cancel", record["id"], code=1)
    told("cancel", code=2)


@pytest.mark.parametrize(
    "words",
    [
        (), ("--in", "soon"), ("--at", "tomorrow"), ("--at", "2030-01-01T00:00:00"), ("--at", "0"), ("--at", "-1"),
        ("--at", "9223372036854775808"), ("--in", "90s", "--at", "1893452400000"), ("--every", "1ms"),
        ("--every", "5m", "--daily", "09:00"), ("--daily", "9:00"), ("--daily", "09:00", "--zone", "Mars/X"),
        ("--on", "mon", "--in", "5s"), ("--daily", "09:00", "--on", "someday"), ("--in", "20000d"),
    ],
)  # fmt: skip
def test_a_time_that_nobody_means_is_refused(words: tuple[str, ...]) -> None:
    told("schedule", "x", *words, code=2)
    assert told("list") == "nothing is scheduled\n"


def test_durations_and_moments() -> None:
    assert [duration_ms(text) for text in ("250ms", "90s", "5m", "1.5h", "2d")] == [
        250, 90_000, 300_000, 5_400_000, 172_800_000,
    ]  # fmt: skip
    assert moment_ms("1893452400000") == 1_893_452_400_000
    for text in ("5 parsecs", "9" * 400 + "d"):
        with pytest.raises(UsageError):
            duration_ms(text)


def test_subscriptions_are_added_listed_and_removed(folder: Path) -> None:
    (folder / "crew.yaml").write_text(CI, "utf-8")
    (folder / "script.yaml").write_text("replies: {a: [ok]}\n", "utf-8")
    ran = CliRunner().invoke(interlock, ["run", "crew.yaml", "go", "--script", "script.yaml"])
    assert ran.exit_code == 0, ran.output
    assert told("subscriptions") == "no subscriptions\n"
    assert told("subscriptions", "--add", "ci", "a", "build:*") == "ci  a  build:*  silent  (api)\n"
    assert "loud" in told("subscriptions", "--add", "ci", "a", "alarm", "--loud")
    (one, _) = told("subscriptions", "--json").splitlines()
    assert json.loads(one)["pattern"] == "alarm"
    told("subscriptions", "--remove", "ci", "a", "alarm")
    told("subscriptions", "--remove", "ci", "a", "alarm", code=2)
    told("subscriptions", "--loud", code=2)


def test_dead_letters_are_listed_and_revived() -> None:
    assert told("dead") == "no dead letters\n"
    told("dead", "--revive", "nothing", code=2)


def test_files_of_the_original_program_are_taken_in_and_what_is_wrong_is_named(folder: Path) -> None:
    old = folder / "old"
    old.mkdir()
    good = '{"id":"aaa","type":"x:y","source":{"type":"agent","id":"w"},"data":{"n":1},"createdAt":5}'
    (old / "events.jsonl").write_text(f'{good}\n{good.replace("aaa", "bbb")}\nnot json\n\n{{"id":"c"}}\n')
    entry = {
        "id": "ddd", "type": "later", "deliverAt": 1_893_452_400_000, "source": {"type": "system"}, "repeatKey": "k",
        "createdAt": 5, "updatedAt": 6,
    }  # fmt: skip
    bad = {**entry, "id": "eee", "deliverAt": 0}
    (old / "delayed.json").write_text(json.dumps({"version": 1, "events": [entry, bad]}))
    result = CliRunner().invoke(interlock, ["broadcast", "import", str(old)])
    assert result.exit_code == 1
    assert "imported 2 broadcasts, 1 scheduled" in result.stdout
    assert "events.jsonl:3" in result.stderr and "events.jsonl:5" in result.stderr
    assert "delayed.json, event 2" in result.stderr
    assert [json.loads(line)["id"] for line in told("tail", "--json").splitlines()] == ["aaa", "bbb"]
    (later,) = told("list", "--json").splitlines()
    assert {**json.loads(later), "attempts": 0} == {**entry, "attempts": 0}
    again = CliRunner().invoke(interlock, ["broadcast", "import", str(old / "events.jsonl")])
    assert "0 broadcasts" in again.stdout
    told("import", str(folder / "nowhere"), code=2)
    (old / "delayed.json").write_text('{"version": 7, "events": []}')
    assert CliRunner().invoke(interlock, ["broadcast", "import", str(old / "delayed.json")]).exit_code == 1


def test_hostile_files_are_named_line_by_line_and_break_nothing(folder: Path) -> None:
    line = '{"id":"aaa","type":"x","source":{"type":"process"},"createdAt":5}'
    hostile = [
        line.replace(":5", ":9223372036854775807"),
        line.replace(":5", ":-1"),
        line.replace(":5", f":{'9' * 40}"),
        line.replace('"process"', f'"agent","id":"{"z" * 10_000}"'),
        line.replace('"process"', '"agent"'),
        line.replace('"process"', '"system","id":"root"'),
        line.replace("}}", "}").replace(":5", f':5,"data":{"[" * 100_000}{"]" * 100_000}'),
    ]
    (folder / "events.jsonl").write_text("\n".join([*hostile, line]))
    result = CliRunner().invoke(interlock, ["broadcast", "import", str(folder / "events.jsonl")])
    assert (result.exit_code, result.stdout) == (1, "imported 1 broadcast, 0 scheduled\n")
    assert [f"events.jsonl:{n}:" in result.stderr for n in range(1, 9)] == [True] * 7 + [False]
    assert "1970-01-01 00:00:00  x  process" in told("tail")
    (folder / "delayed.json").write_text("[" * 100_000)
    assert CliRunner().invoke(interlock, ["broadcast", "import", str(folder / "delayed.json")]).exit_code == 1


def test_what_comes_again_does_so_after_an_import(folder: Path) -> None:
    told("schedule", "tick", "--every", "5m")
    view = folder / "delayed.json"
    (kept,) = told("list", "--json").splitlines()
    view.write_text(f'{{"version":1,"events":[{kept}]}}')
    told("cancel", json.loads(kept)["id"])
    told("import", str(view))
    (again,) = told("list", "--json").splitlines()
    assert json.loads(again) == json.loads(kept)


def test_following_shows_what_another_process_announces(folder: Path) -> None:
    told("emit", "build:old:done")
    code = "from interlock.cli.main import interlock; interlock()"
    command = [sys.executable, "-c", code, "broadcast", "tail", "-f", "build:*:done", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        told("emit", "build:x:failed")
        told("emit", "build:x:done")
        second = following.stdout.readline()
        following.terminate()
    assert [json.loads(line)["type"] for line in (first, second)] == ["build:old:done", "build:x:done"]


def test_the_live_board_shows_the_newest_and_how_often_each_type_came() -> None:
    from rich.console import Console

    board = BroadcastScreen("build:*", [])
    for n in range(25):
        board.add(
            Broadcast(id=f"b{n}", type=f"build:{n % 2}", source=PROCESS, data=f"\x1b[31m{n}", created_at=n * 1_000)
        )
    console = Console(width=100, record=True, file=io.StringIO())
    queue = [
        DelayedBroadcast(
            id=f"d{n}", type=f"later:{n}", source=PROCESS, deliver_at=n * 1_000, created_at=1, updated_at=1
        )
        for n in range(3)
    ]
    console.print(board.render(queue))
    text = console.export_text()
    assert "25 since start" in text and "build:0 13" in text
    assert "3 scheduled, next later:0 at 1970-01-01T00:00:00" in text
    assert "\x1b" not in text and "\\u001b[31m24" in text, "what could be an order to the terminal is shown as text"
    assert '[31m4"' not in text, "the oldest have gone"


def seen_until(terminal: int, words: bytes) -> bytes:
    """What has come to a terminal when these words stand in it."""
    seen = b""
    while words not in seen:
        assert select.select([terminal], [], [], 30)[0], seen
        seen += os.read(terminal, 65536)
    return seen


def test_the_live_board_on_a_terminal_shows_what_comes_and_what_is_for_later() -> None:
    code = "from interlock.cli.main import interlock; interlock()"
    command = [sys.executable, "-c", code, "broadcast", "tail", "-f"]
    person, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env) as following:
        seen_until(person, b"nothing is scheduled")
        told("emit", "build:x:done")
        seen_until(person, b"build:x:done 1")
        told("schedule", "remind", "--in", "1h")
        seen_until(person, b"1 scheduled, next remind at")
        following.send_signal(signal.SIGINT)
        seen_until(person, b"\x1b[?1049l")
        assert following.wait(30) == 0
    os.close(terminal)
    os.close(person)


def test_old_broadcasts_are_forgotten_by_the_days_of_the_hosts_file(folder: Path) -> None:
    for n in range(3):
        told("emit", f"x:{n}")
    told("prune", code=2)
    assert told("prune", "--older-than", "1") == "0 broadcasts deleted\n"
    (folder / "other.toml").write_text("[retention]\nbroadcast_days = 30\n", "utf-8")
    (folder / "interlock.toml").write_text("[retention]\nbroadcast_days = 0\n", "utf-8")
    wait_for_the_next_millisecond()
    assert told("prune", "--config", "other.toml") == "0 broadcasts deleted\n"
    due = "there are broadcasts older than the 0 days of [retention]; 'interlock broadcast prune' deletes them"
    doctor = CliRunner().invoke(interlock, ["doctor"])
    assert doctor.exit_code == 0 and due in doctor.stdout
    assert due not in CliRunner().invoke(interlock, ["doctor", "--config", "other.toml"]).stdout
    assert told("prune") == "2 broadcasts deleted\n"
    assert due not in CliRunner().invoke(interlock, ["doctor"]).stdout
    assert [json.loads(line)["type"] for line in told("tail", "--json").splitlines()] == ["x:2"]


def wait_for_the_next_millisecond() -> None:
    """So that what was announced just now is older than now."""
    began = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= began:
        pass
