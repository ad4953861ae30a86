"""What a server answers while its data folder cannot be opened: that it lives, and why it is not ready."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from interlock.errors import InterlockError, RequestRefused
from interlock.server.problems import problem_response


class RefusingApp:
    """An ASGI program that opens nothing and knows no keys, so it tells no more than the probes need."""

    def __init__(self, why: InterlockError) -> None:
        self._why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = Request(scope).url.path
        answers = {
            "/healthz": JSONResponse({"status": "ok"}),
            "/readyz": JSONResponse({"status": self._why.code}, 503),
        }
        answer = answers.get(path) or problem_response(
            RequestRefused(self._why.code, "the log of the server tells more")
        )
        await answer(scope, receive, send)
