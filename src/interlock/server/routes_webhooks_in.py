"""Webhooks in: what other services say becomes a broadcast, once it is known to be theirs, new and allowed."""

import logging
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.adapters.webhook_verifying import IncomingWebhook
from interlock.broadcast.record import Source
from interlock.errors import RequestRefused
from interlock.server.announcing import announced
from interlock.server.bodies import require_json
from interlock.server.documents import ANY, STORED, WITH_BODY, Responses, refusals
from interlock.server.rates import Rates
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service
from interlock.server.shapes import BroadcastView
from interlock.server.strict import strict_router

_log = logging.getLogger("interlock.server")

HookId = Annotated[str, Path(max_length=64, description="The id of a section [webhooks.<id>].")]
AGAIN: Responses = {200: {"description": "It was taken before, and has no effect again.", "model": BroadcastView}}
REFUSED = (
    "wrong-key",
    "too-many-failures",
    "too-many-requests",
    "webhook-not-found",
    "webhook-type-not-allowed",
    "bad-broadcast",
    "bad-parameter",
    "storage-full",
)


def webhooks_in_router(service: Service) -> APIRouter:
    router = strict_router("/v1/webhooks", "webhooks")
    hooks: Mapping[str, IncomingWebhook] = service.incoming
    rates = Rates(service.box.clock, service.settings.requests_per_second, 2 * service.settings.requests_per_second)

    @router.post(
        "/{hook}",
        status_code=201,
        response_model=BroadcastView,
        responses={**refusals(*ANY, *STORED, *WITH_BODY, *REFUSED), **AGAIN},
        openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def take_webhook(request: Request, hook: HookId) -> Response:
        """Takes what another service says as a broadcast; a redelivery has no effect, and is 200."""
        assert hook in hooks, "the guard lets no other pass"
        body: bytes = request.state.body
        if not hooks[hook].is_from_its_sender(request.headers, body):
            raise service.failed(request.scope)
        if wait_ms := rates.wait_ms(hook):  # counted of the sender alone: nobody else may use them up
            raise RequestRefused("too-many-requests", "too many of these webhooks", retry_after_s=-(-wait_ms // 1000))
        require_json(body)
        said = hooks[hook].said(request.headers, body)
        source = Source(type="webhook", id=hook)
        broadcast, is_news = await announced(service.box, f"webhook:{hook}:{said.id}", said.type, said.data, source)
        return json_answer(broadcast, 201 if is_news else 200)

    return router
