"""Routes that refuse parameters and bodies that they do not use: those are mistakes.

This is not a dependency, which FastAPI would resolve for every request: that costs more than the check itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused, nearest
from interlock.server.openapi import operation_id


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            self.require_expected(request)
            return await handle(request)

        return handle_strictly

    def require_expected(self, request: Request) -> None:
        """Refuses parameters that the route does not have, and a body if it takes none."""
        if request.scope["query_string"]:
            _require_known_parameters(request, [field.alias for field in self.dependant.query_params])
        if self.body_field is None and "requestBody" not in (self.openapi_extra or ()):
            _require_no_body(request)


def strict_router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(generate_unique_id_function=operation_id, route_class=StrictRoute, prefix=prefix, tags=[tag])


def _require_known_parameters(request: Request, known: Sequence[str]) -> None:
    given = [name for name, _ in request.query_params.multi_items()]
    for n, name in enumerate(given):
        if name not in known:
            advice = nearest(name, known, f"it has {', '.join(known) or 'none'}")
            raise RequestRefused("bad-parameter", f"this address has no parameter '{name[:80]}'; {advice}")
        if name in given[:n]:
            raise RequestRefused("bad-parameter", f"the parameter '{name}' is given twice; keep one of them")


def _require_no_body(request: Request) -> None:
    """Refuses a body, except an empty object."""
    body: Any = getattr(request.state, "body", b"")
    if body.strip() not in (b"", b"{}"):
        raise RequestRefused("bad-body", "this address takes no body; send none")
