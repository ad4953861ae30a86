"""Damages data folders: flips bits in every table and in SQLite's log, cuts the log, deletes it.

Usage: python -m campaign.damage [FLIPS] [FIRST-SEED]       1,000 and seed 0 unless told; exit code 1 if damage hid

Rule 1: damage must be noticed, by opening the folder (refused, or mended with a warning), by the doctor (a problem, or
a note of what it mended) or by reading; or it must change nothing that is given back.
Rule 2: the folder has rows in every table, so that every table is damaged. What is given back is all that the ports
answer, and what the doctor replays.
Rule 3: a process that damages a copy has no database open: closing a descriptor would let go of SQLite's locks.
"""

import asyncio
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from bench.harness import machine, table
from campaign import results
from interlock import Interlock, load_crew
from interlock.adapters import orders_sqlite, sqlite_rows
from interlock.adapters.alongside_sqlite import SqliteLedger
from interlock.adapters.bus_rows import SqliteTables
from interlock.adapters.bus_sqlite import SqliteBus
from interlock.adapters.data_folder import DATABASE
from interlock.adapters.migrations import connect
from interlock.adapters.remembered_sqlite import Remembered
from interlock.adapters.spending import spend
from interlock.adapters.store_sqlite import SqliteStore
from interlock.broadcast.delayed import Dead, Delayed
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.run_schedules import RunSchedule
from interlock.broadcast.subscriptions import Subscribed
from interlock.compose.checkup import Checkup, check_up
from interlock.compose.inspection import Inspection
from interlock.compose.keeping import delete_run
from interlock.compose.questions import open_questions
from interlock.engine.bounds import Limit
from interlock.errors import InterlockError
from interlock.ports import Activity, Asked, Letter, Order, OrderOutcome, Reservation

FLIPS = 1_000
# Logs that are cut at a random place; one more is deleted.
CUTS = 100
FAULTS_SHOWN = 100

ROOT = Path(__file__).parent.parent
HELLO, TRAVEL = ROOT / "src" / "interlock" / "templates" / "hello", ROOT / "examples" / "travel"
LOG = f"{DATABASE}-wal"

# Far from any test of time: what is kept for a while is still there.
NOW = 4_000_000_000_000

DAILY = RunSchedule(id="daily", crew="hello", input="go", next_at=NOW, created_at=NOW)

Given = dict[str, Any]


# A folder with everything in it


async def fill(data: Path, *, dies: bool) -> None:
    """Runs that ended, wait, and were deleted; and what else a store may hold."""
    async with Interlock(data, script=HELLO / "script.yaml") as box:
        for run in ("ended", "deleted"):
            await (await box.start(load_crew(HELLO), "go", run_id=run)).result()
        await box.usage()
        await delete_run(box, "deleted")
    async with Interlock(data, script=TRAVEL / "script.yaml") as box:
        await (await box.start(load_crew(TRAVEL), "Plan a trip from LAX to Italy", run_id="waits")).result()
        await fill_bus(SqliteBus(box.store), box.store)
        await fill_server(box.store)
        await fill_schedules(box.store)
        await box.store.write("fill the rest", fill_rest)
        await box.store.put_crew("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", b"")
        if dies:
            os._exit(0)


async def fill_bus(bus: SqliteBus, store: SqliteStore) -> None:
    for crew, agent, silent in (("hello", "writer", True), ("travel", "hotels", False)):
        await bus.subscribe(Subscribed(crew=crew, agent=agent, pattern="build:*", silent=silent))
    for n in range(3):
        said = Broadcast(id=f"broadcast{n}", type="build:done", source=PROCESS, data={"n": n}, created_at=NOW + n)
        await bus.emit(Emission(broadcast=said))
    for n in range(3):
        later = Delayed(
            id=f"later{n}",
            type="x",
            source=PROCESS,
            deliver_at=NOW + n,
            created_at=1,
            updated_at=1,
            repeat_key=f"k{n}",
        )
        await bus.schedule(later)
    await bus.work(Activity(name="a", place=1, crew="hello", run="waits", at=NOW, begun=(("writer", 0),)))


