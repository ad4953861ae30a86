"""The row of a run as it is read."""

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.record_format import Tip
from interlock.engine.events import Usage
from interlock.errors import DamagedRun, RunDeleted, RunNotFound
from interlock.ports import RunRow


class PostgresRun(NamedTuple):
    """Columns of the view `run_rows`; `intact` is False if the row's crc does not match."""

    number: int
    born: datetime.date
    run: str
    crew: str
    crew_sha: str
    organization: str
    created_at: int
    continues: str
    rules: int
    format: int
    private: bool
    owner: int | None
    epoch: int
    status: str
    reason: str
    agent: str
    seq: int
    updated_at: int
    link: bytes
    calls: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    unpriced_calls: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    intact: bool

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.seq, epoch=self.epoch, link=self.link)

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
            private=self.private,
            usage=Usage(
                calls=self.calls,
                input_tokens=self.input_tokens,
                cache_read_tokens=self.cache_read_tokens,
                cache_write_tokens=self.cache_write_tokens,
                output_tokens=self.output_tokens,
                reasoning_tokens=self.reasoning_tokens,
                cost_micros=self.cost_micros,
                unpriced_calls=self.unpriced_calls,
            ),
        )


SELECT_RUN = f"select {', '.join(PostgresRun._fields)} from run_rows"  # noqa: S608 - constants


def runs_found(
    connection: PostgresConnection, condition: str, values: Sequence[Any] | dict[str, Any] = ()
) -> list[PostgresRun]:
    """The rows that meet a condition, damaged ones too."""
    found = connection.execute(f"{SELECT_RUN} {condition}".encode(), values, binary=True).fetchall()
    return [PostgresRun._make(each) for each in found]


def read_stored_run(connection: PostgresConnection, run: str, *, lock: bool = False) -> PostgresRun:
    """The run's row, verified; `RunNotFound` or `DamagedRun`. With `lock` no other process can change it."""
    if lock:
        connection.execute("select 1 from runs where run = %s for update", (run,))
    return intact_run(connection, run, runs_found(connection, "where run = %s", (run,)))


def intact_run(connection: PostgresConnection, run: str, found: Sequence[PostgresRun]) -> PostgresRun:
    """The row that was found for a run; `RunNotFound` or `DamagedRun`."""
    if not found:
        raise not_found_error(connection, run)
    if not found[0].intact:
        raise row_damage_error(run)
    return found[0]


def not_found_error(connection: psycopg.Connection[tuple[Any, ...]], run: str) -> RunNotFound:
    """The error for a run that does not exist: deleted, or never there."""
    deleted = connection.execute("select 1 from tombstones where run = %s", (run,)).fetchone()
    return RunDeleted(run) if deleted else RunNotFound(run)


def row_damage_error(run: str) -> DamagedRun:
    return DamagedRun(run, "the crc of its row does not match")
