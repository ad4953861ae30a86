"""SQL that reads runs and their records."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from interlock.adapters.sqlite.failures import is_corrupt
from interlock.adapters.sqlite.runs.places import position_at, positions_after, rows_from
from interlock.adapters.sqlite.runs.run_head import SELECT_RUN, head_from_row, read_stored_head, row_damage_error
from interlock.adapters.sqlite.runs.tail import read_run_head, with_tail
from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.adapters.store_rules.record_format import Tip
from interlock.errors import CrewMissing, DamagedRun
from interlock.ids import CHILD_MARK
from interlock.ports import RunRow, SealedRecord


def read_row(connection: sqlite3.Connection, *, run: str) -> RunRow:
    return read_run_head(connection, run).as_row()


def read_rows(
    connection: sqlite3.Connection,
    *,
    status: str | None,
    crew: str | Collection[str] | None,
    limit: int,
    before: str | None,
    nested: bool | None,
) -> list[RunRow]:
    """Leaves out damaged rows: one must not hide the others. Reading that run, and the doctor, report it."""
    is_nested = f"(instr(run, '{CHILD_MARK}') > 0) = ?"
    crews = None if crew is None else msgspec.json.encode([crew] if isinstance(crew, str) else sorted(crew)).decode()
    of_crews = "crew in (select value from json_each(?))"
    tests: dict[str, object] = {"status = ?": status, of_crews: crews, is_nested: nested}
    tests = {test: value for test, value in tests.items() if value is not None}
    query = f"{SELECT_RUN} where {' and '.join(['number < ?', *tests])} order by number desc limit ?"
    number = read_stored_head(connection, before).number if before is not None else 2**63 - 1
    found: list[RunRow] = []
    while len(found) < limit:
        page = connection.execute(query, (number, *tests.values(), limit - len(found))).fetchall()
        if not page:
            break
        number = page[-1][0]
        found += _as_rows(connection, page)
    return found


def rows_below(connection: sqlite3.Connection, *, run: str) -> list[RunRow]:
    found = connection.execute(f"{SELECT_RUN} where run > ? and run < ? order by number", _ids_below(run)).fetchall()
    return _as_rows(connection, found)


def _as_rows(connection: sqlite3.Connection, found: Sequence[Any]) -> list[RunRow]:
    """Rows of `SELECT_RUN`, as of the newest record; without damaged ones."""
    heads = [head for each in found if (head := head_from_row(each)) is not None]
    return [head.as_row() for head in with_tail(connection, heads)]


def names_below(connection: sqlite3.Connection, run: str) -> list[str]:
    """The ids of all runs below, also of damaged ones."""
    found = connection.execute("select run from runs where run > ? and run < ? order by number", _ids_below(run))
    return [name for (name,) in found.fetchall()]


def tree_records(
    connection: sqlite3.Connection, *, run: str, after: int, position: int
) -> list[tuple[int, str, SealedRecord]]:
    """The run's records from the one that holds the event after `after`, and later records of runs below it."""
    numbers = _numbers_of_tree(connection, run)
    first = position_at(connection, numbers[0], after + 1) or 0
    return list(_records_at(connection, numbers, positions_after(connection, numbers, max(first - 1, position))))


def _numbers_of_tree(connection: sqlite3.Connection, run: str) -> list[int]:
    """The number of a run, and of all below it."""
    query = "select number from runs where run > ? and run < ?"
    below = connection.execute(query, _ids_below(run)).fetchall()
    return [read_stored_head(connection, run).number, *(number for (number,) in below)]


def _records_at(
    connection: sqlite3.Connection, numbers: Sequence[int], positions: Iterable[int]
) -> Iterator[tuple[int, str, SealedRecord]]:
    """The records of some runs at these positions; a damaged row of `places` may name others too."""
    wanted = set(numbers)
    query = (
        "select position, runs.run, number, records.seq, records.crc, records.link, body"
        " from records join runs on runs.number = records.run where position = ?"
    )
    for each in positions:
        for position, run, number, *rest in connection.execute(query, (each,)):
            if number in wanted:
                yield position, run, _as_sealed(number, *rest)


class TreeRange(NamedTuple):
    """A run and all below it, not yet verified."""

    rows: list[RunRow]
    tips: list[Tip]
    records: list[tuple[int, SealedRecord]]