async def fill_server(store: SqliteStore) -> None:
    for n in range(3):
        asked = Asked(caller="key", key=f"request{n}", fingerprint=b"f" * 32, planned=f"run{n}", at=NOW + n)
        await store.remember(asked, forget_before=0)
        await store.answered(Asked(caller="key", key=f"request{n}", fingerprint=b"f" * 32, planned=f"run{n}",
                                   at=NOW + n, status=201, body=b'{"id": "run"}'))  # fmt: skip
        await store.close_session(f"session{n}", NOW + n, 0)
    await store.post("hook", 1, [Letter(hook="hook", key=f"letter{n}", body=b'{"n": 1}') for n in range(3)])
    for letter in (await store.due("hook", NOW, 3))[:1]:
        await store.put_off(Letter(hook="hook", key=letter.key, body=letter.body, number=letter.number, dead=True))


def fill_rest(connection: sqlite3.Connection, tips: sqlite_rows.Tips) -> None:
    connection.execute("insert into outbox (key, run, body) values ('out', 'waits', x'7b7d')")
    limit = Limit(name="max_calls_per_day", what="calls", window="day", most=100)
    order = Reservation(key="k", crew="hello", agent="writer", at=NOW, tokens=5, cost_micros=7, limits=(limit,))
    spend(SqliteLedger(connection), order)
    tables = SqliteTables(connection, tips.bus)
    tables.count("hello", "writer", NOW, 3)
    said = Broadcast(id="dead", type="x", source=PROCESS, created_at=NOW)
    tables.bury(Dead(id="dead", broadcast=said, reason="nobody", at=NOW, for_crew="hello", for_agent="writer"))
    connection.execute("insert into unlisted (run) values ('waits')")
    connection.execute("insert into run_schedules (id, body) values ('daily', ?)", (msgspec.json.encode(DAILY),))
    asked = Order(key="order", run="waits", kind="cancel", by="host", at=NOW)
    orders_sqlite.post(connection, order=asked)
    orders_sqlite.settle(connection, key="order", outcome=OrderOutcome(seq=3))


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
    """In a process of its own, which ends by itself or dies with its log."""
    _in_a_process(f"fill(Path(sys.argv[1]), dies={dies})", folder)
    return folder


def compact_copy(image: Path, folder: Path) -> Path:
    """A copy of a folder, compacted in a process of its own."""
    shutil.copytree(image, folder)
    _in_a_process("compact(Path(sys.argv[1]))", folder)
    return folder


def _in_a_process(call: str, folder: Path) -> None:
    program = (
        f"import asyncio, sys; from pathlib import Path; from campaign.damage import compact, fill; asyncio.run({call})"
    )
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


# What is given back


async def given(data: Path) -> Given:
    """All that a store answers. `DamagedRow` and the like are raised."""
    async with Inspection(data) as box:
        store, bus = box.store, SqliteBus(box.store)
        rows = await store.rows(limit=100)
        ledger = await store.read("look at budgets", spent_by_window)
        return {
            "rows": rows,
            "records": {row.run: await store.sealed(row.run) for row in rows},
            "order": [(each.position, each.run, each.record.seq) for each in await store.since(0)],
            "crews": {row.crew_sha: await store.crew(row.crew_sha) for row in rows},
            "tombstones": await store.tombstones(),
            "questions": (await open_questions(store, box.crew_of))[0],
            "usage": await box.usage(),
            "requests": [await first_answer(store, n) for n in range(3)],
            "sessions": await store.closed_sessions(0),
            "hook": await store.read_up_to("hook"),
            "letters": [await store.due("hook", NOW, 10), await store.dead_letters(10), await store.hooks_due(NOW)],
            "outbox": await store.pending(),
            "schedules": await store.run_schedules(),
            "budgets": ledger,
            "broadcasts": await bus.since(0, 100),
            "newest": await bus.newest(100),
            "subscriptions": await bus.subscriptions(),
            "heads": [await bus.crew_sha("hello"), await bus.crew_sha("travel")],
            "delayed": [await bus.delayed(), await bus.due(NOW + 1, 10), await bus.next_due(NOW)],
            "mail": [await bus.mail(), await store.read("look at mail", mail)],
            "deliveries": [await bus.awaiting(NOW), await bus.next_delivery("travel", "hotels", NOW)],
            "dead": await bus.dead(10),
        }


