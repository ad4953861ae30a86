"""Runs over HTTP: start, list, show, follow, answer, cancel, fork, explain."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.interlock import RunHandle
from interlock.engine.events import NO_CONTEXT, CrewContext
from interlock.errors import AlreadyResumed, AlreadyStarted, HostLacks, RequestRefused, RunExists
from interlock.runtime.replay import is_over
from interlock.server.answer_rights import require_right_to_hold
from interlock.server.auth import ApiCaller
from interlock.server.http.bodies import require_size
from interlock.server.http.idempotency import HEADER as IDEMPOTENCY_KEY
from interlock.server.http.idempotency import RequestResult
from interlock.server.http.list_responses import list_response
from interlock.server.http.paging import Cursor, Limit, run_page
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import (
    RUN_CHANGE_CODES,
    RUN_CODES,
    STREAM,
    Responses,
    refusals_of_read,
    refusals_of_write,
    run_links,
)
from interlock.server.service import Service, require_scope
from interlock.server.shapes.runs import (
    EventPage,
    Explanation,
    Fork,
    Resume,
    RunDetail,
    RunPage,
    SendMessage,
    SentMessage,
    StartRun,
    Status,
)
from interlock.server.streaming.positions import StreamPosition
from interlock.server.streaming.streams import accepts_event_stream, last_event_position
from interlock.server.views import detail_after_start, event_page_after, reason_pages, run_detail

RunId = Annotated[str, Path(description="The id of a run.", max_length=200)]

EVENTS_RESPONSE: Responses = {200: {"description": "Events, as a page or as a stream.", "content": STREAM}}
STARTED_RESPONSE: Responses = {
    201: {
        "description": "The run has started, and is stored.",
        "links": run_links("show_run", "run_events", "explain_run", "resume_run", "cancel_run", "fork_run"),
    }
}
SHOWN_RESPONSE: Responses = {
    200: {
        "description": "The run.",
        "links": {"answer": {"operationId": "answer_question", "parameters": {"message": "$response.body#/token"}}},
    }
}
NO_MORE_EVENTS: Responses = {
    204: {"description": "The run is over and the reader has seen all of it: do not reconnect."}
}


def json_response(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def runs_router(service: Service) -> APIRouter:
    router = strict_router("/v1/runs", "runs")
    _add_read_routes(router, service)
    _add_event_routes(router, service)
    _add_start_routes(router, service)
    _add_change_routes(router, service)
    _add_message_routes(router, service)
    return router


def _add_read_routes(router: APIRouter, service: Service) -> None:
    @router.get(
        "",
        response_model=RunPage,
        responses=refusals_of_read("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def list_runs(
        request: Request,
        status: Annotated[Status | None, Query(description="Only runs with this status.")] = None,
        crew: Annotated[str | None, Query(description="Only runs of this crew.", max_length=200)] = None,
        limit: Limit = 200,
        cursor: Cursor = None,
    ) -> Response:
        """List runs, the newest first."""
        return json_response(await run_page(service.box, status, _crew_filter(request, crew), limit, cursor))

    @router.get(
        "/{run}",
        response_model=RunDetail,
        responses={**refusals_of_read(*RUN_CODES), **SHOWN_RESPONSE},
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def show_run(request: Request, run: RunId) -> Response:
        """Show a run."""
        await service.require_run(request, run)
        return Response(await service.run_answers.answer_of(run), media_type="application/json")

    @router.get(
        "/{run}/explain",
        response_model=Explanation,
        responses=refusals_of_read(*RUN_CODES),
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def explain_run(request: Request, run: RunId) -> Response:
        """Explain a run and those below it: every decision with its candidates, also those that lost."""
        await service.require_run(request, run)
        pages = reason_pages(service.box, run)
        return await list_response("reasons", pages, service.redact, {"run": run})


def _add_event_routes(router: APIRouter, service: Service) -> None:
    @router.get(
        "/{run}/events",
        response_model=EventPage,
        responses={
            **refusals_of_read(*RUN_CODES, "bad-event-id", "event-ahead", "too-many-streams"),
            **EVENTS_RESPONSE,
            **NO_MORE_EVENTS,
        },
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def run_events(
        request: Request,
        run: RunId,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only events after this seq.")] = 0,
        limit: Limit = 200,
        follow: Annotated[bool, Query(description="A stream waits for new events.")] = True,
        deltas: Annotated[bool, Query(description="A stream includes the pieces of replies.")] = True,
    ) -> Response:
        """List events; with `Accept: text/event-stream`, stream them until the run is over."""
        await service.require_run(request, run)
        place = await last_event_position(request, service.box.store) or StreamPosition(0)
        if not accepts_event_stream(request):
            return json_response(await event_page_after(service.box.journal, run, after, limit))
        row = await service.run_answers.row_of(run)
        if is_over(row.status) and not await service.box.store.of_run(run, place.position, 1):
            return Response(status_code=204)
        crew = await service.box.crew_of(row)
        reader = service.streams.new_reader(place, run, deltas=deltas, after=after)
        keep_alive_s = crew.settings.sse_keep_alive_seconds
        return service.streams.open_stream(request.state.caller, reader, follow=follow, keep_alive_s=keep_alive_s)


def _add_start_routes(router: APIRouter, service: Service) -> None:
    box = service.box

    @router.post(
        "",
        status_code=201,
        response_model=RunDetail,
        responses={
            **STARTED_RESPONSE,
            **refusals_of_write(
                "crew-not-served", "unsound-crew", "usage-error", "too-many-queued", *RUN_CODES, "journal-diverged"
            ),
        },
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def start_run(request: Request, order: StartRun) -> Response:
        """Start a run of a crew; it does not depend on this request."""

        async def start(planned: str) -> RequestResult:
            run = box.run(planned)
            with suppress(AlreadyStarted, HostLacks):  # a server that died before it answered had started the run
                run = await _start_or_continue(service, request, order, planned)
            return RequestResult(await detail_after_start(box, run), 201)

        return await service.idempotency.run_once(request, start)

    @router.post(
        "/{run}/fork",
        status_code=201,
        response_model=RunDetail,
        responses={**STARTED_RESPONSE, **refusals_of_write(*RUN_CODES, *RUN_CHANGE_CODES, "cannot-fork")},
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def fork_run(request: Request, run: RunId, order: Fork) -> Response:
        """Start a new run that shares the past of another one up to a seq, and continues from there."""
        await service.require_run(request, run)

        async def fork(planned: str) -> RequestResult:
            with suppress(RunExists):
                await box.fork(run, order.after, new_id=planned)
            return RequestResult(await run_detail(box, planned), 201)

        return await service.idempotency.run_once(request, fork)


async def _start_or_continue(service: Service, request: Request, order: StartRun, planned: str) -> RunHandle:
    caller = request.state.caller
    crew = service.crews.require_sound_crew(order.crew, caller.crews)
    if order.continues is not None:
        await service.require_run(request, order.continues)
    require_size(len(request.state.body), 1024 * crew.settings.max_request_body_size_kb)
    # Only the run of a repeated request may have been started before.
    box, run_id = service.box, planned if IDEMPOTENCY_KEY in request.headers else None
    if order.continues is None:
        return await box.start(crew, order.input, run_id=run_id, context=_context_of(order), by=caller.by)
    if order.context is None:
        return await box.continue_run(crew, order.input, order.continues, run_id=run_id, by=caller.by)
    raise RequestRefused("bad-body", "a continued run has its context; give `continue` or `context`, not both")


def _add_change_routes(router: APIRouter, service: Service) -> None:
    @router.post(
        "/{run}/resume",
        response_model=RunDetail,
        responses=refusals_of_write(*RUN_CODES, *RUN_CHANGE_CODES, "not-waiting", "already-resumed", "input-refused"),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def resume_run(request: Request, run: RunId, order: Resume) -> Response:
        """Answer a wait of a run, or continue a run whose process is gone."""
        await service.require_run(request, run)
        caller: ApiCaller = request.state.caller

        async def resume(_: str) -> RequestResult:
            may_hold = await require_right_to_hold(service, caller, run, order.token, order.input)
            answering = service.box.resume(run, order.input, token=order.token, by=caller.by, may_hold=may_hold)
            return await resume_and_show_run(service, run, answering)

        return await service.idempotency.run_once(request, resume)

    @router.post(
        "/{run}/cancel",
        response_model=RunDetail,
        responses=refusals_of_write(*RUN_CODES, *RUN_CHANGE_CODES),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def cancel_run(request: Request, run: RunId) -> Response:
        """Cancel a run; one that is over stays as it is."""
        await service.require_run(request, run)

        async def cancel(_: str) -> RequestResult:
            await service.box.cancel(run, by=request.state.caller.by)
            return RequestResult(await run_detail(service.box, run))

        return await service.idempotency.run_once(request, cancel)


def _add_message_routes(router: APIRouter, service: Service) -> None:
    @router.post(
        "/{run}/messages",
        status_code=201,
        response_model=SentMessage,
        responses=refusals_of_write(*RUN_CODES, *RUN_CHANGE_CODES, "bad-message", "too-many-messages"),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def send_message(request: Request, run: RunId, order: SendMessage) -> Response:
        """Send a message of a type that the host registered to an agent of the run."""
        await service.require_run(request, run)

        async def send(planned: str) -> RequestResult:
            sent = await service.box.send_message(run, order.type, order.to, order.body, key=planned)
            return RequestResult({"message_id": sent}, 201)

        return await service.idempotency.run_once(request, send)


def _crew_filter(request: Request, crew: str | None) -> str | frozenset[str] | None:
    """The crews of a list: the given one, if the key may see it."""
    allowed: frozenset[str] | None = request.state.caller.crews
    if crew is None or allowed is None:
        return allowed if crew is None else crew
    return allowed & {crew}


def _context_of(order: StartRun) -> CrewContext:
    return CrewContext(**order.context.model_dump()) if order.context is not None else NO_CONTEXT


async def resume_and_show_run(service: Service, run: str, answering: Awaitable[RunHandle]) -> RequestResult:
    """Resumes a run. The same answer again gives the state of the run; another answer is refused."""
    try:
        await answering
    except AlreadyResumed as error:
        outcome = await run_detail(service.box, run)
        raise RequestRefused(error.code, str(error), outcome=outcome) from error
    return RequestResult(await run_detail(service.box, run))
