"""The server as one ASGI program: the routes, and the guard in front of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from interlock.errors import InterlockError, RequestRefused
from interlock.server.http.direct_routes import DirectRoutes
from interlock.server.http.guard import Guard, GuardContext
from interlock.server.http.origins import Origins
from interlock.server.http.problems import problem_response
from interlock.server.http.strict_routes import StrictRoute
from interlock.server.openapi import openapi_builder
from interlock.server.routes.approval_routes import approvals_router
from interlock.server.routes.crew_routes import crews_router
from interlock.server.routes.dead_webhook_routes import webhooks_router
from interlock.server.routes.engine_routes import engine_router
from interlock.server.routes.health_routes import health_router
from interlock.server.routes.question_routes import questions_router
from interlock.server.routes.run_routes import runs_router
from interlock.server.routes.schedule_routes import schedules_router
from interlock.server.routes.session_routes import session_router
from interlock.server.routes.signal_routes import signals_router
from interlock.server.routes.usage_routes import usage_router
from interlock.server.routes.webhook_routes import webhooks_in_router
from interlock.server.service import Service

STATIC = Path(__file__).parent / "static"

ROUTERS = (
    runs_router,
    questions_router,
    approvals_router,
    crews_router,
    engine_router,
    signals_router,
    schedules_router,
    usage_router,
    webhooks_router,
    webhooks_in_router,
    session_router,
    health_router,
)


def build_app(service: Service, origins: Origins) -> Guard:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.route_class = StrictRoute
    routers = [router(service) for router in ROUTERS]
    for router in routers:
        app.include_router(router)
    app.add_api_route("/", _Page(origins.prefix), include_in_schema=False)
    app.add_api_route("/openapi.json", _Document(app), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    app.openapi = openapi_builder(app, routes, origins.public_url)  # type: ignore[method-assign]
    on_refusal = _RefusalHandler(service)
    app.add_exception_handler(InterlockError, on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _NoRouteHandler(routes))
    app.add_exception_handler(Exception, _on_internal_error)
    keeper = GuardContext(
        settings=service.settings,
        origins=origins,
        access=service.access,
        clock=service.box.clock,
        metrics=service.metrics,
        admission=service.admission_refusal,
        body_bytes_max=lambda: service.crews.body_bytes_max,
        hooks=service.incoming,
        redact=service.redact,
        slow_request_s=lambda: service.slow_request_s,
    )
    strict = [route for route in routes if isinstance(route, StrictRoute)]
    direct = DirectRoutes(app, strict, on_refusal=on_refusal, on_internal_error=_on_internal_error)
    guard = Guard(direct, keeper)
    service.refuse_wrong_key = guard.refuse_wrong_key
    return guard


class _Page:
    """Serves the dashboard. It contains no data, and fetches all of it below the prefix of the public address."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text = prefix, ""

    async def __call__(self) -> Response:
        if not self._text:
            text = (STATIC / "index.html").read_text("utf-8")
            self._text = text.replace('="static/', f'="{self._prefix}/static/')
        return Response(self._text, media_type="text/html")


class _Document:
    """Serves the OpenAPI document without a key; it is encoded once, because it is large."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._text = app, b""

    async def __call__(self) -> Response:
        self._text = self._text or msgspec.json.encode(self._app.openapi())
        return Response(self._text, media_type="application/json")


class _RefusalHandler:
    """Answers with a refusal; the service gets it too, because a full disk stops new work."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, InterlockError), "it is registered for those"
        self._service.on_failure(error)
        return problem_response(error)


async def _on_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "it is registered for those"
    found = [_field_error_of(each) for each in error.errors()]
    code = "bad-body" if any(each["in"] == "body" for each in found) else "bad-parameter"
    first = found[0]
    return problem_response(RequestRefused(code, f"{first['at'] or 'the body'}: {first['message']}", errors=found))


def _field_error_of(error: dict[str, Any]) -> dict[str, str]:
    where, *path = [str(part) for part in error["loc"]]
    return {"in": where, "at": ".".join(path), "message": str(error["msg"])}


class _NoRouteHandler:
    """Answers 404 or 405: no route for the address, or not for the method."""

    def __init__(self, routes: Sequence[APIRoute]) -> None:
        self._routes = routes

    async def __call__(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "it is registered for those"
        path = request.url.path[:80]
        if error.status_code != 405:
            return problem_response(RequestRefused("not-found", f"{path} was not found; see /openapi.json"))
        response = problem_response(RequestRefused("method-not-allowed", f"{path} does not allow {request.method}"))
        found = [route for route in self._routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in found for method in route.methods or ()})
        response.headers["allow"] = ", ".join(methods) or (error.headers or {}).get("Allow", "GET")
        return response


async def _on_internal_error(_: Request, error: Exception) -> Response:
    return problem_response(RequestRefused("internal-error", f"{type(error).__name__}; see the log"))
