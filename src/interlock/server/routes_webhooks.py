"""Letters that webhooks did not take: to look at, and to try again."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused
from interlock.ports import Letter
from interlock.server.documents import does, looks, operation_id
from interlock.server.once import Answer
from interlock.server.paging import Limit
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import DeadLetter, DeadLetters

Number = Annotated[int, Path(ge=1, le=2**53, description="The number of a dead letter.")]


def webhooks_router(service: Service) -> APIRouter:
    router = APIRouter(generate_unique_id_function=operation_id, prefix="/v1/engine/webhooks", tags=["webhooks"])
    store, clock = service.box.store, service.box.clock

    @router.get(
        "/dead", response_model=DeadLetters, responses=looks("bad-parameter"), dependencies=[Depends(needs("admin"))]
    )
    async def list_dead_letters(limit: Limit = 200) -> Response:
        """What webhooks did not take however often it was tried, the newest first."""
        return json_answer({"letters": [_view(letter) for letter in await store.dead_letters(limit)]})

    @router.post(
        "/dead/{number}/retry",
        response_model=DeadLetter,
        responses=does("letter-not-found"),
        dependencies=[Depends(needs("admin"))],
    )
    async def retry_dead_letter(request: Request, number: Number) -> Response:
        """Sends a dead letter again, as if for the first time."""

        async def retry(_: str) -> Answer:
            letter = await store.dead_letter(number)
            if letter is None:
                raise RequestRefused("letter-not-found", f"there is no dead letter {number}")
            again = msgspec.structs.replace(letter, attempts=0, due_at=clock.now_ms(), dead=False)
            await store.put_off(again)
            return Answer(_view(again))

        return await service.once.answer(request, retry)

    return router


def _view(letter: Letter) -> dict[str, object]:
    return {
        "number": letter.number,
        "hook": letter.hook,
        "key": letter.key,
        "attempts": letter.attempts,
        "error": letter.error,
        "body": msgspec.json.decode(letter.body),
    }
