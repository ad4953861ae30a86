"""A data folder with rows in every table: runs of the examples, golden journals, and rows that no example leaves."""

import asyncio
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec
from click.testing import CliRunner

from interlock.adapters.files import run_files
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.store import DATABASE, SqliteStore
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.adapters.store_rules.positions import before_others
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.presence import PresenceChange, encode_presence
from interlock.broadcast.record import SYSTEM, Broadcast, encode_broadcast
from interlock.cli.main import interlock
from interlock.ports import Store
from tests.test_golden import JOURNALS

EXAMPLES = Path(__file__).parents[3] / "examples"
# The exit code of each: some pause with a question.
RUNS = {"agency": 3, "travel": 3, "refunds": 0, "multi-team": 0, "desk": 0}
NOW = 1_800_000_000_000


def make_rich_folder(
    folder: Path, examples: dict[str, int] = RUNS, journals: int = len(JOURNALS), tables: Collection[str] = ()
) -> None:
    """Without `tables` every table gets rows."""
    for name, code in examples.items():
        script = str(EXAMPLES / name / "script.yaml")
        words = ["run", str(EXAMPLES / name), "a week", "--data", str(folder), "--script", script]
        done = CliRunner().invoke(interlock, words)
        assert done.exit_code == code, done.output
    asyncio.run(_add_journals(folder, journals))
    with closing(migrations.connect(folder / DATABASE)) as connection:
        newest = connection.execute("select max(position) from records").fetchone()[0]
        for table, rows in _more_rows(newest).items():
            if tables and table not in tables:
                continue
            for row in rows:
                marks = ", ".join("?" * len(row))
                connection.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", tuple(row.values()))


async def _add_journals(folder: Path, count: int) -> None:
    store = SqliteStore(folder)
    await add_journals(store, count)
    # Where the newest records of all are deleted, their positions stay occupied.
    last = run_files.decode_run_file(JOURNALS[count - 1].read_bytes(), "")
    await store.delete_run(last.row.run, NOW)
    await store.close()


async def add_journals(store: Store, count: int) -> None:
    """Adds golden journals with their crews."""
    for file in JOURNALS[:count]:
        found = run_files.decode_run_file(file.read_bytes(), file.name)
        await store.put_crew(found.row.crew_sha, found.crew)
        await store.add_run(found.row, found.records)


def _more_rows(newest: int) -> dict[str, list[dict[str, object]]]:
    run = run_files.decode_run_file(JOURNALS[1].read_bytes(), "").row.run
    at = before_others(newest) + 100
    line = encode_broadcast(Broadcast(id="b-1", type="build:shop:done", source=SYSTEM, created_at=NOW))
    change = encode_presence(PresenceChange("presence-1", 0, NOW, ("writer",), ("reader",)))
    late = DelayedBroadcast(
        id="d-1", type="late:x", source=SYSTEM, deliver_at=NOW + 9, created_at=NOW, updated_at=NOW, repeat_key="k"
    )
    lost = BroadcastDeadLetter(
        id="l-1",
        broadcast=Broadcast(id="b-0", type="a:b", source=SYSTEM, created_at=NOW),
        reason="nobody",
        at=NOW,
        for_crew="quiz",
        for_agent="host",
    )
    body = msgspec.json.encode
    return {
        "broadcasts": [{"position": at, "id": "b-1", "hops": 1, "crc": crc_as_int32(line, at), "body": line}],
        "lifecycle": [{"position": at + 2, "crc": crc_as_int32(change, at + 2), "body": change}],
        "subscriptions": [
            {"crew": "quiz", "agent": "host", "pattern": " build:*:done ", "silent": 1, "origin": "file"},
            {"crew": "quiz", "agent": "Ölof", "pattern": "**", "silent": 0, "origin": "run"},
        ],
        "inbox": [
            {"crew": "quiz", "agent": "host", "broadcast": at, "taken": ""},
            {"crew": "quiz", "agent": "Ölof", "broadcast": at, "taken": f"{run}:1.0"},
        ],
        "mailboxes": [{"crew": "quiz", "agent": "host", "unread": 1}, {"crew": "quiz", "agent": "Ölof", "unread": 0}],
        "deliveries": [{"number": 7, "crew": "quiz", "agent": "Ölof", "broadcast": at, "attempts": 2, "try_at": NOW}],
        "active": [{"crew": "quiz", "agent": agent, "run": run} for agent in ("host", "Ölof")],
        "announced": [{"crew": "quiz", "agent": "host", "start": NOW, "number": 3}],
        "delayed": [
            {
                "number": 5,
                "id": late.id,
                "type": late.type,
                "repeat_key": late.repeat_key,
                "due_at": late.due_at,
                "crc": crc_as_int32(body(late)),
                "body": body(late),
            }
        ],
        "dead": [{"number": 9, "id": lost.id, "crew": "quiz", "agent": "host", "body": body(lost)}],
        "reservations": [
            {"key": f"{run}:9.0", "at": NOW, "tokens": 10, "cost_micros": 20, "alerts": "a\nb", "exceeded": ""}
        ],
        "outbox": [
            {
                "number": 4,
                "key": f"{run}:9.1",
                "run": run,
                "body": b"{}",
                "sender": "1-gone",
                "attempts": 3,
                "due_at": NOW,
            }
        ],
        "orders": [
            {
                "number": 2,
                "key": "o-1",
                "run": run,
                "root": run,
                "kind": "cancel",
                "body": b"{}",
                "ordered_by": "ada",
                "at": NOW,
                "outcome": b"[]",
            }
        ],
        "set_asides": [
            {"run": run, "owner": owner, "reason": reason, "at": at, "tries": 2, "again_at": NOW + 5}
            for owner, reason, at in (("1-gone", "old", NOW), ("2-gone", "no tool\0x", NOW + 1))
        ],
        "unlisted": [{"run": run}],
        "spent": [{"run": run, "seq": 1, "body": b"[]", "crc": crc32(b"[]")}],
        "approvals": [{"id": "a-1", "tool": "pay", "run": "", "at": NOW, "body": b"{}"}],
        "revoked_approvals": [{"id": "a-0", "run": run, "at": NOW, "body": b"{}"}],
        "run_schedules": [{"id": "s-1", "body": b"{}"}],
        "requests": [
            {
                "caller": "c",
                "key": "k",
                "fingerprint": b"\0\xff",
                "planned": run,
                "at": NOW,
                "status": 201,
                "body": b"{}",
            }
        ],
        "webhook_cursors": [{"hook": "h", "position": newest}],
        "webhook_letters": [
            {
                "number": number,
                "hook": "h",
                "key": f"k{number}",
                "body": b"{}",
                "attempts": number,
                "due_at": NOW,
                "dead": dead,
                "error": "refused\0",
            }
            for number, dead in ((3, 0), (11, 1))
        ],
        "closed_sessions": [{"session": "s", "until": NOW}],
        "leaders": [{"name": "upkeep", "epoch": 12, "owner": "1-gone"}],
    }
