"""SQL on runs and their records. Each function that writes refuses before its first write.

Rule 1: a run's row carries a crc of all its columns, so that a flipped bit in it is damage and not another answer.
Rule 2: a record's crc is kept xored with the number of its run, so that a record that strays into another run is
found by whoever reads that one record.
Rule 3: `Tips` only saves a question: an append by what is remembered writes nothing unless the row is as remembered,
owner, epoch, seq and link; and the link stands for the run's id and everything that was ever appended to it.
"""

import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from interlock.adapters import journal_format, keeping_sqlite, questions_sqlite
from interlock.adapters.alongside_sqlite import carry_out
from interlock.adapters.bus_rows import SqliteTables
from interlock.adapters.bus_rules import require_queued
from interlock.adapters.journal_format import Tip
from interlock.adapters.owner_files import is_alive
from interlock.adapters.pages import paged
from interlock.adapters.remembered_sqlite import Remembered
from interlock.engine.events import Usage
from interlock.errors import CrewMissing, DamagedRun, OwnedElsewhere, RunExists
from interlock.ids import CHILD_MARK
from interlock.ports import NOTHING_ELSE, Alongside, Appended, Record, RunRow, SealedRecord, SealedTree, Tombstone

# Runs whose ends are remembered. Runs that are let go of are forgotten, so only live ones count.
TIPS_MAX = 10_000

COLUMNS = (
    "run, crew, crew_sha, created_at, continues, organization, owner, epoch, status, reason, agent, seq, updated_at, "
    "calls, input_tokens, output_tokens, cost_micros, link, unpriced_calls"
)
FIXED = 8  # so many columns an append leaves as they are
INSERT_RUN = f"insert into runs (number, {COLUMNS}, crc) values ({', '.join('?' * 21)})"  # noqa: S608 - constants
SELECT_RUN = f"select number, {COLUMNS}, crc from runs"  # noqa: S608 - constants
INSERT_RECORD = "insert into records (run, seq, crc, link, body) values (?, ?, ?, ?, ?)"
MOVE = (
    "update runs set {more}reason = ?, agent = ?, seq = ?, updated_at = ?,"
    " calls = ?, input_tokens = ?, output_tokens = ?, cost_micros = ?, link = ?, unpriced_calls = ?, crc = ?"
    " where number = ? and owner = ? and epoch = ? and seq = ? and link = ?"
)
# Apart, because the status is indexed and seldom changes.
MOVE_ON, MOVE_TO_STATUS = MOVE.format(more=""), MOVE.format(more="status = ?, ")

_encode = msgspec.json.Encoder().encode


class Kept(NamedTuple):
    """A run's row: its number, `COLUMNS` in their order, and the crc of the columns that an append does not move."""

    number: int
    values: tuple[Any, ...]
    fixed_crc: int

    @property
    def owner(self) -> str:
        return str(self.values[6])

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.values[11], epoch=self.values[7], link=self.values[17])


def _known(number: int, values: tuple[Any, ...]) -> Kept:
    return Kept(number, values, _fixed_crc(number, values))


class Tips(dict[str, Kept]):
    """Where runs end, and how the bus stands: all that is remembered beside the connection that writes."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = Remembered()
        self.newest = 0  # the position of the newest record of this transaction

    def forget(self) -> None:
        self.clear()
        self.bus.forget()
        self.newest = 0


def row_crc(number: int, values: Sequence[object]) -> int:
    """Of JSON, in which no two rows look alike; signed, as SQLite keeps that in four bytes."""
    return _moved_crc(_fixed_crc(number, values), values[FIXED:])


def _fixed_crc(number: int, values: Sequence[object]) -> int:
    """Of the beginning of the row's JSON, as far as an append does not change it."""
    return crc32(_encode((number, *values[:FIXED]))[:-1])


def _moved_crc(fixed: int, moving: Sequence[object]) -> int:
    """The row's crc, from that of its beginning and what follows it.

    No call without a price, the last of all columns, is left out: rows that are older than the column have no other
    crc.
    """
    return _signed(crc32(b"," + _encode(moving if moving[-1] else moving[:-1])[1:], fixed))


def _signed(crc: int) -> int:
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def is_whole(found: Sequence[Any]) -> bool:
    """Whether a row of `SELECT_RUN` is as it was written."""
    return row_crc(found[0], found[1:-1]) == int(found[-1])


