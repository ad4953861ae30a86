"""Whether the server lives, takes work, and how much it has."""

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from interlock.server.documents import ANY, Responses, looks, refusals
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import Health
from interlock.server.strict import strict_router

NOT_READY: Responses = {503: {"description": "It takes no work now.", "model": Health}}
TEXT: Responses = {200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


def health_router(service: Service) -> APIRouter:
    router = strict_router("", "health")

    @router.get("/healthz", response_model=Health, responses=refusals(*ANY))
    async def healthz() -> Response:
        """The process lives and answers."""
        return json_answer({"status": "ok"})

    @router.get("/readyz", response_model=Health, responses={**refusals(*ANY), **NOT_READY})
    async def readyz() -> Response:
        """Whether it takes work: not while it stops, nor while the disk is full or the data folder out of reach."""
        status = await service.readiness()
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    allowed = [] if service.settings.metrics_open else [Depends(needs("metrics", "read"))]

    @router.get("/metrics", response_class=Response, responses={**looks(), **TEXT}, dependencies=allowed)
    async def metrics() -> Response:
        """Counters of this process and how its data folder is, for Prometheus."""
        return Response(await service.metrics_text(), media_type="text/plain; version=0.0.4")

    return router
