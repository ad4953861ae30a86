"""SQL that adds and deletes whole runs and trees. Each function refuses before its first write."""

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from interlock.adapters.postgres.bus.bus_tables import PostgresBusTables
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.runs.run_head import PostgresRun, read_stored_run
from interlock.adapters.postgres.runs.run_queries import names_below
from interlock.adapters.postgres.runs.transitions import month_of, row_columns
from interlock.adapters.store_rules.record_format import Tip
from interlock.errors import OwnedElsewhere, RunExists
from interlock.ids import CHILD_MARK
from interlock.ports import RunRow, SealedRecord, SealedTree, Tombstone

_COLUMNS = (
    "run, root, crew, crew_sha, organization, born, created_at, continues, rules, format, private, owner, epoch,"
    " status, reason, agent, seq, updated_at, calls, input_tokens, output_tokens, cost_micros, unpriced_calls,"
    " cache_read_tokens, cache_write_tokens, reasoning_tokens"
)
_INSERT_RUN = (
    f"insert into runs ({_COLUMNS}, link) select {_COLUMNS}, %s from jsonb_populate_record(null::runs, %s)"  # noqa: S608 - constants
    " returning number, born"
)
_OF_RUN = ("questions", "unlisted", "spent", "outbox", "orders", "approvals", "revoked_approvals", "asides")


def add(connection: PostgresConnection, *, row: RunRow, records: Sequence[SealedRecord], tip: Tip) -> None:
    add_tree(connection, tree=SealedTree(rows=(row,), records=tuple((0, each) for each in records)), ends=[tip])


def add_tree(connection: PostgresConnection, *, tree: SealedTree, ends: Sequence[Tip]) -> None:
    """Adds the runs of a tree; their records get positions in the order of the tree."""
    connection.execute("select lock_store()")  # first: empty partitions are dropped under it
    for month in sorted({month_of(row.created_at) for row in tree.rows}):
        connection.execute("select make_partition(%s)", (month,))
    for row, tip in zip(tree.rows, ends, strict=True):
        _require_free(connection, row.run, tip)
    made = [_insert_run(connection, row, tip) for row, tip in zip(tree.rows, ends, strict=True)]
    query = "update heads set position = position + %s where name = 'records' returning position"
    found = connection.execute(query, (len(tree.records),)).fetchone()
    assert found is not None, "the row of records is made with the table"
    first = int(found[0]) - len(tree.records) + 1
    connection.cursor().executemany(
        "insert into records (born, run, seq, position, crc, link, body) values (%s, %s, %s, %s, %s, %b, %b)",
        [
            (made[of][1], made[of][0], record.seq, position, record.crc, record.link, record.body)
            for position, (of, record) in enumerate(tree.records, first)
        ],
    )
    connection.execute("select notify_others(null, 'bus claims orders')")


def _require_free(connection: PostgresConnection, run: str, tip: Tip) -> None:
    """`RunExists` unless the id is new, or belongs to a deleted run with the same end of its chain."""
    if connection.execute("select 1 from runs where run = %s", (run,)).fetchone() is not None:
        raise RunExists(run)
    query = "select seq, link from tombstones where run = %s"
    left = connection.execute(query, (run,), binary=True).fetchone()
    if left is not None and left != (tip.seq, tip.link):
        raise RunExists(run)


def _insert_run(connection: PostgresConnection, row: RunRow, tip: Tip) -> tuple[int, object]:
    """Number and month of a run that has no owner."""
    connection.execute("delete from tombstones where run = %s", (row.run,))
    values = (tip.link, Jsonb(row_columns(row, tip.seq, tip.epoch, None)))
    found = connection.execute(_INSERT_RUN, values).fetchone()
    assert found is not None, "an insert that returns has a row"
    if row.status in ("running", "paused"):
        connection.execute("insert into unlisted (run) values (%s) on conflict do nothing", (row.run,))
    return found[0], found[1]


def delete(connection: PostgresConnection, *, run: str, at: int, owner: int) -> Tombstone:
    connection.execute("select lock_store()")
    return _delete_all(connection, [run], at, owner)[0]


def delete_tree(connection: PostgresConnection, *, run: str, at: int, owner: int) -> list[Tombstone]:
    connection.execute("select lock_store()")  # first: a child that begins meanwhile goes too
    return _delete_all(connection, [run, *names_below(connection, run)], at, owner)


def _delete_all(connection: PostgresConnection, runs: Sequence[str], at: int, owner: int) -> list[Tombstone]:
    """The caller holds the lock of the store."""
    heads = [read_stored_run(connection, run, lock=True) for run in runs]
    for found in heads:
        _require_claimable(connection, found, owner)
    left = [_delete_one(connection, found, at) for found in heads]
    connection.execute("select notify_others(%s, 'bus orders')", (owner,))
    return left


def _require_claimable(connection: PostgresConnection, found: PostgresRun, owner: int) -> None:
    if found.owner is None or found.owner == owner:
        return
    if connection.execute("select is_gone(%s, %s)", (found.owner, owner)).fetchone() != (True,):
        raise OwnedElsewhere(found.run, str(found.owner))


def _delete_one(connection: PostgresConnection, found: PostgresRun, at: int) -> Tombstone:
    left = Tombstone(run=found.run, crew=found.crew, seq=found.seq, link=found.link, deleted_at=at)
    PostgresBusTables(connection).forget_run(found.run, found.number)
    connection.execute("select drop_records(%s, %s)", (found.born, found.number))
    connection.execute("delete from runs where number = %s", (found.number,))
    connection.execute(
        "insert into tombstones (run, crew, seq, link, deleted_at) values (%s, %s, %s, %s, %s)",
        (left.run, left.crew, left.seq, left.link, left.deleted_at),
    )
    for table in _OF_RUN:
        connection.execute(f"delete from {table} where run = %s".encode(), (found.run,))  # noqa: S608 - constants
    return left


def runs_finished_before(connection: PostgresConnection, *, before: int, after: str, limit: int) -> list[str]:
    query = (
        "select run from runs where run > %s and updated_at < %s and status not in ('running', 'paused')"
        " and strpos(run, %s) = 0 order by run limit %s"
    )
    return [run for (run,) in connection.execute(query, (after, before, CHILD_MARK, limit)).fetchall()]


def tombstones(connection: PostgresConnection) -> list[Tombstone]:
    query = "select run, crew, seq, link, deleted_at from tombstones order by deleted_at, run"
    found = connection.execute(query, binary=True).fetchall()
    return [
        Tombstone(run=run, crew=crew, seq=seq, link=link, deleted_at=deleted_at)
        for run, crew, seq, link, deleted_at in found
    ]


def expire_tombstones(connection: PostgresConnection, *, before: int) -> int:
    return connection.execute("delete from tombstones where deleted_at < %s", (before,)).rowcount
