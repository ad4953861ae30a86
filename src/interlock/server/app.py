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
from interlock.server.documents import document_of
from interlock.server.guard import Gatekeeper, Guard
from interlock.server.origins import Origins
from interlock.server.problems import problem_response
from interlock.server.routes_crews import crews_router
from interlock.server.routes_engine import engine_router
from interlock.server.routes_health import health_router
from interlock.server.routes_questions import questions_router
from interlock.server.routes_runs import runs_router
from interlock.server.routes_schedules import schedules_router
from interlock.server.routes_session import session_router
from interlock.server.routes_signals import signals_router
from interlock.server.routes_usage import usage_router
from interlock.server.routes_webhooks import webhooks_router
from interlock.server.routes_webhooks_in import webhooks_in_router
from interlock.server.service import Service
from interlock.server.strict import StrictRoute

STATIC = Path(__file__).parent / "static"

ROUTERS = (
    runs_router,
    questions_router,
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


def guarded_app(service: Service, origins: Origins) -> Guard:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.route_class = StrictRoute
    routers = [router(service) for router in ROUTERS]
    for router in routers:
        app.include_router(router)
    app.add_api_route("/", _Page(origins.prefix), include_in_schema=False)
    app.add_api_route("/openapi.json", _Document(app), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    app.openapi = document_of(app, routes, origins.public_url)  # type: ignore[method-assign]
    app.add_exception_handler(InterlockError, _Refused(service))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _NoRoute(routes))
    app.add_exception_handler(Exception, _failed)
    keeper = Gatekeeper(
        settings=service.settings,
        origins=origins,
        access=service.access,
        clock=service.box.clock,
        metrics=service.metrics,
        admission=service.admission,
        body_bytes_max=lambda: service.crews.body_bytes_max,
        hooks=service.incoming,
        redact=service.redact,
        slow_request_s=lambda: service.slow_request_s,
    )
    guard = Guard(app, keeper)
    service.failed = guard.failed
    return guard


class _Page:
    """What a browser shows; it holds nothing, and asks for everything, below the prefix of the public address."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text = prefix, ""

    async def __call__(self) -> Response:
        if not self._text:
            text = (STATIC / "index.html").read_text("utf-8")
            self._text = text.replace('="static/', f'="{self._prefix}/static/')
        return Response(self._text, media_type="text/html")


class _Document:
    """The OpenAPI document, for anybody; written once, as it is large and asked for without a key."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._text = app, b""

    async def __call__(self) -> Response:
        self._text = self._text or msgspec.json.encode(self._app.openapi())
        return Response(self._text, media_type="application/json")


class _Refused:
    """What a route refuses; the service is told, as a full disk closes the door."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, InterlockError), "it is registered for those"
        self._service.failed_with(error)
        return problem_response(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "it is registered for those"
    found = [_told(each) for each in error.errors()]
    code = "bad-body" if any(each["in"] == "body" for each in found) else "bad-parameter"
    first = found[0]
    return problem_response(RequestRefused(code, f"{first['at'] or 'the body'}: {first['message']}", errors=found))


def _told(error: dict[str, Any]) -> dict[str, str]:
    where, *path = [str(part) for part in error["loc"]]
    return {"in": where, "at": ".".join(path), "message": str(error["msg"])}


class _NoRoute:
    """There is nothing at an address, or nothing that takes this method."""

    def __init__(self, routes: Sequence[APIRoute]) -> None:
        self._routes = routes

    async def __call__(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "it is registered for those"
        path = request.url.path[:80]
        if error.status_code != 405:
            return problem_response(RequestRefused("not-found", f"there is nothing at {path}; see /openapi.json"))
        response = problem_response(RequestRefused("method-not-allowed", f"{path} does not take {request.method}"))
        found = [route for route in self._routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in found for method in route.methods or ()})
        response.headers["allow"] = ", ".join(methods) or (error.headers or {}).get("Allow", "GET")
        return response


async def _failed(_: Request, error: Exception) -> Response:
    return problem_response(RequestRefused("internal-error", f"{type(error).__name__}; the log tells more"))
