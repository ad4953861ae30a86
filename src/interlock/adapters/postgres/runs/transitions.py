"""Transitions: new runs and records, as arguments of the functions `create_runs` and `append_records`.

Rule 1: a batch is one statement, whatever it writes. Its answers come back in one go, refusals as well.
Rule 2: the link before a record is compared if this process knows it. The server computes the next one.
Rule 3: texts of people are cleaned of NUL, which PostgreSQL refuses; bodies are bytes, and stay as they are.
"""

import datetime
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from psycopg.types.json import Jsonb

from interlock.adapters.postgres.bus.record_writes import decode_answers, encode_writes
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules import record_format
from interlock.engine.events import Usage
from interlock.errors import AlreadyHeard, DamagedRun, NotOwner, OutOfOrder, RunDeleted, RunExists, RunNotFound
from interlock.ids import root_of
from interlock.ports import AppendResult, AtomicWrites, OpenQuestion, Record, RunRow

_encode = msgspec.json.Encoder().encode

_APPEND = (
    "select * from append_records(%(owner)s, %(runs)b::text[], %(epochs)b, %(seqs)b, %(lasts)b, %(links)b::bytea[],"
    " %(crcs)b, %(bodies)b, %(statuses)b::text[], %(reasons)b::text[], %(agents)b::text[], %(updated)b,"
    " %(usages)b, %(also)s::jsonb[], %(presence)s::json, %(bus)s::json, %(lines)b::bytea[], %(spending)s::json,"
    " %(rules)s::json)"
)
_CREATE = (
    "select * from create_runs(%s, %s, %b::bytea[], %b, %b, %s::jsonb[], %s,"
    " %s::json, %s::json, %b::bytea[], %s::json, %s::json)"
)

# Months before it are kept in one partition with it, and those far ahead with the last: both are mistakes of a clock.
_BORN_FIRST, _BORN_LAST = datetime.date(1970, 1, 1), datetime.date(2199, 12, 1)


class RunTransition(NamedTuple):
    """A record to store, with the row of its run and what is written with it. `owner` is None for a run of no process.

    `link` is the one before the record; None if this process does not know it.
    """

    row: RunRow
    record: Record
    body: bytes
    also: AtomicWrites
    link: bytes | None = None
    owner: int | None = None


class TransitionAnswer(NamedTuple):
    """A row of the SQL type `transition_answer`."""

    idx: int
    outcome: str
    seq: int | None
    position: int
    link: bytes
    detail: str
    grants: Any
    on_bus: Any


def append_records(
    connection: PostgresConnection, owner: int, batch: Sequence[RunTransition]
) -> list[TransitionAnswer]:
    """Appends in one statement; the answers are in the order of the batch."""
    rows, records = [each.row for each in batch], [each.record for each in batch]
    values = {
        "owner": owner,
        "runs": [row.run for row in rows],
        "epochs": [row.epoch for row in rows],
        "seqs": [record.seq for record in records],
        "lasts": [record.last_seq for record in records],
        "links": [each.link for each in batch],
        "crcs": [crc32(each.body) for each in batch],
        "bodies": [each.body for each in batch],
        "statuses": [clean(row.status) for row in rows],
        "reasons": [clean(row.reason) for row in rows],
        "agents": [clean(row.agent) for row in rows],
        "updated": [row.updated_at for row in rows],
        "usages": [value for row in rows for value in usage_columns(row.usage).values()],
        "also": [_encode_writes(each.also) for each in batch],
        **encode_writes([(each.row, each.record, each.also) for each in batch])._asdict(),
    }
    return _answers(connection.execute(_APPEND, values, binary=True).fetchall())


def create_runs(
    connection: PostgresConnection, owner: int, batch: Sequence[RunTransition], is_repeated: bool
) -> list[TransitionAnswer]:
    """Creates in one statement; the answers are in the order of the batch."""
    links = [record_format.next_link(record_format.first_link(each.row.run), each.body) for each in batch]
    values = (
        owner,
        Jsonb([row_columns(each.row, each.record.last_seq, each.row.epoch, each.owner) for each in batch]),
        links,
        [crc32(each.body) for each in batch],
        [each.body for each in batch],
        [_encode_writes(each.also, is_first=True) for each in batch],
        is_repeated,
        *encode_writes([(each.row, each.record, each.also) for each in batch]),
    )
    return _answers(connection.execute(_CREATE, values, binary=True).fetchall())


