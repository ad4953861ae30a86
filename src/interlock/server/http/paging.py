"""Pages of lists. A cursor is opaque, and marks where the next page starts; a limit is between 1 and 1,000."""

import base64
import binascii
import re
from collections.abc import Collection
from functools import partial
from typing import Annotated, Any

from fastapi import Query

from interlock.compose.interlock import Interlock
from interlock.compose.questions import read_with_complete_lists
from interlock.errors import RequestRefused, RunNotFound
from interlock.ids import is_run_id, root_of, run_of
from interlock.server.views import question_view, run_view

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=200, description="`next` of the page before.")]

# The largest number of a dead letter, or a time; larger ones do not fit the store's integers.
NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


def cursor_of(*parts: str) -> str:
    return base64.urlsafe_b64encode(" ".join(parts).encode()).decode().rstrip("=")


def run_of_cursor(cursor: str) -> str:
    (run, *more) = _decode_cursor(cursor) or [""]
    if more or not is_run_id(root_of(run)):
        raise _cursor_error()
    return run


def number_of_cursor(cursor: str) -> int:
    (text, *more) = _decode_cursor(cursor) or [""]
    if more or not NUMBER.fullmatch(text):
        raise _cursor_error()
    return int(text)


def _decode_cursor(cursor: str) -> list[str]:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").split(" ")
    except (binascii.Error, ValueError):
        return []


def _cursor_error() -> RequestRefused:
    return RequestRefused("cursor-not-found", "the cursor is not valid; start without it")


async def run_page(
    box: Interlock, status: str | None, crew: str | Collection[str] | None, limit: int, cursor: str | None
) -> dict[str, Any]:
    before = run_of_cursor(cursor) if cursor is not None else None
    try:
        rows = await box.journal.rows(status=status, crew=crew, limit=limit + 1, before=before, nested=False)
    except RunNotFound:
        raise RequestRefused("cursor-not-found", "the run of the cursor was deleted; start without it") from None
    more = len(rows) > limit
    page = rows[:limit]
    return {"runs": [run_view(row) for row in page], "next": cursor_of(page[-1].run) if more else None}


async def question_page(
    box: Interlock, limit: int, cursor: str | None, crews: Collection[str] | None = None
) -> dict[str, Any]:
    """A page of questions, the newest first. A cursor is a time and a token, so it is valid without its question.

    With `crews`, only questions of their runs; a page may then be short and still have a next one.
    """
    before = _question_position_of(cursor) if cursor is not None else None
    page = await read_with_complete_lists(box.store, box.crew_of, partial(box.store.open_questions, limit, before))
    last = (page[-1].since, page[-1].token) if page else None
    if crews is not None:
        page = [each for each in page if (await box.journal.row(root_of(each.run))).crew in crews]
    more = cursor_of(str(last[0]), last[1]) if last and await box.store.open_questions(1, last) else None
    return {"questions": [question_view(question, box.toolbox) for question in page], "next": more}


def _question_position_of(cursor: str) -> tuple[int, str]:
    since, *token = _decode_cursor(cursor) or [""]
    if len(token) != 1 or not NUMBER.fullmatch(since) or not is_run_id(root_of(run_of(token[0]))):
        raise _cursor_error()
    return int(since), token[0]
