"""Letters that webhooks did not take: to look at, to try again, and to throw away."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused
from interlock.ports import Letter
from interlock.server.documents import GONE, does, looks, takes_away
from interlock.server.once import Answer
from interlock.server.paging import Cursor, Limit, cursor_of, number_of
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import DeadLetter, DeadLetters
from interlock.server.strict import strict_router

Number = Annotated[int, Path(ge=1, le=2**53, description="The number of a dead letter.")]


def webhooks_router(service: Service) -> APIRouter:
    router = strict_router("/v1/engine/webhooks", "webhooks")
    _add_looking(router, service)
    _add_doing(router, service)
    return router


def _add_looking(router: APIRouter, service: Service) -> None:
    store = service.box.store

    @router.get(
        "/dead",
        response_model=DeadLetters,
        responses=looks("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(needs("admin"))],
    )
    async def list_dead_letters(limit: Limit = 200, cursor: Cursor = None) -> Response:
        """What webhooks did not take however often it was tried, the newest first."""
        before = number_of(cursor) if cursor is not None else None
        page = await store.dead_letters(limit, before)
        more = cursor_of(str(page[-1].number)) if page and await store.dead_letters(1, page[-1].number) else None
        return json_answer({"letters": [_view(letter) for letter in page], "next": more})

    @router.get(
        "/dead/{number}",
        response_model=DeadLetter,
        responses=looks("bad-parameter", "letter-not-found"),
        dependencies=[Depends(needs("admin"))],
    )
    async def show_dead_letter(number: Number) -> Response:
        """A dead letter, and why it is dead."""
        return json_answer(_view(_found(await store.dead_letter(number), number)))


def _add_doing(router: APIRouter, service: Service) -> None:
    store, clock = service.box.store, service.box.clock

    @router.post(
        "/dead/{number}/retry",
        response_model=DeadLetter,
        responses=does("letter-not-found"),
        dependencies=[Depends(needs("admin"))],
    )
    async def retry_dead_letter(request: Request, number: Number) -> Response:
        """Sends a dead letter again, as if for the first time; the answer is how it was."""

        async def retry(_: str) -> Answer:
            return Answer(_view(_found(await store.send_again(number, clock.now_ms()), number)))

        return await service.once.answer(request, retry)

    @router.delete(
        "/dead/{number}",
        status_code=204,
        responses={**GONE, **takes_away("letter-not-found")},
        dependencies=[Depends(needs("admin"))],
    )
    async def discard_dead_letter(number: Number) -> Response:
        """Throws a dead letter away: it will never be sent."""
        if not await store.discard(number):
            raise _no_letter(number)
        return Response(status_code=204)


def _found(letter: Letter | None, number: int) -> Letter:
    if letter is None:
        raise _no_letter(number)
    return letter


def _no_letter(number: int) -> RequestRefused:
    return RequestRefused("letter-not-found", f"there is no dead letter {number}; it was sent or thrown away")


def _view(letter: Letter) -> dict[str, object]:
    return {
        "number": letter.number,
        "hook": letter.hook,
        "key": letter.key,
        "attempts": letter.attempts,
        "error": letter.error,
        "died_at": letter.due_at,
        "body": msgspec.json.decode(letter.body),
    }
