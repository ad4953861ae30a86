"""Dead letters of webhooks: list, retry, delete."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused
from interlock.ports import WebhookDelivery
from interlock.server.http.idempotency import RequestResult
from interlock.server.http.paging import Cursor, Limit, cursor_of, number_of_cursor
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import NO_CONTENT, refusals_of_delete, refusals_of_read, refusals_of_write
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.webhooks import DeadLetter, DeadLetters

Number = Annotated[int, Path(ge=1, le=2**53, description="The number of a dead letter.")]


def webhooks_router(service: Service) -> APIRouter:
    router = strict_router("/v1/engine/webhooks", "webhooks")
    _add_read_routes(router, service)
    _add_change_routes(router, service)
    return router


def _add_read_routes(router: APIRouter, service: Service) -> None:
    store = service.box.store

    @router.get(
        "/dead",
        response_model=DeadLetters,
        responses=refusals_of_read("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(require_scope("admin"))],
    )
    async def list_dead_letters(limit: Limit = 200, cursor: Cursor = None) -> Response:
        """List webhook deliveries that failed for good, the newest first."""
        before = number_of_cursor(cursor) if cursor is not None else None
        page = await store.dead_letters(limit, before)
        more = cursor_of(str(page[-1].number)) if page and await store.dead_letters(1, page[-1].number) else None
        return json_response({"letters": [_dead_letter_view(letter) for letter in page], "next": more})

    @router.get(
        "/dead/{number}",
        response_model=DeadLetter,
        responses=refusals_of_read("bad-parameter", "letter-not-found"),
        dependencies=[Depends(require_scope("admin"))],
    )
    async def show_dead_letter(number: Number) -> Response:
        """Show a dead letter, and why it failed."""
        return json_response(_dead_letter_view(_require_dead_letter(await store.dead_letter(number), number)))


def _add_change_routes(router: APIRouter, service: Service) -> None:
    store, clock = service.box.store, service.box.clock

    @router.post(
        "/dead/{number}/retry",
        response_model=DeadLetter,
        responses=refusals_of_write("letter-not-found"),
        dependencies=[Depends(require_scope("admin"))],
    )
    async def retry_dead_letter(request: Request, number: Number) -> Response:
        """Send a dead letter again, with all its tries; the answer is the letter as it was."""

        async def retry(_: str) -> RequestResult:
            return RequestResult(
                _dead_letter_view(_require_dead_letter(await store.retry_dead_letter(number, clock.now_ms()), number))
            )

        return await service.idempotency.run_once(request, retry)

    @router.delete(
        "/dead/{number}",
        status_code=204,
        responses={**NO_CONTENT, **refusals_of_delete("letter-not-found")},
        dependencies=[Depends(require_scope("admin"))],
    )
    async def discard_dead_letter(number: Number) -> Response:
        """Delete a dead letter: it is never sent."""
        if not await store.discard_dead_letter(number):
            raise _dead_letter_not_found(number)
        return Response(status_code=204)


def _require_dead_letter(letter: WebhookDelivery | None, number: int) -> WebhookDelivery:
    if letter is None:
        raise _dead_letter_not_found(number)
    return letter


def _dead_letter_not_found(number: int) -> RequestRefused:
    return RequestRefused("letter-not-found", f"there is no dead letter {number}; it was sent or deleted")


def _dead_letter_view(letter: WebhookDelivery) -> dict[str, object]:
    return {
        "number": letter.number,
        "hook": letter.hook,
        "key": letter.key,
        "attempts": letter.attempts,
        "error": letter.error,
        "died_at": letter.due_at,
        "body": msgspec.json.decode(letter.body),
    }
