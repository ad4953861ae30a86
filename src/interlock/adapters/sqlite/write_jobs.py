"""Jobs of the writer: a piece of work, and the future of the task that waits for its commit."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from interlock.adapters.sqlite.failures import FOREIGN, is_locked, store_failure_of
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.errors import RunError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection, WriterCache], T]

# The most bytes in one transaction of the thread, so that the first job does not wait for seconds of writing; and what
# a job counts besides its size.
GROUP_BYTES = 8 * 1024 * 1024
JOB_BYTES = 1024


class WriteJob(msgspec.Struct):
    """A piece of work, and the future of the task that waits for it."""

    doing: str
    work: Work[Any]
    future: asyncio.Future[Any]
    size: int


class JobOutcome(msgspec.Struct):
    """`result` is the result of the work, or the exception for its caller."""

    job: WriteJob
    result: Any


def result_of(work: Work[Any], connection: sqlite3.Connection, cache: WriterCache) -> Any:
    """The result of the work, or its refusal."""
    try:
        return work(connection, cache)
    except RunError as refusal:
        return refusal


def error_for_job(job: WriteJob, error: Exception) -> Exception:
    """The error for the caller of one job, from an error of the whole transaction."""
    if not isinstance(error, FOREIGN):
        return error
    failure = store_failure_of(job.doing, error)
    failure.__cause__ = error
    return failure


def is_locked_out(outcome: JobOutcome) -> bool:
    return isinstance(outcome.result, Exception) and is_locked(outcome.result.__cause__)


def size_of(jobs: list[WriteJob]) -> int:
    return sum([job.size for job in jobs])


def take_group(left: deque[WriteJob]) -> list[WriteJob]:
    """Takes the first jobs, as many as fit into one transaction."""
    jobs, size = list[WriteJob](), 0
    while left and size < GROUP_BYTES:
        jobs.append(left.popleft())
        size += JOB_BYTES + jobs[-1].size
    return jobs


def resolve_on_loops(outcomes: list[JobOutcome], resolve: Callable[[list[JobOutcome]], None]) -> None:
    """Calls `resolve` in each loop once, however many of its tasks wait."""
    by_loop: dict[asyncio.AbstractEventLoop, list[JobOutcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.future.get_loop(), []).append(outcome)
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(resolve, its)


def resolve_futures(outcomes: list[JobOutcome]) -> int:
    """Tells the callers; returns how many of them were cancelled meanwhile."""
    unheard = 0
    for each in outcomes:
        future, result = each.job.future, each.result
        if future.done():
            unheard += 1
        elif isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
    return unheard
