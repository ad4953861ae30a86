"""SQL that reads runs and their records."""

import datetime
from collections.abc import Collection
from typing import Any, NamedTuple

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.runs.run_head import (
    SELECT_RUN,
    PostgresRun,
    intact_run,
    read_stored_run,
    row_damage_error,
    runs_found,
)
from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.adapters.store_rules.record_format import Tip
from interlock.errors import CrewMissing
from interlock.ids import CHILD_MARK
from interlock.ports import RunRow, SealedRecord

RunPlace = tuple[datetime.date, int]  # month and number of a run, which find its records
PlacedRecord = tuple[int, str, SealedRecord]  # a record with its position and its run

_SELECT_PLACED = (
    "select position, runs.run, records.seq, records.crc, records.link, body"
    " from records join runs on runs.born = records.born and runs.number = records.run"
)
_BELOW = "(runs.run = %s or (runs.run > %s and runs.run < %s))"


def read_row(connection: PostgresConnection, *, run: str) -> RunRow:
    return read_stored_run(connection, run).as_row()


def read_rows(
    connection: PostgresConnection,
    *,
    status: str | None,
    crew: str | Collection[str] | None,
    limit: int,
    before: str | None,
    nested: bool | None,
) -> list[RunRow]:
    """Leaves out damaged rows: one must not hide the others. Reading that run, and the doctor, report it."""
    tests: dict[str, object] = {"status = %s": status, "(root <> run) = %s": nested}
    if isinstance(crew, str):
        tests["crew = %s"] = crew  # the indexes have the order of a single crew
    elif crew is not None:
        tests["crew = any (%s)"] = sorted(crew)
    tests = {test: value for test, value in tests.items() if value is not None}
    if before is not None:
        tests["number < %s"] = read_stored_run(connection, before).number
    condition = f"where {' and '.join(['intact', *tests])} order by number desc limit %s"
    return [found.as_row() for found in runs_found(connection, condition, [*tests.values(), limit])]


def rows_below(connection: PostgresConnection, *, run: str) -> list[RunRow]:
    found = runs_found(connection, "where intact and run > %s and run < %s order by number", ids_below(run))
    return [each.as_row() for each in found]


def names_below(connection: PostgresConnection, run: str) -> list[str]:
    """The ids of all runs below, also of damaged ones."""
    query = "select run from runs where run > %s and run < %s order by number"
    return [name for (name,) in connection.execute(query, ids_below(run)).fetchall()]


def ids_below(run: str) -> tuple[str, str]:
    """The bounds of the ids of its children, and of theirs."""
    return f"{run}{CHILD_MARK}", f"{run}{chr(ord(CHILD_MARK) + 1)}"


def tree_records(connection: PostgresConnection, *, run: str, after: int, position: int) -> list[PlacedRecord]:
    """The run's records from the one that holds the event after `after`, and later records of runs below it."""
    known = read_stored_run(connection, run)
    first = connection.execute(
        "select position from records where born = %s and run = %s and seq <= %s order by seq desc limit 1",
        (known.born, known.number, after + 1),
    ).fetchone()
    start = max(first[0] if first is not None else 0, position + 1)
    query = f"{_SELECT_PLACED} where position >= %s and {_BELOW} order by position"
    return _records_with_places(connection, query, (start, run, *ids_below(run)))


class TreeOfRuns(NamedTuple):
    """A run and all below it, not yet verified."""

    rows: list[RunRow]
    tips: list[Tip]
    records: list[tuple[int, SealedRecord]]


def read_tree_of_runs(connection: PostgresConnection, *, run: str) -> TreeOfRuns:
    known = [read_stored_run(connection, each) for each in (run, *names_below(connection, run))]
    places = {each.run: n for n, each in enumerate(known)}
    found = tree_records(connection, run=run, after=0, position=0)
    records = [(places[of], record) for _, of, record in found]
    return TreeOfRuns([each.as_row() for each in known], [each.tip for each in known], records)


class RecordStretch(NamedTuple):
    """The records of a run from one point to another, not yet verified."""

    stored: list[SealedRecord]
    after: Tip
    tip: Tip


# The row of a run, without a record, then its records, without a row: one statement, so both are of one moment.
_SELECT_JOURNAL = (
    f"with found as ({SELECT_RUN} where run = %s)"  # noqa: S608 - constants
    " select found.*, null::bigint as record_seq, null::bigint, null::bytea, null::bytea from found"
    f" union all select {', '.join(['null'] * len(PostgresRun._fields))},"
    " records.seq, records.crc, records.link, records.body"
    " from found join records on records.born = found.born and records.run = found.number"
    " order by record_seq nulls first"
).encode()


def read_journal(connection: PostgresConnection, *, run: str) -> tuple[RunRow, RecordStretch]:
    """The row of a run and all its records, in one statement; `DamagedRun`."""
    found = connection.execute(_SELECT_JOURNAL, (run,), binary=True).fetchall()
    width = len(PostgresRun._fields)
    known = intact_run(connection, run, [PostgresRun._make(found[0][:width])] if found else [])
    stored = [_as_sealed(*each[width:]) for each in found[1:]]
    return known.as_row(), RecordStretch(stored, record_format.chain_start(run), known.tip)