def kept(connection: sqlite3.Connection, run: str) -> Kept:
    """The run's row, checked; `RunNotFound` or `DamagedRun`."""
    found = connection.execute(f"{SELECT_RUN} where run = ?", (run,)).fetchone()
    if found is None:
        raise keeping_sqlite.missing(connection, run)
    if not is_whole(found):
        raise _damaged(run)
    return _known(found[0], found[1:-1])


# Writing


def create(
    connection: sqlite3.Connection,
    tips: Tips,
    *,
    row: RunRow,
    record: Record,
    body: bytes,
    owner: str,
    also: Alongside,
) -> Appended:
    if also.heard:
        require_queued(SqliteTables(connection, tips.bus), row.run, also)
    if keeping_sqlite.is_taken(connection, row.run):
        raise RunExists(row.run)
    journal_format.require_first(row.run, record)
    link = journal_format.next_link(journal_format.first_link(row.run), body)
    made = _insert_run(connection, row, Tip(seq=record.last_seq, epoch=row.epoch, link=link), owner)
    _remember(tips, row.run, made)
    position = _insert_record(connection, tips, made.number, record.seq, crc32(body), link, body)
    return carry_out(connection, tips.bus, also, position) if also is not NOTHING_ELSE else Appended(position)


def add(connection: sqlite3.Connection, tips: Tips, *, row: RunRow, records: Sequence[SealedRecord], tip: Tip) -> None:
    keeping_sqlite.require_free(connection, row.run, tip)
    connection.execute("delete from tombstones where run = ?", (row.run,))
    tips.pop(row.run, None)
    made = _insert_run(connection, row, tip, owner="")
    questions_sqlite.unlist(connection, row.run, row.status)
    for record in records:
        _insert_record(connection, tips, made.number, record.seq, record.crc, record.link, record.body)


def add_tree(connection: sqlite3.Connection, tips: Tips, *, tree: SealedTree, ends: Sequence[Tip]) -> None:
    """The runs of a tree; their records take places in the order in which they come."""
    for row, tip in zip(tree.rows, ends, strict=True):
        keeping_sqlite.require_free(connection, row.run, tip)
    numbers = []
    for row, tip in zip(tree.rows, ends, strict=True):
        connection.execute("delete from tombstones where run = ?", (row.run,))
        tips.pop(row.run, None)
        numbers.append(_insert_run(connection, row, tip, owner="").number)
        questions_sqlite.unlist(connection, row.run, row.status)
    for of, record in tree.records:
        _insert_record(connection, tips, numbers[of], record.seq, record.crc, record.link, record.body)


def append(
    connection: sqlite3.Connection, tips: Tips, *, row: RunRow, record: Record, body: bytes, also: Alongside
) -> Appended:
    position = _append(connection, tips, row, record, body)
    return carry_out(connection, tips.bus, also, position) if also is not NOTHING_ELSE else Appended(position)


def _append(connection: sqlite3.Connection, tips: Tips, row: RunRow, record: Record, body: bytes) -> int:
    known = tips.get(row.run)
    if known is not None and known.values[7] == row.epoch and known.values[11] + 1 == record.seq:
        position = _appended(connection, tips, known, row, record, body)
        if position is not None:
            return position
    known = kept(connection, row.run)
    if known.tip.epoch == row.epoch and known.tip.seq == record.last_seq:
        position = _position_of(connection, known.number, record.seq, body)
        if position is not None:
            return position
    journal_format.require_next(known.tip, row, record)
    position = _appended(connection, tips, known, row, record, body)
    assert position is not None, "the row was read in this transaction"
    return position


def _position_of(connection: sqlite3.Connection, number: int, seq: int, body: bytes) -> int | None:
    """Where the very record stands already: its append took place, and nobody knew."""
    query = "select position, body from records where run = ? and seq = ?"
    found = connection.execute(query, (number, seq)).fetchone()
    return found[0] if found is not None and found[1] == body else None