def read_tree_range(connection: sqlite3.Connection, *, run: str) -> TreeRange:
    known = [read_run_head(connection, each) for each in (run, *names_below(connection, run))]
    places = {each.run: n for n, each in enumerate(known)}
    found = tree_records(connection, run=run, after=0, position=0)
    records = [(places[of], record) for _, of, record in found]
    return TreeRange([each.as_row() for each in known], [each.tip for each in known], records)


def _ids_below(run: str) -> tuple[str, str]:
    """The bounds of the ids of its children, and of theirs."""
    return f"{run}{CHILD_MARK}", f"{run}{chr(ord(CHILD_MARK) + 1)}"


def damage_in_run_rows(connection: sqlite3.Connection) -> list[str]:
    """The damaged rows, which `rows` leaves out."""
    found = connection.execute(f"{SELECT_RUN} order by number").fetchall()
    return [str(row_damage_error(each[1])) for each in found if head_from_row(each) is None]


class RecordRange(NamedTuple):
    """The records of a run from one point to another, not yet verified."""

    stored: list[SealedRecord]
    after: Tip
    tip: Tip


def read_range(connection: sqlite3.Connection, *, run: str, after: int = 0, limit: int | None = None) -> RecordRange:
    """Reads from the record that holds the event after `after` to the end, or to the limit; `DamagedRun`."""
    try:
        return _read_range(connection, run, after, limit)
    except sqlite3.DatabaseError as error:
        if is_corrupt(error):
            raise DamagedRun(run, str(error)) from error
        raise


def _read_range(connection: sqlite3.Connection, run: str, after: int, limit: int | None) -> RecordRange:
    known = read_run_head(connection, run)
    number, tip = known.number, known.tip
    if after >= tip.seq:
        return RecordRange([], tip, tip)
    first = position_at(connection, number, after + 1) or 0
    found = rows_from(connection, "seq, crc, link, body", number, after + 1, first)
    page = found if limit is None else first_page(islice(found, limit), _body_size)
    stored = [_as_sealed(number, *each) for each in page]
    beyond = _seq_after(connection, number, stored[-1].seq) if limit is not None and stored else None
    if beyond is not None:  # the next record shows where these must end
        tip = Tip(seq=beyond - 1, epoch=0, link=stored[-1].link)
    start = stored[0].seq if stored else 1
    before = position_at(connection, number, start - 1)
    if before is None:
        return RecordRange(stored, record_format.chain_start(run), tip)
    link = connection.execute("select link from records where position = ?", (before,)).fetchone()[0]
    return RecordRange(stored, Tip(seq=start - 1, epoch=0, link=link), tip)


def _seq_after(connection: sqlite3.Connection, number: int, seq: int) -> int | None:
    after = (found for (found,) in rows_from(connection, "seq", number, seq) if found > seq)
    return next(after, None)


def _as_sealed(number: int, seq: int, crc: int, link: bytes, body: bytes) -> SealedRecord:
    return SealedRecord(seq=seq, crc=(crc ^ number) & 0xFFFF_FFFF, link=link, body=body)


def _body_size(row: Sequence[Any]) -> int:
    """The size of a row that ends with its body."""
    return len(row[-1])


def records_after(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, str, SealedRecord]]:
    found = connection.execute(
        "select position, runs.run, number, records.seq, records.crc, records.link, body"
        " from records join runs on runs.number = records.run where position > ? order by position limit ?",
        (position, limit),
    )
    return [(at, run, _as_sealed(*rest)) for at, run, *rest in first_page(found, _body_size)]


def records_of_run(
    connection: sqlite3.Connection, *, run: str, position: int, limit: int
) -> list[tuple[int, str, SealedRecord]]:
    """Of a run and all below it."""
    numbers = _numbers_of_tree(connection, run)
    found = _records_at(connection, numbers, islice(positions_after(connection, numbers, position), limit))
    return list(first_page(found, lambda each: len(each[2].body)))


def read_crew_body(connection: sqlite3.Connection, *, sha: str) -> bytes:
    found = connection.execute("select body from crews where sha = ?", (sha,)).fetchone()
    if found is None:
        raise CrewMissing(f"there is no crew with sha256 {sha} in the data folder; restore it from a backup")
    record_format.require_sha(sha, found[0])
    return bytes(found[0])
