"""Broadcasts over HTTP: announce, list, subscribe agents, signals for later, dead letters."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.broadcast.delayed import Delayed
from interlock.broadcast.naming import derived_id
from interlock.broadcast.record import PROCESS, UNSET
from interlock.compose.signals import Signals
from interlock.engine.in_full import in_full
from interlock.errors import NoSuchSignal
from interlock.server.announcing import announced
from interlock.server.documents import GONE, does, looks, takes_away
from interlock.server.list_answers import list_answer
from interlock.server.once import Answer
from interlock.server.paging import Limit
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import (
    BroadcastPage,
    BroadcastView,
    DeadBroadcasts,
    DelayedPage,
    DelayedView,
    Emit,
    Revived,
    Schedule,
    Subscribe,
    SubscriptionPage,
    SubscriptionView,
)
from interlock.server.strict import strict_router

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
        responses=looks("bad-parameter", "bad-format"),
        dependencies=[Depends(needs("read"))],
    )
    async def list_broadcasts(
        limit: Limit = 200,
        pattern: Annotated[str | None, Query(max_length=256, description="Only types that match.")] = None,
    ) -> Response:
        """The newest broadcasts, the oldest of them first."""
        return await list_answer("events", service.box.signals.newest_pages(limit, pattern), service.redact)

    @router.post(
        "",
        status_code=201,
        response_model=BroadcastView,
        responses=does("bad-broadcast"),
        dependencies=[Depends(needs("run"))],
    )
    async def emit_broadcast(request: Request, order: Emit) -> Response:
        """Announces something to whoever subscribed, from this process."""

        async def emit(planned: str) -> Answer:
            data = order.data if "data" in order.model_fields_set else UNSET
            broadcast, _ = await announced(service.box, f"http:{planned}", order.type, data, PROCESS)
            return Answer(broadcast, 201)

        return await service.once.answer(request, emit)


def _add_subscriptions(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/subscriptions", response_model=SubscriptionPage, responses=looks(), dependencies=[Depends(needs("read"))]
    )
    async def list_subscriptions() -> Response:
        """Who hears what."""
        return json_answer({"subscriptions": in_full(await signals.subscriptions())})

    @router.post(
        "/subscriptions",
        status_code=201,
        response_model=SubscriptionView,
        responses=does("bad-format", "unknown-subscriber", "usage-error"),
        dependencies=[Depends(needs("run"))],
    )
    async def subscribe_agent(request: Request, order: Subscribe) -> Response:
        """Lets an agent hear what matches a pattern."""

        async def subscribe(_: str) -> Answer:
            made = await signals.add(order.crew, order.agent, order.pattern, silent=order.silent)
            return Answer(in_full(made), 201)

        return await service.once.answer(request, subscribe)

    @router.delete(
        "/subscriptions",
        status_code=204,
        responses={**GONE, **takes_away("no-such-signal")},
        dependencies=[Depends(needs("run"))],
    )
    async def unsubscribe_agent(crew: Word, agent: Word, pattern: Word) -> Response:
        """An agent hears what matches a pattern no more."""
        if not await signals.remove(crew, agent, pattern):
            raise NoSuchSignal(f"agent '{agent}' of crew '{crew}' has no subscription to '{pattern}'")
        return Response(status_code=204)


def _add_delayed(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/delayed",
        response_model=DelayedPage,
        responses=looks("bad-parameter"),
        dependencies=[Depends(needs("read"))],
    )
    async def list_delayed(limit: Limit = 200) -> Response:
        """Signals for later, in the order in which they are due."""
        pages = ([_delayed(entry) for entry in page] async for page in signals.bus.delayed_pages(limit))
        return await list_answer("delayed", pages, service.redact)

    @router.post(
        "/delayed",
        status_code=201,
        response_model=DelayedView,
        responses=does("bad-broadcast", "usage-error"),
        dependencies=[Depends(needs("run"))],
    )
    async def schedule_signal(request: Request, order: Schedule) -> Response:
        """Announces something later; one with the same type and repeatKey takes the other's place."""

        async def schedule(planned: str) -> Answer:
            return Answer(_delayed(await _scheduled(signals, order, derived_id(f"http:{planned}"))), 201)

        return await service.once.answer(request, schedule)

    @router.delete(
        "/delayed",
        status_code=204,
        responses={**GONE, **takes_away("no-such-signal")},
        dependencies=[Depends(needs("run"))],
    )
    async def cancel_delayed(id: Word) -> Response:  # noqa: A002 - as it is called in the record
        """A signal for later is taken out of the queue."""
        if await signals.cancel(id) is None:
            raise NoSuchSignal(f"nothing is scheduled under the id '{id[:80]}'")
        return Response(status_code=204)


def _add_dead(router: APIRouter, service: Service) -> None:
    signals = service.box.signals

    @router.get(
        "/dead", response_model=DeadBroadcasts, responses=looks("bad-parameter"), dependencies=[Depends(needs("read"))]
    )
    async def list_dead_broadcasts(limit: Limit = 200) -> Response:
        """What did not arrive, at one agent or at everybody, with the reason; the newest first."""
        return await list_answer("dead", signals.bus.dead_pages(limit), service.redact)

    @router.post(
        "/dead/{id}/revive",
        response_model=Revived,
        responses=does("no-such-signal"),
        dependencies=[Depends(needs("admin"))],
    )
    async def revive_dead_broadcast(
        request: Request,
        id: Annotated[str, Path(max_length=64, description="The id of a dead letter.")],  # noqa: A002
    ) -> Response:
        """Delivers a dead letter again."""

        async def revive(_: str) -> Answer:
            return Answer({"revived": await signals.revive(id)})

        return await service.once.answer(request, revive)


async def _scheduled(signals: Signals, order: Schedule, id: str) -> Delayed:  # noqa: A002
    data = order.data if "data" in order.model_fields_set else UNSET
    return await signals.schedule(
        order.type, data, at=order.deliver_at, in_ms=order.in_ms, repeat_key=order.repeat_key, id=id
    )


def _delayed(entry: Delayed) -> dict[str, Any]:
    """As the protocol shows it, with how often it was tried."""
    shown: dict[str, Any] = msgspec.to_builtins(entry)
    return {**shown, "attempts": entry.attempts}