def _appended(
    connection: sqlite3.Connection, tips: Tips, known: Kept, row: RunRow, record: Record, body: bytes
) -> int | None:
    """The position, or None and nothing written if the row is not as it is known."""
    number, values, fixed_crc = known
    usage, link = row.usage, journal_format.next_link(values[17], body)
    used = (usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_micros)
    moving = (row.status, row.reason, row.agent, record.last_seq, row.updated_at, *used, link, usage.unpriced_calls)
    change = (*moving[1:], _moved_crc(fixed_crc, moving), number, values[6], values[7], values[11], values[17])
    if row.status == values[8]:
        done = connection.execute(MOVE_ON, change)
    else:
        done = connection.execute(MOVE_TO_STATUS, (row.status, *change))
    if done.rowcount != 1:
        return None
    _remember(tips, row.run, Kept(number, values[:FIXED] + moving, fixed_crc))
    return _insert_record(connection, tips, number, record.seq, crc32(body), link, body)


def _remember(tips: Tips, run: str, known: Kept) -> None:
    if len(tips) >= TIPS_MAX:
        tips.clear()
    tips[run] = known


def _insert_record(
    connection: sqlite3.Connection, tips: Tips, number: int, seq: int, crc: int, link: bytes, body: bytes
) -> int:
    kept_crc = _signed(crc ^ (number & 0xFFFF_FFFF))
    done = connection.execute(INSERT_RECORD, (number, seq, kept_crc, link, body))
    assert done.lastrowid is not None, "an insert has a rowid"
    tips.newest = done.lastrowid
    return done.lastrowid


def _insert_run(connection: sqlite3.Connection, row: RunRow, tip: Tip, owner: str) -> Kept:
    usage = row.usage
    values = (
        *(row.run, row.crew, row.crew_sha, row.created_at, row.continues, row.organization, owner, tip.epoch),
        *(row.status, row.reason, row.agent, tip.seq, row.updated_at),
        *(usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_micros, tip.link, usage.unpriced_calls),
    )
    number = connection.execute("select coalesce(max(number), 0) + 1 from runs").fetchone()[0]
    connection.execute(INSERT_RUN, (number, *values, row_crc(number, values)))
    return _known(number, values)


def delete(connection: sqlite3.Connection, tips: Tips, *, run: str, at: int, owner: str, folder: Path) -> Tombstone:
    found = kept(connection, run)
    _require_free_for(found, owner, folder)
    tips.pop(run, None)
    left = Tombstone(run=run, crew=found.values[1], seq=found.tip.seq, link=found.tip.link, deleted_at=at)
    keeping_sqlite.bury(connection, found.number, left)
    questions_sqlite.forget(connection, run)
    for table in ("spent", "outbox", "active", "orders"):
        connection.execute(f"delete from {table} where run = ?", (run,))  # noqa: S608 - constants
    return left


def delete_tree(
    connection: sqlite3.Connection, tips: Tips, *, run: str, at: int, owner: str, folder: Path
) -> list[Tombstone]:
    kept_here = [kept(connection, each) for each in (run, *_names_below(connection, run))]
    for found in kept_here:
        _require_free_for(found, owner, folder)
    return [delete(connection, tips, run=found.values[0], at=at, owner=owner, folder=folder) for found in kept_here]


def _names_below(connection: sqlite3.Connection, run: str) -> list[str]:
    """Of all runs below, also of damaged ones."""
    found = connection.execute("select run from runs where run > ? and run < ? order by number", _ids_below(run))
    return [name for (name,) in found.fetchall()]


def claim(connection: sqlite3.Connection, tips: Tips, *, run: str, owner: str, folder: Path) -> int:
    found = kept(connection, run)
    _require_free_for(found, owner, folder)
    epoch = found.tip.epoch + 1
    _remember(tips, run, _owned(connection, found, owner, epoch))
    return epoch


def release(connection: sqlite3.Connection, tips: Tips, *, run: str, owner: str) -> None:
    tips.pop(run, None)
    if connection.execute("select 1 from runs where run = ? and owner = ?", (run, owner)).fetchone() is not None:
        found = kept(connection, run)
        _owned(connection, found, "", found.tip.epoch)


def _require_free_for(found: Kept, owner: str, folder: Path) -> None:
    if found.owner not in ("", owner) and is_alive(folder, found.owner):
        raise OwnedElsewhere(found.values[0], found.owner)


def _owned(connection: sqlite3.Connection, found: Kept, owner: str, epoch: int) -> Kept:
    values = (*found.values[:6], owner, epoch, *found.values[8:])
    connection.execute(
        "update runs set owner = ?, epoch = ?, crc = ? where number = ?",
        (owner, epoch, row_crc(found.number, values), found.number),
    )
    return _known(found.number, values)