def read_stretch(
    connection: PostgresConnection, *, run: str, after: int = 0, limit: int | None = None
) -> RecordStretch:
    """Reads from the record that holds the event after `after` to the end, or to the limit; `DamagedRun`."""
    known = read_stored_run(connection, run)
    tip, here = known.tip, (known.born, known.number)
    if after >= tip.seq:
        return RecordStretch([], tip, tip)
    start = _start_of_stretch(connection, here, after) if after else 1
    last = None if limit is None else _end_of_page(connection, here, start, limit)
    found = connection.execute(
        "select seq, crc, link, body from records where born = %s and run = %s and seq >= %s"
        " and (%s::bigint is null or seq <= %s) order by seq",
        (*here, start, last, last),
        binary=True,
    ).fetchall()
    stored = [_as_sealed(*each) for each in found]
    beyond = _seq_after(connection, here, stored[-1].seq) if limit is not None and stored else None
    if beyond is not None:  # the next record shows where these must end
        tip = Tip(seq=beyond - 1, epoch=0, link=stored[-1].link)
    return RecordStretch(stored, _tip_before(connection, run, here, stored), tip)


def _start_of_stretch(connection: PostgresConnection, here: RunPlace, after: int) -> int:
    query = "select coalesce(max(seq), 1) from records where born = %s and run = %s and seq <= %s"
    found = connection.execute(query, (*here, after + 1)).fetchone()
    assert found is not None, "an aggregate has a row"
    return int(found[0])


def _end_of_page(connection: PostgresConnection, here: RunPlace, start: int, limit: int) -> int:
    """The seq of the last record of a page: sizes are read before bodies."""
    query = (
        "select seq, octet_length(body) from records where born = %s and run = %s and seq >= %s order by seq limit %s"
    )
    sizes = connection.execute(query, (*here, start, limit)).fetchall()
    page = list(first_page(sizes, lambda each: int(each[1])))
    return int(page[-1][0]) if page else start


def _seq_after(connection: PostgresConnection, here: RunPlace, seq: int) -> int | None:
    query = "select seq from records where born = %s and run = %s and seq > %s order by seq limit 1"
    found = connection.execute(query, (*here, seq)).fetchone()
    return int(found[0]) if found is not None else None


def _tip_before(connection: PostgresConnection, run: str, here: RunPlace, stored: list[SealedRecord]) -> Tip:
    """Where the chain stands before the first of some records."""
    start = stored[0].seq if stored else 1
    if start == 1:
        return record_format.chain_start(run)
    before = connection.execute(
        "select link from records where born = %s and run = %s and seq < %s order by seq desc limit 1",
        (*here, start),
        binary=True,
    ).fetchone()
    return record_format.chain_start(run) if before is None else Tip(seq=start - 1, epoch=0, link=before[0])


def records_after(connection: PostgresConnection, *, position: int, limit: int) -> list[PlacedRecord]:
    return _page(connection, "position > %s", (position,), limit)


def records_of_run(connection: PostgresConnection, *, run: str, position: int, limit: int) -> list[PlacedRecord]:
    read_stored_run(connection, run)
    return _page(connection, f"position > %s and {_BELOW}", (position, run, *ids_below(run)), limit)


def _page(connection: PostgresConnection, test: str, values: tuple[Any, ...], limit: int) -> list[PlacedRecord]:
    """Records in order, until they fill a page. The sizes are read first, so that no more bodies than that are."""
    sizes = connection.execute(
        "select position, octet_length(body) from records join runs"  # noqa: S608 - constants
        f" on runs.born = records.born and runs.number = records.run where {test} order by position limit %s".encode(),
        (*values, limit),
    ).fetchall()
    positions = [position for position, _ in first_page(sizes, lambda each: int(each[1]))]
    if not positions:
        return []
    query = f"{_SELECT_PLACED} where {test} and position <= %s order by position limit %s"
    return _records_with_places(connection, query, (*values, positions[-1], limit))


def _records_with_places(connection: PostgresConnection, query: str, values: tuple[Any, ...]) -> list[PlacedRecord]:
    found = connection.execute(query.encode(), values, binary=True).fetchall()
    return [(at, of, _as_sealed(*rest)) for at, of, *rest in found]


def _as_sealed(seq: int, crc: int, link: bytes, body: bytes) -> SealedRecord:
    return SealedRecord(seq=seq, crc=crc, link=link, body=body)


def newest_position(connection: PostgresConnection) -> int:
    found = connection.execute("select position from heads where name = 'records'").fetchone()
    return int(found[0]) if found is not None else 0


def read_crew_body(connection: PostgresConnection, *, sha: str) -> bytes:
    found = connection.execute("select body from crews where sha = %s", (sha,), binary=True).fetchone()
    if found is None:
        raise CrewMissing(f"there is no crew with sha256 {sha} in the store; restore it from a backup")
    record_format.require_sha(sha, found[0])
    return bytes(found[0])


def damage_in_run_rows(connection: PostgresConnection) -> list[str]:
    """The damaged rows, which `rows` leaves out."""
    found = connection.execute("select run from run_rows where not intact order by number").fetchall()
    return [str(row_damage_error(run)) for (run,) in found]
