"""Answers of a server whose data folder cannot be opened: it is alive, and why it is not ready."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from interlock.errors import InterlockError, RequestRefused
from interlock.server.http.problems import problem_response


class NotReadyApp:
    """An ASGI application that knows no keys, so it answers only health probes."""

    def __init__(self, why: InterlockError) -> None:
        self._why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = Request(scope).url.path
        answers = {
            "/healthz": JSONResponse({"status": "ok"}),
            "/readyz": JSONResponse({"status": self._why.code}, 503),
        }
        answer = answers.get(path) or problem_response(RequestRefused(self._why.code, "see the server's log"))
        await answer(scope, receive, send)