def put_crew(connection: sqlite3.Connection, tips: Tips, *, sha: str, body: bytes) -> None:
    connection.execute("insert or ignore into crews (sha, body) values (?, ?)", (sha, body))


def limit_bytes(connection: sqlite3.Connection, tips: Tips, *, bytes_max: int) -> None:
    page_size = connection.execute("pragma page_size").fetchone()[0]
    connection.execute(f"pragma max_page_count = {max(1, bytes_max // page_size):d}")


# Reading


def _as_row(values: Sequence[Any]) -> RunRow:
    run, crew, crew_sha, created_at, continues, organization, _, epoch, status, reason, agent, seq, *rest = values
    updated_at, calls, input_tokens, output_tokens, cost_micros, _, unpriced_calls = rest
    return RunRow(
        run=run,
        crew=crew,
        crew_sha=crew_sha,
        status=status,
        reason=reason,
        agent=agent,
        seq=seq,
        epoch=epoch,
        created_at=created_at,
        updated_at=updated_at,
        continues=continues,
        organization=organization,
        usage=Usage(
            calls=calls,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost_micros=cost_micros,
            unpriced_calls=unpriced_calls,
        ),
    )


def row(connection: sqlite3.Connection, *, run: str) -> RunRow:
    return _as_row(kept(connection, run).values)


def rows(
    connection: sqlite3.Connection,
    *,
    status: str | None,
    crew: str | Collection[str] | None,
    limit: int,
    before: str | None,
    nested: bool | None,
) -> list[RunRow]:
    """Without damaged ones: one must not hide the others. Reading it, and `interlock doctor`, report it."""
    is_nested = f"(instr(run, '{CHILD_MARK}') > 0) = ?"
    crews = None if crew is None else msgspec.json.encode([crew] if isinstance(crew, str) else sorted(crew)).decode()
    of_crews = "crew in (select value from json_each(?))"
    tests: dict[str, object] = {"status = ?": status, of_crews: crews, is_nested: nested}
    tests = {test: value for test, value in tests.items() if value is not None}
    query = f"{SELECT_RUN} where {' and '.join(['number < ?', *tests])} order by number desc limit ?"
    number = kept(connection, before).number if before is not None else 2**63 - 1
    found: list[RunRow] = []
    while len(found) < limit:
        page = connection.execute(query, (number, *tests.values(), limit - len(found))).fetchall()
        if not page:
            break
        number = page[-1][0]
        found += [_as_row(each[1:-1]) for each in page if is_whole(each)]
    return found


def below(connection: sqlite3.Connection, *, run: str) -> list[RunRow]:
    found = connection.execute(f"{SELECT_RUN} where run > ? and run < ? order by number", _ids_below(run)).fetchall()
    return [_as_row(each[1:-1]) for each in found if is_whole(each)]


def tree(connection: sqlite3.Connection, *, run: str, after: int, position: int) -> list[tuple[int, str, SealedRecord]]:
    """The run's records from the one that holds the event after `after`, and what was stored below it since."""
    known = kept(connection, run)
    first = connection.execute(
        "select position from records where run = ? and seq <= ? order by seq desc limit 1",
        (known.number, after + 1),
    ).fetchone()
    found = connection.execute(
        "select position, runs.run, number, records.seq, records.crc, records.link, body"
        " from records join runs on runs.number = records.run"
        " where position >= ? and (runs.number = ? or (runs.run > ? and runs.run < ?)) order by position",
        (max(first[0] if first is not None else 0, position + 1), known.number, *_ids_below(run)),
    ).fetchall()
    return [(at, of, _as_sealed(*rest)) for at, of, *rest in found]


class TreeStretch(NamedTuple):
    """A run and all below it, not yet verified."""

    rows: list[RunRow]
    tips: list[Tip]
    records: list[tuple[int, SealedRecord]]


def tree_stretch(connection: sqlite3.Connection, *, run: str) -> TreeStretch:
    known = [kept(connection, each) for each in (run, *_names_below(connection, run))]
    places = {each.values[0]: n for n, each in enumerate(known)}
    found = tree(connection, run=run, after=0, position=0)
    records = [(places[of], record) for _, of, record in found]
    return TreeStretch([_as_row(each.values) for each in known], [each.tip for each in known], records)


