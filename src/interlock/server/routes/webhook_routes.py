"""Incoming webhooks: a verified, new and allowed request of another service becomes a broadcast."""

import logging
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.adapters.webhooks.verification import IncomingWebhook
from interlock.broadcast.record import Source
from interlock.errors import RequestRefused
from interlock.server.http.bodies import require_json
from interlock.server.http.rate_limits import RateLimiter
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import BODY_CODES, COMMON_CODES, STORE_CODES, Responses, refusals
from interlock.server.publish import publish_once
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service
from interlock.server.shapes.signals import BroadcastView

_log = logging.getLogger("interlock.server")

HookId = Annotated[str, Path(max_length=64, description="The id of a section [webhooks.<id>].")]
REPEAT_RESPONSE: Responses = {200: {"description": "A redelivery; it has no further effect.", "model": BroadcastView}}
REFUSAL_CODES = (
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
    rates = RateLimiter(
        service.box.clock, service.settings.requests_per_second, 2 * service.settings.requests_per_second
    )

    @router.post(
        "/{hook}",
        status_code=201,
        response_model=BroadcastView,
        responses={**refusals(*COMMON_CODES, *STORE_CODES, *BODY_CODES, *REFUSAL_CODES), **REPEAT_RESPONSE},
        openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def take_webhook(request: Request, hook: HookId) -> Response:
        """Receive a webhook of another service as a broadcast; a redelivery has no effect, and gets 200."""
        assert hook in hooks, "the guard lets no other pass"
        body: bytes = request.state.body
        if not hooks[hook].is_from_its_sender(request.headers, body):
            raise service.refuse_wrong_key(request.scope)
        if wait_ms := rates.take_token_or_wait_ms(
            hook
        ):  # counted per webhook: one sender cannot use up the limit of another
            raise RequestRefused("too-many-requests", "too many of these webhooks", retry_after_s=-(-wait_ms // 1000))
        require_json(body)
        said = hooks[hook].read_event(request.headers, body)
        source = Source(type="webhook", id=hook)
        broadcast, is_news = await publish_once(service.box, f"webhook:{hook}:{said.id}", said.type, said.data, source)
        return json_response(broadcast, 201 if is_news else 200)

    return router
