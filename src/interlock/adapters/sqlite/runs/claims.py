"""SQL on runs that wait for a driver: claimed in batches, or set aside."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from interlock.adapters.sqlite.runs import run_rows
from interlock.adapters.sqlite.runs.run_head import read_stored_head
from interlock.adapters.sqlite.runs.tail import read_run_head
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.claim_rules import (
    WaitingRun,
    forgets_set_asides_before,
    in_fair_order,
    next_set_aside,
)
from interlock.errors import DamagedRun
from interlock.ids import CHILD_MARK
from interlock.ports import ClaimedRun, ClaimRequest, SetAside

# Runs that wait, by status; each has an index on owners, which SQLite does not choose by itself.
_RUNNING, _SET_ASIDE = "runs.status = 'running'", "(runs.status = 'paused' and runs.reason = 'set_aside')"

_COLUMNS = "set_asides.run, set_asides.owner, set_asides.reason, set_asides.at, tries, again_at"

IsAlive = Callable[[str], bool]


def find_claimable(
    connection: sqlite3.Connection, *, request: ClaimRequest, owner: str, is_alive: IsAlive
) -> Sequence[WaitingRun]:
    """The runs that this process could claim, in the order in which it is to claim them."""
    waiting = [
        each
        for status, index in ((_RUNNING, "runs_by_owner"), (_SET_ASIDE, "runs_set_aside"))
        for free in _free_owners(connection, f"{index} where {status}", owner, is_alive)
        for each in _waiting_runs(connection, status, free, request)
        if free != owner or each.run not in request.driven
    ]
    resting = _resting_runs(connection, owner, request.at) if waiting else set()
    free_runs = [each for each in waiting if each.run not in resting]
    return in_fair_order(free_runs, _driven_runs(connection, is_alive), request.weights) if free_runs else ()


def _free_owners(connection: sqlite3.Connection, where: str, owner: str, is_alive: IsAlive) -> list[str]:
    """No owner, this process, and owners that are dead; found by one step in the index for each owner."""
    query = f"select owner from runs indexed by {where} and owner > ? order by owner limit 1"  # noqa: S608 - constants
    found, last = [""], ""
    while (row := connection.execute(query, (last,)).fetchone()) is not None:
        (last,) = row
        if last == owner or not is_alive(last):
            found.append(last)
    return found


def _waiting_runs(connection: sqlite3.Connection, status: str, owner: str, request: ClaimRequest) -> list[WaitingRun]:
    conditions = [f"{status} and owner = ? and private = 0 and rules <= ? and format <= ? and instr(run, ?) = 0"]
    values = [owner, request.rules, request.format, CHILD_MARK]
    for column, names in (("crew", request.crews), ("organization", request.organizations)):
        if names is not None:
            conditions.append(f"{column} in (select value from json_each(?))")  # noqa: S608 - constants
            values.append(msgspec.json.encode(sorted(names)).decode())
    query = f"select number, run, organization, crew from runs where {' and '.join(conditions)}"  # noqa: S608 - constants
    return [WaitingRun(*found) for found in connection.execute(query, values).fetchall()]


def _driven_runs(connection: sqlite3.Connection, is_alive: IsAlive) -> Counter[tuple[str, str]]:
    """How many runs of each organization and crew a living process drives; children do not count."""
    query = (
        f"select owner, organization, crew, count(*) from runs where {_RUNNING} and owner > ''"  # noqa: S608 - constants
        " and instr(run, ?) = 0 group by 1, 2, 3"
    )
    found, alive = Counter[tuple[str, str]](), dict[str, bool]()
    for owner, organization, crew, count in connection.execute(query, (CHILD_MARK,)):
        if owner not in alive:
            alive[owner] = is_alive(owner)
        found[organization, crew] += count if alive[owner] else 0
    return found


def _resting_runs(connection: sqlite3.Connection, owner: str, at: int) -> set[str]:
    """The runs that this process has set aside, and whose time has not come."""
    query = (
        f"select run from set_asides where owner = ? and at <= ? and again_at > ? and {intact_condition('set_asides')}"  # noqa: S608 - constants
    )
    return {run for (run,) in connection.execute(query, (owner, at, at)).fetchall()}


def claim_each(
    connection: sqlite3.Connection,
    cache: WriterCache,
    waiting: Sequence[WaitingRun],
    limit: int,
    owner: str,
    folder: Path,
) -> list[ClaimedRun]:
    claimed: list[ClaimedRun] = []
    for each in waiting:
        if len(claimed) == limit:
            break
        try:
            claimed.append(run_rows.claim(connection, cache, run=each.run, owner=owner, folder=folder))
        except DamagedRun:  # it is reported to those who read it, and must not hide the others
            continue
    return claimed


def set_aside(connection: sqlite3.Connection, *, run: str, owner: str, reason: str, at: int) -> SetAside:
    read_stored_head(connection, run)
    query = "delete from set_asides where run = ? and again_at < ?"
    connection.execute(query, (run, forgets_set_asides_before(at)))
    query = f"select {_COLUMNS} from set_asides where run = ? and owner = ? and {intact_condition('set_asides')}"  # noqa: S608 - constants
    found = connection.execute(query, (run, owner)).fetchone()
    new = next_set_aside(_from_row(found) if found else None, run=run, owner=owner, reason=reason, at=at)
    connection.execute(
        "insert or replace into set_asides (run, owner, reason, at, tries, again_at) values (?, ?, ?, ?, ?, ?)",
        (new.run, new.owner, new.reason, new.at, new.tries, new.again_at),
    )
    return new


def set_asides(connection: sqlite3.Connection, *, limit: int, is_alive: IsAlive) -> list[SetAside]:
    query = (
        f"select {_COLUMNS}, runs.owner from set_asides join runs using (run)"  # noqa: S608 - constants
        " where runs.status in ('running', 'paused')"
        f" and {intact_condition('set_asides')} order by set_asides.at desc, set_asides.run, set_asides.owner desc"
    )
    found: dict[str, SetAside] = {}
    for *columns, owner in connection.execute(query):
        aside = _from_row(columns)
        if not is_alive(owner) and read_run_head(connection, aside.run).updated_at <= aside.at:
            found.setdefault(aside.run, aside)
        if len(found) == limit:
            break
    return list(found.values())


def _from_row(found: Sequence[object]) -> SetAside:
    return msgspec.convert(dict(zip(SetAside.__struct_fields__, found, strict=True)), SetAside)
