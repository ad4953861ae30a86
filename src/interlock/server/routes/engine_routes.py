"""The events of all runs in one stream: a browser has few connections, and needs only one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import STREAM, Responses, refusals_of_read
from interlock.server.service import Service, require_scope
from interlock.server.streaming.positions import StreamPosition
from interlock.server.streaming.streams import last_event_position, require_reached

STREAM_RESPONSE: Responses = {200: {"description": "A stream of events.", "content": STREAM}}


def engine_router(service: Service) -> APIRouter:
    router = strict_router("/v1/engine", "engine")

    @router.get(
        "/events",
        response_class=Response,
        responses={
            **refusals_of_read("bad-parameter", "bad-event-id", "event-ahead", "too-many-streams"),
            **STREAM_RESPONSE,
        },
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def engine_events(
        request: Request,
        after: Annotated[
            int | None, Query(ge=0, le=2**53, description="Start after this position; without it, with new events.")
        ] = None,
        follow: Annotated[bool, Query(description="Wait for new events.")] = True,
        deltas: Annotated[bool, Query(description="Include the pieces of replies.")] = False,
    ) -> Response:
        """Stream the events of all runs, in the order of the store."""
        store = service.box.store
        place = await last_event_position(request, store)
        if place is None and after is not None:
            await require_reached(store, after, "after")
        if place is None:
            place = StreamPosition(await store.newest_position() if after is None else after)
        reader = service.streams.new_reader(place, deltas=deltas, crews=request.state.caller.crews)
        return service.streams.open_stream(
            request.state.caller, reader, follow=follow, keep_alive_s=service.crews.keep_alive_s
        )

    return router
