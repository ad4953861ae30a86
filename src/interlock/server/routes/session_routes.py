"""Sessions of the dashboard: a code or a key is exchanged for a cookie that scripts cannot read."""

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.auth import ANYONE, ApiCaller
from interlock.server.http.guard import cookie_of
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import AUTH_CODES, BODY_CODES, COMMON_CODES, refusals, refusals_of_read
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, any_caller
from interlock.server.shapes.service import OpenByCode, OpenByKey, Session


def session_router(service: Service) -> APIRouter:
    router = strict_router("/v1/session", "session")

    @router.post("", response_model=Session, responses=refusals(*COMMON_CODES, *AUTH_CODES, *BODY_CODES))
    async def open_session(request: Request, order: OpenByCode | OpenByKey) -> Response:
        """Sign in: exchange the code of the printed address, once, or a key for a session with the same scopes."""
        access = service.access
        if access is None:
            return json_response(_session_view(ANYONE))
        caller = access.redeem_code(order.code) if isinstance(order, OpenByCode) else access.caller_of_key(order.key)
        if caller is None:
            raise service.refuse_wrong_key(request.scope)
        response = json_response(_session_view(caller))
        response.set_cookie(
            access.cookie,
            access.new_session_cookie(caller),
            max_age=access.session_seconds,
            httponly=True,
            samesite="strict",
            path=service.cookie_path,
            secure=request.headers.get("origin", "").startswith("https:"),
        )
        return response

    @router.get("", response_model=Session, responses=refusals_of_read(), dependencies=[Depends(any_caller)])
    async def show_session(request: Request) -> Response:
        """Show the caller and its scopes; any key may use this."""
        return json_response(_session_view(request.state.caller))

    @router.delete(
        "", status_code=204, responses=refusals_of_read(*BODY_CODES, "storage-full"), dependencies=[Depends(any_caller)]
    )
    async def close_session(request: Request) -> Response:
        """Sign out: end the session of this browser, also for copies of its cookie."""
        response = Response(status_code=204)
        if (access := service.access) is not None:
            session = access.close_session(cookie_of(request.headers.get("cookie", ""), access.cookie))
            if session is not None:
                await service.box.store.close_session(session.id, session.until, service.box.clock.now_ms())
            response.delete_cookie(access.cookie, path=service.cookie_path, httponly=True, samesite="strict")
        return response

    return router


def _session_view(caller: ApiCaller) -> dict[str, object]:
    limited = {"crews": sorted(caller.crews)} if caller.crews is not None else {}
    return {"id": caller.id, "scopes": caller.all_scopes, **limited}
