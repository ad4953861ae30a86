"""The tables that a move takes from one store to another, and what a mark of a move refuses. Pure.

Rule: every table of every store is here, or the store's own part of the move says why it is not moved; a test compares
both with the schemas. Rows that name others come after them.
"""

from interlock.errors import StoreFailed
from interlock.ports.moving import MovedRow, MovedTable, MoveMark


def _table(name: str, key: str, others: str = "") -> MovedTable:
    return MovedTable(name, tuple(key.split()), tuple(others.split()))


# The columns of an owner are left out: no process has the store open, so nothing belongs to one.
MOVED_TABLES = (
    _table("crews", "sha", "body"),
    _table(
        "runs",
        "number",
        "run crew crew_sha created_at continues organization rules format private epoch status reason agent seq"
        " updated_at calls input_tokens output_tokens cost_micros link unpriced_calls cache_read_tokens"
        " cache_write_tokens reasoning_tokens",
    ),
    _table("records", "position", "run seq crc link presence body"),
    _table("tombstones", "run", "crew seq link deleted_at"),
    _table("counters", "crew scope window", "start calls tokens cost errors alerted"),
    _table("reservations", "key", "at tokens cost_micros alerts exceeded"),
    _table("outbox", "number", "key run body attempts due_at"),
    _table("orders", "number", "key run root kind body ordered_by at outcome"),
    # One a run, the newest: each held back a process that is gone.
    _table("set_asides", "run", "reason at tries again_at"),
    _table("questions", "token", "run since until body crc"),
    _table("unlisted", "run"),
    _table("spent", "run", "seq body crc"),
    _table("approvals", "id", "tool run at body"),
    _table("revoked_approvals", "id", "run at body"),
    _table("run_schedules", "id", "body"),
    _table("requests", "caller key", "fingerprint planned at status body"),
    _table("webhook_cursors", "hook", "position"),
    _table("webhook_letters", "number", "hook key body attempts due_at dead error"),
    _table("closed_sessions", "session", "until"),
    # The epochs continue: a process that led the old store never looks like the leader of the new one.
    _table("leaders", "name", "epoch"),
    # Workers of an older version are there after the move, too.
    _table("run_format", "only_one", "rules format"),
    _table("broadcasts", "position", "id hops crc body"),
    _table("lifecycle", "position", "crc body"),
    _table("subscriptions", "crew agent pattern", "silent origin"),
    _table("crew_heads", "crew", "sha"),
    _table("inbox", "crew agent broadcast", "taken"),
    _table("mailboxes", "crew agent", "unread"),
    _table("deliveries", "number", "crew agent broadcast attempts try_at"),
    _table("active", "crew agent run"),
    _table("announced", "crew agent", "start number"),
    _table("delayed", "number", "id type repeat_key due_at crc body"),
    _table("dead", "number", "id crew agent body"),
)


# A set-aside counts for one process; of each run the newest is moved.
NEWEST_SET_ASIDES = (
    "(select run, reason, at, tries, again_at from (select *, row_number() over"
    " (partition by run order by at desc, owner desc) as place from {}) as every where place = 1) as newest"
)


def clean_row(table: MovedTable, row: MovedRow) -> MovedRow:
    """A row without NUL in its texts, which PostgreSQL refuses. `StoreFailed` if its key has one."""
    if not any(type(value) is str and "\0" in value for value in row):
        return row
    if any(type(value) is str and "\0" in value for value in table.key_of(row)):
        raise StoreFailed(f"a row of '{table.name}' has a NUL in its key {table.key_of(row)!r}; no store can take it")
    return tuple([value.replace("\0", "\ufffd") if type(value) is str else value for value in row])


def require_not_moved(mark: MoveMark | None, store: str) -> None:
    """`StoreFailed` if a store was moved, or a move of it is not finished."""
    if mark is None:
        return
    if mark.state == "left":
        raise StoreFailed(f"'{store}' was moved to '{mark.other}'; use that store")
    how, again = ("to", f"FROM '{store}' TO '{mark.other}'")
    if mark.state == "arriving":
        how, again = ("from", f"FROM '{mark.other}' TO '{store}'")
    raise StoreFailed(
        f"a move of '{store}' {how} '{mark.other}' is not finished; end it with 'interlock store move' {again}"
    )
