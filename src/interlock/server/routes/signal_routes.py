"""Broadcasts over HTTP: emit, list, subscribe agents, delayed signals, dead letters."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import PROCESS, UNSET
from interlock.compose.signals import Signals
from interlock.engine.to_plain import to_plain
from interlock.errors import NoSuchSignal
from interlock.server.http.idempotency import RequestResult
from interlock.server.http.list_responses import list_response
from interlock.server.http.paging import Limit
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import NO_CONTENT, refusals_of_delete, refusals_of_read, refusals_of_write
from interlock.server.publish import publish_once
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.signals import (
    BroadcastPage,
    BroadcastView,
    DeadBroadcasts,
    DelayedPage,
    DelayedView,
    Emit,
    Revived,
    ScheduleSignal,
    Subscribe,
    SubscriptionPage,
    SubscriptionView,
)

Word = Annotated[str, Query(min_length=1, max_length=256)]


def signals_router(service: Service) -> APIRouter:
    router = strict_router("/v1/engine/signals", "signals")
    _add_broadcasts(router, service)
    _add_subscriptions(router, service)
    _add_delayed(router, service)
    _add_dead(router, service)
    return router


def _add_broadcasts(router: APIRouter, service: Service) -> None:
    @router.get(
        "/events",
        response_model=BroadcastPage,
        responses=refusals_of_read("bad-parameter", "bad-format"),
        dependencies=[Depends(require_scope("read"))],
    )
    async def list_broadcasts(
        limit: Limit = 200,
        pattern: Annotated[str | None, Query(max_length=256, description="Only types that match.")] = None,
    ) -> Response:
        """List the newest broadcasts, the oldest of them first."""
        return await list_response("events", service.box.signals.newest_pages(limit, pattern), service.redact)

    @router.post(
        "",
        status_code=201,
        response_model=BroadcastView,
        responses=refusals_of_write("bad-broadcast"),
        dependencies=[Depends(require_scope("run"))],
    )
    async def emit_broadcast(request: Request, order: Emit) -> Response:
        """Emit a broadcast to its subscribers, with this process as the source."""

        async def emit(planned: str) -> RequestResult:
            data = order.data if "data" in order.model_fields_set else UNSET
            broadcast, _ = await publish_once(service.box, f"http:{planned}", order.type, data, PROCESS)
            return RequestResult(broadcast, 201)

        return await service.idempotency.run_once(request, emit)


def _add_subscriptions(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/subscriptions",
        response_model=SubscriptionPage,
        responses=refusals_of_read(),
        dependencies=[Depends(require_scope("read"))],
    )
    async def list_subscriptions() -> Response:
        """List subscriptions."""
        return json_response({"subscriptions": to_plain(await signals.subscriptions())})

    @router.post(
        "/subscriptions",
        status_code=201,
        response_model=SubscriptionView,
        responses=refusals_of_write("bad-format", "unknown-subscriber", "usage-error"),
        dependencies=[Depends(require_scope("run"))],
    )
    async def subscribe_agent(request: Request, order: Subscribe) -> Response:
        """Subscribe an agent to a pattern."""

        async def subscribe(_: str) -> RequestResult:
            made = await signals.add(order.crew, order.agent, order.pattern, silent=order.silent)
            return RequestResult(to_plain(made), 201)

        return await service.idempotency.run_once(request, subscribe)

    @router.delete(
        "/subscriptions",
        status_code=204,
        responses={**NO_CONTENT, **refusals_of_delete("no-such-signal")},
        dependencies=[Depends(require_scope("run"))],
    )
    async def unsubscribe_agent(crew: Word, agent: Word, pattern: Word) -> Response:
        """Unsubscribe an agent from a pattern."""
        if not await signals.remove(crew, agent, pattern):
            raise NoSuchSignal(f"agent '{agent}' of crew '{crew}' has no subscription to '{pattern}'")
        return Response(status_code=204)


def _add_delayed(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/delayed",
        response_model=DelayedPage,
        responses=refusals_of_read("bad-parameter"),
        dependencies=[Depends(require_scope("read"))],
    )
    async def list_delayed(limit: Limit = 200) -> Response:
        """List delayed signals, in the order in which they are due."""
        pages = ([_view_of_delayed(entry) for entry in page] async for page in signals.bus.pages_of_delayed(limit))
        return await list_response("delayed", pages, service.redact)

    @router.post(
        "/delayed",
        status_code=201,
        response_model=DelayedView,
        responses=refusals_of_write("bad-broadcast", "usage-error"),
        dependencies=[Depends(require_scope("run"))],
    )
    async def schedule_signal(request: Request, order: ScheduleSignal) -> Response:
        """Emit a broadcast later; it replaces one with the same type and repeatKey."""

        async def schedule(planned: str) -> RequestResult:
            return RequestResult(
                _view_of_delayed(await _schedule_signal(signals, order, stable_id(f"http:{planned}"))), 201
            )

        return await service.idempotency.run_once(request, schedule)

    @router.delete(
        "/delayed",
        status_code=204,
        responses={**NO_CONTENT, **refusals_of_delete("no-such-signal")},
        dependencies=[Depends(require_scope("run"))],
    )
    async def cancel_delayed(id: Word) -> Response:  # noqa: A002 - as it is called in the record
        """Cancel a delayed signal."""
        if await signals.cancel(id) is None:
            raise NoSuchSignal(f"there is no delayed signal '{id[:80]}'")
        return Response(status_code=204)


def _add_dead(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/dead",
        response_model=DeadBroadcasts,
        responses=refusals_of_read("bad-parameter"),
        dependencies=[Depends(require_scope("read"))],
    )
    async def list_dead_broadcasts(limit: Limit = 200) -> Response:
        """List broadcasts that were not delivered, with the reason; the newest first."""
        return await list_response("dead", signals.bus.dead_letter_pages(limit), service.redact)

    @router.post(
        "/dead/{id}/revive",
        response_model=Revived,
        responses=refusals_of_write("no-such-signal"),
        dependencies=[Depends(require_scope("admin"))],
    )
    async def revive_dead_broadcast(
        request: Request,
        id: Annotated[str, Path(max_length=64, description="The id of a dead letter.")],  # noqa: A002
    ) -> Response:
        """Deliver a dead letter again."""

        async def revive(_: str) -> RequestResult:
            return RequestResult({"revived": await signals.retry_dead_letters(id)})

        return await service.idempotency.run_once(request, revive)


async def _schedule_signal(signals: Signals, order: ScheduleSignal, id: str) -> DelayedBroadcast:  # noqa: A002
    data = order.data if "data" in order.model_fields_set else UNSET
    return await signals.schedule(
        order.type, data, at=order.deliver_at, in_ms=order.in_ms, repeat_key=order.repeat_key, id=id
    )


def _view_of_delayed(entry: DelayedBroadcast) -> dict[str, Any]:
    """The view of a delayed signal, with the number of tries."""
    shown: dict[str, Any] = msgspec.to_builtins(entry)
    return {**shown, "attempts": entry.attempts}
