"""Runs over HTTP: start, list, look, follow, answer, cancel, fork, explain."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.box import RunHandle
from interlock.engine.events import NO_CONTEXT, CrewContext
from interlock.errors import AlreadyResumed, RequestRefused, RunExists
from interlock.runtime.runner import is_over
from interlock.server.bodies import require_size
from interlock.server.documents import MOVING_RUN, OF_RUN, STREAM, Responses, does, leads_to, looks
from interlock.server.list_answers import list_answer
from interlock.server.once import Answer
from interlock.server.paging import Cursor, Limit, run_page
from interlock.server.places import Place
from interlock.server.service import Service, needs
from interlock.server.shapes import (
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
from interlock.server.streams import last_place, wants_stream
from interlock.server.strict import strict_router
from interlock.server.views import events_after, reason_pages, run_detail

RunId = Annotated[str, Path(description="The id of a run.", max_length=200)]

SSE: Responses = {200: {"description": "Events, as a page or as a stream.", "content": STREAM}}
STARTED: Responses = {
    201: {
        "description": "The run has started, and is stored.",
        "links": leads_to("show_run", "run_events", "explain_run", "resume_run", "cancel_run", "fork_run"),
    }
}
SHOWN: Responses = {
    200: {
        "description": "How the run stands.",
        "links": {"answer": {"operationId": "answer_question", "parameters": {"message": "$response.body#/token"}}},
    }
}
NOTHING_MORE: Responses = {204: {"description": "The run is over and the reader has seen all of it: do not come back."}}


def json_answer(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def runs_router(service: Service) -> APIRouter:
    router = strict_router("/v1/runs", "runs")
    _add_looking(router, service)
    _add_following(router, service)
    _add_starting(router, service)
    _add_moving(router, service)
    _add_messages(router, service)
    return router


def _add_looking(router: APIRouter, service: Service) -> None:
    @router.get(
        "",
        response_model=RunPage,
        responses=looks("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def list_runs(
        request: Request,
        status: Annotated[Status | None, Query(description="Only runs that stand so.")] = None,
        crew: Annotated[str | None, Query(description="Only runs of this crew.", max_length=200)] = None,
        limit: Limit = 200,
        cursor: Cursor = None,
    ) -> Response:
        """The newest runs first."""
        return json_answer(await run_page(service.box, status, _crews(request, crew), limit, cursor))

    @router.get(
        "/{run}",
        response_model=RunDetail,
        responses={**looks(*OF_RUN), **SHOWN},
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def show_run(request: Request, run: RunId) -> Response:
        """How a run stands."""
        await service.require_run(request, run)
        return json_answer(await run_detail(service.box, run))

    @router.get(
        "/{run}/explain",
        response_model=Explanation,
        responses=looks(*OF_RUN),
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def explain_run(request: Request, run: RunId) -> Response:
        """Why a run and those below it went as they did: every decision with its candidates and the ones that lost."""
        await service.require_run(request, run)
        pages = reason_pages(service.box, run)
        return await list_answer("reasons", pages, service.redact, {"run": run})


def _add_following(router: APIRouter, service: Service) -> None:
    @router.get(
        "/{run}/events",
        response_model=EventPage,
        responses={**looks(*OF_RUN, "bad-event-id", "event-ahead", "too-many-streams"), **SSE, **NOTHING_MORE},
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def run_events(
        request: Request,
        run: RunId,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only events after this seq.")] = 0,
        limit: Limit = 200,
        follow: Annotated[bool, Query(description="Whether a stream waits for what comes.")] = True,
        deltas: Annotated[bool, Query(description="Whether a stream has the pieces of replies.")] = True,
    ) -> Response:
        """A page of events; with `Accept: text/event-stream` a stream of them, until the run is over."""
        await service.require_run(request, run)
        place = await last_place(request, service.box.store) or Place(0)
        if not wants_stream(request):
            return json_answer(await events_after(service.box.journal, run, after, limit))
        row = await service.box.journal.row(run)
        if is_over(row.status) and not await service.box.store.of_run(run, place.position, 1):
            return Response(status_code=204)
        crew = await service.box.crew_of(row)
        reader = service.streams.reader(place, run, deltas=deltas, after=after)
        keep_alive_s = crew.settings.sse_keep_alive_seconds
        return service.streams.open(request.state.caller, reader, follow=follow, keep_alive_s=keep_alive_s)


def _add_starting(router: APIRouter, service: Service) -> None:
    box = service.box

    @router.post(
        "",
        status_code=201,
        response_model=RunDetail,
        responses={**STARTED, **does("crew-not-served", "unsound-crew", "usage-error", *OF_RUN, "journal-diverged")},
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def start_run(request: Request, order: StartRun) -> Response:
        """Starts a run of a crew; it goes on whether or not anybody looks."""

        async def start(planned: str) -> Answer:
            crew, by = service.crews.sound(order.crew, request.state.caller.crews), request.state.caller.by
            if order.continues is not None:
                await service.require_run(request, order.continues)
            require_size(len(request.state.body), 1024 * crew.settings.max_request_body_size_kb)
            with suppress(RunExists):  # if the server died after starting it, and before it could say so
                if order.continues is None:
                    await box.start(crew, order.input, run_id=planned, context=_context(order), by=by)
                elif order.context is None:
                    await box.continue_run(crew, order.input, order.continues, run_id=planned, by=by)
                else:
                    raise RequestRefused("bad-body", "a continued run has its context; leave one of the two out")
            return Answer(await run_detail(box, planned), 201)

        return await service.once.answer(request, start)

    @router.post(
        "/{run}/fork",
        status_code=201,
        response_model=RunDetail,
        responses={**STARTED, **does(*OF_RUN, *MOVING_RUN, "cannot-fork")},
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def fork_run(request: Request, run: RunId, order: Fork) -> Response:
        """A new run that shares the past of another one up to a seq, and goes on from there."""
        await service.require_run(request, run)

        async def fork(planned: str) -> Answer:
            with suppress(RunExists):
                await box.fork(run, order.after, new_id=planned)
            return Answer(await run_detail(box, planned), 201)

        return await service.once.answer(request, fork)


def _add_moving(router: APIRouter, service: Service) -> None:
    @router.post(
        "/{run}/resume",
        response_model=RunDetail,
        responses=does(*OF_RUN, *MOVING_RUN, "not-waiting", "already-resumed"),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def resume_run(request: Request, run: RunId, order: Resume) -> Response:
        """Answers what a run waits for, or goes on with one whose process is gone."""
        await service.require_run(request, run)
        by = request.state.caller.by
        return await service.once.answer(
            request, lambda _: answered(service, run, service.box.resume(run, order.input, token=order.token, by=by))
        )

    @router.post(
        "/{run}/cancel",
        response_model=RunDetail,
        responses=does(*OF_RUN, *MOVING_RUN),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def cancel_run(request: Request, run: RunId) -> Response:
        """Ends a run now; one that is over stays as it is."""
        await service.require_run(request, run)

        async def cancel(_: str) -> Answer:
            await service.box.cancel(run, by=request.state.caller.by)
            return Answer(await run_detail(service.box, run))

        return await service.once.answer(request, cancel)


def _add_messages(router: APIRouter, service: Service) -> None:
    @router.post(
        "/{run}/messages",
        status_code=201,
        response_model=SentMessage,
        responses=does(*OF_RUN, *MOVING_RUN, "bad-message", "too-many-messages"),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def send_message(request: Request, run: RunId, order: SendMessage) -> Response:
        """Sends a message of a type that the host registered to an agent of the run."""
        await service.require_run(request, run)

        async def send(planned: str) -> Answer:
            sent = await service.box.send_message(run, order.type, order.to, order.body, key=planned)
            return Answer({"message_id": sent}, 201)

        return await service.once.answer(request, send)


def _crews(request: Request, crew: str | None) -> str | frozenset[str] | None:
    """The crews that a list is of: the one that was asked for, if the key may see it."""
    allowed: frozenset[str] | None = request.state.caller.crews
    if crew is None or allowed is None:
        return allowed if crew is None else crew
    return allowed & {crew}


def _context(order: StartRun) -> CrewContext:
    return CrewContext(**order.context.model_dump()) if order.context is not None else NO_CONTEXT


async def answered(service: Service, run: str, answering: Awaitable[RunHandle]) -> Answer:
    """The same answer again gives how the run stands; another one is refused with the first."""
    try:
        await answering
    except AlreadyResumed as error:
        outcome = await run_detail(service.box, run)
        raise RequestRefused(error.code, str(error), outcome=outcome) from error
    return Answer(await run_detail(service.box, run))
