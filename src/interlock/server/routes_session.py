"""How the page gets in: a code, or the key, for a cookie that scripts cannot read."""

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.access import ANYONE, Caller
from interlock.server.documents import ANY, KEYED, WITH_BODY, looks, refusals
from interlock.server.guard import cookie_of
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, known_caller
from interlock.server.shapes import OpenByCode, OpenByKey, Session
from interlock.server.strict import strict_router


def session_router(service: Service) -> APIRouter:
    router = strict_router("/v1/session", "session")

    @router.post("", response_model=Session, responses=refusals(*ANY, *KEYED, *WITH_BODY))
    async def open_session(request: Request, order: OpenByCode | OpenByKey) -> Response:
        """Exchanges the code of the printed address, once, or a key for a session of this browser that may as much."""
        access = service.access
        if access is None:
            return json_answer(_view(ANYONE))
        caller = access.exchanged(order.code) if isinstance(order, OpenByCode) else access.of_key(order.key)
        if caller is None:
            raise service.failed(request.scope)
        response = json_answer(_view(caller))
        response.set_cookie(
            access.cookie,
            access.new_session(caller),
            max_age=access.session_seconds,
            httponly=True,
            samesite="strict",
            path=service.cookie_path,
            secure=request.headers.get("origin", "").startswith("https:"),
        )
        return response

    @router.get("", response_model=Session, responses=looks(), dependencies=[Depends(known_caller)])
    async def show_session(request: Request) -> Response:
        """Who is asking, and what they may: every key may ask this."""
        return json_answer(_view(request.state.caller))

    @router.delete(
        "", status_code=204, responses=looks(*WITH_BODY, "storage-full"), dependencies=[Depends(known_caller)]
    )
    async def close_session(request: Request) -> Response:
        """Ends the session of this browser, also for whoever has a copy of its cookie."""
        response = Response(status_code=204)
        if (access := service.access) is not None:
            session = access.close(cookie_of(request.headers.get("cookie", ""), access.cookie))
            if session is not None:
                await service.box.store.close_session(session.id, session.until, service.box.clock.now_ms())
            response.delete_cookie(access.cookie, path=service.cookie_path, httponly=True, samesite="strict")
        return response

    return router


def _view(caller: Caller) -> dict[str, object]:
    limited = {"crews": sorted(caller.crews)} if caller.crews is not None else {}
    return {"id": caller.id, "scopes": caller.allowed, **limited}
