"""An append that is one statement, without a transaction around it.

Rule 1: nothing else is written with the record. It is known before whether that is so; if not, nothing is tried.
Rule 2: the statement is fenced as every append is (`fenced_insert`). Besides, it adds nothing if another process has
committed since this one looked: every commit that changes something has a record, or is counted as one without. So what
is cached (who is active, who subscribes, how far the tail goes) is as of this statement.
Rule 3: where the statement adds nothing, the append is made in a transaction, which reads what has changed.
"""

import sqlite3

from interlock.adapters.crash_points import crash_point
from interlock.adapters.sqlite.bus.record_presence import presence_column
from interlock.adapters.sqlite.runs import tail
from interlock.adapters.sqlite.runs.fenced_insert import INSERT_LONE, insert_fenced, is_told
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.store_rules.bus_rules import PRESENCE_ONLY
from interlock.engine.flow.waits import agents_in_record
from interlock.ports import NO_BROADCASTS, NO_WRITES, AppendResult, AtomicWrites, Record, RunRow


def append_alone(
    connection: sqlite3.Connection, cache: WriterCache, row: RunRow, record: Record, body: bytes, also: AtomicWrites
) -> AppendResult | None:
    """Appends and commits; None with nothing written if that takes a transaction."""
    known, newest = cache.heads.get(row.run), cache.newest_known
    if (
        known is None
        or known.epoch != row.epoch
        or known.seq + 1 != record.seq
        or newest + 1 >= cache.filled + tail.TAIL_MAX
        or not (also is NO_WRITES or _has_only_presence(also))
    ):
        return None
    told = agents_in_record(record.events)
    if not is_told(known, row, record, len(body), told[1]):
        return None
    ended, begun, fence = also.ended, also.begun, (newest, cache.unrecorded)
    has_presence = bool(ended or begun)
    agents = cache.bus.agents_without_subscribers if has_presence else None
    if has_presence and agents is None:
        return None
    crash_point("before commit")
    if agents is None:
        position = insert_fenced(connection, INSERT_LONE, known, record, body, None, fence)
        is_news = False
    else:
        slept, woken = agents.change(row.crew, row.run, ended, begun)
        changed, position = slept + woken, None
        try:
            presence = presence_column(ended, begun, changed, known.number, record, told)
            position = insert_fenced(connection, INSERT_LONE, known, record, body, presence, fence)
        finally:
            if position is None:
                cache.bus.reset()  # it counts the presence of this record already
        if position is not None:
            agents.on_record(position, row.crew, row.run, ended, begun)
        is_news = any(changed)
    if position is None:
        return None
    known.row = row
    cache.newest = cache.newest_known = position
    cache.behind[row.run] = known
    return AppendResult(position, (), (), PRESENCE_ONLY if is_news else NO_BROADCASTS)


def _has_only_presence(also: AtomicWrites) -> bool:
    return (
        not (also.outgoing or also.approvals or also.orders or also.spending)
        and also.asking is None
        and not (also.heard or also.taken or also.put_back or also.handed_back or also.taking or also.broadcasts)
    )
