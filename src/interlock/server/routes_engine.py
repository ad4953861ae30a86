"""Everything that happens, in one stream: a browser has few connections, and needs one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.documents import STREAM, Responses, looks
from interlock.server.places import Place
from interlock.server.service import Service, needs
from interlock.server.streams import last_place, require_reached
from interlock.server.strict import strict_router

ANSWER: Responses = {200: {"description": "A stream of events.", "content": STREAM}}


def engine_router(service: Service) -> APIRouter:
    router = strict_router("/v1/engine", "engine")

    @router.get(
        "/events",
        response_class=Response,
        responses={**looks("bad-parameter", "bad-event-id", "event-ahead", "too-many-streams"), **ANSWER},
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def engine_events(
        request: Request,
        after: Annotated[
            int | None, Query(ge=0, le=2**53, description="Begin after this position; without it, with what comes.")
        ] = None,
        follow: Annotated[bool, Query(description="Whether it waits for what comes.")] = True,
        deltas: Annotated[bool, Query(description="Whether it has the pieces of replies.")] = False,
    ) -> Response:
        """The events of all runs in the order of the store."""
        store = service.box.store
        place = await last_place(request, store)
        if place is None and after is not None:
            await require_reached(store, after, "after")
        if place is None:
            place = Place(await store.newest_position() if after is None else after)
        reader = service.streams.reader(place, deltas=deltas, crews=request.state.caller.crews)
        return service.streams.open(
            request.state.caller, reader, follow=follow, keep_alive_s=service.crews.keep_alive_s
        )

    return router
