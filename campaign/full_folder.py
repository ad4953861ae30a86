"""A data folder with rows in every table, and all that its ports give back."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from interlock import Interlock, load_crew
from interlock.adapters.clock import SystemClock
from interlock.adapters.sqlite.atomic_writes import SqliteBudgetLedger
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.migrations import connect
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables import order_rows
from interlock.adapters.sqlite.tables.approvals import move_to_revoked, store_approvals
from interlock.adapters.sqlite.tables.leaders import SqliteLeaders
from interlock.adapters.store_rules.budget_rules import spend
from interlock.approvals.standing import StandingApproval
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.run_schedules import RunSchedule
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.compose.questions import open_questions
from interlock.compose.upkeep.archive import delete_run
from interlock.compose.upkeep.read_only import Inspection
from interlock.engine.budgets.inherited_limits import WindowLimit
from interlock.ports import (
    Activity,
    IdempotentRequest,
    OrderOutcome,
    ProviderHold,
    Reservation,
    RunOrder,
    WebhookDelivery,
)

ROOT = Path(__file__).parent.parent
HELLO, TRAVEL = ROOT / "src" / "interlock" / "templates" / "hello", ROOT / "examples" / "travel"

# Far from any test of time: what is kept for a while is still there.
NOW = 4_000_000_000_000

DAILY = RunSchedule(id="daily", crew="hello", input="go", next_at=NOW, created_at=NOW)

Given = dict[str, Any]


async def fill(data: Path, *, dies: bool) -> None:
    """Runs that ended, wait, and were deleted; and what else a store may hold."""
    async with Interlock(data, script=HELLO / "script.yaml") as box:
        for run in ("ended", "deleted"):
            await (await box.start(load_crew(HELLO), "go", run_id=run)).result()
        await box.usage()
        await delete_run(box, "deleted")
    async with Interlock(data, script=TRAVEL / "script.yaml") as box:
        await (await box.start(load_crew(TRAVEL), "Plan a trip from LAX to Italy", run_id="waits")).result()
        store = _sqlite_of(box)
        await fill_bus(SqliteBus(store), store)
        await fill_server(store)
        await fill_schedules(store)
        await store.write("fill the rest", fill_rest)
        await box.store.put_crew("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", b"")
        if dies:
            os._exit(0)


async def fill_bus(bus: SqliteBus, store: SqliteStore) -> None:
    for crew, agent, silent in (("hello", "writer", True), ("travel", "hotels", False)):
        await bus.subscribe(AgentSubscription(crew=crew, agent=agent, pattern="build:*", silent=silent))
    for n in range(3):
        said = Broadcast(id=f"broadcast{n}", type="build:done", source=PROCESS, data={"n": n}, created_at=NOW + n)
        await bus.emit(Emission(broadcast=said))
    for n in range(3):
        later = DelayedBroadcast(
            id=f"later{n}",
            type="x",
            source=PROCESS,
            deliver_at=NOW + n,
            created_at=1,
            updated_at=1,
            repeat_key=f"k{n}",
        )
        await bus.schedule(later)
    await bus.record_presence(Activity(name="a", place=1, crew="hello", run="waits", at=NOW, begun=(("writer", 0),)))


async def fill_server(store: SqliteStore) -> None:
    for n in range(3):
        asked = IdempotentRequest(caller="key", key=f"request{n}", fingerprint=b"f" * 32, planned=f"run{n}", at=NOW + n)
        await store.register_request(asked, forget_before=0)
        await store.store_response(msgspec.structs.replace(asked, status=201, body=b'{"id": "run"}'))
        await store.close_session(f"session{n}", NOW + n, 0)
    letters = [WebhookDelivery(hook="hook", key=f"letter{n}", body=b'{"n": 1}') for n in range(3)]
    async with SqliteLeaders(store, SystemClock()).leadership("webhooks") as held:
        await store.enqueue_deliveries("hook", 1, letters, held)
    await store.set_aside("waits", "it needs a tool", NOW)
    await store.hold_provider(ProviderHold(server="openai", until=NOW + 60_000), NOW)
    for letter in (await store.due_deliveries("hook", NOW, 3))[:1]:
        await store.reschedule_delivery(
            WebhookDelivery(hook="hook", key=letter.key, body=letter.body, number=letter.number, dead=True)
        )


def fill_rest(connection: sqlite3.Connection, tips: WriterCache) -> None:
    connection.execute("insert into outbox (key, run, body) values ('out', 'waits', x'7b7d')")
    limit = WindowLimit(name="max_calls_per_day", what="calls", window="day", most=100)
    order = Reservation(key="k", crew="hello", agent="writer", at=NOW, tokens=5, cost_micros=7, limits=(limit,))
    spend(SqliteBudgetLedger(connection), order)
    tables = SqliteBusTables(connection, tips.bus)
    tables.set_announcement_count("hello", "writer", NOW, 3)
    said = Broadcast(id="dead", type="x", source=PROCESS, created_at=NOW)
    tables.add_dead_letter(
        BroadcastDeadLetter(id="dead", broadcast=said, reason="nobody", at=NOW, for_crew="hello", for_agent="writer")
    )
    connection.execute("insert into unlisted (run) values ('waits')")
    connection.execute("insert into run_schedules (id, body) values ('daily', ?)", (msgspec.json.encode(DAILY),))
    asked = RunOrder(key="order", run="waits", kind="cancel", by="host", at=NOW)
    order_rows.post(connection, order=asked)
    order_rows.settle(connection, key="order", outcome=OrderOutcome(seq=3))
    given = StandingApproval(
        id="ap", tool="pay", pattern="pay", crew="hello", run="waits", asked_in="waits", by="me", at=1
    )
    past = msgspec.structs.replace(given, id="past")
    store_approvals(connection, [given, past])
    move_to_revoked(connection, "past", "boss", NOW)


async def fill_schedules(store: SqliteStore) -> None:
    for n in range(3):
        await store.add_schedule(
            RunSchedule(id=f"schedule{n}", crew="hello", input="go", next_at=NOW + n, created_at=1, cron="0 7 * * *")
        )


async def compact(data: Path) -> None:
    store = SqliteStore(data)
    await store.compact()
    await store.close()


def filled(folder: Path, *, dies: bool) -> Path:
    """Fills a folder in its own process, which ends by itself or dies with its log."""
    _in_a_process(f"fill(Path(sys.argv[1]), dies={dies})", folder)
    return folder


def compact_copy(image: Path, folder: Path) -> Path:
    """A copy of a folder, compacted in its own process."""
    shutil.copytree(image, folder)
    _in_a_process("compact(Path(sys.argv[1]))", folder)
    return folder


def _in_a_process(call: str, folder: Path) -> None:
    imports = "import asyncio, sys; from pathlib import Path; from campaign.full_folder import compact, fill"
    program = f"{imports}; asyncio.run({call})"
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, cwd=ROOT, timeout=120)


def tables_of(database: Path) -> dict[str, list[int]]:
    """The pages of every table and index; read from a copy."""
    with closing(connect(database)) as connection:
        found = connection.execute("select name from sqlite_schema where rootpage > 0").fetchall()
        names = ["sqlite_schema", *(name for (name,) in found)]
        query = "select pageno from dbstat where name = ?"
        pages = {name: [page for (page,) in connection.execute(query, (name,)).fetchall()] for name in names}
        empty = [
            name
            for (name,) in connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
            if connection.execute(f"select 1 from {name}").fetchone() is None
        ]
    assert empty == [], f"nothing would be damaged in {empty}"
    return pages


def _sqlite_of(box: Interlock) -> SqliteStore:
    assert isinstance(box.store, SqliteStore), "a data folder has such a store"
    return box.store


async def given(data: Path) -> Given:
    """All values that a store gives back; raises `DamagedRow` and the like."""
    async with Inspection(data) as box:
        store = _sqlite_of(box)
        bus = SqliteBus(store)
        rows = await store.rows(limit=100)
        ledger = await store.read("look at budgets", spent_by_window)
        return {
            "rows": rows,
            "records": {row.run: await store.export_records(row.run) for row in rows},
            "order": [(each.position, each.run, each.record.seq) for each in await store.since(0)],
            "crews": {row.crew_sha: await store.crew(row.crew_sha) for row in rows},
            "tombstones": await store.tombstones(),
            "questions": (await open_questions(store, box.crew_of))[0],
            "usage": await box.usage(),
            "requests": [await first_answer(store, n) for n in range(3)],
            "sessions": await store.list_closed_sessions(0),
            "hook": await store.position_of_hook("hook"),
            "letters": [
                await store.due_deliveries("hook", NOW, 10),
                await store.dead_letters(10),
                await store.hooks_due(NOW),
            ],
            "outbox": await store.signals_to_deliver(),
            "asides": await store.set_asides(10),
            "schedules": await store.run_schedules(),
            "budgets": ledger,
            "broadcasts": await bus.since(0, 100),
            "newest": await bus.newest(100),
            "subscriptions": await bus.subscriptions(),
            "heads": [await bus.crew_sha("hello"), await bus.crew_sha("travel")],
            "delayed": [await bus.list_delayed(), await bus.due_broadcasts(NOW + 1, 10), await bus.next_due(NOW)],
            "mail": [await bus.agents_with_unread(), await store.read("look at mail", mail)],
            "deliveries": [await bus.agents_with_deliveries(NOW), await bus.next_delivery("travel", "hotels", NOW)],
            "dead": await bus.dead_letters(10),
        }


async def first_answer(store: SqliteStore, n: int) -> IdempotentRequest:
    asked = IdempotentRequest(caller="key", key=f"request{n}", fingerprint=b"", planned="", at=NOW + n)
    return await store.register_request(asked, forget_before=0)


def spent_by_window(connection: sqlite3.Connection) -> list[Any]:
    ledger = SqliteBudgetLedger(connection)
    windows = [(scope, window) for scope in ("", "writer") for window in ("minute", "hour", "day")]
    return [[ledger.counter("hello", *each) for each in windows], ledger.open_reservation("k")]


def mail(connection: sqlite3.Connection) -> list[Any]:
    tables = SqliteBusTables(connection, BusCache())
    heard = connection.execute(
        "select crew, agent, broadcast, taken from inbox where inbox.seal is not null"
    ).fetchall()
    return [len(heard), tables.announcement_count("hello", "writer"), bool(tables.active.runs.get(("hello", "writer")))]
