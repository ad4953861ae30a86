"""Pages of lists: a cursor is opaque, and says where to go on; a limit is between 1 and 1,000."""

import base64
import binascii
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Query

from interlock.compose.box import RUN_ID, Interlock
from interlock.errors import RequestRefused, RunNotFound
from interlock.ids import root_of
from interlock.ports import RunRow
from interlock.server.views import questions_of, run_view

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]

PAGE = 200


def cursor_of(*parts: str) -> str:
    return base64.urlsafe_b64encode(" ".join(parts).encode()).decode().rstrip("=")


def parts_of(cursor: str, count: int) -> list[str]:
    """The last of them is a run."""
    parts = _opened(cursor)
    if len(parts) != count or not RUN_ID.fullmatch(root_of(parts[-1])):
        raise _no_cursor()
    return parts


def number_of(cursor: str) -> int:
    (text, *more) = _opened(cursor) or [""]
    if more or not re.fullmatch(r"[1-9][0-9]{0,17}", text, re.ASCII):
        raise _no_cursor()
    return int(text)


def _opened(cursor: str) -> list[str]:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").split(" ")
    except (binascii.Error, ValueError):
        return []


def _no_cursor() -> RequestRefused:
    return RequestRefused("cursor-not-found", "the cursor is not one that was given out; begin without it")


async def run_page(
    box: Interlock, status: str | None, crew: str | None, limit: int, cursor: str | None
) -> dict[str, Any]:
    before = parts_of(cursor, 1)[0] if cursor is not None else None
    rows = await _rows(box, status, crew, limit + 1, before, nested=False)
    more = len(rows) > limit
    page = rows[:limit]
    return {"runs": [run_view(row) for row in page], "next": cursor_of(page[-1].run) if more else None}


async def question_page(box: Interlock, limit: int, cursor: str | None) -> dict[str, Any]:
    """Runs that go on while a part of them waits come first, then those that are paused; a run's are not torn apart."""
    found: list[dict[str, Any]] = []
    last: tuple[str, str] | None = None
    async for row in _waiting(box, cursor):
        if len(found) >= limit and last is not None:
            return {"questions": found, "next": cursor_of(*last)}
        found += await _questions(box, row)
        last = (row.status, row.run)
    return {"questions": found, "next": None}


async def _questions(box: Interlock, row: RunRow) -> list[dict[str, Any]]:
    try:
        return await questions_of(box, row)
    except RunNotFound:  # deleted meanwhile
        return []


async def _waiting(box: Interlock, cursor: str | None) -> AsyncIterator[RunRow]:
    begin, before = parts_of(cursor, 2) if cursor is not None else ("running", None)
    statuses = ("running", "paused")
    if begin not in statuses:
        raise RequestRefused("cursor-not-found", "the cursor is not one that was given out; begin without it")
    for status in statuses[statuses.index(begin) :]:
        while rows := await _rows(box, status, None, PAGE, before):
            for row in rows:
                yield row
            before = rows[-1].run
        before = None


async def _rows(
    box: Interlock, status: str | None, crew: str | None, limit: int, before: str | None, nested: bool | None = None
) -> list[RunRow]:
    try:
        return list(await box.journal.rows(status=status, crew=crew, limit=limit, before=before, nested=nested))
    except RunNotFound:
        raise RequestRefused(
            "cursor-not-found", "the run that the cursor stands at was deleted; begin without it"
        ) from None