async def first_answer(store: SqliteStore, n: int) -> Asked:
    asked = Asked(caller="key", key=f"request{n}", fingerprint=b"", planned="", at=NOW + n)
    return await store.remember(asked, forget_before=0)


def spent_by_window(connection: sqlite3.Connection) -> list[Any]:
    ledger = SqliteLedger(connection)
    windows = [(scope, window) for scope in ("", "writer") for window in ("minute", "hour", "day")]
    return [[ledger.counter("hello", *each) for each in windows], ledger.held("k")]


def mail(connection: sqlite3.Connection) -> list[Any]:
    tables = SqliteTables(connection, Remembered())
    heard = connection.execute(
        "select crew, agent, broadcast, taken from inbox where inbox.seal is not null"
    ).fetchall()
    return [len(heard), tables.counted("hello", "writer"), tables.is_active_elsewhere("hello", "writer", "")]


# Damage


class Damage(NamedTuple):
    """Where: a table, an index or the log; and what is done to a copy."""

    where: str
    how: str
    do: Callable[[Path], None]


def flip(file: str, offset: int, bit: int) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        with (folder / file).open("r+b") as opened:
            opened.seek(offset)
            byte = opened.read(1)[0]
            opened.seek(offset)
            opened.write(bytes((byte ^ 1 << bit,)))

    return do


def cut(size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / LOG, size)


def flips_in_tables(database: bytes, pages: dict[str, list[int]], count: int, random: Random) -> Iterator[Damage]:
    """Each table and index in turn; where there is something, as most of a small table's page is empty."""
    names, page_size = sorted(pages), int.from_bytes(database[16:18], "big")
    for n in range(count):
        name = names[n % len(names)]
        start = (random.choice(pages[name]) - 1) * page_size
        used = [at for at in range(start, start + page_size) if database[at]]
        offset, bit = random.choice(used), random.randrange(8)
        yield Damage(name, f"bit {bit} of byte {offset}", flip(DATABASE, offset, bit))


def damage_of_log(size: int, flips: int, cuts: int, random: Random) -> Iterator[Damage]:
    yield Damage("log deleted", "", lambda folder: (folder / LOG).unlink())
    for _ in range(cuts):
        at = random.randrange(size)
        yield Damage("log cut", f"at {at}", cut(at))
    for _ in range(flips):
        offset, bit = random.randrange(size), random.randrange(8)
        yield Damage("log", f"bit {bit} of byte {offset}", flip(LOG, offset, bit))


# What came of it


class Tally:
    def __init__(self) -> None:
        self.by_table: dict[str, Counter[str]] = {}
        self.faults: list[str] = []

    def note(self, damage: Damage, outcome: str) -> None:
        self.by_table.setdefault(damage.where, Counter())[outcome] += 1
        if outcome == HIDDEN:
            self.faults.append(f"{damage.where}: {damage.how}")

    def total(self, outcome: str) -> int:
        return sum(counts[outcome] for counts in self.by_table.values())