def _ids_below(run: str) -> tuple[str, str]:
    """Between these are the ids of its children, and of theirs."""
    return f"{run}{CHILD_MARK}", f"{run}{chr(ord(CHILD_MARK) + 1)}"


def damaged(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with rows that `rows` leaves out."""
    found = connection.execute(f"{SELECT_RUN} order by number").fetchall()
    return [str(_damaged(each[1])) for each in found if not is_whole(each)]


def _damaged(run: str) -> DamagedRun:
    return DamagedRun(run, "the crc of its row does not hold")


class Stretch(NamedTuple):
    """The records of a run from one point to another, not yet verified."""

    stored: list[SealedRecord]
    after: Tip
    tip: Tip


def stretch(connection: sqlite3.Connection, *, run: str, after: int, limit: int | None = None) -> Stretch:
    """Begins with the record that holds the event after `after`, and goes to the end, or as far as it may."""
    known = kept(connection, run)
    number, tip = known.number, known.tip
    if after >= tip.seq:
        return Stretch([], tip, tip)
    found = connection.execute(
        "select seq, crc, link, body from records where run = ? and seq >="
        " coalesce((select max(seq) from records where run = ? and seq <= ?), 1) order by seq limit ?",
        (number, number, after + 1, -1 if limit is None else limit),
    )
    stored = [_as_sealed(number, *each) for each in (found if limit is None else paged(found, _size))]
    beyond = _seq_after(connection, number, stored[-1].seq) if limit is not None and stored else None
    if beyond is not None:  # the one beyond says where the others must end
        tip = Tip(seq=beyond - 1, epoch=0, link=stored[-1].link)
    start = stored[0].seq if stored else 1
    before = connection.execute(
        "select link from records where run = ? and seq < ? order by seq desc limit 1", (number, start)
    ).fetchone()
    if before is None:
        return Stretch(stored, journal_format.start_of(run), tip)
    return Stretch(stored, Tip(seq=start - 1, epoch=0, link=before[0]), tip)


def _seq_after(connection: sqlite3.Connection, number: int, seq: int) -> int | None:
    query = "select seq from records where run = ? and seq > ? order by seq limit 1"
    found = connection.execute(query, (number, seq)).fetchone()
    return int(found[0]) if found is not None else None


def _as_sealed(number: int, seq: int, crc: int, link: bytes, body: bytes) -> SealedRecord:
    return SealedRecord(seq=seq, crc=(crc ^ number) & 0xFFFF_FFFF, link=link, body=body)


def _size(row: Sequence[Any]) -> int:
    """Of a row that ends with its body."""
    return len(row[-1])


def after_position(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, str, SealedRecord]]:
    found = connection.execute(
        "select position, runs.run, number, records.seq, records.crc, records.link, body"
        " from records join runs on runs.number = records.run where position > ? order by position limit ?",
        (position, limit),
    )
    return [(at, run, _as_sealed(*rest)) for at, run, *rest in paged(found, _size)]


def of_run(
    connection: sqlite3.Connection, *, run: str, position: int, limit: int
) -> list[tuple[int, str, SealedRecord]]:
    """Of a run and all below it. Found by the runs' index: a walk by position would pass the records of all others.

    First where they stand, then what they hold: sorting bodies would hold all of them.
    """
    kept(connection, run)
    places = connection.execute(
        "select position from runs cross join records on records.run = runs.number"
        " where (runs.run = ? or (runs.run > ? and runs.run < ?)) and +position > ? order by position limit ?",
        (run, *_ids_below(run), position, limit),
    ).fetchall()
    query = (
        "select position, runs.run, number, records.seq, records.crc, records.link, body"
        " from records join runs on runs.number = records.run where position = ?"
    )
    found = (row for place in places for row in connection.execute(query, place))
    return [(at, of, _as_sealed(*rest)) for at, of, *rest in paged(found, _size)]


def newest_position(connection: sqlite3.Connection) -> int:
    return int(connection.execute("select coalesce(max(position), 0) from records").fetchone()[0])


def crew(connection: sqlite3.Connection, *, sha: str) -> bytes:
    found = connection.execute("select body from crews where sha = ?", (sha,)).fetchone()
    if found is None:
        raise CrewMissing(f"there is no crew with sha256 {sha} in the data folder; restore it from a backup")
    journal_format.require_sha(sha, found[0])
    return bytes(found[0])