def _answers(rows: Sequence[tuple[Any, ...]]) -> list[TransitionAnswer]:
    return sorted([TransitionAnswer._make(row) for row in rows])


def result_of(transition: RunTransition, answer: TransitionAnswer) -> AppendResult | Exception:
    """The result for the caller, or its refusal."""
    if answer.outcome == "done":
        row, record, _, also, *_ = transition
        return decode_answers((row, record, also), answer.position, answer.grants, answer.on_bus)
    return _refusal_of(transition, answer)


def _refusal_of(transition: RunTransition, answer: TransitionAnswer) -> Exception:
    run = transition.row.run
    match answer.outcome:
        case "exists":
            return RunExists(run)
        case "heard":
            return AlreadyHeard(run, answer.detail)
        case "order":
            return OutOfOrder(run, answer.seq or 0, transition.record.seq)
        case "forked":
            return DamagedRun(run, f"the stored journal up to seq {answer.seq} is not the one that was appended")
        case other:
            return run_refusal(run, other)


def run_refusal(run: str, outcome: str) -> Exception:
    """The errors that all functions on a run share."""
    match outcome:
        case "missing":
            return RunNotFound(run)
        case "deleted":
            return RunDeleted(run)
        case "damaged":
            return DamagedRun(run, "the crc of its row does not match")
        case _:
            assert outcome == "fenced", "the functions know no other outcome"
            return NotOwner(run)


def row_columns(row: RunRow, seq: int, epoch: int, owner: int | None) -> dict[str, Any]:
    """The columns of a new run by their names, but its link."""
    return {
        "run": row.run,
        "root": root_of(row.run),
        "crew": row.crew,
        "crew_sha": row.crew_sha,
        "organization": row.organization,
        "born": month_of(row.created_at).isoformat(),
        "created_at": row.created_at,
        "continues": row.continues,
        "rules": row.rules,
        "format": row.format,
        "private": row.private,
        "owner": owner,
        "epoch": epoch,
        "status": clean(row.status),
        "reason": clean(row.reason),
        "agent": clean(row.agent),
        "seq": seq,
        "updated_at": row.updated_at,
        **usage_columns(row.usage),
    }


def usage_columns(usage: Usage) -> dict[str, int]:
    """In the order that `append_records` reads them in."""
    return {
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_micros": usage.cost_micros,
        "unpriced_calls": usage.unpriced_calls,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def month_of(at: int) -> datetime.date:
    """The month of a time in milliseconds, which names the partition of a run's records."""
    try:
        day = datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).date().replace(day=1)
    except (OverflowError, ValueError, OSError):
        return _BORN_LAST
    return min(max(day, _BORN_FIRST), _BORN_LAST)


def clean(text: str) -> str:
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _encode_writes(also: AtomicWrites, *, is_first: bool = False) -> str | None:
    """`p_also` of `apply_writes`, and what a run starts with; None if there is nothing to write."""
    writes: dict[str, Any] = {}
    if also.outgoing:
        writes["outgoing"] = [{"key": each.key, "run": each.run, "body": _base64(each.body)} for each in also.outgoing]
    if also.asking is not None:
        writes["asking"] = {"run": also.asking.run, "questions": question_columns(also.asking.questions)}
    if also.approvals:
        writes["approvals"] = [
            {"id": each.id, "tool": each.tool, "run": each.run, "at": each.at, "body": _base64(_encode(each))}
            for each in also.approvals
        ]
    if also.orders:
        writes["orders"] = [{"key": key, "outcome": _base64(_encode(outcome))} for key, outcome in also.orders]
    if is_first and also.heard:
        writes["heard"] = also.heard
    return _encode(writes).decode() if writes else None


def question_columns(questions: Sequence[OpenQuestion]) -> list[dict[str, Any]]:
    """`p_questions` of `store_questions`."""
    bodies = [(each, _encode(each)) for each in questions]
    return [
        {
            "token": each.token,
            "run": each.run,
            "since": each.since,
            "until": each.until,
            "body": _base64(body),
            "crc": crc32(body),
        }
        for each, body in bodies
    ]


def _base64(body: bytes) -> str:
    return b64encode(body).decode()
