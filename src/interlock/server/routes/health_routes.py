"""Health, readiness and metrics."""

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import COMMON_CODES, Responses, refusals, refusals_of_read
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.service import Health

NOT_READY: Responses = {503: {"description": "New work is refused now.", "model": Health}}
TEXT: Responses = {200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


def health_router(service: Service) -> APIRouter:
    router = strict_router("", "health")

    # Some monitors use HEAD.
    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", response_model=Health, responses=refusals(*COMMON_CODES))
    async def healthz() -> Response:
        """Check that the process is alive."""
        return json_response({"status": "ok"})

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", response_model=Health, responses={**refusals(*COMMON_CODES), **NOT_READY})
    async def readyz() -> Response:
        """Check that the server accepts work: not while it stops, the disk is full, or the store is away."""
        status = await service.readiness()
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    allowed = [] if service.settings.metrics_open else [Depends(require_scope("metrics", "read"))]

    @router.get("/metrics", response_class=Response, responses={**refusals_of_read(), **TEXT}, dependencies=allowed)
    async def metrics() -> Response:
        """Metrics of this process and its data folder, for Prometheus."""
        return Response(await service.metrics_text(), media_type="text/plain; version=0.0.4")

    return router