OPENING, DOCTOR, READING, HARMLESS, HIDDEN = "by opening", "by the doctor", "by reading", "changed nothing", "HIDDEN"
OUTCOMES = (OPENING, DOCTOR, READING, HARMLESS, HIDDEN)


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def warnings() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("interlock"), Warnings()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.told
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class Judge:
    """Damages copies of one folder, and looks what is noticed."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place
        with warnings() as told:
            self.notes = self._looked_at(lambda folder: asyncio.run(check_up(folder))).notes
            self.right = self._looked_at(lambda folder: asyncio.run(given(folder)))
        assert told == [], told

    def _looked_at(self, look: Callable[[Path], Any], damage: Damage | None = None) -> Any:
        shutil.copytree(self.image, self.place)
        try:
            if damage is not None:
                damage.do(self.place)
            return look(self.place)
        finally:
            shutil.rmtree(self.place)

    def outcome(self, damage: Damage) -> str:
        outcome: str = self._looked_at(self._outcome, damage)
        return outcome

    def _outcome(self, folder: Path) -> str:
        with warnings() as told:
            try:
                found = asyncio.run(check_up(folder))
            except InterlockError:
                return OPENING
            if told:
                return OPENING
            if self._is_told(found):
                return DOCTOR
            try:
                return HARMLESS if asyncio.run(given(folder)) == self.right else HIDDEN
            except InterlockError:
                return READING

    def _is_told(self, found: Checkup) -> bool:
        return bool(found.problems) or found.notes != self.notes


def run(flips: int, seed: int, cuts: int = CUTS) -> Tally:
    """Half of the flips in tables, a quarter in those of a compacted copy, the rest in the log of a dead process."""
    tally, random = Tally(), Random(seed)
    with TemporaryDirectory(prefix="interlock-damage-") as name:
        folder = Path(name)
        whole, killed = filled(folder / "whole", dies=False), filled(folder / "killed", dies=True)
        small = compact_copy(whole, folder / "compacted")
        in_tables, in_log = flips // 2, flips // 4
        for image, damages in (
            (whole, flips_in_image(whole, folder / "looked", in_tables, random)),
            (small, flips_in_image(small, folder / "looked", flips - in_tables - in_log, random)),
            (killed, damage_of_log((killed / LOG).stat().st_size, in_log, cuts, random)),
        ):
            judge = Judge(image, folder / "copy")
            for damage in damages:
                tally.note(damage, judge.outcome(damage))
    return tally


def flips_in_image(image: Path, place: Path, count: int, random: Random) -> Iterator[Damage]:
    """Of a folder without a log; which page belongs to what is looked up in a copy under `place`."""
    shutil.copytree(image, place)
    pages = tables_of(place / DATABASE)
    shutil.rmtree(place)
    return flips_in_tables((image / DATABASE).read_bytes(), pages, count, random)


def page(tally: Tally, seed: int, seconds: float) -> str:
    """The results as Markdown."""
    rows = [(where, *(counts[outcome] for outcome in OUTCOMES)) for where, counts in sorted(tally.by_table.items())]
    totals = ("all", *(tally.total(outcome) for outcome in OUTCOMES))
    count = sum(tally.total(outcome) for outcome in OUTCOMES)
    parts = [
        "# Damage campaign",
        f"Written by `make campaign`. {machine()}. {count:,} damaged folders in {seconds:.0f} s, from seed {seed}.",
        "Copies of a data folder with rows in every table: one bit is flipped in a table, in an index, or in SQLite's"
        " log as a killed process left it; or the log is cut, or deleted. A quarter of the flips is in a folder that"
        " was compacted. Each must be noticed by opening the folder, by `interlock doctor` or by reading, or"
        " change nothing that is given back. `HIDDEN` is neither.",
        table(("where", *OUTCOMES), [*rows, totals]),
        table(("what", "count"), [("folders damaged", count), ("damage that was hidden", tally.total(HIDDEN))]),
        *(["## Faults", "\n".join(f"- {fault}" for fault in tally.faults[:FAULTS_SHOWN])] if tally.faults else []),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    flips = int(sys.argv[1]) if len(sys.argv) > 1 else FLIPS
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    found = run(flips, first_seed)
    text = page(found, first_seed, time.monotonic() - began)
    results.put(text)
    print(text)
    sys.exit(1 if found.faults else 0)
