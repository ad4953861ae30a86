"""The row of a run: its columns, their crc, and reading it.

Rule: a row carries a crc of all its columns, so a flipped bit is reported as damage instead of read as data.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.runs import tombstones
from interlock.adapters.store_rules.record_format import Tip
from interlock.engine.events import Usage
from interlock.errors import DamagedRun
from interlock.ports import RunRow

COLUMNS = (
    "run, crew, crew_sha, created_at, continues, organization, rules, format, private, owner, epoch, "
    "status, reason, agent, seq, updated_at, "
    "calls, input_tokens, output_tokens, cost_micros, link, unpriced_calls, "
    "cache_read_tokens, cache_write_tokens, reasoning_tokens"
)
FIXED = 11  # the first columns, which an append does not change
NEEDS = slice(6, 9)  # those that say what a process must know to drive the run
_FIRST_NEEDS = (1, 1, 0)
# An append, or filling, changes the rest. The status is apart because it is indexed and seldom changes.
UPDATE_ROW = (
    "update runs set reason = ?, agent = ?, seq = ?, updated_at = ?,"
    " calls = ?, input_tokens = ?, output_tokens = ?, cost_micros = ?, link = ?, unpriced_calls = ?,"
    " cache_read_tokens = ?, cache_write_tokens = ?, reasoning_tokens = ?, crc = ?"
    " where number = ? and owner = ? and epoch = ?"
)
UPDATE_STATUS = "update runs set status = ? where number = ?"
INSERT_RUN = f"insert into runs (number, {COLUMNS}, crc) values ({', '.join('?' * 27)})"  # noqa: S608 - constants
SELECT_RUN = f"select number, {COLUMNS}, crc from runs"  # noqa: S608 - constants

_encode = msgspec.json.Encoder().encode


class RunHead(NamedTuple):
    """A run's row: its number, `COLUMNS` in their order, and the crc of the columns that an append does not change."""

    number: int
    run: str
    crew: str
    crew_sha: str
    created_at: int
    continues: str
    organization: str
    rules: int
    format: int
    private: int
    owner: str
    epoch: int
    status: str
    reason: str
    agent: str
    seq: int
    updated_at: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    link: bytes
    unpriced_calls: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    fixed_crc: int

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.seq, epoch=self.epoch, link=self.link)

    @property
    def usage(self) -> Usage:
        return Usage(
            calls=self.calls,
            input_tokens=self.input_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
            output_tokens=self.output_tokens,
            reasoning_tokens=self.reasoning_tokens,
            cost_micros=self.cost_micros,
            unpriced_calls=self.unpriced_calls,
        )

    def row_update(self) -> tuple[Any, ...]:
        """The values of `UPDATE_ROW`."""
        return update_values(self.fixed_crc, self[FIXED + 1 : -1], self.number, self.owner, self.epoch)

    def with_changes(self, changing: tuple[Any, ...]) -> "RunHead":
        """The row with other values in the columns after `FIXED`."""
        return RunHead._make((*self[: FIXED + 1], *changing, self.fixed_crc))

    def as_row(self) -> RunRow:
        return RunRow(
            run=self.run,
            crew=self.crew,
            crew_sha=self.crew_sha,
            status=self.status,
            reason=self.reason,
            agent=self.agent,
            seq=self.seq,
            epoch=self.epoch,
            created_at=self.created_at,
            updated_at=self.updated_at,
            continues=self.continues,
            organization=self.organization,
            rules=self.rules,
            format=self.format,
            private=bool(self.private),
            usage=self.usage,
        )


def row_values(
    status: str, reason: str, agent: str, seq: int, updated_at: int, usage: Usage, link: bytes
) -> tuple[Any, ...]:
    """The columns after `FIXED`, in their order."""
    return (
        *(status, reason, agent, seq, updated_at),
        *(usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_micros, link, usage.unpriced_calls),
        *(usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens),
    )


def update_values(fixed_crc: int, changing: tuple[Any, ...], number: int, owner: str, epoch: int) -> tuple[Any, ...]:
    return (*changing[1:], crc_with_changing(fixed_crc, changing), number, owner, epoch)


def head_of(number: int, values: Sequence[Any]) -> RunHead:
    return RunHead._make((number, *values, _crc_of_fixed(number, values)))


def row_crc(number: int, values: Sequence[object]) -> int:
    """The crc of the row as JSON, in which no two rows look alike; signed, as SQLite stores that in four bytes."""
    return crc_with_changing(_crc_of_fixed(number, values), values[FIXED:])


def _crc_of_fixed(number: int, values: Sequence[object]) -> int:
    """The crc of the start of the row's JSON, up to the first column that an append changes.

    The columns of `NEEDS` are left out while they are as in the first version: rows older than them have the same crc.
    """
    fixed = values[:FIXED]
    if tuple(fixed[NEEDS]) == _FIRST_NEEDS:
        fixed = (*fixed[: NEEDS.start], *fixed[NEEDS.stop :])
    return crc32(_encode((number, *fixed))[:-1])


def crc_with_changing(fixed: int, changing: Sequence[object]) -> int:
    """The row's crc, from the crc of its start and the columns that follow.

    The last columns are left out while they are 0, those of cached and reasoned tokens together and `unpriced_calls`
    before them: rows older than these columns have the same crc.
    """
    if changing[-1] == changing[-2] == changing[-3] == 0:
        changing = changing[:-3] if changing[-4] else changing[:-4]
    return as_int32(crc32(b"," + _encode(changing)[1:], fixed))


def as_int32(crc: int) -> int:
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def head_from_row(found: Sequence[Any]) -> RunHead | None:
    """A row of `SELECT_RUN`; None if it is damaged."""
    number, values = found[0], found[1:-1]
    fixed_crc = _crc_of_fixed(number, values)
    if crc_with_changing(fixed_crc, values[FIXED:]) != int(found[-1]):
        return None
    return RunHead._make((number, *values, fixed_crc))


def read_stored_head(connection: sqlite3.Connection, run: str) -> RunHead:
    """The run's row, verified; `RunNotFound` or `DamagedRun`. It may be behind the newest records (`tail`)."""
    found = connection.execute(f"{SELECT_RUN} where run = ?", (run,)).fetchone()
    if found is None:
        raise tombstones.not_found_error(connection, run)
    head = head_from_row(found)
    if head is None:
        raise row_damage_error(run)
    return head


def row_damage_error(run: str) -> DamagedRun:
    return DamagedRun(run, "the crc of its row does not match")
